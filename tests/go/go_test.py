#!/usr/bin/env python3
"""The Go package against a staged install of a build tree, as its users have it: by PKG_CONFIG_PATH.

    python3 tests/go/go_test.py STEP --build build/release

STEP: stage (what the others need), check (gofmt, go vet), test, race, cgocheck (GOEXPERIMENT=cgocheck2), fuzz, outside (a program of its own module),
examples (builds those of examples/ as BUILD/bin/NAME_go).
Says "skipped" (77) and why where there is no Go of the version that go.mod names."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "bindings" / "go"
SKIPPED = 77
FUZZ_TARGETS = ("FuzzGather", "FuzzAs")


def run(*command, folder=MODULE, **environment):
    done = subprocess.run([str(c) for c in command], cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    if done.returncode != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-6000:]}")
    return done.stdout


def skip_without_go():
    needed = re.search(r"^go (\d+)\.(\d+)", (MODULE / "go.mod").read_text(), re.M)
    go = shutil.which("go")
    found = re.search(r"go(\d+)\.(\d+)", run(go, "version")) if go else None
    if not found or tuple(map(int, found.groups())) < tuple(map(int, needed.groups())):
        print(f"skipped: Go {needed[1]}.{needed[2]} or later is needed, {found[0] if found else 'none'} is on PATH")
        sys.exit(SKIPPED)


def outside():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "tests" / "go" / "outside" / "main.go", folder)
        run("go", "mod", "init", "outside.test/program", folder=folder)
        run("go", "mod", "edit", "-require=kvc@v0.0.0", f"-replace=kvc={MODULE}", folder=folder)
        library = os.environ.pop("LD_LIBRARY_PATH")
        run("go", "build", "-o", "program", ".", folder=folder, CGO_LDFLAGS=f"-Wl,-rpath,{library}")
        said = run("./program", folder=folder)
        if said != "ok\n":
            raise SystemExit(f"the program outside said {said!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("stage", "check", "test", "race", "cgocheck", "fuzz", "outside", "examples"))
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--fuzz-seconds", type=int, default=5)
    arguments = parser.parse_args()
    skip_without_go()
    stage = arguments.build.resolve() / "go-stage"
    if arguments.step == "stage":
        run("cmake", "--install", arguments.build.resolve(), "--prefix", stage)
    package = next(stage.glob("lib*/**/pkgconfig/kvc.pc"))
    os.environ |= {"PKG_CONFIG_PATH": str(package.parent), "LD_LIBRARY_PATH": str(package.parent.parent), "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    if arguments.step == "stage":
        run("go", "build", "./...")
    elif arguments.step == "check":
        if unformatted := run("gofmt", "-l", "."):
            raise SystemExit(f"gofmt: {unformatted}")
        run("go", "vet", "./...")
    elif arguments.step == "fuzz":
        for target in FUZZ_TARGETS:
            run("go", "test", "-run=^$", f"-fuzz=^{target}$", f"-fuzztime={arguments.fuzz_seconds}s", ".")
    elif arguments.step == "outside":
        outside()
    elif arguments.step == "examples":
        for folder in sorted((ROOT / "examples").glob("*/go")):
            run("go", "build", "-o", arguments.build.resolve() / "bin" / f"{folder.parent.name}_go", f"./{folder.parent.name}/go", folder=ROOT / "examples")
        if unformatted := run("gofmt", "-l", ".", folder=ROOT / "examples"):
            raise SystemExit(f"gofmt: {unformatted}")
        run("go", "vet", "./...", folder=ROOT / "examples")
    else:
        flags = {"test": (), "race": ("-race",), "cgocheck": ()}[arguments.step]
        print(run("go", "test", "-count=1", *flags, "./...", **({"GOEXPERIMENT": "cgocheck2"} if arguments.step == "cgocheck" else {})))


main()
