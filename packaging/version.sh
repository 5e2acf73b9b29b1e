#!/usr/bin/env bash
# Prints the version of Cargo.toml, the one place where it stands.
set -euo pipefail
sed -n 's/^version = "\(.*\)"$/\1/p' "$(dirname "$0")/../Cargo.toml" | head -n 1
