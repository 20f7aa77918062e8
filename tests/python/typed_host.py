"""A host as mypy --strict must accept it; never run."""

from typing import assert_type

import kvc
import numpy as np
import numpy.typing as npt


def host(tokens: list[int], k: npt.NDArray[np.float16], v: npt.NDArray[np.float16]) -> int:
    with kvc.Store("mem:", memory_bytes=1 << 30) as store:
        shape = kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_PAIRS, layers=[kvc.Layer(count=30, kv_heads=3, k_dim=64, v_dim=64)])
        assert_type(shape.check(), kvc.ShapeInfo)
        scope = store.scope(model="m", revision="r", shape=shape)
        seq, info = scope.match(tokens, tokens_max=len(tokens) - 1, extras=[kvc.Extra(0, 3, b"digest")])
        assert_type(seq, kvc.Seq)
        assert_type(info, kvc.MatchInfo)
        assert_type(scope.match(np.array(tokens, np.int32), peek=True), tuple[None, kvc.MatchInfo])
        rows = kvc.Rows.of(k=k, v=v, token_begin=info.tokens)
        by_hand = kvc.Rows(layer_begin=0, layer_count=30, token_begin=0, token_count=8,
                           k=kvc.Array(bytearray(100), offset=4, layer_stride=9))
        seq.append(tokens[info.tokens:], [rows, by_hand])
        assert_type(seq.gather([rows]), kvc.Result)
        assert_type(seq.gather(rows), kvc.Result)
        with seq.fork(3) as fork, fork.lease(0, 3, 1000) as lease:
            lease.renew()
            fork.truncate(1)
            fork.identify([])
        scope.put({"a": b"1", "b": [b"2", memoryview(b"3")]})
        scope.put([(b"c", k)], group=True)
        assert_type(scope.get_into([("a", bytearray(1)), ("b", k)]), list[int])
        assert_type(scope.get("a"), bytes)
        found = scope.exists(["a", b"b"], lease_ms=1000, leading=True)
        if found.lease is not None:
            found.lease.release()
        scope.delete(["a"])
        try:
            store.verify()
        except kvc.Gone as error:
            return error.done
        return store.metrics().hit_tokens + store.info().seq_count + scope.info().chunk_count + seq.info().tokens + len(list(scope.keys()))
