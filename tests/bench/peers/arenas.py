"""The caller's memory, the same for every peer."""

import ctypes
import mmap

ALIGNMENT = 2 << 20  # whole huge pages


class Memory:
    """Bytes of anonymous memory on huge pages, where the machine has them to give."""

    def __init__(self, size):
        self.map = mmap.mmap(-1, size + ALIGNMENT, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        skip = -start % ALIGNMENT
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self.map.madvise(mmap.MADV_HUGEPAGE)
        self.address, self.view = start + skip, memoryview(self.map)[skip:skip + size]
        ctypes.memset(self.address, 0, size)


class Arenas:
    """The caller's memory: blocks to store, and where gets land.  Two windows each; a round works in one and its baseline in the other."""

    def __init__(self, window_bytes, helper):
        self.window_bytes, self.bytes = window_bytes, 2 * window_bytes
        memory = Memory(self.bytes), Memory(self.bytes)
        self.source, self.destination = (m.view for m in memory)
        self.source_address, self.destination_address = (m.address for m in memory)
        helper.fill(self.source_address, self.bytes // 8, 1)

    def clear(self):
        ctypes.memset(self.destination_address, 0, self.bytes)
