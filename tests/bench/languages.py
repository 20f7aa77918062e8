#!/usr/bin/env python3
"""What a call costs beyond the same call from C: a small program in each language, the same calls in the same order, in turns.

    python3 tests/bench/languages.py [--json] [--build build/release] [--seconds 1] [--rounds 5] [--working-set-mib 2048] [--only go,rust,python]

get_4k: nanoseconds of one object of 4 KiB, less those from C.  gather_1m: 1 MiB of rows, bytes a second over those from C.  The baseline is C's in
the same run; a figure is the median over the rounds.  Languages that are not there are left out, and named on stderr."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/bench/languages"
GATHER_BYTES = 1 << 20
GOALS = {"go_get_4k": 400, "rust_get_4k": 50, "python_get_4k": 2500, "go_gather_1m": 0.95, "rust_gather_1m": 0.95, "python_gather_1m": 0.95}


def build(arguments, folder):
    """{language: command}: C, and of the others those that can be built here."""
    prefix = folder / "stage"
    subprocess.run(["cmake", "--install", arguments.build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    package = next(prefix.glob("lib*/**/pkgconfig/kvc.pc"))
    os.environ |= {"PKG_CONFIG_PATH": str(package.parent), "LD_LIBRARY_PATH": str(package.parent.parent), "CARGO_TARGET_DIR": str(arguments.build / "cargo")}  # which the tests of Rust share
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "kvc"], check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-std=c99", "-D_GNU_SOURCE", "-O2", PROGRAMS / "bench.c", *flags, "-o", folder / "bench_c"], check=True)
    commands, python = {"c": [folder / "bench_c"]}, arguments.build / "python-venv/bin/python"
    wanted = arguments.only.split(",")
    if "python" in wanted and python.exists():
        commands["python"] = [python, PROGRAMS / "bench.py"]
    if "go" in wanted and built(["go", "build", "-o", folder / "bench_go", "."], PROGRAMS / "go"):
        commands["go"] = [folder / "bench_go"]
    if "rust" in wanted and built(["cargo", "build", "--quiet", "--release", "--locked", "-p", "kvc", "--example", "bench"], ROOT / "bindings/rust"):
        commands["rust"] = [arguments.build / "cargo/release/examples/bench"]
    return commands


def built(command, folder):
    """False, and said: its tools or its network are not there.  What does not compile shows in the language's own tests."""
    if not shutil.which(command[0]):
        return False
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
    return done.returncode == 0


def measure(commands, arguments):
    """{(language, what): [nanoseconds a call, one a round]}"""
    found = {}
    for _ in range(arguments.rounds):
        for what in ("get_4k", "gather_1m"):
            for language, command in commands.items():
                done = subprocess.run([*command, what, str(arguments.seconds), str(arguments.working_set_mib)], check=True, capture_output=True, text=True)
                found.setdefault((language, what), []).append(float(done.stdout))
    return found


def figures(commands, found):
    for language in ("go", "rust", "python"):
        if language not in commands:
            print(f"{language}: not here, left out", file=sys.stderr)
            continue
        for what in ("get_4k", "gather_1m"):
            ours, base = (statistics.median(found[one, what]) for one in (language, "c"))
            if what == "get_4k":
                yield f"{language}_{what}", ours - base, "ns", base, (ours - base) / base, max(found[language, what]) - base
            else:
                rates = [GATHER_BYTES / t for t in (ours, base)]
                yield f"{language}_{what}", rates[0], "GB/s", rates[1], rates[0] / rates[1], GATHER_BYTES / max(found[language, what])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--working-set-mib", type=int, default=2048)
    parser.add_argument("--only", default="go,rust,python")
    arguments = parser.parse_args()
    folder = arguments.build.resolve() / "bench-languages"
    folder.mkdir(exist_ok=True)
    arguments.build = arguments.build.resolve()
    commands = build(arguments, folder)
    for name, value, unit, baseline, ratio, worst in figures(commands, measure(commands, arguments)):
        goal = GOALS[name]
        met = ratio >= goal if unit == "GB/s" else value <= goal
        line = {"name": f"languages.{name}", "value": round(value, 3), "unit": unit, "baseline": round(baseline, 3), "ratio": round(ratio, 3), "worst": round(worst, 3), "goal": goal, "met": met}
        print(json.dumps(line) if arguments.json else f"{line['name']:28} {value:10.2f} {unit:5} C {baseline:10.2f}  ratio {ratio:6.3f}  goal {goal} {'met' if met else 'NOT MET'}", flush=True)


main()
