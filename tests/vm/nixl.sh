#!/usr/bin/env bash
# nixl.sh PYTHON DIR: copies what a NIXL transfer needs of an interpreter of this machine, so that the guest can run it:
#
#   DIR/bin/python3       starts the copy from wherever DIR is mounted; `ibverbs` beside it holds what it looks for
#   DIR/home              the interpreter and its standard library
#   DIR/site              nixl-cu12 and numpy
#   DIR/lib               shared libraries of all of them
#
# What is already made from the same interpreter and packages is not made again.
set -euo pipefail
python=${1:?nixl.sh PYTHON DIR}
out=${2:?nixl.sh PYTHON DIR}
fail() { printf 'nixl.sh: %s\n' "$*" >&2; exit 1; }

facts=$("$python" -c '
import os, sys, sysconfig, numpy, nixl_cu12
from importlib import metadata
print(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
print(os.path.dirname(os.path.dirname(numpy.__file__)), os.path.dirname(os.path.dirname(nixl_cu12.__file__)))
print(sys.version.split()[0], metadata.version("numpy"), metadata.version("nixl-cu12"))
') || fail "$python has no nixl-cu12 with numpy"
{ read -r binary library platform; read -r numpy nixl; } <<<"$facts"
stamp=$(sha256sum "$0" <(echo "$facts") | cut -d ' ' -f 1 | tr '\n' ' ')
if [ -f "$out/stamp" ] && [ "$(cat "$out/stamp")" = "$stamp" ]; then
    echo "nixl.sh: $out is up to date"
    exit 0
fi
rm -rf "$out"
mkdir -p "$out"/{bin,lib,site,ibverbs}

# ---- the interpreter
name=${library##*/}
mkdir -p "$out/home/bin" "$out/home/lib/$name"
cp -L "$binary" "$out/home/bin/python3"
unneeded=(test idlelib tkinter turtledemo ensurepip lib2to3 pydoc_data site-packages dist-packages 'config-*' __pycache__)
(cd "$library" && tar -c "${unneeded[@]/#/--exclude=./}" .) | tar -x -C "$out/home/lib/$name"
[ -d "$out/home/lib/$name/lib-dynload" ] || cp -rL "$platform/lib-dynload" "$out/home/lib/$name/"
rm -f "$out/home/lib/$name/lib-dynload"/_tkinter*

# ---- its packages; of the plugins the one that is used
for part in numpy numpy.libs; do [ ! -e "$numpy/$part" ] || cp -r "$numpy/$part" "$out/site/"; done
rm -rf "$out/site/numpy/"{tests,*/tests}
cp -r "$nixl"/nixl_cu12 "$nixl"/nixl_cu12.libs "$nixl"/nixl_cu12-*.dist-info "$nixl"/.nixl_cu12.mesonpy.libs "$out/site/"
find "$out/site" -name 'libplugin_*' ! -name 'libplugin_UCX*' -delete
# Its providers ask for libibverbs by this name. A link, not a copy: they must meet the one that NIXL has loaded.
verbs=$(cd "$out/site/nixl_cu12.libs" && echo libibverbs-*.so*)
ln -s "../site/nixl_cu12.libs/$verbs" "$out/ibverbs/libibverbs.so.1"

# ---- shared libraries
find "$out" -type f \( -name '*.so*' -o -name python3 \) -exec ldd {} + 2>/dev/null |
    grep -oE '=> /[^ ]+' | cut -c 4- | sort -u |
    while read -r shared; do
        case $shared in
            "$out"/* | "$(realpath "$out")"/*) ;;
            *) cp -L "$shared" "$out/lib/" ;;
        esac
    done
cat >"$out/bin/python3" <<'START'
#!/bin/sh
here=${0%/bin/*}
export PYTHONHOME="$here/home" PYTHONPATH="$here/site" LD_LIBRARY_PATH="$here/ibverbs:$here/lib"
exec "$here/home/bin/python3" "$@"
START
chmod 755 "$out/bin/python3"
printf '%s\n' "$stamp" >"$out/stamp"
echo "nixl.sh: $(echo "$facts" | tail -n 1 | tr ' ' '/'), $(du -sh "$out" | cut -f 1) in $out"
