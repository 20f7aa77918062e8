#!/usr/bin/env python3
"""What one language's offload program put aside, every language's goes on from: the same bits come back, of the same file.

    python3 offload_test.py --data tests/data NAME=COMMAND...

And a file that was cut or belongs to another model is refused with one line and an exit status that is not 0."""

import sys
import tempfile
from pathlib import Path

from programs import arguments, expect, expect_refused, run

DUMPS = ("smollm2", "qwen25coder15b")
BACK = "300 of 512 tokens came back, bit for bit; the next request finds 512\n"


def main():
    data, programs = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        for dump in DUMPS:
            rows = data / f"{dump}.safetensors"
            for name, command in programs.items():
                done = run(command, "save", Path(folder) / f"{dump}.{name}", rows)
                expect(done.returncode == 0, f"{name} saves {dump}: {done.stderr}")
            for reader, command in programs.items():
                for writer in programs:
                    done = run(command, "resume", Path(folder) / f"{dump}.{writer}", rows)
                    expect(done.returncode == 0 and done.stdout == BACK, f"{reader} resumes what {writer} saved of {dump}: {done.stdout}{done.stderr}")
        for name, command in programs.items():
            file = Path(folder) / f"smollm2.{name}"
            expect_refused(run(command, "resume", file, data / "qwen25coder15b.safetensors"), f"{name}, another model", "shape")
            cut = Path(folder) / "cut"
            cut.write_bytes(file.read_bytes()[:100000])
            expect_refused(run(command, "resume", cut, data / "smollm2.safetensors"), f"{name}, a cut file", "bytes")
            expect_refused(run(command, "resume", Path(folder) / "none", data / "smollm2.safetensors"), f"{name}, no file", "none")
            expect_refused(run(command, "resume", file, Path(folder) / "none"), f"{name}, no dump", "none")
    print(f"{len(programs)} languages, {len(programs) ** 2 * len(DUMPS)} resumes")


if __name__ == "__main__":
    sys.exit(main())
