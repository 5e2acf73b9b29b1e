#!/usr/bin/env bash
# run.sh IMAGE JOB TOOL [NIXL]: boots the guest of build.sh, which runs JOB/run.sh with the directory TOOL at /mnt/tool,
# and what nixl.sh made at /mnt/nixl, and exits with its exit status; 125 where the guest gave none. JOB is shared: what
# the guest writes there stays.
set -uo pipefail
image=$1
job=$(realpath "$2")
tool=$(realpath "$3")
nixl=${4:+$(realpath "$4")}
rm -f "$job"/{rc,stdout,stderr,console}
share() { # tag path [,options]
    printf -- '-fsdev local,id=%s,path=%s,security_model=none%s -device virtio-9p-pci,fsdev=%s,mount_tag=%s ' \
        "$1" "$2" "${3:-}" "$1" "$1"
}
# Software emulation, so that it runs wherever QEMU does.
# shellcheck disable=SC2046
timeout "${TIMEOUT:-300}" qemu-system-x86_64 -M pc -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 1024 \
    -nodefaults -no-user-config -no-reboot -display none -serial stdio \
    -kernel "$image/vmlinux" -initrd "$image/initramfs.cpio" $(share job "$job") $(share tool "$tool" ,readonly=on) \
    ${nixl:+$(share nixl "$nixl" ,readonly=on)} \
    -append "console=ttyS0 quiet reboot=t panic=-1 mitigations=off nokaslr random.trust_cpu=on tsc=reliable" \
    </dev/null >"$job/console" 2>&1
code=$?
if [ ! -f "$job/rc" ]; then
    echo "run.sh: the guest gave no exit status (QEMU ended with $code)" >&2
    tail -n 30 "$job/console" >&2
    exit 125
fi
exit "$(cat "$job/rc")"
