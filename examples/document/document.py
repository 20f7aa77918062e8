#!/usr/bin/env python3
"""Questions about a long document, in Python: what document.c does, whose first comment says it, and the same output.

    python document.py DUMP
"""
import json
import sys

import numpy as np

import kvc

STEP, QUESTION, PASSAGE = 512, 16, 64
BOUND = 0.01  # why: document.c


class Dump:
    def __init__(self, path):
        try:
            with open(path, "rb") as file:
                data = file.read()
            size = int.from_bytes(data[:8], "little")
            header, body = json.loads(data[8:8 + size]), data[8 + size:]

            def tensor(name, dtype):
                begin, end = header[name]["data_offsets"]
                return np.frombuffer(body[begin:end], dtype).reshape(header[name]["shape"])
            self.k, self.v, self.q, self.attn_out = (tensor(name, np.float16) for name in ("k", "v", "q", "attn_out"))
            self.ids = tensor("token_ids", np.int32)
            self.layers, self.heads, self.tokens, self.dim = self.k.shape
            layers, self.query_heads, self.positions, dim = self.q.shape
            shapes = self.v.shape == self.k.shape and self.attn_out.shape == self.q.shape and self.ids.shape == (self.tokens,)
            if (not shapes or (layers, dim) != (self.layers, self.dim) or self.query_heads % self.heads or self.positions % QUESTION or
                    self.positions + 2 * PASSAGE > self.tokens):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            raise SystemExit(f"document: {path}: no such file, or no dump of this kind") from None
        self.document = self.tokens - self.positions

    def append(self, seq, begin, end):
        seq.append(self.ids[begin:end], kvc.Rows.of(k=self.k, v=self.v, axes="layer head token dim", token_begin=begin, slot_begin=begin,
                                                    token_count=end - begin))


def attend(dump, k, v, layer, begin, end):
    """The queries of tokens [begin, end) in one layer: their weights [query head][query][token], and how far each is from the model [query head][query]."""
    own = slice(begin - dump.document, end - dump.document)
    group = dump.query_heads // dump.heads
    query = dump.q[layer, :, own].astype(np.float32) / np.sqrt(np.float32(dump.dim))
    scores = query @ k.repeat(group, axis=0)
    scores[:, np.arange(end) > np.arange(begin, end)[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    model = dump.attn_out[layer, :, own].astype(np.float32)
    return weights, np.linalg.norm(weights @ v.repeat(group, axis=0) - model, axis=2) / np.linalg.norm(model, axis=2)


def ask(dump, scope, number):
    end = dump.document + number * QUESTION
    begin = end - QUESTION
    k = np.empty((1, dump.heads, dump.dim, end), np.float32)
    v = np.empty((1, dump.heads, end, dump.dim), np.float32)
    worst, mass = 0.0, np.zeros(dump.document // PASSAGE)
    seq, info = scope.match(dump.ids[:end], tokens_max=end - 1)  # the model needs the last token's logits to answer: leave one to compute
    with seq:
        dump.append(seq, info.tokens, end)  # computed now
        for layer in range(dump.layers):
            seq.gather(kvc.Rows.of(k=k, axes="layer head dim token", v=v, v_axes="layer head token dim", layer_begin=layer))
            weights, off = attend(dump, k[0], v[0], layer, begin, end)
            if not (off <= BOUND).all():
                head, query = np.argwhere(~(off <= BOUND))[0]
                raise SystemExit(f"document: question {number}: layer {layer}, head {head}, token {begin + query} is off by {off[head, query]:.3f}, "
                                 f"the bound is {BOUND:.2f}")
            worst = max(worst, off.max())
            mass += weights[:, :, :len(mass) * PASSAGE].sum(axis=(0, 1), dtype=np.float64).reshape(-1, PASSAGE).sum(axis=1)
    best = 1 + mass[1:].argmax()
    print(f"question {number}: {end} tokens, {info.tokens} found, {end - info.tokens} computed; off by {worst:.3f}; "
          f"looks at passage {best}, {100 * mass[best] / (dump.layers * dump.query_heads * QUESTION):.1f} %")


def main():
    if len(sys.argv) != 2:
        print("usage: document DUMP", file=sys.stderr)
        return 2
    dump = Dump(sys.argv[1])
    shape = kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_HALVES, layers=[kvc.Layer(count=dump.layers, kv_heads=dump.heads, k_dim=dump.dim, v_dim=dump.dim)])
    try:
        with kvc.Store("mem:") as store, store.scope(model="document", shape=shape) as scope:
            steps = range(0, dump.document, STEP)
            with scope.sequence() as seq:  # what is sealed stays
                for begin in steps:
                    dump.append(seq, begin, min(begin + STEP, dump.document))
            print(f"document: {dump.document} tokens in {len(steps)} steps")
            for number in range(1, dump.positions // QUESTION + 1):
                ask(dump, scope, number)
    except kvc.Error as error:
        print(f"document: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
