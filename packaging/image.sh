#!/usr/bin/env bash
# Builds the image and writes it as an archive: packaging/image.sh BINARY ARCHIVE
# BINARY is a static one. The archive is read by `podman load`, `docker load` and `skopeo copy docker-archive:ARCHIVE ..`; the
# image in it is called dynamo-interconnect-check:VERSION. Nothing else is left on this machine.
# CA_BUNDLE names the root certificates to put in (default: those of this machine).
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: $0 BINARY ARCHIVE" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
binary=$1 archive=$2
bundle=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}
missing() {
    echo "$1" >&2
    exit 1
}
command -v buildah >/dev/null || missing "buildah is not here: install it (Debian, Ubuntu, Fedora: package buildah)"
[ -x "$binary" ] || missing "$binary is no program: build one (docs/install.md)"
[ -s "$bundle" ] || missing "there are no root certificates in $bundle: install ca-certificates, or name a bundle in CA_BUNDLE"
# ldd lists the libraries of a dynamic binary; of a static one it fails, or says that it is one.
libraries=$(ldd "$binary" 2>/dev/null) || libraries=
if [[ $libraries == *'=>'* ]]; then
    missing "$binary is not static, and an image from scratch has no libraries: build it for a musl target"
fi
work=$(mktemp -d)
# Layers belong to the user of the image, so rm alone may not be allowed to remove them.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/context"
install -m 755 "$binary" "$work/context/dynamo-interconnect-check"
install -m 644 "$bundle" "$work/context/ca-certificates.crt"
install -m 644 "$root/LICENSE" "$work/context/LICENSE"
name=dynamo-interconnect-check:$("$root/packaging/version.sh")
storage=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
# Nothing is run while it is built, so no runtime is needed; a fixed time makes it the same image again.
buildah "${storage[@]}" build --quiet --isolation chroot --timestamp 0 --file "$root/packaging/Containerfile" --tag "$name" "$work/context" >/dev/null
rm -f "$archive"
buildah "${storage[@]}" push --quiet "$name" "docker-archive:$archive:$name"
echo "$archive: $name"
