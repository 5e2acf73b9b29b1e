#!/bin/sh
# Two pod-like places on one machine: separate network, PID and IPC namespaces, joined by a veth. A network namespace
# alone is no model of a pod: UCX then still copies through shared memory.
#
#   pod_pair.sh up NAME           makes NAMEa (10.77.9.1) and NAMEb (10.77.9.2); needs root and iproute2
#   pod_pair.sh run NAMEa CMD..   runs CMD in the place; its processes end with this one
#   pod_pair.sh cut NAME          takes the link down
#   pod_pair.sh down NAME         removes both
set -eu
verb=$1 name=$2
case $verb in
up)
    for end in a b; do
        ip netns add "$name$end"
        ip -n "$name$end" link set lo up
    done
    ip -n "${name}a" link add eth0 type veth peer name eth0 netns "${name}b"
    ip -n "${name}a" addr add 10.77.9.1/24 dev eth0
    ip -n "${name}b" addr add 10.77.9.2/24 dev eth0
    for end in a b; do ip -n "$name$end" link set eth0 up; done
    # The kernel reports the carrier a little later, and until then UCX does not see the interface.
    for end in a b; do
        tries=0
        until ip -n "$name$end" -br link show eth0 | grep -q ' UP '; do
            tries=$((tries + 1))
            [ "$tries" -lt 50 ] || exit 1
            sleep 0.1
        done
    done
    ;;
run)
    shift 2
    # The command is not PID 1: the kernel would spare it the signals that end it.
    exec ip netns exec "$name" unshare --pid --ipc --mount --fork --kill-child --mount-proc -- \
        sh -c '"$@"; exit $?' sh "$@"
    ;;
cut)
    ip -n "${name}a" link set eth0 down
    ;;
down)
    for end in a b; do ip netns del "$name$end" 2>/dev/null || true; done
    ;;
*)
    echo "unknown verb $verb" >&2
    exit 2
    ;;
esac
