#!/usr/bin/env python3
"""The prefix program of every language finds what was stored, to the token, and says the same.

    python3 prefix_test.py --data tests/data NAME=COMMAND...

What a request finds is worked out here from the ids alone: the longest run of whole chunks, at most all tokens but the last, that a request or an answer
of that tenant left before.  That the rows are right bit for bit the programs check themselves.  The full dumps are used too where KVC_DATA names them."""

import sys
import tempfile
from pathlib import Path

from programs import arguments, expect, expect_refuses_damage, full_dumps, read_dump, run

CHUNK, ANSWER = 64, 48
PARTS_AT = (512, 200, 416)
REQUESTS = (  # what, tenant, text, tokens, texts of the answers
    ("A, first turn", 1, 0, 300, ()),
    ("B, same system prompt", 1, 1, 280, ()),
    ("A, two answers", 1, 0, 416, (0, 2)),
    ("A, goes on from one", 1, 0, 500, ()),
    ("A, from the other", 1, 2, 512, ()),
    ("the same again", 1, 2, 512, ()),
    ("B, second turn", 1, 1, 400, ()),
    ("another tenant", 2, 0, 300, ()),
    ("the same again", 2, 0, 300, ()),
)


def chunks_of(tenant, ids):
    return [(tenant, *ids[:end]) for end in range(CHUNK, len(ids) + 1, CHUNK)]


def expected(dump):
    ids = read_dump(dump)["token_ids"].tolist()
    texts = [ids[:at] + [token + number for token in ids[at:512]] for number, at in enumerate(PARTS_AT)]
    held, lines, found_all = set(), [], 0
    for what, tenant, text, tokens, answers in REQUESTS:
        found = 0
        for chunk in chunks_of(tenant, texts[text][:tokens - 1]):
            if chunk not in held:
                break
            found += CHUNK
        held.update(chunks_of(tenant, texts[text][:tokens]))
        for answer in answers:
            held.update(chunks_of(tenant, texts[answer][:tokens + ANSWER]))
        lines.append(f"{what:<21}  {tokens:3} tokens, {found:3} found, {tokens - found:3} computed\n")
        found_all += found
    tokens_all = sum(request[3] for request in REQUESTS)
    return "".join(lines) + f"{found_all} of {tokens_all} tokens were found, {100 * found_all // tokens_all} %\n"


def main():
    data, programs = arguments(__doc__)
    dumps = [data / "smollm2.safetensors", data / "qwen25coder15b.safetensors", *full_dumps("smollm2", "qwen25coder15b")]
    for dump in dumps:
        wanted = expected(dump)
        for name, command in programs.items():
            done = run(command, dump)
            expect((done.returncode, done.stdout, done.stderr) == (0, wanted, ""), f"{name}, {dump}: {done}\nwanted:\n{wanted}")
    with tempfile.TemporaryDirectory() as folder:
        expect_refuses_damage("prefix", programs, dumps[0], Path(folder))
    print(f"{len(programs)} languages, {len(dumps)} dumps")


if __name__ == "__main__":
    sys.exit(main())
