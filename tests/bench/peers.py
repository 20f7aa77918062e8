#!/usr/bin/env python3
"""kvc beside Mooncake Store, LMCache, NIXL, Redis and a dict of bytes: the same values, the same arenas, in turns.

    python3 tests/bench/peers.py --install [--build-dir build/release]    once: what the peers need, under build/peers
    python3 tests/bench/peers.py [--json] [--only kvc,dict] [--rounds 5]

README.md beside this file says what is measured.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import driver
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / "build/peers"
ENVIRONMENTS = {"kvc": "kvc", "mooncake": "mooncake", "lmcache": "torch", "nixl": "torch", "redis": "redis", "dict": None}
SYSTEM_PACKAGES = ["redis-server", "libibverbs1", "librdmacm1", "libnuma1"]
KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 64 * KIB, 256 * KIB, MIB, 8 * MIB)
BATCHES = (1, 32)
# Windows of memory a peer takes: two of source and two of destination, and what its store holds.
WINDOWS = {"kvc": 4 + 3, "mooncake": 4 + 2, "lmcache": 4 + 3, "nixl": 4 + 1, "redis": 4 + 2, "dict": 4 + 1}


def install(names):
    install_system_packages()
    for environment in sorted({ENVIRONMENTS[name] for name in names} - {None, "kvc"}):
        requirements = pathlib.Path(__file__).resolve().parent / "peers/requirements" / f"{environment}.txt"
        venv = HOME / environment
        done = venv / "requirements.done"
        if done.exists() and done.read_text() == requirements.read_text():
            continue
        print(f"== {environment}", file=sys.stderr)
        steps = ([sys.executable, "-m", "venv", venv], [venv / "bin/pip", "install", "--disable-pip-version-check", "--only-binary", ":all:", "-r", requirements])
        if all(subprocess.run(step, stdout=sys.stderr).returncode == 0 for step in steps):
            done.write_text(requirements.read_text())
        else:
            print(f"{environment}: not installed; its peers will be skipped", file=sys.stderr)


def install_system_packages():
    def is_missing(package):
        query = ["dpkg-query", "-W", "-f=${db:Status-Status}", package]
        return subprocess.run(query, capture_output=True, text=True).stdout != "installed"
    missing = [package for package in SYSTEM_PACKAGES if is_missing(package)]
    if not missing:
        return
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    for step in (["apt-get", "update"], ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends", *missing]):
        subprocess.run(as_root + step, stdout=sys.stderr, check=True)


def kvc_python(build_dir):
    """An environment with the Python package over the library of `build_dir`, made anew when either has changed."""
    subprocess.run(["bash", ROOT / "tests/python/venv.sh", HOME / "kvc", build_dir], stdout=sys.stderr, check=True)
    return HOME / "kvc/bin/python"


def build_helper():
    library, source = HOME / "copy.so", ROOT / "tests/bench/peers/copy.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


def arguments():
    parser = argparse.ArgumentParser(description="kvc beside other stores")
    parser.add_argument("--install", action="store_true", help="install what the peers need, and stop")
    parser.add_argument("--build-dir", default=ROOT / "build/release", type=pathlib.Path, help="the build of kvc to measure")
    parser.add_argument("--kvc-python", type=pathlib.Path, help="an interpreter that has kvc; default: one is made from --build-dir")
    parser.add_argument("--json", action="store_true", help="one line of JSON a figure")
    parser.add_argument("--only", default=",".join(ENVIRONMENTS), help="peers, by commas")
    parser.add_argument("--rounds", default=5, type=int, help="measured rounds, after one that warms up")
    parser.add_argument("--seconds", default=1.0, type=float, help="at most so long a peer, round and operation")
    parser.add_argument("--window-mib", default=256, type=int, help="bytes of values of a peer in a round")
    chosen = parser.parse_args()
    chosen.only = chosen.only.split(",")
    for name in chosen.only:
        if name not in ENVIRONMENTS:
            parser.error(f"--only {name}: it is none of {', '.join(ENVIRONMENTS)}")
    if chosen.rounds < 1 or chosen.window_mib % 256 and chosen.window_mib != 32:
        parser.error(f"--rounds {chosen.rounds} --window-mib {chosen.window_mib}: at least 1 round; a multiple of 256 MiB, or 32")
    return chosen


def check_memory(names, window_mib):
    needed = sum(WINDOWS[name] for name in names) * window_mib
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) >> 10 for line in file if line.startswith("MemAvailable"))
    if needed > available:
        sys.exit(f"{needed} MiB of memory are needed for {', '.join(names)}, {available} MiB are free: take fewer by --only")


def main():
    options = arguments()
    HOME.mkdir(parents=True, exist_ok=True)
    if options.install:
        install(options.only)
        if "kvc" in options.only:
            kvc_python(options.build_dir)
        return 0
    check_memory(options.only, options.window_mib)
    pythons = {name: HOME / f"{ENVIRONMENTS[name]}/bin/python" if ENVIRONMENTS[name] else sys.executable for name in options.only}
    if "kvc" in pythons:
        pythons["kvc"] = options.kvc_python.absolute() if options.kvc_python else kvc_python(options.build_dir)
    with driver.Driver(pythons, options.window_mib * MIB, build_helper(), HOME) as peers:
        output = report.Json() if options.json else report.Table()
        output.begin(peers.versions())
        rows = []
        for size in SIZES:
            for batch in BATCHES:
                some = peers.measure(size, batch, options.rounds, options.seconds)
                rows += some
                output.rows(some)
        output.end(rows, peers.skipped)
        return 1 if "kvc" in peers.skipped or any("wrong bytes" in reason for reason in peers.skipped.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
