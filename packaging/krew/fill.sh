#!/usr/bin/env bash
# Prints the krew manifest of a release: packaging/krew/fill.sh REPOSITORY SHA256SUMS
# REPOSITORY is the address of the repository (https://host/owner/name). SHA256SUMS is what `sha256sum` printed for the
# packages. A package without a checksum is an error: a manifest with an invented one would install nothing, or anything.
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: $0 REPOSITORY SHA256SUMS" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
repository=${1%/} sums=$2
case $repository in
https://*/*/*) ;;
*) echo "\"$repository\" is no address of a repository: write https://host/owner/name" >&2 && exit 2 ;;
esac
version=$("$root/packaging/version.sh")
text=$(sed -e "s|@VERSION@|$version|g" -e "s|@REPOSITORY@|$repository|g" "$root/packaging/krew/dynamo-interconnect-check.yaml.in")
while [[ $text =~ @SHA256:([a-z0-9_-]+)@ ]]; do
    target=${BASH_REMATCH[1]}
    package=dynamo-interconnect-check-v$version-$target.tar.gz
    # sha256sum puts a space or, for binary mode, a star before the name.
    sum=$(awk -v package="$package" '{ sub(/^\*/, "", $2); sub(/.*\//, "", $2) } $2 == package { print $1 }' "$sums")
    if ! [[ $sum =~ ^[0-9a-f]{64}$ ]]; then
        echo "$sums holds no SHA-256 of $package, or more than one" >&2
        exit 1
    fi
    text=${text//"@SHA256:$target@"/$sum}
done
printf '%s\n' "$text"
