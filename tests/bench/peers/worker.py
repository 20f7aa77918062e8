"""One peer in a process of its own, driven over pipes: a line of JSON in, a line of JSON out.  peers.py starts it.

    worker.py NAME WINDOW_BYTES HELPER

Every operation is followed by a copy of other blocks of the same size and count, by libc's memcpy and past the caches in turns, timed in C:
they are the baseline, and whatever slows the machine slows them alike.
"""

import ctypes
import json
import os
import random
import sys
import time

import stores
from arenas import Arenas


class Blocks:
    """Which block goes where in one round, by a shuffle that is the same for every peer."""

    def __init__(self, window_bytes, size, window, seed):
        count = window_bytes // size
        order = random.Random(seed)
        self.count = count
        self.sources, self.destinations = ([window * window_bytes + i * size for i in order.sample(range(count), count)] for _ in range(2))
        self.arrays = [(ctypes.c_uint64 * count)(*offsets) for offsets in (self.sources, self.destinations)]
        self.sources_address, self.destinations_address = map(ctypes.addressof, self.arrays)


class Worker:
    def __init__(self, name, window_bytes, helper):
        self.helper, self.arenas = helper, Arenas(window_bytes, helper)
        self.store = stores.BY_NAME[name](self.arenas)
        self.keys, self.stored = [], 0

    def begin(self, size, batch, round):
        """A round: other keys, other blocks."""
        self.size, self.batch, self.round = size, batch, round
        window = round % 2
        self.blocks = Blocks(self.arenas.window_bytes, size, window, f"{size} {batch} {round}")
        self.other = Blocks(self.arenas.window_bytes, size, 1 - window, f"{size} {batch} {round} other")
        self.keys = [f"{size}/{batch}/{round}/{i}" for i in range(self.blocks.count)]
        self.store.prepare(size)
        return {}

    def put(self, seconds):
        self.stored, times = self._run(self.store.put, self.keys, self.blocks.sources, seconds)
        return times

    def get(self, seconds):
        self.arenas.clear()
        order = list(range(0, self.stored, self.batch))
        random.Random(self.stored).shuffle(order)  # batches as they were put, in another order
        ranges = [range(at, min(at + self.batch, self.stored)) for at in order]
        chosen = [i for batch in ranges for i in batch]
        read, times = self._run(self.store.get, [self.keys[i] for i in chosen], [self.blocks.destinations[i] for i in chosen], seconds)
        self._compare(chosen[:read])
        return times

    def forget(self):
        self.store.forget(self.keys[:self.stored])
        return {}

    def _run(self, call, keys, offsets, seconds):
        size, batch, count = self.size, self.batch, len(keys)
        times = {"ns": [], "libc_ns": [], "stream_ns": []}
        baselines = [(self.helper.copy_libc, times["libc_ns"]), (self.helper.copy_stream, times["stream_ns"])]
        clock, at, end = time.perf_counter_ns, 0, time.monotonic() + seconds
        while at < count and (time.monotonic() < end or at == 0):
            some, where = keys[at:at + batch], offsets[at:at + batch]
            begin = clock()
            call(some, where, size)
            times["ns"].append(clock() - begin)
            copy, nanoseconds = baselines[(self.round + at // batch) % 2]
            nanoseconds.append(self._copy(copy, at, len(some)))
            at += len(some)
        return at, times

    def _copy(self, copy, at, count):
        arenas, other = self.arenas, self.other
        return copy(arenas.destination_address, other.destinations_address + 8 * at, arenas.source_address, other.sources_address + 8 * at, count, self.size)

    def _compare(self, chosen):
        to, source = ((ctypes.c_uint64 * len(chosen))(*(offsets[i] for i in chosen)) for offsets in (self.blocks.destinations, self.blocks.sources))
        bad = self.helper.first_difference(self.arenas.destination_address, ctypes.addressof(to), self.arenas.source_address, ctypes.addressof(source),
                                           len(chosen), self.size)
        if bad < len(chosen):
            raise RuntimeError(f"wrong bytes: key {self.keys[chosen[bad]]} of {self.size} bytes")


def load(path):
    helper = ctypes.CDLL(path)
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    for name in ("copy_libc", "copy_stream", "first_difference"):
        function = getattr(helper, name)
        function.argtypes, function.restype = [pointer, pointer, pointer, pointer, number, number], number
    helper.fill.argtypes, helper.fill.restype = [pointer, number, number], None
    return helper


def main():
    name, window_bytes, helper = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the peer prints belongs into the log

    def answer(what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    worker = None
    try:
        worker = Worker(name, window_bytes, load(helper))
        answer({"version": worker.store.version()})
        for line in sys.stdin:
            command = json.loads(line)
            answer(getattr(worker, command.pop("do"))(**command))
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"[:300]})
    try:
        if worker:
            worker.store.close()
    finally:
        os._exit(0)  # some peers leave threads behind that would keep the process


if __name__ == "__main__":
    main()
