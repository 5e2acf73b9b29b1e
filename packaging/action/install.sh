#!/usr/bin/env bash
# First step of action.yml: puts the released binary on the PATH of the job, after its checksum and its provenance were verified.
set -euo pipefail
: "${REPOSITORY:?owner/name of the repository that releases}" "${RUNNER_TEMP:?}" "${GITHUB_PATH:?}"
root=$(cd "$(dirname "$0")/../.." && pwd)
stop() {
    echo "::error title=dynamo-interconnect-check::$1"
    exit 1
}
machine=$(uname -s)-$(uname -m)
case $machine in
Linux-x86_64) target=x86_64-unknown-linux-musl ;;
Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
*) stop "there is no binary for $machine; use a Linux runner (x86_64 or aarch64)" ;;
esac
# A word that is neither must not switch it off.
case ${PROVENANCE:-true} in
true | false) ;;
*) stop "the input provenance is true or false, and not \"$PROVENANCE\"; nothing was installed" ;;
esac
version=${VERSION:-$("$root/packaging/version.sh")}
version=${version#v}
package=dynamo-interconnect-check-v$version-$target.tar.gz
base=${DOWNLOADS:-${GITHUB_SERVER_URL:-https://github.com}/$REPOSITORY/releases/download}/v$version
work=$(mktemp -d "$RUNNER_TEMP/interconnect.XXXXXX")
cd "$work"
for file in "$package" SHA256SUMS; do
    curl --fail --silent --show-error --location --retry 3 --output "$file" "$base/$file" ||
        stop "$base/$file cannot be downloaded: is there a release v$version?"
done
# One line, of this package.
awk -v package="$package" '{ name = $2; sub(/^\*/, "", name) } name == package { print $1 "  " name }' SHA256SUMS >wanted
[ "$(wc -l <wanted)" -eq 1 ] || stop "SHA256SUMS of v$version does not hold one checksum of $package"
sha256sum --check --quiet wanted || stop "$package is not what SHA256SUMS of v$version says; nothing was installed"
if [ -n "${SHA256:-}" ] && [ "$SHA256" != "$(cut -d ' ' -f 1 wanted)" ]; then
    stop "$package has the checksum $(cut -d ' ' -f 1 wanted), and the input sha256 says $SHA256; nothing was installed"
fi
case ${PROVENANCE:-true} in
true)
    # Checksums come from the same place as the package; the attestation says that the release workflow built it from this tag.
    command -v gh >/dev/null || stop "provenance is verified with gh, which this runner lacks: install it, or set provenance: false"
    gh attestation verify "$package" --repo "$REPOSITORY" \
        --signer-workflow "$REPOSITORY/.github/workflows/release.yml" --source-ref "refs/tags/v$version" >provenance.log 2>&1 ||
        { cat provenance.log; stop "$package has no valid attestation of the release workflow of $REPOSITORY for v$version; nothing was installed"; }
    ;;
esac
mkdir bin
tar -xzf "$package" -C bin ./dynamo-interconnect-check
bin/dynamo-interconnect-check --version
echo "$work/bin" >>"$GITHUB_PATH"
