#!/usr/bin/env python3
"""Cuts the dump of a real model's KV cache down to what a repository can hold.

    python3 cut.py SOURCE/kv.safetensors OUT.safetensors LAYER LAYER [--tokens 512]
    python3 cut.py SOURCE/kv.safetensors OUT.safetensors LAYER --queries

SOURCE holds k and v [layers, kv_heads, tokens, head_dim] float16, token_ids [tokens] int32 and layers [layers] int32 (numbers of the
model's layers), and of the last positions the queries q and the attention outputs attn_out [layers, heads, positions, head_dim] float16.
OUT holds k, v, token_ids and layers for the named layers and the first tokens; with --queries for all tokens, and q and attn_out beside
them.  Not a bit of a number is changed.  Only the standard library is needed."""

import argparse
import json
import struct
from pathlib import Path

BYTES = {"F16": 2, "I32": 4}


class Safetensors:
    def __init__(self, path: Path):
        data = path.read_bytes()
        (size,) = struct.unpack_from("<Q", data)
        self.header = json.loads(data[8 : 8 + size])
        self.metadata = self.header.pop("__metadata__", {})
        self.body = memoryview(data)[8 + size :]

    def tensor(self, name: str) -> tuple[str, list[int], memoryview]:
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        return entry["dtype"], entry["shape"], self.body[begin:end]


def cut_rows(source: Safetensors, name: str, picked: list[int], tokens: int) -> tuple[str, list[int], bytes]:
    dtype, (_, heads, held, dim), data = source.tensor(name)
    row, out = dim * BYTES[dtype], bytearray()
    for layer in picked:
        for head in range(heads):
            begin = (layer * heads + head) * held * row
            out += data[begin : begin + tokens * row]
    return dtype, [len(picked), heads, tokens, dim], bytes(out)


def write(path: Path, tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str]) -> None:
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("layers", type=int, nargs="+", help="numbers of the model's layers")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--queries", action="store_true", help="all tokens, with q and attn_out of the last of them")
    arguments = parser.parse_args()
    source = Safetensors(arguments.source)
    dtype, (count,), data = source.tensor("layers")
    numbers = list(struct.unpack(f"<{count}i", data))
    picked = [numbers.index(layer) for layer in arguments.layers]
    ids_dtype, (held,), ids = source.tensor("token_ids")
    tokens = held if arguments.queries else arguments.tokens
    if not 0 < tokens <= held:
        parser.error(f"--tokens {tokens}: the source holds {held}")
    tensors = {name: cut_rows(source, name, picked, tokens) for name in ("k", "v")}
    if arguments.queries:
        tensors |= {name: cut_rows(source, name, picked, source.tensor(name)[1][2]) for name in ("q", "attn_out")}
    tensors |= {
        "token_ids": (ids_dtype, [tokens], bytes(ids[: tokens * BYTES[ids_dtype]])),
        "layers": (dtype, [len(picked)], struct.pack(f"<{len(picked)}i", *arguments.layers)),
    }
    write(arguments.out, tensors, source.metadata | {"cut_tokens": str(tokens)})


if __name__ == "__main__":
    main()
