"""A host of an installed package, for wheel_test.py: run by each interpreter, in an environment that holds the wheel and nothing else.

  python wheel_host.py plain    without numpy: objects, rows in bytearrays, a view, a queue in asyncio, processes
  python wheel_host.py numpy    with it: rows of arrays, and a view as one
"""

import asyncio
import multiprocessing
import os
import pathlib
import sys
import sysconfig

import kvc

LAYERS, HEADS, DIM, TOKENS = 3, 2, 8, 150
SHAPE = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])
SIDE = LAYERS * TOKENS * HEADS * DIM * 2


def expect(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")


def filled(seed):
    """Bytes that differ from their neighbours and from those of another seed."""
    return bytearray((i * 31 + seed * 17 + (i >> 8)) & 0xFF for i in range(SIDE))


def rows(k, v, count):
    strides = dict(layer_stride=SIDE // LAYERS)
    return kvc.Rows(layer_begin=0, layer_count=LAYERS, token_count=count, k=kvc.Array(k, **strides), v=kvc.Array(v, **strides))


def same(a, b, count):
    layer, used = SIDE // LAYERS, count * HEADS * DIM * 2
    return all(a[i * layer:i * layer + used] == b[i * layer:i * layer + used] for i in range(LAYERS))


def serve(seed):
    """A whole host in bytearrays: objects, rows, a queue.  Also what a child process does."""
    tokens = [seed * 1000 + i for i in range(TOKENS)]
    k, v, k_back, v_back = filled(seed), filled(seed + 1), bytearray(SIDE), bytearray(SIDE)
    with kvc.Store("mem:", memory_bytes=16 << 20) as store:
        scope = store.scope(model="wheel", shape=SHAPE)
        scope.put({"key": k})
        expect(scope.get("key") == k, "an object comes back")
        with scope.sequence() as seq:
            seq.append(tokens, rows(k, v, TOKENS))
            seq.gather(rows(k_back, v_back, TOKENS))
            expect(k_back == k and v_back == v, "rows come back")

        async def queued():
            value, k_back, v_back = bytearray(len(k)), bytearray(SIDE), bytearray(SIDE)
            with store.queue() as queue:
                expect(await queue.get_into(scope, [("key", value)]) == [len(k)] and value == k, "an awaited object comes back")
                seq, info = await queue.match(scope, tokens)
                with seq:
                    expect(info.tokens == 128, f"128 tokens are found again, not {info.tokens}")
                    await queue.gather(seq, rows(k_back, v_back, 128))
                    expect(same(k, k_back, 128) and same(v, v_back, 128), "awaited rows come back")

        asyncio.run(queued())
        with scope.match(tokens)[0] as seq, seq.view(1, 70) as view:
            page = memoryview(view.k)
            expect(page.shape == (HEADS, 64, DIM) and page.readonly, "a page can be read in place")
            del page
    return sum(k_back)


def inherited(store, connection):
    """In a forked child: the parent's store is not the child's, and one of its own works."""
    try:
        store.info()
        connection.send("no error")
    except kvc.Error as error:
        connection.send(type(error).__name__)
    connection.send(serve(5))


def check_processes():
    """B100 of tests/field_reports.md, on every interpreter."""
    expected = [serve(seed) for seed in (4, 5)]
    with kvc.Store("mem:", memory_bytes=16 << 20) as store:
        here, there = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=inherited, args=(store, there))
        child.start()
        expect(here.poll(60) and here.recv() == "Forked", "a forked child is told that its store is inherited")
        expect(here.poll(60) and here.recv() == expected[1], "a forked child is a host of its own")
        child.join(60)
        expect(child.exitcode == 0, f"a forked child ends with 0, not {child.exitcode}")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            expect(pool.map(serve, (4, 5)) == expected, "a spawned child is a host of its own")


def check_plain():
    """B117 of tests/field_reports.md is in here: nothing of CUDA is loaded, and nothing of it is needed."""
    expect("numpy" not in sys.modules, "the package imports no numpy")
    try:
        import numpy  # noqa: F401, it must not be there
        expect(False, "this environment has no numpy")
    except ImportError:
        pass
    mapped = pathlib.Path("/proc/self/maps").read_text()
    expect("libkvc.so.0" in mapped, "the bundled library is loaded")
    expect(os.path.dirname(kvc.__file__) + "/libkvc.so.0" in mapped, "the library that is loaded is the bundled one")
    expect("libcuda" not in mapped and "nvidia" not in mapped, "nothing of a GPU is loaded")
    serve(1)
    try:
        kvc.Rows.of(k=filled(1), v=filled(2))
        expect(False, "a bytearray has no axes that could be named")
    except kvc.ArgumentError as error:
        expect("axes" in str(error), f"plain bytes for Rows.of are refused by their axes: {error}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        expect(not sys._is_gil_enabled(), "a free-threaded interpreter stays without a GIL")
        expect("t-" in os.path.basename(kvc._native.__file__), "the module was built for a free-threaded interpreter")
    check_processes()


def check_numpy():
    import numpy as np

    k = np.arange(LAYERS * TOKENS * HEADS * DIM, dtype=np.float32).reshape(LAYERS, TOKENS, HEADS, DIM).astype(np.float16)
    v = (-k).astype(np.float16)
    k_back, v_back = np.zeros_like(k), np.zeros_like(v)
    with kvc.Store("mem:", memory_bytes=16 << 20) as store:
        scope = store.scope(model="wheel", shape=SHAPE)
        with scope.sequence() as seq:
            seq.append(np.arange(TOKENS, dtype=np.int32), kvc.Rows.of(k=k, v=v))
            seq.gather(kvc.Rows.of(k=k_back, v=v_back))
            expect(np.array_equal(k.view(np.uint16), k_back.view(np.uint16)), "k comes back bit for bit")
            expect(np.array_equal(v.view(np.uint16), v_back.view(np.uint16)), "v comes back bit for bit")
            view = seq.view(2, 10)
            expect(np.array_equal(np.asarray(view.k)[:, 10], k[2, 10]), "a page is an array")
            view.release()


if __name__ == "__main__":
    {"plain": check_plain, "numpy": check_numpy}[sys.argv[1]]()
    print("ok")
