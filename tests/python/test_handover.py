"""Sequences published by name and attached."""

import asyncio

import kvc
import pytest
from conftest import Model, check


@pytest.fixture(autouse=True)
def built(scope):
    try:
        scope.sequence().publish("is it built")
    except kvc.Unsupported as error:
        pytest.skip(str(error))


def read(seq, model):
    k, v = model.poisoned()
    seq.gather(kvc.Rows.of(k=k, v=v, token_count=seq.info().tokens))
    return k, v


def test_who_knows_scope_and_name_gets_a_snapshot_open_rows_included(store, scope, model, shape):
    seq = model.store(scope)
    seq.publish("request 7")
    more = Model(10, seed=5)
    seq.append(more.tokens, [kvc.Rows.of(k=more.k, v=more.v, token_begin=200)])
    seq.release()
    same = store.scope(model="tiny", revision="1", shape=shape)
    for name in ("request 7", b"request 7"):
        with same.attach(name) as other:
            assert other.info().tokens == 200
            check(model, *read(other, model), 200)
    with pytest.raises(kvc.NotFound):
        store.scope(model="other", shape=shape).attach("request 7")
    scope.withdraw("request 7")
    for call in (scope.attach, scope.withdraw):
        with pytest.raises(kvc.NotFound):
            call("request 7")


def test_a_name_given_again_is_replaced_and_names_are_1_to_64_bytes(scope):
    first, second = Model(70, seed=1), Model(90, seed=2)
    first.store(scope).publish(b"n" * 64)
    second.store(scope).publish(b"n" * 64)
    with scope.attach(b"n" * 64) as other:
        check(second, *read(other, second), 90)
    seq = first.store(scope)
    for bad in (b"", b"n" * 65):
        for call in (seq.publish, scope.attach, scope.withdraw):
            with pytest.raises(kvc.ArgumentError):
                call(bad)


def test_queues_publish_and_attach(store, scope, model):
    async def main():
        with store.queue() as queue:
            await queue.publish(model.store(scope), "name", lease_ms=60_000)
            other = await queue.attach(scope, "name")
            check(model, *read(other, model), 200)
            with pytest.raises(kvc.NotFound):
                await queue.attach(scope, "none")

    asyncio.run(main())
