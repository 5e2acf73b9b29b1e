#!/usr/bin/env bash
# Speed and memory of `env`, measured whole-process: a tree of 294 manifests (about 1.34 MB of YAML), as many documents of
# each kind as a public recipe repository holds. Needs hyperfine; prints CPU time, peak memory, and the time of --version.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet
bin=$PWD/target/release/dynamo-interconnect-check
tree=$PWD/target/bench-tree
rm -rf "$tree" && mkdir -p "$tree"

graph() { # a graph of about 5.5 kB with the ConfigMap and comments that recipes have
    printf '# Recipe %s\n# %s\n' "$1" "$(printf 'comment %.0s' {1..30})"
    printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: engine-%s\ndata:\n  engine.yaml: |\n' "$1"
    for i in {1..31}; do printf '    option_%s:\n      enabled: true\n      value: %s\n' "$i" "$i"; done
    printf -- '---\n'
    sed "s/qwen-disagg/graph-$1/" demo/tcp-fallback/deploy.yaml
    printf '              startupProbe:\n                failureThreshold: 120\n                httpGet: {path: /live, port: 9090}\n'
    printf '              volumeMounts:\n'
    for i in {1..14}; do printf '                - name: volume-%s\n                  mountPath: /mnt/volume-%s\n                  readOnly: true\n' "$i" "$i"; done
    printf '          volumes:\n            - name: volume-1\n              configMap: {name: engine-%s}\n' "$1"
    for i in {2..14}; do printf '            - name: volume-%s\n              emptyDir: {}\n' "$i"; done
    for i in {1..12}; do printf '                # - name: UNUSED_%s\n                #   value: "%s"\n' "$i" "$i"; done
}
job() {
    printf 'apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: perf-%s\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n' "$1"
    printf '      containers:\n        - name: perf\n          image: perf:1\n          command: [/bin/sh, -c]\n          args:\n            - |\n'
    for i in {1..60}; do printf '              echo "step %s of the load generator" && sleep 1\n' "$i"; done
}
for n in $(seq 1 150); do graph "$n" >"$tree/graph-$n.yaml"; done
for n in $(seq 1 68); do job "$n" >"$tree/job-$n.yaml"; done
for n in $(seq 1 76); do
    printf 'apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: cache-%s\nspec:\n  accessModes: [ReadWriteMany]\n  resources: {requests: {storage: 1Ti}}\n' "$n" >"$tree/pvc-$n.yaml"
done
printf '%s files, %s bytes\n' "$(find "$tree" -name '*.yaml' | wc -l)" "$(cat "$tree"/*.yaml | wc -c)"

hyperfine --shell=none --warmup 5 --min-runs 40 --ignore-failure --export-json target/bench-env.json \
    "$bin env $tree -o json" "$bin --version" >/dev/null 2>&1
python3 - target/bench-env.json <<'P'
import json, sys
for r in json.load(open(sys.argv[1]))["results"]:
    name = "env over the tree" if " env " in r["command"] else "--version"
    print(f"{name}: CPU {1e3 * (r['user'] + r['system']):.1f} ms (user {1e3 * r['user']:.1f}, system {1e3 * r['system']:.1f}), "
          f"wall {1e3 * r['mean']:.1f} ms, fastest {1e3 * r['min']:.1f} ms")
P
python3 - "$bin" "$tree" <<'P'
import os, resource, subprocess, sys
subprocess.run([sys.argv[1], "env", sys.argv[2], "-o", "json"], stdout=subprocess.DEVNULL)
print(f"peak memory: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.1f} MiB")
P
