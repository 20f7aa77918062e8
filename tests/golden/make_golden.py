#!/usr/bin/env python3
"""Golden vectors of kvc's names and frames, from the text of the format alone.

    make_golden.py            writes the *.txt files beside this script
    make_golden.py --check    compares what it would write with what is there: 0 equal, 1 different, 77 a module is missing

Nothing of the library is used: SHA-256 is hashlib's, XXH3-64 is the xxhash package's, rows are cut and turned by numpy.
pip install -r requirements.txt

A file is a list of records; a record is lines `key value`, closed by an empty line.  Byte strings are hex ("-" when empty), numbers are
decimal.  Lines that repeat a key are a list.  The C++ tests read the same files (vectors.h).  Save files are made by saves.py, of what save_cases.py says.
"""

import hashlib
import os
import struct
import sys

import save_cases

try:
    import numpy as np
    import xxhash
except ImportError as missing:
    print(f"skipped: {missing} (pip install -r {os.path.dirname(os.path.abspath(__file__))}/requirements.txt)")
    sys.exit(77)

F32, F16, BF16, F8, U8 = 1, 2, 3, 4, 5
FULL, WINDOW, LATENT, STATE = 1, 2, 3, 4
EXACT, FP8, INT8, INT4, PLANES = 1, 2, 3, 4, 5
DTYPE_BYTES = {F32: 4, F16: 2, BF16: 2, F8: 1, U8: 1}


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data)


def u32(*values):
    return struct.pack(f"<{len(values)}I", *values)


def u64(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def hexed(data):
    return data.hex() or "-"


def stream(label, size):
    """Bytes that look random and are the same everywhere: SHA-256 in counter mode over a label."""
    blocks = (sha(label.encode(), u32(i)) for i in range((size + 31) // 32))
    return b"".join(blocks)[:size]


class File:
    def __init__(self, title):
        self.text = [f"# {title}  Made by make_golden.py; do not edit.", ""]

    def record(self, lines):
        self.text += [f"{key} {value}" for key, value in lines] + [""]

    def bytes(self):
        return ("\n".join(self.text) + "\n").encode()


# ---------------------------------------------------------------------------------------------------------------- shapes

def run(count, kind, kv_heads, k_dim, v_dim=0, rope_dim=0, window=0, k_dtype=0, v_dtype=0):
    return (count, kind, kv_heads, k_dim, v_dim, rope_dim, window, k_dtype, v_dtype)


def shape_numbers(dtype, chunk_tokens, rope, runs):
    """Fingerprint, layers, bytes a token, a chunk and a snapshot."""
    chunk_tokens = chunk_tokens or 64
    merged = []
    for count, *rest in runs:
        rest[-2:] = [d or dtype for d in rest[-2:]]
        if merged and merged[-1][1:] == rest:
            merged[-1][0] += count
        else:
            merged.append([count, *rest])
    fingerprint = sha(b"kvc shape 1", u32(dtype, chunk_tokens, rope), u64(len(merged)), *(u32(*m) for m in merged))
    token = state = layers = 0
    for count, kind, heads, k_dim, v_dim, rope_dim, _, k_dtype, v_dtype in merged:
        layers += count
        if kind == STATE:
            state += count * heads * (k_dim + v_dim)
        else:
            token += count * heads * (k_dim * DTYPE_BYTES[k_dtype] + (v_dim + rope_dim) * DTYPE_BYTES[v_dtype])
    return fingerprint, layers, len(merged), token, token * chunk_tokens, state


SHAPES = {
    "llama-3-8b": (F16, 0, 1, [run(32, FULL, 8, 128, 128)]),
    "llama-3-8b, chunk_tokens said": (F16, 64, 1, [run(32, FULL, 8, 128, 128)]),
    "llama-3-8b, dtypes said, cut in three": (F16, 64, 1, [run(1, FULL, 8, 128, 128, k_dtype=F16),
                                                          run(30, FULL, 8, 128, 128, v_dtype=F16),
                                                          run(1, FULL, 8, 128, 128, k_dtype=F16, v_dtype=F16)]),
    "llama-3-8b, rope pairs": (F16, 0, 2, [run(32, FULL, 8, 128, 128)]),
    "llama-3-8b, rope unstated": (F16, 0, 0, [run(32, FULL, 8, 128, 128)]),
    "llama-3-8b, bf16": (BF16, 0, 1, [run(32, FULL, 8, 128, 128)]),
    "llama-3-8b, chunks of 16": (F16, 16, 1, [run(32, FULL, 8, 128, 128)]),
    "llama-3-8b, chunks of 256": (F16, 256, 1, [run(32, FULL, 8, 128, 128)]),
    "k and v apart": (F32, 0, 3, [run(2, FULL, 3, 192, 128, k_dtype=BF16, v_dtype=F8),
                                  run(1, FULL, 3, 128, 192, k_dtype=BF16, v_dtype=F8)]),
    "one element": (F8, 16, 0, [run(1, FULL, 1, 1, 1)]),
    "odd dims": (F16, 0, 1, [run(2, FULL, 5, 7, 40), run(2, FULL, 128, 80, 7)]),
    "gemma-like": (BF16, 0, 1, [run(5, WINDOW, 4, 256, 256, window=1024), run(1, FULL, 4, 256, 256)] * 4),
    "windows that differ": (BF16, 0, 1, [run(1, WINDOW, 4, 64, 64, window=128), run(1, WINDOW, 4, 64, 64, window=129)]),
    "deepseek": (BF16, 0, 2, [run(61, LATENT, 1, 512, rope_dim=64)]),
    "deepseek, fp8 latent with bf16 rope": (F8, 0, 2, [run(61, LATENT, 1, 512, rope_dim=64, v_dtype=BF16)]),
    "latent without rope": (F16, 0, 3, [run(3, LATENT, 1, 256)]),
    "hybrid": (F16, 32, 1, [run(3, STATE, 16, 8192, 768, k_dtype=U8, v_dtype=U8), run(1, FULL, 2, 64, 64),
                            run(3, STATE, 16, 8192, 768), run(1, FULL, 2, 64, 64)]),
    "states alone": (U8, 0, 0, [run(24, STATE, 1, 524288)]),
    "a state of one blob, beside rows": (F32, 0, 0, [run(1, STATE, 64, 16384, k_dtype=U8), run(1, WINDOW, 1, 8, 8, window=1)]),
}


def shapes():
    file = File("Shapes: fingerprints and byte counts.")
    for name, (dtype, chunk_tokens, rope, runs) in SHAPES.items():
        fingerprint, layers, merged, token, chunk, state = shape_numbers(dtype, chunk_tokens, rope, runs)
        lines = [("name", name), ("dtype", dtype), ("chunk_tokens", chunk_tokens), ("rope", rope)]
        lines += [("run", " ".join(map(str, r))) for r in runs]
        lines += [("layers", layers), ("merged", merged), ("token_bytes", token), ("chunk_bytes", chunk), ("state_bytes", state),
                  ("fingerprint", fingerprint.hex())]
        file.record(lines)
    return file


# ---------------------------------------------------------------------------------------------------------------- scopes

FIELDS = ("tenant", "model", "revision", "adapter", "salt")


def scope_name(fields, fingerprint):
    tagged = b"".join(bytes([tag]) + u64(len(fields.get(f, b""))) + fields.get(f, b"") for tag, f in enumerate(FIELDS, 1))
    return sha(b"kvc scope 1", tagged, fingerprint)


def scope_cases():
    """B01: one value wandering through every pair of fields, every way to split a string over two neighbours, empty against absent."""
    cases = [{}, {"model": b"m"}]
    for a in range(5):
        cases.append({FIELDS[a]: b"X"})
        cases += [{FIELDS[a]: b"X", FIELDS[b]: b"Y"} for b in range(5) if a != b]
    for a in range(4):
        cases += [{FIELDS[a]: b"abc"[:cut], FIELDS[a + 1]: b"abc"[cut:]} for cut in range(4)]
    # Bytes that imitate the framing of the next field, and bytes no string holds.
    cases.append({"model": b"m\x03" + u64(1) + b"r"})
    cases.append({"model": b"m", "revision": b"r"})
    cases.append({"salt": bytes(range(256))})
    cases.append({"model": "Käse".encode(), "tenant": b"A" * 300})
    cases.append({"model": "KÄSE".lower().encode("latin-1"), "tenant": b"A" * 300})
    unique = []
    for case in cases:
        case = {k: v for k, v in case.items() if v}
        if case not in unique:
            unique.append(case)
    return unique


def scopes():
    file = File("Scopes: every case differs from every other.")
    fingerprints = [bytes(32), shape_numbers(*SHAPES["llama-3-8b"])[0]]
    names = set()
    for case in scope_cases():
        for fingerprint in fingerprints:
            name = scope_name(case, fingerprint)
            names.add(name)
            file.record([(f, hexed(case.get(f, b""))) for f in FIELDS] + [("shape", fingerprint.hex()), ("scope", name.hex())])
    assert len(names) == len(scope_cases()) * 2
    return file


# ---------------------------------------------------------------------------------------------------------------- chunks

def chunk_chain(scope, first_position, chunk_tokens, tokens, extras):
    parent = scope if first_position == 0 else sha(b"kvc position 1", scope, u64(first_position))
    names = [parent]
    for begin in range(0, len(tokens) - chunk_tokens + 1, chunk_tokens):
        end = begin + chunk_tokens
        clipped = [(max(b, begin) - begin, min(b + n, end) - max(b, begin), data)
                   for b, n, data in sorted(extras) if b < end and b + n > begin]
        part = tokens[begin:end]
        parent = sha(b"kvc chunk 1", parent, u32(len(part)), struct.pack(f"<{len(part)}i", *part), u32(len(clipped)),
                     *(u32(b, n) + u64(len(data)) + data for b, n, data in clipped))
        names.append(parent)
    return names


def chunks():
    file = File("Chains of chunks; the first `name` is the parent of the first chunk.")
    scope = scope_name({"model": b"m", "tenant": b"t"}, shape_numbers(*SHAPES["llama-3-8b"])[0])
    ids = [int(t) for t in np.frombuffer(stream("tokens", 4 * 256), dtype="<i4")]
    d1, d2, d64 = b"\x01", b"image 2", stream("image", 64)
    cases = [
        (0, 64, ids, []),
        (0, 16, ids[:64], []),
        (0, 256, ids, []),
        (1, 64, ids[:128], []),
        (2**63 + 5, 64, ids[:64], []),
        (0, 64, [0] * 64, []),
        (0, 64, [-1] * 64 + [2**31 - 1, -(2**31)] * 32, []),
        (0, 64, ids[:192], [(0, 1, d1)]),
        (0, 64, ids[:192], [(63, 1, d1)]),
        (0, 64, ids[:192], [(64, 1, d1)]),
        (0, 64, ids[:192], [(63, 2, d1)]),
        (0, 64, ids[:192], [(10, 150, d64)]),
        (0, 64, ids[:192], [(0, 64, d2), (64, 64, d2), (128, 64, d2)]),
        (0, 64, ids[:192], [(3, 2, d1), (5, 1, d2), (20, 30, d64), (60, 8, d1), (191, 1000, d2)]),
        (0, 64, ids[:192], [(192, 5, d1)]),
        (7, 16, ids[:48], [(i, 1, bytes([i])) for i in range(48)]),
        (0, 64, ids[:64], [(0, 2**64 - 1, d1)]),
    ]
    for first_position, chunk_tokens, tokens, extras in cases:
        lines = [("scope", scope.hex()), ("first_position", first_position), ("chunk_tokens", chunk_tokens),
                 ("tokens", struct.pack(f"<{len(tokens)}i", *tokens).hex())]
        lines += [("extra", f"{b} {n} {data.hex()}") for b, n, data in extras]
        lines += [("name", name.hex()) for name in chunk_chain(scope, first_position, chunk_tokens, tokens, extras)]
        file.record(lines)
    return file


# ---------------------------------------------------------------------------------------------------------------- objects, sums

def objects():
    file = File("Objects.")
    scope = scope_name({"model": b"m"}, bytes(32))
    other = scope_name({"model": b"n"}, bytes(32))
    for s in (scope, other):
        for key in (b"", b"a", b"key", b"\0", b"\0\0", stream("key", 32), stream("key", 64), b"kvc chunk 1"):
            file.record([("scope", s.hex()), ("key", hexed(key)), ("object", sha(b"kvc object 1", s, u64(len(key)), key).hex())])
    return file


def sums():
    """Lengths around every switch inside XXH3; the bytes are the stream "sum", of which each takes the front."""
    file = File("XXH3-64, seed 0, of the first `size` bytes of a stream: SHA-256( \"sum\" | u32 counter ), blocks joined.")
    for size in (0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 255, 256, 504, 1023, 1024, 1025, 2240, 16384, 65537):
        file.record([("size", size), ("sum", f"{xxh3(stream('sum', size)):016x}")])
    return file


# ---------------------------------------------------------------------------------------------------------------- frames

def pad(data, unit=64):
    return data + bytes(-len(data) % unit)


def header(fields, sections):
    """sections: kind -> (offset, bytes, sum)."""
    f = fields
    listed = (sections.get(i, (0, 0, 0)) for i in range(12))
    table = b"".join(struct.pack("<IIQ", offset // 64, size, total) for offset, size, total in listed)
    body = (b"KVCPAGE1" + struct.pack("<HHI", 1, 512, f["flags"]) + f["chunk"] + f["write_id"] + f["shape_tag"]
            + struct.pack("<II4H4BI", f["layer"], f["tokens"], f["head_begin"], f["head_count"], f["k_dim"], f["v_dim"], f["format"],
                          f["codebook"], f["k_dtype"], f["v_dtype"], f["rotation_seed"])
            + f["mean_mask"] + f["widths"] + table + bytes(56))
    assert len(body) == 504
    return body + struct.pack("<Q", xxh3(body))


def fields_of(label, **over):
    fields = dict(flags=0, chunk=stream(label + " chunk", 32), write_id=stream(label + " write id", 16),
                  shape_tag=stream(label + " shape", 8), layer=0, tokens=64, head_begin=0, head_count=1, k_dim=0, v_dim=0,
                  format=EXACT, codebook=0, k_dtype=F16, v_dtype=F16,
                  rotation_seed=0, mean_mask=bytes(32), widths=bytes(128))
    fields.update(over)
    return fields


def field_lines(fields):
    return [(k, v.hex() if isinstance(v, bytes) else v) for k, v in fields.items()]


def headers():
    """Headers of every format, no bytes behind them: sections lie as the format says, with made-up sums."""
    file = File("Headers alone.")

    def add(fields, sizes):
        at, sections = 512, {}
        for kind, size in sizes.items():
            sections[kind] = (at, size, int.from_bytes(stream(f"sum {kind} {size}", 8), "little"))
            at += size + -size % 64
        lines = field_lines(fields) + [("section", f"{k} {o} {n} {s:016x}") for k, (o, n, s) in sections.items()]
        file.record(lines + [("frame_bytes", at), ("header", header(fields, sections).hex())])

    eight = dict(head_count=8, k_dim=128, v_dim=128)
    planes = dict(format=PLANES, codebook=1, rotation_seed=0xDEADBEEF, mean_mask=bytes.fromhex("f0" + "ff" * 7) + bytes(24))
    add(fields_of("planes 4", **eight, **planes, widths=b"\x44" * 8 + bytes(120)),
        {0: 16448, 1: 4096, 2: 16384, 3: 16384, 4: 16384, 5: 16384})
    add(fields_of("planes 2", **eight, **planes, widths=b"\x22" * 8 + bytes(120), flags=1), {0: 16448, 1: 4096, 2: 16384, 3: 16384})
    add(fields_of("planes mixed", **eight, **planes, widths=bytes([0x41, 0x12, 0x34, 0x11] * 2) + bytes(120), layer=79, flags=3),
        {1: 4096, 2: 16384, 3: 10240, 4: 6144, 5: 4096})
    add(fields_of("int8", head_begin=120, head_count=8, k_dim=80, v_dim=48, format=INT8), {1: 3328, 6: 65536})
    add(fields_of("int4", head_count=2, k_dim=96, v_dim=96, format=INT4, layer=65534), {1: 1792, 6: 12288})
    add(fields_of("fp8", head_count=128, k_dim=65535, v_dim=1, tokens=256, format=FP8), {1: 1024, 6: 4294967295})
    add(fields_of("exact, wide", head_count=1, k_dim=65535, v_dim=65535, tokens=256, k_dtype=F8, v_dtype=F16), {7: 16776960, 8: 33553920})
    return file


SPECIAL = {
    F32: [0x7FC12345, 0xFF800001, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001, 0x7F800001],
    F16: [0x7E55, 0xFC01, 0x7C00, 0xFC00, 0x8000, 0x0001, 0x7DFF],
    BF16: [0x7FC5, 0xFF81, 0x7F80, 0xFF80, 0x8000, 0x0001, 0x7FBF],
    F8: [0x7F, 0xFF, 0x80, 0x01, 0x7E, 0xFE, 0x08],
    U8: [],
}
UNSIGNED = {F32: "<u4", F16: "<u2", BF16: "<u2", F8: "u1", U8: "u1"}


def rows(label, tokens, heads, dim, dtype):
    """[token][head][dim], as an engine has them; the first numbers are NaNs with payloads, infinities, minus zero, a subnormal."""
    count = tokens * heads * dim
    array = np.frombuffer(stream(label, count * DTYPE_BYTES[dtype]), dtype=UNSIGNED[dtype]).copy()
    special = SPECIAL[dtype][:count]
    array[: len(special)] = special
    return array.reshape(tokens, heads, dim)


def exact_frames():
    file = File("Exact pages: k_rows, v_rows as the engine has them ([token][head][dim]; a state's blobs as they are), and the frame.")

    def add(fields, k_rows, v_rows, k_part, v_part):
        sections, body = {7: (512, len(k_part), xxh3(k_part))}, pad(k_part)
        if v_part:
            sections[8 if fields["v_dim"] else 9] = (512 + len(body), len(v_part), xxh3(v_part))
        body += pad(v_part)
        frame = header(fields, sections) + body
        file.record(field_lines(fields) + [("k_rows", k_rows.hex()), ("v_rows", hexed(v_rows)), ("frame", frame.hex())])

    def page(label, k_dim, v_dim, other_dim=0, **over):
        fields = fields_of(label, k_dim=k_dim, v_dim=v_dim, **over)
        tokens, heads = fields["tokens"], fields["head_count"]
        k = rows(label + " k", tokens, heads, k_dim, fields["k_dtype"])
        v = rows(label + " v", tokens, heads, v_dim or other_dim, fields["v_dtype"]) if v_dim or other_dim else np.zeros((0, 0, 0), "u1")
        heads_first = [np.ascontiguousarray(x.transpose(1, 0, 2)).tobytes() for x in (k, v)]
        add(fields, k.tobytes(), v.tobytes(), *heads_first)

    page("f32, dim 7", 7, 7, tokens=16, head_count=2, k_dtype=F32, v_dtype=F32, layer=3)
    page("f16, dim 40", 40, 40, tokens=16, head_count=3, layer=65534)
    page("bf16, dim 80 and 40", 80, 40, tokens=64, k_dtype=BF16, v_dtype=BF16)
    page("f16, heads 3..7 of an open row", 8, 5, tokens=11, head_begin=3, head_count=5, flags=2)
    page("one token of a derived tail", 1, 1, tokens=1, flags=3, k_dtype=BF16, v_dtype=F32)
    page("fp8 as stored", 7, 9, tokens=32, head_count=2, k_dtype=F8, v_dtype=F8)
    page("latent: fp8, rope part bf16", 24, 0, 8, tokens=16, k_dtype=F8, v_dtype=BF16)
    page("latent without rope", 24, 0, tokens=16)
    state = fields_of("state", head_count=2, k_dtype=U8, v_dtype=U8, layer=1)
    first, second = stream("state first", 2 * 100), stream("state second", 2 * 33)
    add(state, first, second, first, second)
    add(dict(state, layer=2), first, b"", first, b"")
    return file


# ---------------------------------------------------------------------------------------------------------------- typed objects

def side(offset, layer, token, head, dim, width, group, dtype):
    """Of a layout: strides by name, in bytes, as numbers that a record holds."""
    return dict(offset=offset, layer=layer, token=token, head=head, dim=dim, width=width, group=group, dtype=dtype)


def side_bytes(s):
    return u64(s["offset"], s["layer"], s["token"], s["head"], s["dim"]) + u32(s["width"], s["group"], s["dtype"], 0)


def page_of(value, s, layer, first, tokens, heads):
    """[head][token][dim] of one layer, element by element from where the layout says they lie."""
    e = DTYPE_BYTES[s["dtype"]]
    out = bytearray()
    for h in range(heads):
        for t in range(first, first + tokens):
            for d in range(s["width"]):
                at = s["offset"] + layer * s["layer"] + t * s["token"] + h * s["head"] + d // s["group"] * s["dim"] + d % s["group"] * e
                out += value[at:at + e]
    return bytes(out)


def typed_objects():
    file = File("Objects with a layout: the value as it was put, and the record with the frames behind it.")
    dtype, chunk_tokens, runs = BF16, 16, [run(4, FULL, 5, 8, 4, v_dtype=F8)]
    shape = shape_numbers(dtype, chunk_tokens, 0, runs)[0]
    scope = scope_name({"model": b"golden"}, shape)

    def add(label, layers, heads, tokens, k, v):
        (layer_begin, layer_count), (head_begin, head_count) = layers, heads
        size = sum(layer_count * head_count * tokens * s["width"] * DTYPE_BYTES[s["dtype"]] for s in (k, v))
        key, value, write_id = stream(label, 20), stream(label + " value", size), stream(label + " write id", 16)
        name = sha(b"kvc object 1", scope, u64(len(key)), key)
        body = (b"KVCOBJ_1" + struct.pack("<HHI", 1, 256, 1) + name + u64(size) + shape[:8]
                + u32(layer_begin, layer_count, head_begin, head_count) + u64(tokens) + u32(chunk_tokens, v["width"])
                + side_bytes(k) + side_bytes(v) + bytes(40))
        assert len(body) == 248
        held = body + u64(xxh3(body))
        for first in range(0, tokens, chunk_tokens):
            count = min(chunk_tokens, tokens - first)
            for layer in range(layer_count):
                parts = [page_of(value, s, layer, first, count, head_count) for s in (k, v)]
                fields = fields_of(label, flags=2, chunk=name, write_id=write_id, shape_tag=shape[:8], layer=layer_begin + layer, tokens=count,
                                   head_begin=head_begin, head_count=head_count, k_dim=k["width"], v_dim=v["width"], k_dtype=k["dtype"],
                                   v_dtype=v["dtype"])
                sections = {7: (512, len(parts[0]), xxh3(parts[0])), 8: (512 + len(pad(parts[0])), len(parts[1]), xxh3(parts[1]))}
                held += header(fields, sections) + pad(parts[0]) + pad(parts[1])
        lines = [("shape", shape.hex()), ("scope", scope.hex()), ("key", key.hex()), ("write_id", write_id.hex()), ("layers", f"{layer_begin} {layer_count}"),
                 ("heads", f"{head_begin} {head_count}"), ("tokens", tokens)]
        for letter, s in (("k", k), ("v", v)):
            lines.append((letter, " ".join(str(s[n]) for n in ("offset", "layer", "token", "head", "dim", "group"))))
        file.record(lines + [("value", value.hex()), ("held", held.hex())])

    # K [layer][token][head][dim], then V the same: rows in one piece are said to be one group.
    add("packed", (0, 4), (0, 5), 20, side(0, 20 * 80, 80, 16, 16, 8, 8, BF16), side(4 * 20 * 80, 20 * 20, 20, 4, 4, 4, 4, F8))
    # [token][layer][head][V | K] of heads 1 to 3 of layers 1 and 2.
    add("rows", (1, 2), (1, 3), 16, side(4, 60, 120, 20, 16, 8, 8, BF16), side(0, 60, 120, 20, 4, 4, 4, F8))
    # K [layer][head][dim / 4][token][4], V [layer][head][dim][token].
    add("turned", (2, 2), (0, 5), 3, side(0, 240, 8, 48, 24, 8, 4, BF16), side(480, 60, 1, 12, 3, 4, 1, F8))
    return file


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    files = {"shapes": shapes(), "scopes": scopes(), "chunks": chunks(), "objects": objects(), "sums": sums(), "headers": headers(),
             "frames": exact_frames(), "typed": typed_objects(), "saves": save_cases.save_files(sys.modules[__name__])}
    different = []
    for name, file in files.items():
        path = os.path.join(here, name + ".txt")
        if "--check" in sys.argv[1:]:
            with open(path, "rb") as held:
                if held.read() != file.bytes():
                    different.append(name + ".txt")
        else:
            with open(path, "wb") as out:
                out.write(file.bytes())
    if different:
        print("differ from what the format says: " + ", ".join(different))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
