#!/usr/bin/env bash
# Makes the virtual environment of the Python tests and installs the package into it, with the libkvc of a build tree.
#
#   [PYTHON=python3] tests/python/venv.sh VENV BUILD_DIR [REQUIREMENTS.txt...]
#
# Safe to run again: tools are installed once for each list of requirements, the package when something of it or the library has changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=$1
build_dir=$(realpath "$2")
requirements=("${@:3}")
readonly torch_of_cpu=https://download.pytorch.org/whl/cpu # PyPI's brings gigabytes of CUDA along

if [ ! -x "$venv/bin/python" ]; then
  "${PYTHON:-python3}" -m venv "$venv"
fi
# The golden vectors are checked in the same environment.
((${#requirements[@]})) || requirements=(tests/python/requirements.txt tests/golden/requirements.txt)
if ! cat "${requirements[@]}" | cmp -s - "$venv/requirements.done"; then
  index=()
  if grep -q '^torch==' "${requirements[@]}" && "$venv/bin/python" -c "import urllib.request; urllib.request.urlopen('$torch_of_cpu/torch/', timeout=10)" 2> /dev/null; then
    index=(--extra-index-url "$torch_of_cpu")
  fi
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${index[@]}" "${requirements[@]/#/-r}"
  cat "${requirements[@]}" > "$venv/requirements.done"
fi

digest=$( (find bindings/kvc.i bindings/python include -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum; sha256sum "$build_dir/lib/libkvc.so.0") | sha256sum)
if [ "$digest" != "$(cat "$venv/package.done" 2>/dev/null || true)" ]; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps ./bindings/python \
    -C cmake.define.KVC_BUILD_DIR="$build_dir"
  echo "$digest" > "$venv/package.done"
fi
