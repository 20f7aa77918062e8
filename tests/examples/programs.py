"""What the tests of the example programs share: the programs, one a language, and what is expected of them."""

import argparse
import json
import os
import shlex
import subprocess
from pathlib import Path

import numpy as np

DTYPES = {"F16": np.float16, "F32": np.float32, "I32": np.int32}


def arguments(description):
    """The folder of the data, and the command of each language."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("programs", nargs="+", help="NAME=COMMAND")
    given = parser.parse_args()
    programs = {name: shlex.split(command) for name, _, command in (program.partition("=") for program in given.programs)}
    for name in [name for name in ("go", "rust") if name in programs and not Path(programs[name][0]).exists()]:
        print(f"{programs.pop(name)[0]} was not built: its test says why\n[  SKIPPED ] {name} (0 ms)")
    return given.data, programs


def full_dumps(*models):
    """The dumps of which tests/data has cuts, where KVC_DATA names their folder."""
    return [Path(os.environ["KVC_DATA"]) / model / "kv.safetensors" for model in models] if "KVC_DATA" in os.environ else []


def run(command, *words):
    return subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)


def expect(holds, what):
    if not holds:
        raise SystemExit(f"failed: {what}")


def expect_refused(done, what, *words):
    lines = done.stderr.strip().splitlines()
    expect(done.returncode not in (0, -6, -11), f"{what}: exit status {done.returncode}")
    expect(lines and all(word in lines[-1] for word in words), f"{what}: said {done.stderr!r}")


def read_dump(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    return {name: np.frombuffer(body[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def expect_refuses_damage(example, programs, dump, folder):
    """Files that are no dump, which every language answers with the same line, and no other."""
    whole = dump.read_bytes()
    size = 8 + int.from_bytes(whole[:8], "little")
    shape = json.loads(whole[8:size])["k"]["shape"]
    wrong_shape = json.dumps([*shape[:2], shape[2] // 2, shape[3]], separators=(",", ":")).encode()
    damaged = {
        "empty": b"", "seven_bytes": whole[:7], "no_body": whole[:size], "cut": whole[:-100], "no_header": bytes(8) + whole[8:],
        "long_header": b"\xff" * 8 + whole[8:], "garbage": whole[:8] + bytes(size - 8) + whole[size:],
        "no_v": whole.replace(b'"v":{', b'"w":{'), "wrong_shape": whole.replace(json.dumps(shape, separators=(",", ":")).encode(), wrong_shape, 1),
    }
    for name, text in damaged.items():
        (folder / name).write_bytes(text)
    for language, command in programs.items():
        for name in ("none", *damaged):
            done = run(command, folder / name)
            said = f"{example}: {folder / name}: no such file, or no dump of this kind\n"
            expect((done.returncode, done.stdout, done.stderr) == (1, "", said), f"{language}, a dump that is {name}: {done}")
        for words in ((), (dump, dump)):
            done = run(command, *words)
            expect((done.returncode, done.stdout, done.stderr) == (2, "", f"usage: {example} DUMP\n"), f"{language}, {len(words)} arguments: {done}")
