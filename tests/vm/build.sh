#!/usr/bin/env bash
# build.sh DIR: makes a guest with a real RDMA stack, from Debian packages alone.
#
#   DIR/vmlinux           Debian's kernel, unpacked, so that QEMU enters it at once
#   DIR/initramfs.cpio    busybox, dash, coreutils, iproute2, the tools of rdma-core, and the modules of soft-RoCE
#
# The packages of tests/vm/packages must be installed; the kernel is downloaded with apt-get into DIR/work and kept. What
# is already made from the same files of the same packages is not made again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:?build.sh DIR}/work"
out=$(cd "$1" && pwd)
work=$out/work
fail() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

[ "$(dpkg --print-architecture)" = amd64 ] || fail "only for amd64"
read -ra packages <"$here/packages"
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
        fail "install $package: apt-get install --no-install-recommends ${packages[*]}"
done

# ---- the same as last time?
stamp=$(cat "$here"/{build.sh,init,packages} <(dpkg-query -W "${packages[@]}") | sha256sum)
if [ -f "$out/stamp" ] && [ "$(cat "$out/stamp")" = "$stamp" ]; then
    echo "build.sh: $out is up to date"
    exit 0
fi
rm -f "$out/stamp"

# ---- the kernel
cd "$work"
fetch() {
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | sed -n 1p)
    [ -n "$package" ] && apt-get -qq -o APT::Sandbox::User=root download "$package" >/dev/null
}
image=$(find . -name 'linux-image-[0-9]*.deb' | sed -n 1p)
if [ -z "$image" ]; then
    # The lists of packages may be missing, or older than the archive.
    fetch 2>/dev/null || { apt-get update -qq && fetch; } || fail "cannot download the kernel with apt-get"
    image=$(find . -name 'linux-image-[0-9]*.deb' | sed -n 1p)
fi
rm -rf kernel
dpkg -x "$image" kernel
release=$(basename kernel/lib/modules/*)
tree=kernel/lib/modules/$release
busybox depmod -b "$work/kernel" "$release"
# A bzImage holds the kernel as one xz stream. To unpack it here takes a second, in the guest a minute.
packed=kernel/boot/vmlinuz-$release
offset=$(LC_ALL=C grep -aobP -m 1 '\xFD7zXZ\x00' "$packed" | sed -n 1p | cut -d : -f 1) || fail "$packed is not packed with xz"
tail -c "+$((offset + 1))" "$packed" | xz -dc --single-stream >"$out/vmlinux" || [ -s "$out/vmlinux" ]

# ---- modules, with those that they need
rm -rf root
libraries=usr/lib/x86_64-linux-gnu
mkdir -p root/{bin,sbin,dev,etc,job,lib,mnt,proc,root,run,sys,tmp,usr/bin,usr/sbin} "root/$libraries/libibverbs" "root/lib/modules/$release"
for module in virtio_pci 9pnet_virtio 9p crc32_generic crc32c_generic veth ib_umad rdma_ucm rdma_rxe; do
    line=$(grep -E "/$module\.ko:" "$tree/modules.dep") || fail "the kernel has no module $module"
    for file in ${line/:/}; do
        mkdir -p "root/lib/modules/$release/${file%/*}"
        cp "$tree/$file" "root/lib/modules/$release/$file"
    done
done
cp "$tree"/modules.{builtin,order} "root/lib/modules/$release/"
busybox depmod -b "$work/root" "$release"

# ---- programs: busybox, and the real ones where the probe or the guest's own script uses them
cp /bin/busybox root/bin/busybox
for applet in $(busybox --list); do [ -e "root/bin/$applet" ] || ln -s busybox "root/bin/$applet"; done
# The kernel calls it by this path when somebody asks for RDMA.
ln -s ../bin/busybox root/sbin/modprobe
put() { # directory program...
    local to=$1 program
    shift
    for program; do
        path=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v "$program") || fail "no $program on this machine"
        rm -f "root/bin/$program"
        cp -L "$path" "root/$to/$program"
    done
}
put bin dash cat cut df env grep head id ls mkdir mount readlink rm sed setsid setpriv sleep sort timeout tr uname unshare
rm -f root/bin/sh root/bin/ip
ln -s dash root/bin/sh
put usr/sbin ip
put usr/bin rdma ibv_devices ibv_devinfo
put usr/sbin ibstat
cp -r /etc/libibverbs.d root/etc/
cp -L "/$libraries"/libibverbs/*.so "root/$libraries/libibverbs/"
# ---- shared libraries of all of them
find root/bin root/usr -type f ! -name busybox -exec ldd {} + 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' | sort -u |
    while read -r library; do
        [ -e "$library" ] || continue
        case $library in
            /lib64/*) mkdir -p root/lib64 && cp -L "$library" root/lib64/ ;;
            */libibverbs/*) ;;
            *) cp -L "$library" "root/$libraries/" ;;
        esac
    done
ln -s "../$libraries" root/lib/x86_64-linux-gnu
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >root/etc/passwd
printf 'root:x:0:\nnogroup:x:65534:\n' >root/etc/group
printf 'passwd: files\ngroup: files\n' >root/etc/nsswitch.conf
install -m 755 "$here/init" root/init

# Not compressed: emulated, unpacking would cost more than reading.
(cd root && find . | busybox cpio -o -H newc 2>/dev/null) >"$out/initramfs.cpio"
rm -rf root kernel
printf '%s\n' "$stamp" >"$out/stamp"
echo "build.sh: $release, $(du -h "$out/initramfs.cpio" | cut -f 1) in $out"
