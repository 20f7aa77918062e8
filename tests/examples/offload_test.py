#!/usr/bin/env python3
"""What one language's offload program put aside, every language's goes on from: the same bits come back, of the same file.

    python3 offload_test.py --data tests/data NAME=COMMAND...

And a file that was cut or belongs to another model is refused with one line and an exit status that is not 0."""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DUMPS = ("smollm2", "qwen25coder15b")
BACK = "300 of 512 tokens came back, bit for bit; the next request finds 512\n"


def run(command, what, file, dump):
    return subprocess.run([*command, what, file, dump], capture_output=True, text=True, timeout=120)


def expect(holds, what):
    if not holds:
        raise SystemExit(f"offload_test: {what}")


def expect_refused(done, what, *words):
    lines = done.stderr.strip().splitlines()
    expect(done.returncode not in (0, -6, -11), f"{what}: exit status {done.returncode}")
    expect(all(word in lines[-1] for word in words), f"{what}: said {done.stderr!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("programs", nargs="+", help="NAME=COMMAND")
    arguments = parser.parse_args()
    programs = {name: shlex.split(command) for name, _, command in (program.partition("=") for program in arguments.programs)}
    with tempfile.TemporaryDirectory() as folder:
        for dump in DUMPS:
            data = arguments.data / f"{dump}.safetensors"
            for name, command in programs.items():
                done = run(command, "save", Path(folder) / f"{dump}.{name}", data)
                expect(done.returncode == 0, f"{name} saves {dump}: {done.stderr}")
            for reader, command in programs.items():
                for writer in programs:
                    done = run(command, "resume", Path(folder) / f"{dump}.{writer}", data)
                    expect(done.returncode == 0 and done.stdout == BACK, f"{reader} resumes what {writer} saved of {dump}: {done.stdout}{done.stderr}")
        for name, command in programs.items():
            file = Path(folder) / f"smollm2.{name}"
            expect_refused(run(command, "resume", file, arguments.data / "qwen25coder15b.safetensors"), f"{name}, another model", "shape")
            cut = Path(folder) / "cut"
            cut.write_bytes(file.read_bytes()[:100000])
            expect_refused(run(command, "resume", cut, arguments.data / "smollm2.safetensors"), f"{name}, a cut file", "bytes")
            expect_refused(run(command, "resume", Path(folder) / "none", arguments.data / "smollm2.safetensors"), f"{name}, no file", "none")
            expect_refused(run(command, "resume", file, Path(folder) / "none"), f"{name}, no dump", "none")
    print(f"{len(programs)} languages, {len(programs) ** 2 * len(DUMPS)} resumes")


if __name__ == "__main__":
    sys.exit(main())
