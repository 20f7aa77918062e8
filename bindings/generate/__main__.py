"""Writes what the bindings have that is generated, from bindings/kvc.i and the public headers.

    python3 bindings/generate [--check] [--swig SWIG]

--check writes nothing, and fails with the difference where a file is not what would be written."""

import argparse
import difflib
import shutil
import subprocess
import sys

import go
import parity
import rust
import tree

PINNED_SWIG = "4.5.1"


def check_swig(swig):
    said = subprocess.run([swig, "-version"], capture_output=True, text=True)
    if f"SWIG Version {PINNED_SWIG}\n" not in said.stdout:
        raise SystemExit(f"{swig}: SWIG {PINNED_SWIG} is needed (pip install swig=={PINNED_SWIG})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--swig", default="swig")
    arguments = parser.parse_args()
    if arguments.check and not shutil.which("gofmt"):
        print("skipped: gofmt, which Go's files are formatted by, is not on PATH")
        sys.exit(77)
    check_swig(arguments.swig)
    headers = tree.read(arguments.swig, tree.ROOT / "bindings" / "kvc.i")
    stale = 0
    for path, text in {**go.files(headers, arguments.swig), **rust.files(headers), **parity.files()}.items():
        path = tree.ROOT / "bindings" / path
        before = path.read_text() if path.exists() else ""
        if before == text:
            continue
        stale += 1
        if arguments.check:
            sys.stdout.writelines(list(difflib.unified_diff(before.splitlines(True), text.splitlines(True), str(path), "generated"))[:40])
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(tree.ROOT)}")
    if arguments.check and stale:
        raise SystemExit(f"{stale} generated files are stale: python3 bindings/generate")


main()
