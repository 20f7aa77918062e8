"""Layers of other kinds than full attention; numpy arrays are the oracle."""

import kvc
import numpy as np
import pytest

TOKENS, LATENT, ROPE = 150, 24, 8


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


@pytest.fixture
def latent(store):
    shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer.latent(count=2, latent_dim=LATENT, rope_dim=ROPE)])
    return store.scope(model="latent", shape=shape)


def test_constructors_say_what_the_header_says():
    assert kvc.Layer.latent(count=3, latent_dim=512, rope_dim=64, rope_dtype=kvc.BF16) == kvc.Layer(
        count=3, kv_heads=1, k_dim=512, v_dim=0, kind=kvc.LAYER_LATENT, rope_dim=64, v_dtype=kvc.BF16)
    assert kvc.Layer.sliding(count=2, kv_heads=4, k_dim=8, v_dim=6, window=100) == kvc.Layer(
        count=2, kv_heads=4, k_dim=8, v_dim=6, kind=kvc.LAYER_WINDOW, window=100)
    assert kvc.Layer.state(count=1, first_bytes=100, second_bytes=7, kv_heads=2) == kvc.Layer(
        count=1, kv_heads=2, k_dim=100, v_dim=7, kind=kvc.LAYER_STATE)
    shape = kvc.Shape(dtype=kvc.BF16, layers=[
        kvc.Layer(count=4, kv_heads=2, k_dim=16, v_dim=16), kvc.Layer.sliding(count=12, kv_heads=2, k_dim=16, v_dim=16, window=128),
        kvc.Layer.latent(count=1, latent_dim=32, rope_dim=8), kvc.Layer.state(count=2, first_bytes=1000, second_bytes=20)])
    info = shape.check()
    assert info.layer_count == 19 and info.token_bytes == 16 * 2 * 32 * 2 + 40 * 2 and info.state_bytes == 2 * 1020
    for bad in (kvc.Layer.sliding(count=1, kv_heads=1, k_dim=8, v_dim=8, window=0), kvc.Layer.latent(count=1, latent_dim=0),
                kvc.Layer.state(count=1, first_bytes=0)):
        with pytest.raises(kvc.ShapeError):
            kvc.Shape(dtype=kvc.F16, layers=[bad]).check()


def test_latent_rows_are_one_array_or_two(latent):
    rows = random(1, 2, TOKENS, LATENT + ROPE)
    axes = "layer token dim"
    seq = latent.sequence()
    seq.append(range(TOKENS), kvc.Rows.of(k=rows, axes=axes))
    again = latent.sequence(private=True)
    again.append(None, kvc.Rows.of(k=np.ascontiguousarray(rows[..., :LATENT]), v=rows[..., LATENT:], axes=axes))
    for one in (seq, again):
        whole = np.full_like(rows, 777)
        one.gather(kvc.Rows.of(k=whole, axes=axes))
        np.testing.assert_array_equal(whole, rows)
        first, second = np.full((2, TOKENS, LATENT), 777, np.float32), np.full((2, ROPE, TOKENS), 777, np.float16)
        one.gather(kvc.Rows.of(k=first, v=second, axes=axes, v_axes="layer dim token"))
        np.testing.assert_array_equal(first, rows[..., :LATENT].astype(np.float32))
        np.testing.assert_array_equal(second, rows[..., LATENT:].swapaxes(1, 2))
    _, info = latent.match(range(TOKENS))
    assert info.tokens == 128
    for k, v in ((rows[..., :LATENT + 1], None), (rows[..., :LATENT], rows[..., :ROPE + 1]), (rows, rows[..., LATENT:])):
        with pytest.raises(kvc.ShapeError):
            seq.gather(kvc.Rows.of(k=k.copy(), v=None if v is None else v.copy(), axes=axes))


def test_a_view_of_a_latent_page_has_both_parts(latent):
    rows = random(2, 2, TOKENS, LATENT + ROPE)
    with latent.sequence(private=True) as seq:
        seq.append(None, kvc.Rows.of(k=rows, axes="layer token dim"))
        with seq.view(1, 70) as view:
            np.testing.assert_array_equal(np.asarray(view.k)[0], rows[1, 64:128, :LATENT])
            np.testing.assert_array_equal(np.asarray(view.v)[0], rows[1, 64:128, LATENT:])


def test_a_value_of_latent_rows_is_a_typed_object(latent):
    rows = random(3, 2, TOKENS, LATENT + ROPE)
    latent.put({"one": rows}, layout=kvc.Layout.of(rows, k=rows, axes="layer token dim"))
    latent.put({"two": rows}, layout=kvc.Layout.of(rows, k=rows[..., :LATENT], v=rows[..., LATENT:], axes="layer token dim"))
    assert latent.get("one") == latent.get("two") == rows.tobytes()


FULL, WINDOW, STATE, SEEN = 2, 3, 2, 100


@pytest.fixture
def hybrid(store):
    """Two full layers, three that see 100 tokens, two with a state of 24 and 10 bytes a head."""
    shape = kvc.Shape(dtype=kvc.F16, layers=[
        kvc.Layer(count=FULL, kv_heads=2, k_dim=8, v_dim=8), kvc.Layer.sliding(count=WINDOW, kv_heads=2, k_dim=8, v_dim=8, window=SEEN),
        kvc.Layer.state(count=STATE, first_bytes=24, second_bytes=10, kv_heads=3)])
    try:
        return store.scope(model="hybrid", shape=shape)
    except kvc.Unsupported as error:
        pytest.skip(str(error))


class HybridModel:
    """Rows of every token, and the state behind every position, as an engine would have them."""

    def __init__(self, tokens, seed):
        rng = np.random.default_rng(seed)
        self.tokens = rng.integers(0, 50_000, tokens, dtype=np.int32)
        self.k, self.v = (rng.standard_normal((FULL + WINDOW, tokens, 2, 8)).astype(np.float16) for _ in range(2))
        self.first = rng.standard_normal((tokens + 1, STATE, 3, 6)).astype(np.float32)
        self.second = rng.integers(0, 256, (tokens + 1, STATE, 3, 10), dtype=np.uint8)

    def rows(self, begin, end):
        full, window = slice(0, FULL), slice(FULL, FULL + WINDOW)
        return [kvc.Rows.of(k=self.k[full, begin:end], v=self.v[full, begin:end], token_begin=begin),
                kvc.Rows.of(k=self.k[window, begin:end], v=self.v[window, begin:end], token_begin=begin, layer_begin=FULL),
                kvc.Rows.snapshot(k=self.first[end], v=self.second[end], token_begin=begin, token_count=end - begin, layer_begin=FULL + WINDOW)]


def read_hybrid(seq, model, tokens):
    """What a decode step behind `tokens` needs, compared element by element."""
    k, v = np.full_like(model.k[:, :tokens], 777), np.full_like(model.v[:, :tokens], 777)
    first, second = np.full_like(model.first[0], 777), np.full_like(model.second[0], 77)
    seen = max(0, tokens + 1 - SEEN)
    seq.gather([kvc.Rows.of(k=k[:FULL], v=v[:FULL]),
                kvc.Rows.of(k=k[FULL:], v=v[FULL:], layer_begin=FULL, token_begin=seen, slot_begin=seen, token_count=tokens - seen),
                kvc.Rows.snapshot(k=first, v=second, token_begin=0, token_count=tokens, layer_begin=FULL + WINDOW)])
    np.testing.assert_array_equal(k[:FULL], model.k[:FULL, :tokens])
    np.testing.assert_array_equal(v[FULL:, seen:], model.v[FULL:, seen:tokens])
    np.testing.assert_array_equal(k[FULL:, seen:], model.k[FULL:, seen:tokens])
    assert (k[FULL:, :seen] == 777).all()
    np.testing.assert_array_equal(first, model.first[tokens])
    np.testing.assert_array_equal(second, model.second[tokens])


def test_a_hybrid_model_goes_on_from_where_its_states_are(hybrid):
    model = HybridModel(300, 1)
    seq = hybrid.sequence()
    for begin, end in ((0, 64), (64, 128), (128, 256), (256, 300)):
        seq.append(model.tokens[begin:end], model.rows(begin, end))
        read_hybrid(seq, model, end)
    seq.release()
    for asked, found in ((300, 256), (256, 256), (255, 128), (192, 128), (127, 64)):
        other, info = hybrid.match(model.tokens[:asked])
        assert info.tokens == found, "a match ends where a snapshot is"
        read_hybrid(other, model, found)
        other.release()


def test_a_state_that_is_not_there_has_no_snapshot(hybrid):
    model = HybridModel(128, 2)
    seq = hybrid.sequence()
    seq.append(model.tokens, model.rows(0, 128))
    with pytest.raises(kvc.NoSnapshot):
        seq.truncate(100)
    first, second = np.zeros_like(model.first[0]), np.zeros_like(model.second[0])
    with pytest.raises(kvc.NoSnapshot):
        seq.gather(kvc.Rows.snapshot(k=first, v=second, token_begin=0, token_count=100, layer_begin=FULL + WINDOW))
    for bad in (dict(k=first[..., :5], v=second), dict(k=first, v=second[..., :9])):
        with pytest.raises((kvc.ShapeError, kvc.ArgumentError)):
            seq.gather(kvc.Rows.snapshot(**bad, token_begin=0, token_count=128, layer_begin=FULL + WINDOW))
    with pytest.raises(kvc.ArgumentError, match="axes"):
        kvc.Rows.snapshot(k=first, axes="layer token dim", token_begin=0, token_count=1)
    with pytest.raises(kvc.ArgumentError, match="together"):
        kvc.Rows.snapshot(k=first[..., ::2], token_begin=0, token_count=1)
