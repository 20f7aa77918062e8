#!/usr/bin/env bash
# Makes the virtual environment of the Python tests and installs the package into it, with the libkvc of a build tree.
#
#   tests/python/venv.sh VENV BUILD_DIR
#
# Safe to run again: tools are installed once for each requirements.txt, the package when something of it or the library has changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=$1
build_dir=$(realpath "$2")

if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
fi
# The golden vectors are checked in the same environment.
requirements=(tests/python/requirements.txt tests/golden/requirements.txt)
if ! cat "${requirements[@]}" | cmp -s - "$venv/requirements.done"; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${requirements[@]/#/-r}"
  cat "${requirements[@]}" > "$venv/requirements.done"
fi

digest=$( (find bindings include -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum; sha256sum "$build_dir/lib/libkvc.so.0") | sha256sum)
if [ "$digest" != "$(cat "$venv/package.done" 2>/dev/null || true)" ]; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps ./bindings/python \
    -C cmake.define.KVC_BUILD_DIR="$build_dir"
  echo "$digest" > "$venv/package.done"
fi
