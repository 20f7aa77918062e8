"""Save files, written and read from the text of the format alone (lib/README.md, "The bytes of a save file").

A save is a dict: scope (32 B), shape (dtype, chunk_tokens, rope, runs), private, first_position, truncated_to, extras [(first, tokens, data)],
ids [int], filled [rows of each layer], rows {(layer, side): array [token][head][dim]}, write_ids [16 B of each sealed chunk], named (how many
of the sealed chunks go by a name).
"""

import struct

OPEN, PRIVATE_FILE, PRIVATE_FRAME = 1, 1, 2
NONE = 2**64 - 1


def aligned(at, unit=4096):
    return (at + unit - 1) // unit * unit


def layers_of(runs):
    """(kv_heads, k_dim, v_dim, k_dtype, v_dtype) of every layer."""
    return [r[2:5] + r[7:9] for r in runs for _ in range(r[0])]


class Format:
    """What the two directions share: the other vectors' ways to hash and to make a frame."""

    def __init__(self, golden):
        self.golden = golden

    def frame(self, save, layer, begin, end, name, write_id):
        g = self.golden
        heads, k_dim, v_dim, k_dtype, v_dtype = layers_of(save["shape"][3])[layer]
        parts = []
        for side in "kv":
            part = save["rows"][layer, side][begin:end]
            parts.append(part.transpose(1, 0, 2).tobytes())  # heads first
        k, v = parts
        fields = dict(flags=0 if name else PRIVATE_FRAME, chunk=name or bytes(32), write_id=write_id, shape_tag=g.shape_numbers(*save["shape"])[0][:8],
                      layer=layer, tokens=end - begin, head_begin=0, head_count=heads, k_dim=k_dim, v_dim=v_dim, format=g.EXACT, codebook=0,
                      k_dtype=k_dtype, v_dtype=v_dtype, rotation_seed=0, mean_mask=bytes(32), widths=bytes(128))
        sections = {7: (512, len(k), g.xxh3(k)), 8: (512 + len(g.pad(k)), len(v), g.xxh3(v))}
        return g.pad(g.header(fields, sections) + g.pad(k) + g.pad(v), 512)

    def names(self, save):
        chunk_tokens = save["shape"][1]
        return self.golden.chunk_chain(save["scope"], save["first_position"], chunk_tokens, save["ids"], save["extras"])[1:]

    def chunks(self, save):
        """[(name or None, write id, frames, open)]"""
        chunk_tokens = save["shape"][1]
        sealed, names, out = min(save["filled"]) // chunk_tokens, self.names(save), []
        for c in range((max(save["filled"]) + chunk_tokens - 1) // chunk_tokens):
            is_open = c >= sealed
            name = names[c] if c < save["named"] else None
            write_id = bytes(16) if is_open else save["write_ids"][c]
            begin = c * chunk_tokens
            frames = [self.frame(save, layer, begin, min(rows, begin + chunk_tokens), name, write_id)
                      for layer, rows in enumerate(save["filled"]) if rows > begin]
            out.append((name, write_id, frames, is_open))
        return out

    def write(self, save):
        g = self.golden
        dtype, chunk_tokens, rope, runs = save["shape"]
        chunks = self.chunks(save)
        parts = [b"".join(g.u32(*r) for r in runs), g.u64(*save["filled"]),
                 b"".join(g.u64(first, count) + g.u32(len(data), 0) + data.ljust(64, b"\0") for first, count, data in save["extras"]),
                 struct.pack(f"<{len(save['ids'])}i", *save["ids"])]
        table_end = 512 + sum(len(g.pad(p)) for p in parts) + aligned(80 * len(chunks), 64)
        at, listed, body = table_end, b"", b""
        for name, write_id, frames, is_open in chunks:
            offset = aligned(at)
            data = b"".join(frames)
            body += bytes(offset - at) + data
            listed += (name or bytes(32)) + write_id + g.u64(offset, len(data)) + g.u32(len(frames), OPEN if is_open else 0) + g.u64(0)
            at = offset + len(data)
        body += bytes(aligned(at) - at)
        front = (b"KVCSAVE1" + g.u32(1, 512) + g.u64(aligned(at) + 16, table_end) + save["scope"] + g.shape_numbers(*save["shape"])[0]
                 + g.u32(PRIVATE_FILE if save["private"] else 0, len(save["filled"]))
                 + g.u64(min(save["filled"]), len(save["ids"]), save["first_position"], save["truncated_to"], len(save["extras"]), len(chunks))
                 + g.u32(dtype, chunk_tokens, rope, len(runs))).ljust(504, b"\0")
        table = front + g.u64(g.xxh3(front)) + b"".join(g.pad(p) for p in parts) + g.pad(listed)
        assert len(table) == table_end
        return table + body + g.u64(g.xxh3(table)) + b"KVCSAVEE"

    def read(self, data):
        """The save that `data` holds; AssertionError where it is not one."""
        g = self.golden
        assert data[:8] == b"KVCSAVE1" and data[8:16] == g.u32(1, 512) and data[504:512] == g.u64(g.xxh3(data[:504]))
        file_bytes, table_end = struct.unpack_from("<QQ", data, 16)
        flags, layers, length, ids, first_position, truncated_to, extras, chunks = struct.unpack_from("<II6Q", data, 96)
        dtype, chunk_tokens, rope, run_count = struct.unpack_from("<4I", data, 152)
        assert file_bytes == len(data) and data[-8:] == b"KVCSAVEE" and data[-16:-8] == g.u64(g.xxh3(data[:table_end]))
        at = 512

        def part(form, count):
            nonlocal at
            begin, size = at, struct.calcsize("<" + form)
            at = aligned(at + size * count, 64)
            return [struct.unpack_from("<" + form, data, begin + size * i) for i in range(count)]

        runs = part("9I", run_count)
        filled = [n for n, in part("Q", layers)]
        extras = [(first, count, text[:size]) for first, count, size, _, text in part("QQII64s", extras)]
        ids = [i for i, in part("i", ids)]
        chunks = part("32s16sQQIIQ", chunks)
        assert at == table_end and data[64:96] == g.shape_numbers(dtype, chunk_tokens, rope, runs)[0] and length == min(filled)
        rows = {}
        for name, write_id, offset, size, count, _, _ in chunks:
            end = offset + size
            for _ in range(count):
                offset = self.read_frame(data, offset, runs, name, write_id, rows)
            assert offset == end
        return dict(scope=data[32:64], shape=(dtype, chunk_tokens, rope, runs), private=bool(flags & PRIVATE_FILE), first_position=first_position,
                    truncated_to=truncated_to, extras=extras, ids=ids, filled=filled, named=sum(c[0] != bytes(32) for c in chunks),
                    rows={key: g.np.concatenate(parts) for key, parts in rows.items()}, write_ids=[c[1] for c in chunks if not c[5] & OPEN])

    def read_frame(self, data, at, runs, name, write_id, rows):
        g = self.golden
        head = data[at:at + 512]
        assert head[504:] == g.u64(g.xxh3(head[:504])) and head[16:48] == name and head[48:64] == write_id
        layer, tokens = struct.unpack_from("<II", head, 72)
        heads, *dims_and_dtypes = layers_of(runs)[layer]
        end = at + 512
        for side, dim, dtype, kind in zip("kv", dims_and_dtypes[:2], dims_and_dtypes[2:], (7, 8)):
            offset, size, total = struct.unpack_from("<IIQ", head, 256 + 16 * kind)
            section = data[at + 64 * offset:at + 64 * offset + size]
            assert g.xxh3(section) == total
            array = g.np.frombuffer(section, g.UNSIGNED[dtype]).reshape(heads, tokens, dim).transpose(1, 0, 2)
            rows.setdefault((layer, side), []).append(array)
            end = at + aligned(64 * offset + size, 512)
        return end
