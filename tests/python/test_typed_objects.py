"""Objects put with a layout: rows of the scope's layers that come back byte for byte."""

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS

TOKENS = 20


def block(seed, *shape):
    return np.random.default_rng(seed).integers(0, 2**16, shape, dtype=np.uint16).view(np.float16)


def layouts():
    """(value, layout) as engines have their blocks."""
    value = block(1, 2, LAYERS, TOKENS, HEADS, DIM)
    yield "K then V", value, kvc.Layout.of(value, k=value[0], v=value[1])
    value = block(2, LAYERS, 2, HEADS, TOKENS, DIM)
    yield "heads first", value, kvc.Layout.of(value, k=value[:, 0], v=value[:, 1], axes="layer head token dim")
    value = block(3, TOKENS, LAYERS, HEADS, 2 * DIM)
    yield "K | V a head", value, kvc.Layout.of(value, k=value[..., DIM:], v=value[..., :DIM], axes="token layer head dim")
    value = block(4, LAYERS, 2, HEADS, DIM, TOKENS)
    yield "turned", value, kvc.Layout.of(value, k=value[:, 0], v=value[:, 1], axes="layer head dim token")
    value = block(5, 2, HEADS, DIM // 4, TOKENS, 4)
    yield "groups of one layer", value, kvc.Layout.of(value, k=value[0], v=value[1], axes="head group token dim", layer_begin=2)
    value = block(6, LAYERS, TOKENS, HEADS, 2 * DIM)
    strides = dict(layer_stride=value[0].nbytes, token_stride=value[0, 0].nbytes, head_stride=value[0, 0, 0].nbytes)
    yield "by hand", value, kvc.Layout(layer_count=LAYERS, token_count=TOKENS, k=kvc.Side(**strides), v=kvc.Side(offset=2 * DIM, **strides))
    value = block(7, 2, 2, 5, 1, DIM)
    yield "one head of two layers", value, kvc.Layout.of(value, k=value[0], v=value[1], layer_begin=1, head_begin=1)


@pytest.mark.parametrize("name, value, layout", [pytest.param(*case, id=case[0]) for case in layouts()])
def test_values_come_back_byte_for_byte_from_any_pieces(scope, store, name, value, layout):
    raw = value.tobytes()
    scope.put({"whole": value, "cut": [raw[:7], raw[7:1000], b"", raw[1000:]]}, layout=layout)
    scope.put({"plain": value})
    for key in ("whole", "cut", "plain"):
        assert scope.get(key) == raw
        out = np.full_like(value, 777)
        scope.get_into([(key, out)])
        assert out.tobytes() == raw
        room = [bytearray(n) for n in (1, 100, 333, len(raw))]
        assert scope.get_into([(key, room)]) == [len(raw)]
        assert b"".join(room)[:len(raw)] == raw
    assert scope.exists(["cut"]).sizes == [len(raw)] and [entry.value_bytes for entry in scope.entries()] == [len(raw)] * 3
    assert store.verify().pages_bad == 0


def test_equal_bytes_are_put_again_with_any_layout_and_others_exist(scope):
    value = block(8, 2, LAYERS, TOKENS, HEADS, DIM)
    layout = kvc.Layout.of(value, k=value[0], v=value[1])
    turned = kvc.Layout.of(value, k=value[1], v=value[0])
    scope.put({"a": value}, layout=layout)
    for other in (layout, turned, None):
        scope.put({"a": value}, layout=other)
        scope.put({"a": value, "b": value}, layout=other, group=True)
    changed = value.copy()
    changed.view(np.uint16)[1, 2, 3, 1, 4] ^= 1
    for other in (layout, turned, None):
        with pytest.raises(kvc.Exists):
            scope.put({"a": changed}, layout=other)
    scope.delete(["a", "b"])
    scope.put({"a": changed}, layout=turned)
    assert scope.get("a") == changed.tobytes()


def test_a_layout_that_loses_a_byte_or_is_not_the_shape_s_is_refused(scope, store):
    value = block(9, 2, LAYERS, TOKENS, HEADS, DIM)
    layout = kvc.Layout.of(value, k=value[0], v=value[1])
    wide = np.zeros((2, LAYERS, TOKENS, HEADS, DIM), np.float32)
    longer = np.zeros((2, LAYERS + 1, TOKENS, HEADS, DIM), np.float16)
    hole = np.zeros((2, LAYERS, TOKENS + 1, HEADS, DIM), np.float16)
    narrow = np.zeros((2, LAYERS, TOKENS, HEADS, DIM // 2), np.float16)
    for kind, words, bad_value, bad_layout in (
            (kvc.ShapeError, "dtype", wide, kvc.Layout.of(wide, k=wide[0], v=wide[1])),
            (kvc.RangeError, "layers", longer, kvc.Layout.of(longer, k=longer[0], v=longer[1])),
            (kvc.ArgumentError, "byte 640 of the value", hole, kvc.Layout.of(hole, k=hole[0, :, :-1], v=hole[1, :, :-1])),
            (kvc.ArgumentError, "overlap|share", narrow, kvc.Layout.of(narrow, k=narrow[0], v=narrow[1])),
            (kvc.ArgumentError, "overlap", value, kvc.Layout.of(value, k=value[0], v=value[0])),
            (kvc.ArgumentError, "is the first that its layout does not cover", np.concatenate([value.ravel(), value.ravel()[:1]]), layout),
            (kvc.ArgumentError, "its layout reaches to", value.ravel()[1:], layout)):
        with pytest.raises(kind, match=words):
            scope.put({"a": bad_value}, layout=bad_layout)
    with pytest.raises(kvc.ArgumentError, match="before the value"):
        kvc.Layout.of(value[1], k=value[0], v=value[1])
    with pytest.raises(kvc.ShapeError, match="no shape"):
        store.scope(model="objects").put({"a": value}, layout=layout)
    assert store.info().object_count == 0
