"""Many threads over the same objects, without a GIL where the interpreter has none: each value has its oracle, and nothing is lost, given twice or kept."""

import asyncio
import gc
import hashlib
import os
import sys
import sysconfig
import threading
import time

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model, check

THREADS = 8
ENDED = (kvc.Stale, kvc.Cancelled)


@pytest.fixture(autouse=True)
def often():
    """With a GIL, threads take turns as often as they can; a free-threaded interpreter has none, whatever was imported."""
    assert not (sysconfig.get_config_var("Py_GIL_DISABLED") and sys._is_gil_enabled())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def together(*works):
    """Runs each in a thread of its own, all from the same moment; what they return, in order.  The first failure is raised."""
    barrier, outcomes = threading.Barrier(len(works)), [None] * len(works)

    def run(i, work):
        try:
            barrier.wait()
            outcomes[i] = work()
        except BaseException as error:
            outcomes[i] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def drain_until(queue, call):
    """The calls that this thread drained until the one was done, whoever drained that."""
    drained = []
    for _ in range(20_000):
        if call.done():
            return drained
        drained += queue.drain(timeout_us=500)
    raise AssertionError(f"{call!r} did not come")


def value_of(key):
    """What a key holds, whoever put it."""
    return hashlib.blake2b(key.encode()).digest() * (1 + len(key) % 5 * 40)


def open_store():
    store = kvc.Store("mem:", memory_bytes=64 << 20)
    return store, store.scope(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)]))


def test_objects_that_all_threads_put_get_and_delete_are_whole_or_absent(store):
    scope = store.scope(model="objects")

    def work(own):
        for i in range(150):
            shared, mine = f"shared {i % 16}", f"own {own} {i}"
            scope.put({shared: value_of(shared), mine: value_of(mine)})
            assert scope.get(mine) == value_of(mine)
            room = bytearray(1 << 14)
            sizes = scope.get_into([(shared, room)], leading=True)
            assert sizes in ([], [len(value_of(shared))]) and room[:sum(sizes)] == value_of(shared)[:sum(sizes)]
            found = scope.exists([mine, shared], lease_ms=1000)
            assert found.sizes[0] == len(value_of(mine)) and found.sizes[1] in (None, len(value_of(shared)))
            found.lease.release()
            if i % 3 == 0:
                try:
                    scope.delete([shared])
                except kvc.NotFound:
                    pass

    together(*(lambda own=own: work(own) for own in range(THREADS)))
    mine = {f"own {own} {i}".encode() for own in range(THREADS) for i in range(150)}
    assert {key for key in scope.keys() if not key.startswith(b"shared")} == mine
    assert store.info().lease_count == 0


def test_sequences_of_all_threads_keep_their_own_rows(store, scope):
    shared = Model(192, seed=99)

    def work(seed):
        own = Model(70, seed=seed)
        for _ in range(12):
            with scope.sequence() as seq:
                seq.append(shared.tokens, shared.rows())
                with seq.fork(64) as fork, fork.fork() as other:
                    fork.append(own.tokens, kvc.Rows.of(k=own.k, v=own.v, token_begin=64))
                    k, v = own.poisoned()
                    fork.gather(kvc.Rows.of(k=k, v=v, token_begin=64))
                    check(own, k, v, 70)
                    assert other.info().tokens == 64
            seq, info = scope.match(shared.tokens)
            with seq:
                assert info.tokens == 192
                k, v = shared.poisoned()
                seq.gather(kvc.Rows.of(k=k, v=v))
                check(shared, k, v, 192)

    together(*(lambda seed=seed: work(seed) for seed in range(THREADS)))
    assert store.info().seq_count == 0


def test_each_call_of_one_queue_is_drained_once_by_one_of_the_threads(store, scope):
    queue = store.queue()

    def work(seed):
        model, started, drained = Model(40, seed=seed), [], []
        for i in range(60):
            seq, (k, v), key, room = scope.sequence(private=True), model.poisoned(), f"{seed} {i}", bytearray(1 << 14)
            queue.append(seq, None, model.rows(), more=i % 2 == 0)
            gather = queue.gather(seq, kvc.Rows.of(k=k, v=v))
            queue.put(scope, {key: value_of(key)}, more=i % 3 == 0)
            drained += drain_until(queue, gather)
            assert gather.result().done == 40
            check(model, k, v, 40)
            scope.put({key: value_of(key)})
            get = queue.get_into(scope, [(key, room)])
            drained += drain_until(queue, get)
            assert get.result() == [len(value_of(key))] and room[:get.result()[0]] == value_of(key)
            room.append(0)  # nothing borrows it any more
        return drained

    drained = [call for calls in together(*(lambda seed=seed: work(seed) for seed in range(THREADS))) for call in calls]
    count = THREADS * 60 * 4
    while len(drained) < count and (more := queue.drain(timeout_us=20_000_000)):
        drained += more
    assert len(drained) == count and {call.user for call in drained} == set(range(1, count + 1))
    assert all(call.done() for call in drained)
    queue.release()


def close_amid_calls(rounds):
    """Six threads that use a store in all ways, and two that close it after so many rounds.  What each was lent and the calls it left."""
    store, scope = open_store()
    queue, model, started = store.queue(), Model(100), threading.Semaphore(0)
    model.store(scope)
    scope.put({"a": value_of("a")})

    def objects():
        room, calls = bytearray(1 << 14), []
        try:
            while True:
                assert scope.get("a") == value_of("a")
                if len(calls) < 20:
                    calls.append(queue.get_into(scope, [("a", room)]))
                started.release()
                queue.drain()
                calls = [call for call in calls if not call.done()]
        except ENDED:
            return room, calls

    def sequences():
        calls, (k, v) = [], model.poisoned()
        try:
            while True:
                seq, info = scope.match(model.tokens)
                seq.gather(kvc.Rows.of(k=k, v=v, token_count=64))
                check(model, k, v, 64)
                calls = [queue.gather(seq, kvc.Rows.of(k=k, v=v, token_count=64)), queue.match(scope, model.tokens)]
                started.release()
                for call in calls:
                    drain_until(queue, call)
                assert calls[1].result()[1].tokens == 64
        except ENDED:
            return bytearray(), calls

    def queues():
        try:
            while True:
                with store.queue() as other:
                    other.put(scope, {"a": value_of("a")})
        except ENDED:
            return bytearray(), []

    def close():
        for _ in range(rounds):
            started.acquire(timeout=20)
        store.close()
        started.release(rounds)  # nobody else does any more
        return bytearray(), []

    ends = together(objects, objects, sequences, sequences, queues, queues, close, close)
    assert queue._calls == {}
    return ends


def test_close_amid_calls_ends_each_of_them_and_gives_back_what_it_was_lent():
    def check_ends(ends):
        for room, calls in ends:
            room.append(0)
            for call in calls:
                assert call.done(), call
                try:
                    call.result()
                except ENDED:
                    pass

    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    for turn in range(6):
        check_ends(close_amid_calls(1 + 20 * turn))
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_release_by_all_threads_at_once_ends_a_handle_once(store, scope):
    seq = Model(100).store(scope)
    for _ in range(60):
        handles = [seq.fork(), seq.lease(), store.queue(), store.region(bytearray(4096)), seq.view(0, 0), store.scope(model="other")]
        calls = [handles[2].gather(seq, kvc.Rows.of(k=np.zeros((LAYERS, 100, HEADS, DIM), np.float16)), more=True) for _ in range(3)]

        def release(handles):
            for handle in handles:
                handle.release()

        together(*(lambda i=i: release(handles[i % 6:] + handles[:i % 6]) for i in range(THREADS)))
        for call in calls:
            with pytest.raises(kvc.Cancelled):
                call.result()
        info = store.info()
        assert (info.seq_count, info.lease_count, info.region_count, info.view_count) == (1, 0, 0, 0)


def test_a_view_ends_only_when_no_thread_reads_its_pages(scope):
    model = Model(64)
    seq = model.store(scope)
    for _ in range(20):
        view = seq.view(1, 0)

        def read():
            for _ in range(20):
                try:
                    array = np.asarray(memoryview(view.k))
                except BufferError:
                    return  # it was released between
                np.testing.assert_array_equal(array, model.k[1].transpose(1, 0, 2))
                with pytest.raises(kvc.Busy):
                    view.release()
                del array

        def release():
            while view._is_open:
                try:
                    view.release()
                except kvc.Busy:
                    time.sleep(0)

        together(read, read, read, release)
        with pytest.raises(BufferError, match="released"):
            memoryview(view.k)


def test_loops_of_all_threads_await_a_queue_that_is_released_amid():
    store, scope = open_store()
    models = [Model(80, seed=seed) for seed in range(4)]
    for model in models:
        model.store(scope)
    for turn in range(8):
        queue, rounds = store.queue(), threading.Semaphore(0)

        def serve(model):
            async def one():
                while True:
                    seq, info = await queue.match(scope, model.tokens)
                    with seq:
                        assert info.tokens == 64
                        k, v = model.poisoned()
                        assert (await queue.gather(seq, kvc.Rows.of(k=k, v=v, token_count=64))).done == 64
                        check(model, k, v, 64)
                    rounds.release()

            async def main():
                return await asyncio.wait_for(asyncio.gather(one(), one(), one(), return_exceptions=True), 30)

            return asyncio.run(main())

        def release():
            for _ in range(5 * turn):
                rounds.acquire(timeout=20)
            queue.release()
            return []

        outcomes = together(*(lambda model=model: serve(model) for model in models), release)
        assert [type(error) for of_loop in outcomes for error in of_loop if not isinstance(error, ENDED)] == []
        assert queue._calls == {} and queue._loops == {}
    store.close()


def test_events_are_taken_once_whichever_threads_read_them(store, scope):
    queue, done = store.queue(), threading.Event()
    queue.watch(scope)

    def write(seed):
        for i in range(10):
            model = Model(64, seed=1000 * seed + i)
            model.store(scope).release()

    def read():
        events = []
        while not done.is_set():
            events += queue.events()
        return events

    def write_all():
        together(*(lambda seed=seed: write(seed) for seed in range(4)))
        done.set()
        return []

    events = [event for events in together(read, read, write_all) for event in events] + list(queue.events())
    chunks = [event.chunk for event in events if event.kind == kvc.EVENT_STORED]
    assert len(chunks) == len(set(chunks)) == 40
    tokens = sorted(event.tokens for event in events if event.kind == kvc.EVENT_STORED)
    assert tokens == sorted(tuple(map(int, Model(64, seed=1000 * seed + i).tokens)) for seed in range(4) for i in range(10))
