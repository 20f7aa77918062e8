#!/usr/bin/env python3
"""The document program of every language finds the document, computes the model's attention from what it gathers, and says the same.

    python3 document_test.py --data tests/data NAME=COMMAND...

Errors and passages are worked out here from the dump in float64.  A dump whose queries give something else than it says is noticed.  The full dump is
used too where KVC_DATA names it."""

import sys
import tempfile
from pathlib import Path

import numpy as np

from programs import arguments, expect, expect_refuses_damage, full_dumps, read_dump, run

CHUNK, STEP, QUESTION, PASSAGE = 64, 512, 16, 64
MODEL, CUT = "smollm2", "smollm2_document.safetensors"


def look(rows, first, end):
    """The worst relative error over the queries of tokens [end - 16, end), and the attention that each passage gets."""
    worst, mass = 0, np.zeros(first // PASSAGE)
    layers, heads, _, dim = rows["q"].shape
    for layer in range(layers):
        for head in range(heads):
            k, v = (rows[side][layer, head * rows["k"].shape[1] // heads].astype(np.float64) for side in "kv")
            for token in range(end - QUESTION, end):
                query, model = (rows[name][layer, head, token - first].astype(np.float64) for name in ("q", "attn_out"))
                scores = k[:token + 1] @ query / np.sqrt(dim)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                worst = max(worst, np.linalg.norm(weights @ v[:token + 1] - model) / np.linalg.norm(model))
                mass += weights[:len(mass) * PASSAGE].reshape(-1, PASSAGE).sum(axis=1)
    return worst, 100 * mass / (layers * heads * QUESTION)


def expected(dump):
    rows = read_dump(dump)
    tokens, positions = rows["k"].shape[2], rows["q"].shape[2]
    first = tokens - positions
    lines = [f"document: {first} tokens in {-(-first // STEP)} steps\n"]
    for number in range(1, positions // QUESTION + 1):
        end = first + number * QUESTION
        found = min(first, end - 1) // CHUNK * CHUNK
        worst, percent = look(rows, first, end)
        best = 1 + percent[1:].argmax()
        # Elsewhere than at an edge of rounding f32 and float64 come to the same text.
        on_edge = any(abs(x % 1 - 0.5) < 1e-3 for x in (worst * 1000, percent[best] * 10))
        expect(not on_edge, f"{dump}, question {number}: {worst} or {percent[best]} lies on an edge")
        lines.append(f"question {number}: {end} tokens, {found} found, {end - found} computed; "
                     f"off by {worst:.3f}; looks at passage {best}, {percent[best]:.1f} %\n")
    return "".join(lines)


def damaged(dump, out):
    """The dump with the rows of passage 6 in passage 5 too: what the queries give then is not what the model said."""
    data = bytearray(dump.read_bytes())
    layers, heads, tokens, dim = read_dump(dump)["k"].shape
    body = 8 + int.from_bytes(data[:8], "little")
    for row in range(2 * layers * heads):  # k, then v, each a row of tokens a head
        at, passage = body + row * tokens * dim * 2, PASSAGE * dim * 2
        data[at + 5 * passage:at + 6 * passage] = data[at + 6 * passage:at + 7 * passage]
    out.write_bytes(data)
    return out


def main():
    data, programs = arguments(__doc__)
    dumps = [data / CUT, *full_dumps(MODEL)]
    for dump in dumps:
        wanted = expected(dump)
        for name, command in programs.items():
            done = run(command, dump)
            expect((done.returncode, done.stdout, done.stderr) == (0, wanted, ""), f"{name}, {dump}: {done}\nwanted:\n{wanted}")
    with tempfile.TemporaryDirectory() as folder:
        other = [run(command, damaged(dumps[0], Path(folder) / "other")) for command in programs.values()]
        for name, done in zip(programs, other):
            expect(done.returncode == 1 and done.stderr == other[0].stderr, f"{name}, rows that are not the model's: {done}, not {other[0]}")
            expect(done.stderr.startswith("document: question 1: layer 0, ") and " is off by " in done.stderr, f"{name}: {done}")
        expect_refuses_damage("document", programs, dumps[0], Path(folder))
    print(f"{len(programs)} languages, {len(dumps)} dumps")


if __name__ == "__main__":
    sys.exit(main())
