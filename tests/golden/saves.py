"""Save files, written and read from the text of the format alone (lib/README.md, "The bytes of a save file").

A save is a dict: scope (32 B), shape (dtype, chunk_tokens, rope, runs), private, first_position, truncated_to, extras [(first, tokens, data)],
ids [int], filled [rows of each layer], rows {(layer, side): array [token][head][dim]}, write_ids [16 B of each sealed chunk], named (how many
of the sealed chunks go by a name).  Where there are window or state layers also: begins [first row of each layer that is held], snapshots
{layer: [positions]}, whose blobs are the rows of that layer, one after the other, and awaits [sealed chunks whose pieces may still come].  Of a
part also: part (layer_begin, layer_count, head_begin, head_count 0: all); filled and rows are those of its layers and heads, counted from 0.
"""

import struct

OPEN, AWAITS, PRIVATE_FILE, PRIVATE_FRAME = 1, 2, 1, 2
FULL, WINDOW, LATENT, STATE = 1, 2, 3, 4
NONE = 2**64 - 1


def aligned(at, unit=4096):
    return (at + unit - 1) // unit * unit


def kinds_of(runs):
    return [r[1] for r in runs for _ in range(r[0])]


def windows_of(runs):
    return [r[6] for r in runs for _ in range(r[0])]


def layers_of(runs):
    """(kv_heads, k_dim, v_dim, k_dtype, v_dtype) of every layer."""
    return [r[2:5] + r[7:9] for r in runs for _ in range(r[0])]


def runs_of(save):
    """Those of the shape, or of the part: its layers, with the heads that it has of them; one head is in every part."""
    runs = save["shape"][3]
    if "part" not in save:
        return runs
    (begin, count, _, heads), at, out = save["part"], 0, []
    for r in runs:
        first, last = max(at, begin), min(at + r[0], begin + count)
        if first < last:
            out.append((last - first, r[1], r[2] if r[2] == 1 or not heads else heads, *r[3:]))
        at += r[0]
    return out


class Format:
    """What the two directions share: the other vectors' ways to hash and to make a frame."""

    def __init__(self, golden):
        self.golden = golden

    def frame(self, save, layer, begin, end, name, write_id, tokens=None, flags=None):
        g = self.golden
        heads, k_dim, v_dim, k_dtype, v_dtype = layers_of(runs_of(save))[layer]
        part = save.get("part", (0, 0, 0, 0))
        number, of_all = layer + part[0], layers_of(save["shape"][3])[layer + part[0]][0]
        k, v = (save["rows"][layer, side][begin:end].transpose(1, 0, 2).tobytes() for side in "kv")  # heads first
        state = kinds_of(runs_of(save))[layer] == STATE
        if flags is None:
            flags = 0 if name else PRIVATE_FRAME
        fields = dict(flags=flags, chunk=name or bytes(32), write_id=write_id, shape_tag=g.shape_numbers(*save["shape"])[0][:8], layer=number,
                      tokens=tokens or end - begin, head_begin=part[2] if of_all > 1 else 0, head_count=heads, k_dim=0 if state else k_dim, v_dim=0 if state else v_dim,
                      format=g.EXACT, codebook=0, k_dtype=k_dtype, v_dtype=v_dtype, rotation_seed=0, mean_mask=bytes(32), widths=bytes(128))
        sections = {7: (512, len(k), g.xxh3(k))}
        if v:
            sections[9 if state else 8] = (512 + len(g.pad(k)), len(v), g.xxh3(v))
        return g.pad(g.header(fields, sections) + g.pad(k) + g.pad(v), 512)

    def names(self, save):
        chunk_tokens = save["shape"][1]
        return self.golden.chunk_chain(save["scope"], save["first_position"], chunk_tokens, save["ids"], save["extras"])[1:]

    def sealed(self, save):
        """Complete chunks: of the layers that keep all; if there are none, of all."""
        kinds = kinds_of(runs_of(save))
        kept = [n for n, kind in zip(save["filled"], kinds) if kind in (FULL, LATENT)]
        return min(kept or save["filled"]), (max(kept) if kept else 0)

    def chunks(self, save):
        """[(name or None, write id, frames, open)]"""
        chunk_tokens = save["shape"][1]
        (length, most), names, out = self.sealed(save), self.names(save), []
        kinds = kinds_of(runs_of(save))
        for c in range(max(length // chunk_tokens, (most + chunk_tokens - 1) // chunk_tokens)):
            is_open = c >= length // chunk_tokens
            name = names[c] if c < save["named"] else None
            write_id = bytes(16) if is_open else save["write_ids"][c]
            begin = c * chunk_tokens
            frames = [self.frame(save, layer, begin, min(rows, begin + chunk_tokens), name, write_id)
                      for layer, rows in enumerate(save["filled"]) if rows > begin and kinds[layer] in (FULL, LATENT)]
            out.append((name, write_id, frames, is_open))
        return out

    def pieces(self, save):
        """[(at, kind, frames, open, marks)]: window rows of each chunk, then snapshots at each position."""
        chunk_tokens, runs = save["shape"][1], runs_of(save)
        kinds, names = kinds_of(runs), self.names(save)
        layers = {kind: [layer for layer, k in enumerate(kinds) if k == kind] for kind in (WINDOW, STATE)}
        sealed = self.sealed(save)[0] // chunk_tokens
        out = []
        if not layers[WINDOW] and not layers[STATE]:
            return out
        for c in range((max([save["filled"][w] for w in layers[WINDOW]] or [0]) + chunk_tokens - 1) // chunk_tokens):
            begin, end = c * chunk_tokens, (c + 1) * chunk_tokens
            is_open = c >= sealed or any(save["filled"][w] < end for w in layers[WINDOW])
            name = names[c] if c < save["named"] and not is_open else None
            frames, marks = [], []
            for w in layers[WINDOW]:
                first, last = save["begins"][w], min(save["filled"][w], end)
                mark = max(first - begin, 0) if max(first, begin) < last else chunk_tokens
                marks.append(mark)
                if mark < chunk_tokens:
                    held = begin + mark if is_open else begin  # what was left out is zero in the rows
                    frames.append(self.frame(save, w, held, last, name, bytes(16) if is_open else save["write_ids"][c],
                                             flags=PRIVATE_FRAME if mark or not name else 0))
            if frames:
                out.append((begin, WINDOW, frames, is_open, marks))
        for at in sorted({at for s in layers[STATE] for at in save["snapshots"][s]}):
            c = (at - 1) // chunk_tokens
            is_open = at % chunk_tokens != 0 or c >= sealed or any(at not in save["snapshots"][s] for s in layers[STATE])
            name = names[c] if c < save["named"] and not is_open else None
            frames, marks = [], []
            for s in layers[STATE]:
                marks.append(int(at in save["snapshots"][s]))
                if marks[-1]:
                    i = save["snapshots"][s].index(at)
                    frames.append(self.frame(save, s, i, i + 1, name, bytes(16) if is_open else save["write_ids"][c], tokens=at - c * chunk_tokens))
            out.append((at, STATE, frames, is_open, marks))
        return out

    def write(self, save):
        g = self.golden
        dtype, chunk_tokens, rope, runs = save["shape"]
        chunks = self.chunks(save)
        parts = [b"".join(g.u32(*r) for r in runs), g.u64(*save["filled"]),
                 b"".join(g.u64(first, count) + g.u32(len(data), 0) + data.ljust(64, b"\0") for first, count, data in save["extras"]),
                 struct.pack(f"<{len(save['ids'])}i", *save["ids"])]
        pieces, awaits = self.pieces(save), save.get("awaits", [])
        marks = [mark for piece in pieces for mark in piece[4]]
        ends = aligned(80 * len(chunks), 64) + aligned(40 * len(pieces), 64) + aligned(4 * len(marks), 64)
        table_end = 512 + sum(len(g.pad(p)) for p in parts) + ends
        at, listed, listed_pieces, body = table_end, b"", b"", b""

        def put(frames):
            nonlocal at, body
            offset, data = aligned(at), b"".join(frames)
            body += bytes(offset - at) + data
            at = offset + len(data)
            return offset, len(data)

        for c, (name, write_id, frames, is_open) in enumerate(chunks):
            flags = (OPEN if is_open else 0) | (AWAITS if c in awaits else 0)
            listed += (name or bytes(32)) + write_id + g.u64(*put(frames)) + g.u32(len(frames), flags) + g.u64(0)
        for position, kind, frames, is_open, _ in pieces:
            listed_pieces += g.u64(position, *put(frames)) + g.u32(kind, OPEN if is_open else 0, len(frames), 0)
        body += bytes(aligned(at) - at)
        pieced, part = any(kind in (WINDOW, STATE) for kind in kinds_of(runs)), save.get("part")
        front = (b"KVCSAVE1" + g.u32(3 if part else 2 if pieced else 1, 512) + g.u64(aligned(at) + 16, table_end) + save["scope"] + g.shape_numbers(*save["shape"])[0]
                 + g.u32(PRIVATE_FILE if save["private"] else 0, len(kinds_of(runs)))
                 + g.u64(self.sealed(save)[0], len(save["ids"]), save["first_position"], save["truncated_to"], len(save["extras"]), len(chunks))
                 + g.u32(dtype, chunk_tokens, rope, len(runs)) + g.u64(len(pieces), len(marks)) + g.u32(*(part or ()))).ljust(504, b"\0")
        parts += [listed, listed_pieces, g.u32(*marks)]
        table = front + g.u64(g.xxh3(front)) + b"".join(g.pad(p) for p in parts)
        assert len(table) == table_end
        return table + body + g.u64(g.xxh3(table)) + b"KVCSAVEE"

    def read(self, data):
        """The save that `data` holds; AssertionError where it is not one."""
        g = self.golden
        assert data[:8] == b"KVCSAVE1" and data[8:16] in [g.u32(version, 512) for version in (1, 2, 3)] and data[504:512] == g.u64(g.xxh3(data[:504]))
        file_bytes, table_end = struct.unpack_from("<QQ", data, 16)
        flags, layers, length, ids, first_position, truncated_to, extras, chunks = struct.unpack_from("<II6Q", data, 96)
        dtype, chunk_tokens, rope, run_count, pieces, marks, *part_of = struct.unpack_from("<4I2Q4I", data, 152)
        of_part = dict(part=tuple(part_of)) if data[8] == 3 else {}
        assert of_part or not any(part_of)
        assert file_bytes == len(data) and data[-8:] == b"KVCSAVEE" and data[-16:-8] == g.u64(g.xxh3(data[:table_end]))
        at = 512

        def part(form, count):
            nonlocal at
            begin, size = at, struct.calcsize("<" + form)
            at = aligned(at + size * count, 64)
            return [struct.unpack_from("<" + form, data, begin + size * i) for i in range(count)]

        runs = part("9I", run_count)
        filled = [n for n, in part("Q", part_of[1] if of_part else layers)]
        extras = [(first, count, text[:size]) for first, count, size, _, text in part("QQII64s", extras)]
        ids = [i for i, in part("i", ids)]
        chunks = part("32s16sQQIIQ", chunks)
        pieces, marks = part("QQQIIII", pieces), [m for m, in part("I", marks)]
        assert at == table_end and data[64:96] == g.shape_numbers(dtype, chunk_tokens, rope, runs)[0]
        shape = (dtype, chunk_tokens, rope, runs)
        assert length == self.sealed(dict(shape=shape, filled=filled, **of_part))[0] and layers == len(kinds_of(runs))
        pieced, runs = any(kind in (WINDOW, STATE) for kind in kinds_of(runs)), runs_of(dict(shape=shape, **of_part))
        assert of_part or pieced == (data[8] == 2)
        first_layer = part_of[0]
        rows = {}
        for name, write_id, offset, size, count, _, _ in chunks:
            end = offset + size
            for _ in range(count):
                offset = self.read_frame(data, offset, runs, name, write_id, rows, first_layer)
            assert offset == end
        begins, snapshots = self.read_pieces(data, pieces, marks, chunks, runs, chunk_tokens, rows, first_layer)
        for (layer, side), held in rows.items():
            left_out = filled[layer] - sum(len(part) for part in held)
            if kinds_of(runs)[layer] == WINDOW and left_out:
                held.insert(0, g.np.zeros((left_out, *held[0].shape[1:]), held[0].dtype))
        more = dict(begins=begins, snapshots=snapshots, awaits=[i for i, c in enumerate(chunks) if c[5] & AWAITS]) if pieced else {}
        return dict(scope=data[32:64], shape=shape, **of_part, private=bool(flags & PRIVATE_FILE), first_position=first_position,
                    truncated_to=truncated_to, extras=extras, ids=ids, filled=filled, named=sum(c[0] != bytes(32) for c in chunks),
                    rows={key: g.np.concatenate(parts) for key, parts in rows.items()}, write_ids=[c[1] for c in chunks if not c[5] & OPEN], **more)

    def read_pieces(self, data, pieces, marks, chunks, runs, chunk_tokens, rows, first_layer):
        """The first row of each window layer, and where each state layer has snapshots; their bytes join `rows`."""
        kinds = kinds_of(runs)
        begins, snapshots = [0] * len(kinds), {layer: [] for layer, kind in enumerate(kinds) if kind == STATE}
        for position, offset, size, kind, flags, count, _ in pieces:
            end, c = offset + size, (position if kind == WINDOW else position - 1) // chunk_tokens
            name, write_id = (bytes(32), bytes(16)) if flags & OPEN else chunks[c][:2]
            for layer in (layer for layer, k in enumerate(kinds) if k == kind):
                mark = marks.pop(0)
                if kind == STATE and mark:
                    snapshots[layer].append(position)
                if mark == (chunk_tokens if kind == WINDOW else 0):
                    continue
                if kind == WINDOW and mark:
                    begins[layer] = position + mark
                offset = self.read_frame(data, offset, runs, name, write_id, rows, first_layer)
            assert offset == end
        assert not marks
        return begins, snapshots

    def read_frame(self, data, at, runs, name, write_id, rows, first_layer):
        g = self.golden
        head = data[at:at + 512]
        assert head[504:] == g.u64(g.xxh3(head[:504])) and head[16:48] == name and head[48:64] == write_id
        number, tokens = struct.unpack_from("<II", head, 72)
        layer = number - first_layer
        heads, *dims_and_dtypes = layers_of(runs)[layer]
        end = at + 512
        for side, dim, dtype, kind in zip("kv", dims_and_dtypes[:2], dims_and_dtypes[2:], (7, 8)):
            if dims_and_dtypes[1] == 0 and side == "v":
                continue
            if side == "v" and kinds_of(runs)[layer] == STATE:
                kind = 9
            offset, size, total = struct.unpack_from("<IIQ", head, 256 + 16 * kind)
            section = data[at + 64 * offset:at + 64 * offset + size]
            assert g.xxh3(section) == total
            array = g.np.frombuffer(section, g.UNSIGNED[dtype]).reshape(heads, 1 if kinds_of(runs)[layer] == STATE else tokens, dim).transpose(1, 0, 2)
            rows.setdefault((layer, side), []).append(array)
            end = at + aligned(64 * offset + size, 512)
        return end
