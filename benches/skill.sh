#!/usr/bin/env bash
# What the agent skill costs: writes skills/dynamo-interconnect-check/BENCHMARK.md.
#   bash benches/skill.sh
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet
export DYNAMO_INTERCONNECT_CHECK=$PWD/target/release/dynamo-interconnect-check
skill=skills/dynamo-interconnect-check
python3 - "$skill" <<'PYTHON'
import json, os, platform, statistics, subprocess, sys, time

skill = sys.argv[1]
launcher = [sys.executable, os.path.join(skill, "scripts/check_interconnect.py")]
binary = os.environ["DYNAMO_INTERCONNECT_CHECK"]
RUNS = 11
CASES = [
    ("manifest of two roles", ["env", "demo/tcp-fallback/deploy.yaml"]),
    ("the manifests of the tests", ["env", "tests/manifests"]),
    ("one value", ["explain", "UCX_TLS=rc,cuda_ipc"]),
    ("a recorded deployment of four workers", ["demo", "healthy"]),
]


def measure(command):
    times, size = [], 0
    for _ in range(RUNS):
        begun = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        times.append((time.perf_counter() - begun) * 1000)
        size = len(done.stdout)
    return statistics.median(times), size


rows = []
for name, args in CASES:
    direct, size = measure([binary] + args + ["-o", "json"])
    through, _ = measure(launcher + args)
    rows.append("| %s | `%s` | %.0f | %.0f | %.1f |" % (name, " ".join(args), direct, through, size / 1000))
version = subprocess.run([binary, "--version"], stdout=subprocess.PIPE).stdout.decode().strip()
with open(os.path.join(skill, "BENCHMARK.md"), "w") as out:
    out.write("<!-- Made by benches/skill.sh; edits here are lost. -->\n\n# Benchmark\n\n")
    out.write("%s, release build, Python %s, %s, %d cores. Median of %d runs, wall clock.\n\n" % (
        version, platform.python_version(), platform.machine(), os.cpu_count(), RUNS))
    out.write("| what | arguments | binary, ms | through the launcher, ms | JSON, kB |\n|---|---|---|---|---|\n")
    out.write("\n".join(rows) + "\n\n")
    out.write("The launcher adds the start of an interpreter. Pods and transfers take as long as the cluster: one exec per container, "
              "side by side;\n`cargo bench --bench cluster` measures that against a stand-in for the API server.\n")
PYTHON
cat "$skill/BENCHMARK.md"
