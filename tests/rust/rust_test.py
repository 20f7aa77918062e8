#!/usr/bin/env python3
"""The crates against a staged install of a build tree, as their users have them: PKG_CONFIG_PATH and nothing else.

    python3 tests/rust/rust_test.py STEP --build build/release

STEP: stage (what the others need: the library, and every crate fetched), check (rustfmt, clippy, rustdoc, the build without features), test,
package (both crates as they would be published, built from that), outside (a program in a folder of its own; and what is said where there is no
library), valgrind (queued calls: nothing is written to memory that was freed; some minutes), examples (builds those of examples/ as BUILD/bin/NAME_rust).
Says "skipped" (77) and why where there is no cargo of the version that the crates ask for, or no network for the first fetch."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKSPACE = ROOT / "bindings" / "rust"
EXAMPLES = ROOT / "examples"
SKIPPED = 77


def run(*command, folder=WORKSPACE, fails=False, **environment):
    done = subprocess.run([str(c) for c in command], cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    if (done.returncode != 0) != fails:
        raise SystemExit(f"{'did not fail' if fails else 'failed'}: {' '.join(map(str, command))}\n{done.stdout[-8000:]}")
    return done.stdout


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def skip_without_cargo():
    needed = re.search(r'^rust-version = "(\d+)\.(\d+)"', (WORKSPACE / "Cargo.toml").read_text(), re.M)
    cargo = shutil.which("cargo")
    found = re.search(r"cargo (\d+)\.(\d+)", run(cargo, "--version")) if cargo else None
    if not found or tuple(map(int, found.groups())) < tuple(map(int, needed.groups())):
        skip(f"cargo {needed[1]}.{needed[2]} or later is needed, {found[0] if found else 'none'} is on PATH")


def stage(build, prefix, without):
    run("cmake", "--install", build, "--prefix", prefix)
    for folder in (WORKSPACE, EXAMPLES):
        done = subprocess.run(["cargo", "fetch", "--quiet", "--locked"], cwd=folder, capture_output=True, text=True, env={**os.environ, "CARGO_NET_RETRY": "1"})
        if done.returncode != 0 and re.search(r"download|network|resolve host|connect|timed out", done.stderr):
            without.write_text(f"crates could not be fetched: {done.stderr.strip().splitlines()[-1].strip()}")
            skip(without.read_text())
        if done.returncode != 0:
            raise SystemExit(f"cargo fetch in {folder}: {done.stderr}")


def check():
    run("cargo", "fmt", "--check")
    run("cargo", "fmt", "--check", folder=EXAMPLES)
    run("cargo", "clippy", "--quiet", "--all-targets", "--all-features", "--", "-D", "warnings")
    run("cargo", "clippy", "--quiet", "--no-default-features", "--", "-D", "warnings")
    run("cargo", "clippy", "--quiet", "--all-targets", "--", "-D", "warnings", folder=EXAMPLES)
    run("cargo", "doc", "--quiet", "--no-deps", "--all-features", RUSTDOCFLAGS="-D warnings")


def package(target):
    run("cargo", "package", "--quiet", "--workspace", "--allow-dirty")
    layout = next((target / "package").glob("kvc-sys-*/Cargo.toml"))
    run("cargo", "test", "--quiet", "--manifest-path", layout, folder=layout.parent)


def outside():
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "outside"
        shutil.copytree(ROOT / "tests" / "rust" / "outside", program)
        shutil.copy(WORKSPACE / "Cargo.lock", program)  # the versions that were fetched
        manifest = program / "Cargo.toml"
        manifest.write_text(manifest.read_text().replace("@KVC@", str(WORKSPACE / "kvc")))
        said = run("cargo", "run", "--quiet", folder=program)
        if said != "ok\n":
            raise SystemExit(f"the program outside said {said!r}")
        by_folder = {"KVC_LIB_DIR": next(Path(os.environ["PKG_CONFIG_PATH"]).parent.glob("libkvc.so")).parent, "PKG_CONFIG_PATH": folder}
        if (said := run("cargo", "run", "--quiet", folder=program, **by_folder)) != "ok\n":
            raise SystemExit(f"with KVC_LIB_DIR the program outside said {said!r}")
        for wrong, words in (({"PKG_CONFIG_PATH": folder, "PKG_CONFIG_LIBDIR": folder}, "set PKG_CONFIG_PATH"), ({"KVC_LIB_DIR": folder}, "there is no libkvc.so")):
            lines = [line for line in run("cargo", "build", folder=program, fails=True, **wrong).splitlines() if "kvc-sys: " in line]
            if len(lines) != 1 or words not in lines[0]:
                raise SystemExit(f"without a library it says {lines}")


def valgrind():
    """The library writes to memory that Rust owns, which neither compiler sees."""
    if not shutil.which("valgrind"):
        skip("there is no valgrind")
    for test in ("queue", "tokio", "lifetimes"):
        runner = {"CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER": "valgrind -q --error-exitcode=9 --fair-sched=yes"}
        run("cargo", "test", "--quiet", "--all-features", "-p", "kvc", "--test", test, "--", "--test-threads=2", **runner)


def examples(build, target):
    run("cargo", "build", "--quiet", "--release", "--locked", folder=EXAMPLES)
    (build / "bin").mkdir(exist_ok=True)
    for name in re.findall(r'^\[\[bin\]\]\nname = "(\w+)"', (EXAMPLES / "Cargo.toml").read_text(), re.M):
        shutil.copy(target / "release" / name, build / "bin" / f"{name}_rust")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("stage", "check", "test", "package", "outside", "valgrind", "examples"))
    parser.add_argument("--build", type=Path, required=True)
    arguments = parser.parse_args()
    skip_without_cargo()
    build = arguments.build.resolve()
    prefix, target = build / "rust-stage", build / "cargo"
    os.environ |= {"CARGO_TARGET_DIR": str(target), "CARGO_INCREMENTAL": "0", "CARGO_TERM_COLOR": "never", "RUST_BACKTRACE": "0"}
    for name in ("LD_LIBRARY_PATH", "KVC_LIB_DIR", "RUSTFLAGS"):
        os.environ.pop(name, None)
    without = build / "rust-skipped"  # why there are no crates, for the steps behind
    if arguments.step == "stage":
        without.unlink(missing_ok=True)
        stage(build, prefix, without)
        return
    if without.exists():
        skip(without.read_text())
    os.environ |= {"PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig/kvc.pc")).parent), "CARGO_NET_OFFLINE": "true"}
    if arguments.step == "test":
        print(run("cargo", "test", "--quiet", "--locked", "--all-features"))
    elif arguments.step in ("check", "outside", "valgrind"):
        {"check": check, "outside": outside, "valgrind": valgrind}[arguments.step]()
    elif arguments.step == "package":
        package(target)
    else:
        examples(build, target)


main()
