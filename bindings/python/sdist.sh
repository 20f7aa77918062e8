#!/usr/bin/env bash
# Makes the sdist, kvc-VERSION.tar.gz in OUT: this folder, and in libkvc/ what it takes of the checkout, mimalloc among it, so that nothing but
# PyPI is asked when it is installed.  What git tracks goes in, as it lies there.
#
#   [PYTHON=python3] bindings/python/sdist.sh OUT        PYTHON has the package build, or build and the requirements of pyproject.toml
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "sdist.sh: $*" >&2; exit 1; }

(($# == 1)) || fail "one folder for the result is needed: sdist.sh OUT"
python=${PYTHON:-python3}
"$python" -c 'import build.__main__' 2> /dev/null || fail "$python has no package build: pip install build"
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
isolated=()
"$python" -c 'import scikit_build_core' 2> /dev/null && isolated=(--no-isolation)

bash pkgconfig/package.sh --source "$work" > /dev/null
tar -xf "$work"/kvc-*.tar.xz -C "$work"
tree=$(echo "$work"/kvc-*/)
stage=$work/stage
mkdir -p "$stage/libkvc/bindings"
cp -r "$tree"/bindings/python/. "$stage"
cp -r "$tree"/{CMakeLists.txt,LICENSE,include,lib,kernels,pkgconfig,mimalloc} "$stage/libkvc"
cp "$tree"/bindings/*.i "$stage/libkvc/bindings"
sed -i 's|^input = "../../CMakeLists.txt"$|input = "libkvc/CMakeLists.txt"|' "$stage/pyproject.toml"
"$python" -m build --sdist "${isolated[@]}" --outdir "$out" "$stage" > "$work/build.log" 2>&1 || { cat "$work/build.log"; fail "python -m build --sdist failed, as it says above"; }
ls "$out"/kvc-*.tar.gz
