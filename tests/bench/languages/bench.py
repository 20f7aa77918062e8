"""What bench.c does, from Python.

    python bench.py get_4k|gather_1m SECONDS WORKING_SET_MIB"""

import mmap
import sys
import time

import kvc

VALUE, HEADS, DIM, TOKENS = 4096, 8, 128, 256
SIDE = HEADS * DIM * TOKENS * 2
memory = mmap.mmap(-1, 2 * SIDE)  # aligned to lines, as the other programs' memory is: rows that straddle them take a third longer from any language
state = 1


def next_of(count):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
    return (state >> 33) % count


def gets(scope, size):
    count = size // VALUE
    for i in range(count):
        memory[0] = i & 255
        scope.put([(i.to_bytes(8, "little"), memory, 0, VALUE)])
    order = [[(next_of(count).to_bytes(8, "little"), memory, 0, VALUE)] for _ in range(65536)]  # as an engine has its keys: not made in the call
    return [lambda item=item: scope.get_into(item) for item in order]


def gathers(scope, size):
    k, v = (memoryview(memory)[at:at + SIDE].cast("H", (1, TOKENS, HEADS, DIM)) for at in (0, SIDE))
    rows = kvc.Rows.of(k=k, v=v, dtype=kvc.F16)
    seqs = []
    for i in range(size // (2 * SIDE)):
        memory[0] = i & 255
        seq = scope.sequence(private=True, lease_ms=kvc.FOREVER)
        seq.append(None, rows)
        seqs.append(seq)
    return [lambda seq=seq: seq.gather(rows) for seq in (seqs[next_of(len(seqs))] for _ in range(4096))]


def main():
    what, seconds, size = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) << 20
    shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=1, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])
    with kvc.Store("mem:", memory_bytes=size + size // 4 + (64 << 20), seq_max=1 << 20) as store, store.scope(model="bench", shape=shape) as scope:
        calls = {"get_4k": gets, "gather_1m": gathers}[what](scope, size)
        batch, at, batches = 1000 if what == "get_4k" else 8, 0, []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            begin = time.perf_counter_ns()
            for call in calls[at:at + batch]:
                call()
            batches.append((time.perf_counter_ns() - begin) / len(calls[at:at + batch]))
            at = (at + batch) % (len(calls) - batch)
        print(f"{sorted(batches)[len(batches) // 2]:.1f}")


main()
