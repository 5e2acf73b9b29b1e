#!/usr/bin/env bash
# Packs a built binary with its licence, pages, manual pages and completions: packaging/pack.sh BINARY TARGET DIR
# writes DIR/dynamo-interconnect-check-vVERSION-TARGET.tar.gz. The binary must run here: it prints its own pages.
set -euo pipefail
if [ $# -ne 3 ]; then
    echo "usage: $0 BINARY TARGET DIR" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$1 target=$2 out=$3
name=dynamo-interconnect-check
version=$("$root/packaging/version.sh")
said=$("$binary" --version)
if [ "$said" != "$name $version" ]; then
    echo "$binary says \"$said\", and Cargo.toml says \"$version\": build it from this tree" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree/man" "$tree/completions" "$out"
install -m 755 "$binary" "$tree/$name"
install -m 644 "$root/LICENSE" "$root"/*.md "$root/action.yml" "$tree"
# What the pages refer to.
cp -R "$root/docs" "$root/skills" "$tree"
install -D -m 644 "$root/packaging/job.yaml" "$tree/packaging/job.yaml"
find "$tree" -name __pycache__ -prune -exec rm -rf {} +
"$binary" man "$tree/man"
# As each shell looks for them.
"$binary" completions bash >"$tree/completions/$name.bash"
"$binary" completions zsh >"$tree/completions/_$name"
"$binary" completions fish >"$tree/completions/$name.fish"
# The same bytes for the same binary: who builds it again can compare.
tar --sort=name --mtime='UTC 1970-01-01' --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' -C "$tree" -c . |
    gzip -n >"$out/$name-v$version-$target.tar.gz"
echo "$out/$name-v$version-$target.tar.gz"
