"""The peers, each behind the same three calls, used the way its own documents say is fast.

    put(keys, offsets, size)   stores source[offset:offset + size] under each key
    get(keys, offsets, size)   lands each value in destination[offset:offset + size]
    forget(keys)               drops them; not timed

`prepare(size)` comes before the first value of a size and is not timed.  `arenas` is the caller's memory.  A failed call raises.
"""

import importlib.metadata
import os
import pathlib
import socket
import subprocess
import sys
import time

from arenas import Memory

START_SECONDS = 60


class Store:
    packages = ()

    def __init__(self, arenas):
        self.arenas = arenas
        self.source, self.destination = arenas.source, arenas.destination

    def version(self):
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.packages)

    def prepare(self, size):
        pass

    def close(self):
        pass


class Dict(Store):
    """What a program has without any store."""

    def __init__(self, arenas):
        super().__init__(arenas)
        self.values = {}

    def version(self):
        return f"Python {sys.version.split()[0]}"

    def put(self, keys, offsets, size):
        source, values = self.source, self.values
        if len(keys) == 1:
            at = offsets[0]
            values[keys[0]] = bytes(source[at:at + size])
            return
        for key, at in zip(keys, offsets):
            values[key] = bytes(source[at:at + size])

    def get(self, keys, offsets, size):
        destination, values = self.destination, self.values
        if len(keys) == 1:
            at = offsets[0]
            destination[at:at + size] = values[keys[0]]
            return
        for key, at in zip(keys, offsets):
            destination[at:at + size] = values[key]

    def forget(self, keys):
        self.values.clear()


class Kvc(Store):
    packages = ("kvc",)

    def __init__(self, arenas):
        super().__init__(arenas)
        import kvc
        self.store = kvc.Store("mem:", memory_bytes=3 * arenas.window_bytes, populate=True)
        self.scope = self.store.scope(model="peers")

    def put(self, keys, offsets, size):
        source = self.source
        if len(keys) == 1:
            self.scope.put([(keys[0], source, offsets[0], size)])
        else:
            self.scope.put([(key, source, at, size) for key, at in zip(keys, offsets)])

    def get(self, keys, offsets, size):
        destination = self.destination
        if len(keys) == 1:
            self.scope.get_into([(keys[0], destination, offsets[0], size)])
        else:
            self.scope.get_into([(key, destination, at, size) for key, at in zip(keys, offsets)])

    def forget(self, keys):
        self.scope.delete(keys)

    def close(self):
        self.store.close()


class Mooncake(Store):
    """The client holds the segment itself, so no byte crosses the network; the master is asked over TCP loopback."""
    packages = ("mooncake-transfer-engine-non-cuda",)

    def __init__(self, arenas):
        super().__init__(arenas)
        from mooncake.store import MooncakeDistributedStore
        rpc, metrics = free_port(), free_port()
        master = pathlib.Path(sys.executable).with_name("mooncake_master")
        self.master = subprocess.Popen([master, f"--rpc_port={rpc}", "--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1",
                                        f"--metrics_port={metrics}"], stdin=subprocess.DEVNULL)
        wait_for(lambda: socket.create_connection(("127.0.0.1", rpc), 1).close(), self.master, "mooncake_master")
        self.store = MooncakeDistributedStore()
        code = self.store.setup("127.0.0.1", "P2PHANDSHAKE", 4 * arenas.window_bytes, 64 << 20, "tcp", "", f"127.0.0.1:{rpc}")
        check(code == 0, f"setup answered {code}")
        for address in (arenas.source_address, arenas.destination_address):
            code = self.store.register_buffer(address, arenas.bytes)
            check(code == 0, f"register_buffer answered {code}")

    def put(self, keys, offsets, size):
        base = self.arenas.source_address
        if len(keys) == 1:
            codes = [self.store.put_from(keys[0], base + offsets[0], size)]
        else:
            codes = self.store.batch_put_from(keys, [base + at for at in offsets], [size] * len(keys))
        check(not any(codes), f"put answered {codes[:3]}")

    def get(self, keys, offsets, size):
        base = self.arenas.destination_address
        if len(keys) == 1:
            sizes = [self.store.get_into(keys[0], base + offsets[0], size)]
        else:
            sizes = self.store.batch_get_into(keys, [base + at for at in offsets], [size] * len(keys))
        check(sizes.count(size) == len(keys), f"get answered {sizes[:3]}")

    def forget(self, keys):
        self.store.remove_all(True)
        check(self.store.is_exist(keys[0]) != 1 and self.store.is_exist(keys[-1]) != 1, "remove_all left keys behind")

    def close(self):
        self.store.close()
        stop(self.master)


class Lmcache(Store):
    """LocalCPUBackend through its StorageManager, without an engine.  put is what the engine's side does: allocate, copy in, hand over."""
    packages = ("lmcache", "torch")

    def __init__(self, arenas):
        super().__init__(arenas)
        os.environ.update(LMCACHE_TRACK_USAGE="false", LMCACHE_DISABLE_BANNER="1", LMCACHE_LOG_LEVEL="ERROR")
        import torch
        torch.set_num_threads(1)
        from lmcache.utils import CacheEngineKey
        from lmcache.v1.memory_management import MemoryFormat
        self.torch, self.key_type, self.format = torch, CacheEngineKey, MemoryFormat.KV_2LTD
        self.manager, self.size = None, 0

    def prepare(self, size):
        if size == self.size:
            return
        from lmcache.v1.config import LMCacheEngineConfig
        from lmcache.v1.event_manager import EventManager
        from lmcache.v1.metadata import LMCacheMetadata
        from lmcache.v1.storage_backend.storage_manager import StorageManager
        if self.manager:
            self.manager.close()
        tokens = 16
        width = size // (2 * tokens * 2)  # a chunk is [K and V, 1 layer, 16 tokens, width] of f16
        config = LMCacheEngineConfig.from_defaults(chunk_size=tokens, local_cpu=True, max_local_cpu_size=3 * self.arenas.window_bytes / 2**30)
        metadata = LMCacheMetadata(model_name="m", world_size=1, local_world_size=1, worker_id=0, local_worker_id=0, kv_dtype=self.torch.float16,
                                   kv_shape=(1, 2, tokens, max(width // 128, 1), min(width, 128)))
        self.manager = StorageManager(config=config, metadata=metadata, event_manager=EventManager())
        self.shape, self.size = self.torch.Size([2, 1, tokens, width]), size

    def key(self, key):
        return self.key_type("m", 1, 0, hash(key) & 0x7fffffffffffffff, self.torch.float16)

    def put(self, keys, offsets, size):
        source, manager, names, values = self.source, self.manager, [], []
        for key, at in zip(keys, offsets):
            value = manager.allocate(self.shape, self.torch.float16, fmt=self.format, busy_loop=False)
            check(value is not None, "allocate answered None")
            memoryview(value.byte_array).cast("B")[:size] = source[at:at + size]
            names.append(self.key(key))
            values.append(value)
        manager.batched_put(names, values)

    def get(self, keys, offsets, size):
        if len(keys) == 1:
            values = [self.manager.get(self.key(keys[0]), location="LocalCPUBackend")]
        else:
            values = self.manager.batched_get([self.key(key) for key in keys], location="LocalCPUBackend")
        destination = self.destination
        for value, at in zip(values, offsets):
            check(value is not None, "get answered None")
            destination[at:at + size] = memoryview(value.byte_array).cast("B")[:size]
            value.ref_count_down()

    def forget(self, keys):
        for key in keys:
            self.manager.remove(self.key(key))

    def close(self):
        self.manager.close()


class Nixl(Store):
    """Two agents of one process over UCX: WRITE into and READ from the other's memory, by descriptor lists prepared once a size."""
    packages = ("nixl-cu12", "torch")

    def __init__(self, arenas):
        super().__init__(arenas)
        import numpy
        from nixl_cu12._api import nixl_agent, nixl_agent_config
        self.numpy, self.slots, self.lists = numpy, {}, {}
        self.memory = Memory(arenas.window_bytes)
        self.agent, self.other = (nixl_agent(name, nixl_agent_config(backends=["UCX"])) for name in ("client", "server"))
        for agent, address, size in ((self.agent, arenas.source_address, arenas.bytes), (self.agent, arenas.destination_address, arenas.bytes),
                                     (self.other, self.memory.address, arenas.window_bytes)):
            agent.register_memory([(address, size, 0, "")], "DRAM", backends=["UCX"])
        remote = self.agent.add_remote_agent(self.other.get_agent_metadata())
        self.remote = remote.decode() if isinstance(remote, bytes) else remote
        self.agent.make_connection(self.remote)

    def prepare(self, size):
        if size in self.lists:
            return
        def descriptors(base, count):
            offsets = self.numpy.arange(count, dtype=self.numpy.uint64) * self.numpy.uint64(size)
            return self.numpy.stack([offsets + self.numpy.uint64(base), self.numpy.full_like(offsets, size), self.numpy.zeros_like(offsets)], 1)
        count, window_count = self.arenas.bytes // size, self.arenas.window_bytes // size
        prepare = self.agent.prep_xfer_dlist
        self.lists[size] = (prepare("", descriptors(self.arenas.source_address, count), "DRAM", backends=["UCX"]),
                            prepare("", descriptors(self.arenas.destination_address, count), "DRAM", backends=["UCX"]),
                            prepare(self.remote, descriptors(self.memory.address, window_count), "DRAM", backends=["UCX"]))

    def transfer(self, operation, local, local_slots, remote, remote_slots):
        agent = self.agent
        handle = agent.make_prepped_xfer(operation, local, local_slots, remote, remote_slots, backends=["UCX"])
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        check(state == "DONE", f"transfer ended as {state}")
        agent.release_xfer_handle(handle)

    def put(self, keys, offsets, size):
        source, _, remote = self.lists[size]
        slots = self.slots
        for key in keys:
            slots[key] = len(slots)
        self.transfer("WRITE", source, [at // size for at in offsets], remote, [slots[key] for key in keys])

    def get(self, keys, offsets, size):
        _, destination, remote = self.lists[size]
        slots = self.slots
        self.transfer("READ", destination, [at // size for at in offsets], remote, [slots[key] for key in keys])

    def forget(self, keys):
        self.slots.clear()


class Redis(Store):
    """A server of its own on a unix socket, no persistence; batches by MSET and MGET."""
    packages = ("redis", "hiredis")

    def __init__(self, arenas):
        super().__init__(arenas)
        import redis
        path = f"{os.getcwd()}/redis.{os.getpid()}.sock"
        self.server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                                        "--maxmemory", str(8 * arenas.window_bytes)], stdin=subprocess.DEVNULL)
        self.client = redis.Redis(unix_socket_path=path)
        wait_for(self.client.ping, self.server, "redis-server")

    def version(self):
        return f"server {self.client.info('server')['redis_version']}, {super().version()}"

    def put(self, keys, offsets, size):
        source = self.source
        if len(keys) == 1:
            self.client.set(keys[0], source[offsets[0]:offsets[0] + size])
        else:
            self.client.mset({key: source[at:at + size] for key, at in zip(keys, offsets)})

    def get(self, keys, offsets, size):
        destination = self.destination
        for value, at in zip([self.client.get(keys[0])] if len(keys) == 1 else self.client.mget(keys), offsets):
            destination[at:at + size] = value

    def forget(self, keys):
        self.client.flushall()

    def close(self):
        stop(self.server)


def check(good, message):
    if not good:
        raise RuntimeError(message)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(answers, server, name):
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return answers()
        except Exception as error:
            check(server.poll() is None, f"{name} ended with {server.returncode}")
            check(time.monotonic() < end, f"{name} did not answer in {START_SECONDS} s: {error}")
            time.sleep(0.1)


def stop(server):
    server.terminate()
    server.wait(10)


BY_NAME = {"kvc": Kvc, "mooncake": Mooncake, "lmcache": Lmcache, "nixl": Nixl, "redis": Redis, "dict": Dict}
