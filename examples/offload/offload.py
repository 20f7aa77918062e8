#!/usr/bin/env python3
"""Offload and resume, in Python: what offload.c does, and the same files.

    python offload.py save FILE DUMP      the engine has computed 300 tokens of DUMP, and has to make room
    python offload.py resume FILE DUMP    brings them back into an array of another layout, compares every bit, and computes the rest

DUMP is a safetensors file with k and v [layers, heads, tokens, dim] f16 and token_ids [tokens] i32, as those in tests/data.
"""
import json
import sys

import numpy as np

import kvc

SAVED_TOKENS = 300
ENGINE_AXES = "layer head token dim"  # how the engine keeps its rows


def read_dump(path):
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + size]), data[8 + size:]

    def tensor(name, dtype):
        begin, end = header[name]["data_offsets"]
        return np.frombuffer(body[begin:end], dtype).reshape(header[name]["shape"])
    return tensor("k", np.float16), tensor("v", np.float16), tensor("token_ids", np.int32)


def save(scope, k, v, ids, path):
    with scope.sequence() as seq:
        seq.append(ids[:SAVED_TOKENS], kvc.Rows.of(k=k, v=v, axes=ENGINE_AXES, token_count=SAVED_TOKENS))
        seq.save(path)
    print(f"{SAVED_TOKENS} tokens put aside")
    return True


def resume(scope, k, v, ids, path):
    layers, heads, tokens, dim = k.shape
    with scope.restore(path) as seq:
        back = [np.empty((layers, SAVED_TOKENS, heads, dim), np.float16) for _ in range(2)]  # tokens first
        seq.gather(kvc.Rows.of(k=back[0], v=back[1]))
        equal = all(np.array_equal(got.view(np.uint16), side[:, :, :SAVED_TOKENS].swapaxes(1, 2).view(np.uint16)) for got, side in zip(back, (k, v)))
        seq.append(ids[SAVED_TOKENS:], kvc.Rows.of(k=k, v=v, axes=ENGINE_AXES, token_begin=SAVED_TOKENS, slot_begin=SAVED_TOKENS,
                                                   token_count=tokens - SAVED_TOKENS))  # computed now
        _, found = scope.match(ids, peek=True)
    print(f"{SAVED_TOKENS} of {tokens} tokens came back, {'bit for bit' if equal else 'CHANGED'}; the next request finds {found.tokens}")
    return equal


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("save", "resume"):
        raise SystemExit("usage: offload.py save|resume FILE DUMP")
    k, v, ids = read_dump(sys.argv[3])
    layers, heads, _, dim = k.shape
    shape = kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_HALVES, layers=[kvc.Layer(count=layers, kv_heads=heads, k_dim=dim, v_dim=dim)])
    with kvc.Store("mem:") as store, store.scope(model="offload", shape=shape) as scope:
        return 0 if (save if sys.argv[1] == "save" else resume)(scope, k, v, ids, sys.argv[2]) else 1


if __name__ == "__main__":
    sys.exit(main())
