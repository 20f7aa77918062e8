"""Queues: calls that return at once, awaited by asyncio or drained by hand; what they borrow stays borrowed until their result is there."""

import asyncio
import gc
import os
import select
import sys
import threading

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model, check

WAIT_US = 20_000_000


@pytest.fixture
def queue(store):
    with store.queue() as queue:
        yield queue


@pytest.fixture
def seq(scope, model):
    return model.store(scope)


def finished(queue, count):
    """That many calls, drained."""
    calls = []
    while len(calls) < count:
        got = queue.drain(timeout_us=WAIT_US)
        assert got, f"{count - len(calls)} results did not come"
        calls += got
    return calls


def test_calls_are_awaited_and_do_what_the_blocking_ones_do(scope, queue, model):
    async def serve():
        seq, info = await queue.match(scope, model.tokens)
        assert info.tokens == 0 and seq.info().tokens == 0
        await queue.append(seq, model.tokens, model.rows())
        k, v = model.poisoned()
        result = await queue.gather(seq, kvc.Rows.of(k=k, v=v, token_count=200))
        assert result.done == 200 and result.bytes == model.k.nbytes + model.v.nbytes
        check(model, k, v, 200)
        again, info = await queue.match(scope, model.tokens)
        assert info.tokens == 192 == again.info().tokens and info.stop == kvc.STOP_ABSENT or info.stop == kvc.STOP_END
        lease = await queue.lease(again, 0, 64)
        lease.renew(1000)
        lease.release()
        return seq

    seq = asyncio.run(serve())
    assert seq.info().tokens == 200


def test_many_calls_run_at_once_and_each_has_its_own_result(scope, queue):
    models = [Model(100 + i, seed=i) for i in range(20)]

    async def serve(model):
        seq, info = await queue.match(scope, model.tokens)
        await queue.append(seq, model.tokens[info.tokens:], model.rows(info.tokens))
        k, v = model.poisoned()
        result = await queue.gather(seq, kvc.Rows.of(k=k, v=v))
        check(model, k, v, len(model.tokens))
        return result.done

    async def all_of_them():
        return await asyncio.gather(*(serve(model) for model in models))

    assert asyncio.run(all_of_them()) == [100 + i for i in range(20)]
    assert asyncio.run(all_of_them()) == [100 + i for i in range(20)], "a second loop takes the same queue"


def test_calls_on_one_sequence_run_in_the_order_in_which_they_were_made(scope, queue, model):
    seq = scope.sequence()
    for begin in range(0, 200, 20):
        queue.append(seq, model.tokens[begin:begin + 20], model.rows(begin, begin + 20), more=begin % 40 == 0)
    k, v = model.poisoned()
    last = queue.gather(seq, kvc.Rows.of(k=k, v=v))
    calls = finished(queue, 11)
    assert calls[-1] is last and [call.user for call in calls] == sorted(call.user for call in calls)
    assert all(call.done() for call in calls)
    assert last.result().done == 200
    check(model, k, v, 200)


def test_a_program_without_a_loop_polls_the_descriptor(queue, seq, model):
    poll = select.poll()
    poll.register(queue.fileno(), select.POLLIN)
    assert poll.poll(0) == [] and queue.drain() == []
    k, v = model.poisoned()
    call = queue.gather(seq, kvc.Rows.of(k=k, v=v))
    assert poll.poll(20_000), "no result"
    with pytest.raises(kvc.Busy, match="not drained"):
        call.result()
    assert not call.done() and "in flight" in repr(call)
    assert queue.drain() == [call]
    assert call.done() and call.result().done == 200 and "done" in repr(call)
    check(model, k, v, 200)
    assert poll.poll(0) == []


def test_what_a_call_borrows_is_pinned_until_its_result_is_drained(queue, seq):
    room_k, room_v = bytearray(200 * HEADS * DIM * 2), bytearray(200 * HEADS * DIM * 2)
    tokens = np.arange(5, dtype=np.int32)
    rows = kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(room_k), v=kvc.Array(room_v))
    call = queue.gather(seq, rows)
    ids = queue.append(seq, tokens)
    references = sys.getrefcount(tokens)
    for room in (room_k, room_v):
        with pytest.raises(BufferError):
            room.append(0)
    finished(queue, 2)
    room_k.append(0)
    room_v.append(0)
    assert sys.getrefcount(tokens) < references, "the ids are borrowed still"
    call.result(), ids.result()
    assert bytes(room_k[:16]) == np.asarray(seq.view(0, 0).k)[0, 0].tobytes()


def test_failures_are_raised_where_the_call_is_awaited(queue, seq, model):
    k, v = (np.full((LAYERS, 300, HEADS, DIM), 777, np.float16) for _ in range(2))

    async def short():
        with pytest.raises(kvc.RangeError) as caught:
            await queue.gather(seq, kvc.Rows.of(k=k, v=v, token_count=300))
        assert caught.value.message
        with pytest.raises(kvc.RangeError, match="token"):
            await queue.append(seq, None, model.rows(10, 20))

    asyncio.run(short())
    with pytest.raises(kvc.ArgumentError, match="negative|not in"):
        queue.lease(seq, -1)
    with pytest.raises(TypeError):
        queue.gather(seq, [1])
    assert queue.drain() == [] and seq.info().tokens == 200


def test_a_queue_of_a_depth_is_busy_past_it(store, seq):
    with store.queue(depth=2) as queue:
        queue.append(seq, [1], more=True)
        queue.append(seq, [2], more=True)
        with pytest.raises(kvc.Busy):
            queue.append(seq, [3], more=True)
        queue.submit()
        finished(queue, 2)
        queue.append(seq, [3])
        finished(queue, 1)
    assert seq.info().tokens_given == 203


@pytest.fixture
def late(monkeypatch):
    """Results that no drain finds before the event is set."""
    come, take = threading.Event(), kvc.Queue._take
    monkeypatch.setattr(kvc.Queue, "_take", lambda queue: take(queue) if come.is_set() else [])
    return come


def test_a_cancelled_await_ends_when_nothing_is_borrowed_any_more(queue, seq, model, late):
    async def awaiting(call):
        return await call

    async def main():
        room = bytearray(LAYERS * 200 * HEADS * DIM * 2)
        rows = kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(room))
        task = asyncio.ensure_future(awaiting(queue.gather(seq, rows)))
        for _ in range(3):
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(BufferError):
                room.append(0)
        assert not task.done(), "it left what is borrowed still"
        late.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        room.append(0)
        late.clear()
        with pytest.raises(asyncio.TimeoutError):
            asyncio.get_running_loop().call_later(0.05, late.set)
            async with asyncio.timeout(0.01):
                await queue.gather(seq, rows)
        room.append(0)
        k, v = model.poisoned()
        assert (await queue.gather(seq, kvc.Rows.of(k=k, v=v))).done == 200
        check(model, k, v, 200)

    asyncio.run(main())


def test_calls_that_were_held_back_are_cancelled_before_they_begin(queue, seq, model):
    k, v = model.poisoned()
    call = queue.gather(seq, kvc.Rows.of(k=k, v=v), more=True)
    assert call.cancel()
    finished(queue, 1)
    with pytest.raises(kvc.Cancelled):
        call.result()
    assert (k == 777).all() and (v == 777).all()
    assert not call.cancel(), "it is over"


def test_the_value_of_a_cancelled_match_is_released(store, scope, queue, model, late):
    model.store(scope).release()

    async def waiting():
        await queue.match(scope, model.tokens)

    async def main():
        task = asyncio.ensure_future(waiting())
        await asyncio.sleep(0.01)
        task.cancel()
        asyncio.get_running_loop().call_later(0.01, late.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gc.collect()
    assert store.info().seq_count == 0


def test_release_and_close_end_what_is_in_flight_and_tell_who_waits(store, scope, model):
    seq = model.store(scope)
    queue = store.queue()
    k, v = model.poisoned()
    calls = [queue.gather(seq, kvc.Rows.of(k=k, v=v), more=True) for _ in range(5)]
    queue.release()
    queue.release()
    for call in calls:
        assert call.done()
        with pytest.raises(kvc.Cancelled):
            call.result()
    with pytest.raises(kvc.Stale):
        queue.gather(seq, kvc.Rows.of(k=k, v=v))
    with pytest.raises(kvc.Stale):
        queue.drain()
    assert not calls[0].cancel()
    other = store.queue()

    async def main():
        waiting = asyncio.ensure_future(later(other, seq, k, v))
        await asyncio.sleep(0)
        store.close()
        with pytest.raises((kvc.Cancelled, kvc.Stale)):
            await waiting

    async def later(queue, seq, k, v):
        for _ in range(1000):
            await queue.gather(seq, kvc.Rows.of(k=k, v=v))

    asyncio.run(main())
    other.release()


def test_the_garbage_collector_ends_a_queue_with_calls_in_flight(store, seq, model):
    room = bytearray(200 * HEADS * DIM * 2)
    for _ in range(20):
        queue = store.queue()
        call = queue.gather(seq, kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(room)))
        del queue, call
    gc.collect()
    room.append(0)  # nothing borrows it


def test_threads_make_calls_and_drain_at_once(scope, queue):
    models = [Model(80, seed=i) for i in range(4)]
    failures = []

    def work(model):
        for _ in range(30):
            seq = scope.sequence(private=True)
            k, v = model.poisoned()
            call = queue.append(seq, None, model.rows())
            call = queue.gather(seq, kvc.Rows.of(k=k, v=v))
            while not call.done():
                queue.drain(timeout_us=1000)
            if call.result().done != 80 or not (np.array_equal(k, model.k) and np.array_equal(v, model.v)):
                failures.append(call)

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.drain()
    assert failures == [] and queue._calls == {}


def test_loops_of_several_threads_await_one_queue(scope, queue):
    def run(seed):
        model = Model(90, seed=seed)

        async def main():
            for _ in range(20):
                seq, _ = await queue.match(scope, model.tokens)
                with seq:
                    if seq.info().tokens == 0:
                        await queue.append(seq, model.tokens, model.rows())
                    k, v = model.poisoned()
                    await queue.gather(seq, kvc.Rows.of(k=k, v=v, token_count=64))
                    check(model, k, v, 64)

        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)

    failures = []
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_host_driven_store_works_when_the_host_drains_steps_or_awaits(model):
    threads_before = len(os.listdir("/proc/self/task"))
    with kvc.Store("mem:", memory_bytes=64 << 20, host_driven=True) as store:
        shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])
        scope, queue = store.scope(model="m", shape=shape), store.queue()
        seq = scope.sequence()
        assert len(os.listdir("/proc/self/task")) == threads_before
        call = queue.append(seq, model.tokens, model.rows())
        assert not call.done()
        assert queue.drain() == [call]
        k, v = model.poisoned()
        call = queue.gather(seq, kvc.Rows.of(k=k, v=v))
        while store.step(1000):
            pass
        assert finished(queue, 1) == [call]
        check(model, k, v, 200)

        async def main():
            k, v = model.poisoned()
            result = await queue.gather(seq, kvc.Rows.of(k=k, v=v))
            check(model, k, v, 200)
            return result.done

        assert asyncio.run(main()) == 200
        queue.release()
    with kvc.Store("mem:", memory_bytes=64 << 20) as store, pytest.raises(kvc.MisuseError):
        store.step()


def test_in_a_forked_child_a_queue_is_the_parent_s(queue, seq, model):
    k, v = model.poisoned()
    call = queue.gather(seq, kvc.Rows.of(k=k, v=v), more=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            queue.drain()
        except kvc.Forked:
            code = 0
        queue.release()
        os._exit(code if call.done() else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert finished(queue, 1) == [call]
    check(model, k, v, 200)


def test_objects_go_through_a_queue_as_they_do_without(store, queue):
    scope = store.scope(model="objects")
    values = {f"key {i}": bytes([i]) * (100 + 5000 * i) for i in range(20)}

    async def main():
        await queue.put(scope, values)
        found = await queue.exists(scope, ["key 3", "none"], lease_ms=1000)
        assert found.sizes == [len(values["key 3"]), None] and found.done == 1 and found.lease is not None
        rooms = {key: bytearray(len(value) + 3) for key, value in values.items()}
        sizes = await queue.get_into(scope, [(key, [memoryview(room)[:50], memoryview(room)[50:]]) for key, room in rooms.items()])
        assert sizes == [len(value) for value in values.values()]
        assert all(bytes(rooms[key][:-3]) == value for key, value in values.items())
        room = bytearray(10)
        with pytest.raises(kvc.NotFound) as caught:
            await queue.get_into(scope, [("key 0", rooms["key 0"]), ("none", room), ("key 1", rooms["key 1"])])
        assert caught.value.done == 1 and [status for status, _, _ in caught.value.items][::2] == [0, 0]
        with pytest.raises(kvc.Exists):
            await queue.put(scope, {"key 0": b"other", "new": b"new"})
        assert scope.get("new") == b"new"
        assert (await queue.verify()).pages_bad == 0
        await queue.delete(scope, ["key 0"])
        found.lease.release()
        cleared = await queue.clear(scope)
        assert cleared.done == 20 and list(scope.keys()) == []

    asyncio.run(main())


def test_values_and_keys_are_borrowed_as_long_as_their_call(store, queue):
    scope = store.scope(model="objects")
    room, value = bytearray(3000), bytearray(b"x" * 3000)
    put = queue.put(scope, [(bytes([65]) * 40, value)])
    get = queue.get_into(scope, [("A" * 40, room)])
    for memory in (room, value):
        with pytest.raises(BufferError):
            memory.append(0)
    gc.collect()
    assert set(finished(queue, 2)) == {put, get}
    put.result()
    room.append(0), value.append(0)


def test_typed_objects_go_through_a_queue(scope, queue):
    value = np.random.default_rng(3).integers(0, 2**16, (2, LAYERS, 20, HEADS, DIM), dtype=np.uint16).view(np.float16)

    async def main():
        layout = kvc.Layout.of(value, k=value[0], v=value[1])
        await queue.put(scope, {"a": value}, layout=layout)
        out = np.full_like(value, 777)
        assert await queue.get_into(scope, [("a", out)]) == [value.nbytes]
        assert out.tobytes() == value.tobytes()
        with pytest.raises(kvc.ArgumentError, match="its layout reaches to 3840"):
            await queue.put(scope, {"b": value.ravel()[:-1]}, layout=layout)

    asyncio.run(main())
