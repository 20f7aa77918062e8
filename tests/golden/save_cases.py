"""The sequences whose save files are vectors; `g` is make_golden, whose names and ways to hash they use."""

import struct

import saves


def save_case(g, label, filled, id_count, private=False, first_position=0, extras=()):
    runs = [g.run(2, g.FULL, 2, 7, 5, k_dtype=g.F16, v_dtype=g.F16), g.run(1, g.FULL, 1, 3, 8, k_dtype=g.F32, v_dtype=g.F16)]
    shape = (g.F16, 16, 1, runs)
    ids = [int(t) for t in g.np.frombuffer(g.stream(label + " ids", 4 * id_count), dtype="<i4")]
    arrays = {}
    for layer, (heads, k_dim, v_dim, k_dtype, v_dtype) in enumerate(saves.layers_of(runs)):
        arrays[layer, "k"] = g.rows(f"{label} k {layer}", filled[layer], heads, k_dim, k_dtype)
        arrays[layer, "v"] = g.rows(f"{label} v {layer}", filled[layer], heads, v_dim, v_dtype)
    sealed = min(filled) // 16
    return dict(scope=g.scope_name({"tenant": b"t", "model": b"golden"}, g.shape_numbers(*shape)[0]), shape=shape, private=private,
                first_position=first_position, truncated_to=saves.NONE, extras=list(extras), ids=ids, filled=list(filled), rows=arrays,
                write_ids=[g.stream(label + " write id", 16)] * sealed, named=0 if private else sealed)


def part_case(g, label, runs, part, filled, id_count):
    """The rank of an engine that splits the model, which has these layers and heads of it."""
    shape = (g.F16, 16, 1, runs)
    ids = [int(t) for t in g.np.frombuffer(g.stream(label + " ids", 4 * id_count), dtype="<i4")]
    save = dict(scope=g.scope_name({"tenant": b"t", "model": b"golden"}, g.shape_numbers(*shape)[0]), shape=shape, part=part, private=False, first_position=0,
                truncated_to=saves.NONE, extras=[], ids=ids, filled=list(filled), rows={})
    for layer, (heads, k_dim, v_dim, k_dtype, v_dtype) in enumerate(saves.layers_of(saves.runs_of(save))):
        save["rows"][layer, "k"] = g.rows(f"{label} k {layer}", filled[layer], heads, k_dim, k_dtype)
        save["rows"][layer, "v"] = g.rows(f"{label} v {layer}", filled[layer], heads, v_dim, v_dtype)
    sealed = min(filled) // 16
    return dict(save, write_ids=[g.stream(label + " write id", 16)] * sealed, named=sealed)


def part_cases(g):
    wide, narrow = g.run(2, g.FULL, 4, 7, 5, k_dtype=g.F16, v_dtype=g.F16), g.run(2, g.FULL, 1, 3, 8, k_dtype=g.F32, v_dtype=g.F16)
    yield part_case(g, "heads", [wide, narrow], (1, 2, 2, 2), (37, 50), 70)  # a layer of one head is in every part
    yield part_case(g, "layers", [narrow, wide], (3, 1, 0, 0), (20,), 20)


def pieced_case(g, label, runs, steps, id_count, awaits=(), private=False):
    """steps: (layer, begin, end) as they are appended; rows of a window layer that none brings are zero."""
    shape, kinds = (g.F16, 16, 1, runs), saves.kinds_of(runs)
    ids = [int(t) for t in g.np.frombuffer(g.stream(label + " ids", 4 * id_count), dtype="<i4")]
    filled, begins, snapshots, arrays = [0] * len(kinds), [0] * len(kinds), {layer: [] for layer, kind in enumerate(kinds) if kind == g.STATE}, {}
    for layer, begin, end in steps:
        if begin != filled[layer]:
            begins[layer] = begin
        filled[layer] = end
        if kinds[layer] == g.STATE:
            snapshots[layer].append(end)
    for layer, (heads, k_dim, v_dim, k_dtype, v_dtype) in enumerate(saves.layers_of(runs)):
        for side, dim, dtype in (("k", k_dim, k_dtype), ("v", v_dim, v_dtype)):
            state = kinds[layer] == g.STATE
            array = g.rows(f"{label} {side} {layer}", len(snapshots[layer]) if state else filled[layer], heads, dim, g.U8 if state else dtype)
            array[:begins[layer]] = 0
            arrays[layer, side] = array
    save = dict(scope=g.scope_name({"tenant": b"t", "model": b"golden"}, g.shape_numbers(*shape)[0]), shape=shape, private=private, first_position=0,
                truncated_to=saves.NONE, extras=[], ids=ids, filled=filled, rows=arrays, begins=begins, snapshots=snapshots, awaits=list(awaits))
    sealed = saves.Format(g).sealed(save)[0] // 16
    return dict(save, write_ids=[g.stream(label + " write id", 16)] * sealed, named=0 if private else sealed), steps


def pieced_cases(g):
    window, wide = g.run(1, g.WINDOW, 2, 7, 5, window=20, k_dtype=g.F16, v_dtype=g.F16), g.run(1, g.WINDOW, 1, 3, 8, window=40, k_dtype=g.F32, v_dtype=g.F16)
    full = g.run(1, g.FULL, 2, 7, 5, k_dtype=g.F16, v_dtype=g.F16)
    state, other = g.run(1, g.STATE, 2, 37, 11, k_dtype=g.U8, v_dtype=g.U8), g.run(1, g.STATE, 1, 70, 0, k_dtype=g.U8, v_dtype=g.F16)
    # Five positions are left out of the window of 20, whose layer then goes on into the open chunk.
    yield pieced_case(g, "windows", [window, wide, full], [(2, 0, 37), (1, 0, 37), (0, 5, 37)], 40)
    # Snapshots at the end of a chunk, inside one, and of one layer alone.
    yield pieced_case(g, "states", [state, other, full], [(2, 0, 40), (0, 0, 16), (1, 0, 16), (0, 16, 40), (1, 16, 33)], 40)
    # One layer of each kind, the window behind: its chunk waits for it.
    yield pieced_case(g, "mixed", [full, window, state], [(0, 0, 33), (1, 0, 20), (2, 0, 32)], 33, awaits=[1])
    yield pieced_case(g, "private pieces", [full, window, state], [(0, 0, 20), (1, 0, 20), (2, 0, 16), (2, 16, 20)], 0, private=True)


def save_files(g):
    file = g.File("Save files: what was appended, and the file; `bytes` are those that are not zero, 64 at a time, with their offset.")
    form = saves.Format(g)
    extras = [(5, 20, b"image"), (50, 3, g.stream("extra", 64))]
    cases = [save_case(g, "shared", (37, 50, 40), 70, first_position=1000, extras=extras), save_case(g, "private", (20, 20, 20), 0, private=True),
             save_case(g, "empty", (0, 0, 0), 3)] + list(part_cases(g))
    for save, steps in [(save, [(layer, 0, n) for layer, n in enumerate(save["filled"]) if n]) for save in cases] + list(pieced_cases(g)):
        data = form.write(save)
        back = form.read(data)
        assert all(back[key] == save[key] for key in save if key != "rows")
        assert all((back["rows"][key] == array).all() for key, array in save["rows"].items() if array.size)
        dtype, chunk_tokens, rope, runs = save["shape"]
        lines = [("dtype", dtype), ("chunk_tokens", chunk_tokens), ("rope", rope)] + [("run", " ".join(map(str, r))) for r in runs]
        if "part" in save:
            lines.append(("part", " ".join(map(str, save["part"]))))
        lines += [("private", int(save["private"])), ("first_position", save["first_position"]), ("filled", " ".join(map(str, save["filled"]))),
                  ("write_id", save["write_ids"][0].hex() if save["write_ids"] else bytes(16).hex()),
                  ("ids", g.hexed(struct.pack(f"<{len(save['ids'])}i", *save["ids"])))]
        lines += [("extra", f"{b} {n} {text.hex()}") for b, n, text in save["extras"]]
        lines += [("step", " ".join(map(str, step))) for step in steps]
        for layer in range(len(save["filled"])):
            lines += [("k_rows", g.hexed(save["rows"][layer, "k"].tobytes())), ("v_rows", g.hexed(save["rows"][layer, "v"].tobytes()))]
        lines.append(("size", len(data)))
        lines += [("bytes", f"{at} {data[at:at + 64].hex()}") for at in range(0, len(data), 64) if any(data[at:at + 64])]
        file.record(lines)
    return file
