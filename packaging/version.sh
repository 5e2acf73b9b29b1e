#!/usr/bin/env bash
# Prints the version of Cargo.toml, the one place where it stands.
set -euo pipefail
sed -n '/^version = /{s/^version = "\(.*\)"$/\1/p;q}' "$(dirname "$0")/../Cargo.toml"
