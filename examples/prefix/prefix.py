#!/usr/bin/env python3
"""The prefix cache of a serving engine, in Python: what prefix.c does, whose first comment says it, and the same output.

    python prefix.py DUMP
"""
import json
import sys

import numpy as np

import kvc

TOKENS, BLOCKS, BLOCK_TOKENS, ANSWER, POISON = 512, 64, 16, 48, 0xA5A5
TABLE = TOKENS // BLOCK_TOKENS
PARTS_AT = (TOKENS, 200, 416)
REQUESTS = (  # what, tenant, text, tokens, text of a second answer
    ("A, first turn", 0, 0, 300, 0), ("B, same system prompt", 0, 1, 280, 0), ("A, two answers", 0, 0, 416, 2),
    ("A, goes on from one", 0, 0, 500, 0), ("A, from the other", 0, 2, 512, 0), ("the same again", 0, 2, 512, 0),
    ("B, second turn", 0, 1, 400, 0), ("another tenant", 1, 0, 300, 0), ("the same again", 1, 0, 300, 0))


def read_dump(path):
    """k and v together, and the ids."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        size = int.from_bytes(data[:8], "little")
        header, body = json.loads(data[8:8 + size]), data[8 + size:]

        def tensor(name, dtype):
            begin, end = header[name]["data_offsets"]
            return np.frombuffer(body[begin:end], dtype).reshape(header[name]["shape"])
        k, v, ids = tensor("k", np.float16), tensor("v", np.float16), tensor("token_ids", np.int32)
        if k.ndim != 4 or k.shape[2] < TOKENS or v.shape != k.shape or ids.shape != k.shape[2:3]:
            raise ValueError
        return np.stack([k, v], axis=1), ids
    except (OSError, ValueError, KeyError, TypeError):
        raise SystemExit(f"prefix: {path}: no such file, or no dump of this kind") from None


class Engine:
    def __init__(self, kv, ids):
        layers, _, heads, tokens, dim = kv.shape
        at = np.arange(TOKENS)
        parted = [at >= place for place in PARTS_AT]
        self.ids = [ids[:TOKENS] + np.int32(text) * parts for text, parts in enumerate(parted)]
        self.computed = [kv[:, :, :, np.where(parts, (at + text * tokens // 4) % tokens, at)].swapaxes(2, 3) for text, parts in enumerate(parted)]
        self.pool = np.empty((layers, 2, BLOCKS, BLOCK_TOKENS, heads, dim), np.float16)

    def compute(self, table, text, begin, end):
        at = np.arange(begin, end)
        self.pool[:, :, table[at // BLOCK_TOKENS], at % BLOCK_TOKENS] = self.computed[text][:, :, begin:end]

    def check(self, table, what, text, end):
        at = np.arange(end)
        bits = [rows.view(np.uint16) for rows in (self.pool[:, :, table[at // BLOCK_TOKENS], at % BLOCK_TOKENS], self.computed[text][:, :, :end].copy())]
        differs = np.argwhere((bits[0] != bits[1]).any(axis=(3, 4)))
        if len(differs):
            layer, side, token = differs[0]
            raise SystemExit(f"prefix: {what}: {'kv'[side]} of token {token}, layer {layer} is not what was computed")

    def rows(self, table, begin, count):
        return kvc.Rows.of(k=self.pool[:, 0], v=self.pool[:, 1], axes="layer block token head dim", blocks=table, token_begin=begin, token_count=count)

    def append(self, seq, table, text, begin, end):
        self.compute(table, text, begin, end)
        seq.append(self.ids[text][begin:end], self.rows(table, begin, end - begin))

    def answer_twice(self, seq, table, free_blocks, text, tokens, second):
        """In the pool both answers share the blocks of the prompt, which are full, and have blocks of their own behind."""
        full = tokens // BLOCK_TOKENS
        table_of_second = np.concatenate([table[:full], free_blocks[full:]])
        with seq.fork() as fork:
            for t in range(tokens, tokens + ANSWER):
                self.append(seq, table, text, t, t + 1)
                self.append(fork, table_of_second, second, t, t + 1)

    def serve(self, scope, number):
        what, _, text, tokens, second = REQUESTS[number]
        blocks = ((37 * np.arange(BLOCKS) + 11 * number) % BLOCKS).astype(np.int32)
        table, free_blocks = np.split(blocks, 2)  # all of the pool, shuffled
        self.pool.view(np.uint16)[:] = POISON
        seq, info = scope.match(self.ids[text][:tokens], tokens_max=tokens - 1)  # the engine needs the logits of the last token: leave one to compute
        with seq:
            found = info.tokens
            if found:
                seq.gather(self.rows(table, 0, found))
            self.check(table, what, text, found)
            self.append(seq, table, text, found, tokens)
            if second:
                self.answer_twice(seq, table, free_blocks, text, tokens, second)
        print(f"{what:<21}  {tokens:3} tokens, {found:3} found, {tokens - found:3} computed")
        return found


def main():
    if len(sys.argv) != 2:
        print("usage: prefix DUMP", file=sys.stderr)
        return 2
    kv, ids = read_dump(sys.argv[1])
    layers, _, heads, _, dim = kv.shape
    engine = Engine(kv, ids)
    shape = kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_HALVES, layers=[kvc.Layer(count=layers, kv_heads=heads, k_dim=dim, v_dim=dim)])
    try:
        with kvc.Store("mem:") as store:
            tenants = [store.scope(model="prefix", tenant=tenant, shape=shape) for tenant in ("one", "two")]
            found = sum(engine.serve(tenants[request[1]], number) for number, request in enumerate(REQUESTS))
    except kvc.Error as error:
        print(f"prefix: {error}", file=sys.stderr)
        return 1
    tokens = sum(request[3] for request in REQUESTS)
    print(f"{found} of {tokens} tokens were found, {100 * found // tokens} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
