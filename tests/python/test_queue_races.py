"""A queue that one thread releases while others drain and await: nothing is freed early, nothing is lost, and no timer outlives its await."""

import asyncio
from contextlib import nullcontext

import kvc
import numpy as np
import pytest
from conftest import Model
from kvc import _native

WAIT_US = 20_000_000


def test_a_drain_that_comes_too_late_leaves_what_calls_borrow_to_the_release(store, monkeypatch):
    scope, queue, room, release = store.scope(model="m"), store.queue(), bytearray(1000), _native.kvc_queue_release
    scope.put({"a": bytes(1000)})
    call = queue.get_into(scope, [("a", room)], more=True)

    def still_releasing(handle):
        release(handle)
        with pytest.raises(kvc.Stale):
            queue.drain()
        assert not call.done(), "told before the release returned"
        with pytest.raises(BufferError):
            room.append(0)

    monkeypatch.setattr(_native, "kvc_queue_release", still_releasing)
    queue.release()
    assert call.done()
    room.append(0)


@pytest.mark.parametrize("watching", [False, True])
def test_results_that_a_release_overtakes_are_given_back(store, scope, monkeypatch, watching):
    model, queue, drain = Model(200), store.queue(), _native.kvc_queue_drain
    seq = model.store(scope)
    before = store.info()
    if watching:
        queue.watch(scope)
    calls = [queue.match(scope, model.tokens), queue.lease(seq), queue.match(scope, model.tokens)]

    def overtaken(*arguments):
        results = []
        while len(results) < 3:
            results += drain(*arguments[:2], WAIT_US)
        assert store.info().seq_count == before.seq_count + 2 and store.info().lease_count == before.lease_count + 1
        monkeypatch.setattr(_native, "kvc_queue_drain", drain)
        queue.release()
        return results

    monkeypatch.setattr(_native, "kvc_queue_drain", overtaken)
    with pytest.raises(kvc.Stale) if watching else nullcontext():
        assert queue.drain() == []
    for call in calls:
        with pytest.raises(kvc.Cancelled):
            call.result()
    assert store.info().seq_count == before.seq_count and store.info().lease_count == before.lease_count


@pytest.mark.parametrize("at_once", [1, 8])
def test_awaits_on_a_host_driven_store_share_one_timer(at_once):
    with kvc.Store("mem:", memory_bytes=2 << 20, host_driven=True, wait=True) as store:
        scope, queue, timers = store.scope(model="m"), store.queue(), []
        scope.put({"a": bytes(1_500_000)})
        lease = scope.exists(["a"], lease_ms=kvc.FOREVER).lease

        async def main():
            loop = asyncio.get_running_loop()
            later = loop.call_later

            def seen(delay, callback, *arguments):
                timer = later(delay, callback, *arguments)
                if getattr(callback, "__self__", None) is queue:
                    timers.append(timer)
                return timer

            loop.call_later = seen
            puts = [asyncio.ensure_future(put(f"{i}")) for i in range(at_once)]
            for _ in range(20):
                await asyncio.sleep(0.001)
                assert (await queue.exists(scope, ["a"])).done == 1
            assert len(timers) > 1 and not any(task.done() for task in puts)
            assert sum(not timer.cancelled() and timer.when() > loop.time() for timer in timers) <= 1
            lease.release()
            await asyncio.gather(*puts)

        async def put(key):
            await queue.put(scope, {key: bytes(600_000)}, timeout_us=kvc.FOREVER)

        asyncio.run(main())
        assert scope.get(f"{at_once - 1}") == bytes(600_000)


def test_calls_of_a_host_driven_store_end_though_nothing_else_steps_it(scope):
    with kvc.Store("mem:", memory_bytes=64 << 20, host_driven=True) as store:
        model, queue = Model(200), store.queue()
        scope = store.scope(model="m", shape=scope.shape)

        async def serve(seed):
            model = Model(200, seed=seed)
            seq, _ = await queue.match(scope, model.tokens)
            await queue.append(seq, model.tokens, model.rows())
            k, v = model.poisoned()
            await queue.gather(seq, kvc.Rows.of(k=k, v=v))
            await asyncio.sleep(0.003)  # nobody waits: the timer is gone
            return np.array_equal(k, model.k) and (await queue.exists(scope, ["a"])).done == 0

        async def main():
            return await asyncio.gather(*(serve(seed) for seed in range(4)))

        assert asyncio.run(main()) == [True] * 4
