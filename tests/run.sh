#!/usr/bin/env bash
# Builds the tree and runs its tests on a Debian machine (root or sudo); installs what is missing.  Everything else stays under build/, but for
# the caches that Go, cargo and pip keep of their own.
#   bash tests/run.sh               every lane: release, ASan+UBSan and TSan with fault points, fuzzers, mutants
#   bash tests/run.sh --full        the same with long runs, and the fault points without a sanitizer
#   bash tests/run.sh --build-only  builds build/release and stops
# KVC_DATA=DIR runs the tests of real data on the full sets in DIR too.  KVC_FREE_THREADED_PYTHON=INTERPRETER runs the Python tests without a GIL
# too; a python3.14t or python3.13t that is on PATH needs no naming.  The summary counts what was skipped, and says why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly packages=(build-essential ca-certificates cmake ninja-build pkg-config libssl-dev libxxhash-dev libgtest-dev python3-venv python3-dev)
readonly packaging=(debhelper debootstrap lintian) # for the tests of packages alone
readonly jobs=$(nproc)
readonly results=build/results
full=0 build_only=0
for argument in "$@"; do
  case $argument in
    --full) full=1 ;;
    --build-only) build_only=1 ;;
    *) echo "unknown argument '$argument': --full or --build-only" >&2; exit 2 ;;
  esac
done

say() { printf '== %4d s  %s\n' "$SECONDS" "$*"; }

install_packages() {
  command -v apt-get > /dev/null || { echo "   not a Debian system: taking these as given: $*"; return; }
  local missing=() package as_root=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

has_clang() { # with libFuzzer
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }' | clang++-19 -x c++ -fsanitize=fuzzer,address - -o /dev/null
}

install_clang() { # the fuzzers' compiler, of the version that their preset names; fails where there is none
  has_clang > "$results/clang.log" 2>&1 && return
  command -v apt-get > /dev/null || return 1
  local as_root=()
  ((EUID == 0)) || as_root=(sudo)
  { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends clang-19 libclang-rt-19-dev && has_clang; } \
    >> "$results/clang.log" 2>&1
}

free_threaded_python() { # the interpreter that is named, or one that is found; fails where there is none
  local candidate
  for candidate in ${KVC_FREE_THREADED_PYTHON:-python3.14t python3.13t}; do
    "$candidate" -c 'import sys; sys.exit(sys._is_gil_enabled())' 2> /dev/null && command -v "$candidate" && return
  done
  [[ -z ${KVC_FREE_THREADED_PYTHON:-} ]] || echo "KVC_FREE_THREADED_PYTHON '$KVC_FREE_THREADED_PYTHON': it is no free-threaded Python that runs" >&2
  return 1
}

skip() { # LANE REASON: counted by the summary
  say "skip $1: $2"
  printf '<testsuite><testcase name="%s"><skipped/><system-out>%s</system-out></testcase></testsuite>\n' "$1" "$2" > "$results/$1.xml"
}

build() { # PRESET [CMAKE ARGUMENTS]
  say "build $1"
  cmake --preset "$1" "${@:2}" > "$results/$1.configure.log" || { cat "$results/$1.configure.log"; exit 1; }
  cmake --build --preset "$1" -j "$jobs" > "$results/$1.build.log" 2>&1 || { tail -50 "$results/$1.build.log"; exit 1; }
}

failed=()
run() { # PRESET CTEST-ARGUMENTS...
  say "test $1"
  ctest --preset "$1" --output-junit "$PWD/$results/$1.xml" -j "$jobs" "${@:2}" || failed+=("$1")
}

mkdir -p "$results"
rm -f "$results"/*.xml
install_packages "${packages[@]}"
if ((build_only)); then
  build release -DKVC_TESTS=OFF
  exit 0
fi

readonly python=$PWD/build/release/python-venv/bin/python  # made by the first test that needs it
((full)) && long=(-DKVC_LONG_TESTS=ON) fuzz_runs=100 || long=(-DKVC_LONG_TESTS=OFF) fuzz_runs=1

install_packages "${packaging[@]}" || true # the tests of packages say what is missing
. tests/toolchains.sh
find_go || true # the tests of a language that is not there count as skipped
find_rust || true
free_threaded=$(free_threaded_python) || [[ -z ${KVC_FREE_THREADED_PYTHON:-} ]] || exit 2
build release -DKVC_TESTS=ON -DKVC_GOLDEN_PYTHON="$python" -DKVC_FREE_THREADED_PYTHON="$free_threaded" "${long[@]}"
run release
[[ $free_threaded ]] || skip python_free_threaded "no free-threaded interpreter: python3.14t and python3.13t are not on PATH, KVC_FREE_THREADED_PYTHON is not set"
((full)) || skip python_torch "torch is installed and tested by --full"
if ((full)); then # what a sanitizer's lane runs too
  build debug "${long[@]}"
  run debug -L 'unit|model|fault|stress'
fi
build asan "${long[@]}"
run asan -L 'unit|model|fault|stress'
build tsan "${long[@]}"
run tsan -L 'unit|model|stress'
if install_clang; then
  build fuzz -DKVC_FUZZ_RUNS=$fuzz_runs
  run fuzz
else
  skip fuzz "clang-19 is not there and cannot be installed"
fi
say "mutants: builds that are wrong on purpose must fail"
bash tests/mutants/run_mutants.sh || failed+=(mutants)

python3 tests/summary.py "$results"
if ((${#failed[@]})); then
  say "FAILED: ${failed[*]}"
  exit 1
fi
say "all lanes passed"
