#!/bin/sh
# Runs in the guest: brings its RDMA into one state after the other and lets the tool look at each.
# Leaves /job/out/STATE/{report.json,stderr,rc,processes,saved/bundle.json}, and in /job/transfer what a transfer of the
# real NIXL said, where the guest has one.
set -u
cp /mnt/tool/dynamo-interconnect-check /run/tool || exit 1
chmod 755 /run/tool
mkdir -m 777 /run/out
# How many programs run, without starting one to find out. Kernel threads have no file.
count() {
    count=0
    for p in /proc/[0-9]*; do [ ! -e "$p/exe" ] || count=$((count + 1)); done
}
state() { # name, then what the tool is started by
    name=$1 out=/run/out/$1
    shift
    mkdir -m 777 "$out"
    count; before=$count
    "$@" /run/tool node -o json --save "$out/saved" >"$out/report.json" 2>"$out/stderr"
    echo $? >"$out/rc"
    count; echo "$before $count" >"$out/processes"
    echo "$name at $(cut -d ' ' -f 1 /proc/uptime) s"
}
nobody='setpriv --reuid=65534 --regid=65534 --clear-groups --'

# No RDMA: nothing may ask the kernel for it. What does ask for it shows that this would be seen.
cat /proc/modules >/run/out/modules.before
state no-rdma
cat /proc/modules >/run/out/modules.after
ibv_devinfo >/dev/null 2>&1
cat /proc/modules >/run/out/modules.control

modprobe -a rdma_rxe ib_umad rdma_ucm veth || exit 1
cable() { # number, address
    ip link add "eth$1" type veth peer name "port$1"
    ip addr add "$2/24" dev "eth$1"
    ip link set "eth$1" up
    ip link set "port$1" up
    rdma link add "rxe$1" type rxe netdev "eth$1" || exit 1
    sleep 1
}
cable 0 10.77.0.1
state active
# A container in the usual, shared mode: the devices of the node, none of its interfaces.
state other-namespace unshare -n -m sh -c 'mount -t sysfs sys /sys && ip link set lo up && exec "$@"' sh

ip link set eth0 down; sleep 1
state netdev-down
ip link set eth0 up; ip link set port0 down; sleep 1
state no-carrier
ip link set port0 up; ip addr flush dev eth0; sleep 1
state no-address
ip addr add 10.77.0.1/24 dev eth0; sleep 1

mount -t tmpfs none /dev/infiniband
state nodes-hidden
umount /dev/infiniband
ls -l /dev/infiniband >/run/out/nodes
chmod 600 /dev/infiniband/*
state nodes-closed $nobody
# The same under the shell and the tools of busybox, which words its errors in another way.
mkdir /run/busybox && ln -s /bin/busybox /run/busybox/sh
state nodes-closed-busybox env PATH="/run/busybox:$PATH" $nobody
chmod 666 /dev/infiniband/*
mkdir /run/devices
mount -t cgroup -o devices none /run/devices && mkdir /run/devices/closed || exit 1
for major in 10 231; do echo "c $major:* rwm" >/run/devices/closed/devices.deny || exit 1; done
state cgroup-denied sh -c 'echo $$ >/run/devices/closed/cgroup.procs && exec "$@"' sh
state memlock-64k sh -c 'ulimit -l 64 && exec "$@"' sh $nobody

cable 1 10.78.0.1
state two-devices

cp -r /run/out /job/out

# Both ends in one container, over verbs. The NIXL of the wheel looks for providers of verbs in this directory.
if [ -d /mnt/nixl ]; then
    mkdir -p /usr/lib64 /run/transfer
    ln -s /usr/lib/x86_64-linux-gnu/libibverbs /usr/lib64/libibverbs
    count; before=$count
    env PATH="/mnt/nixl/bin:$PATH" UCX_TLS=rc UCX_NET_DEVICES=rxe0:1 /run/tool nixl --transfer --self --quick -o json \
        >/run/transfer/report.json 2>/run/transfer/stderr
    echo $? >/run/transfer/rc
    count; echo "$before $count" >/run/transfer/processes
    ls /dev/shm >/run/transfer/shm
    cp -r /run/transfer /job/transfer
    echo "transfer at $(cut -d ' ' -f 1 /proc/uptime) s"
fi
