"""Rows in every kind of memory and layout, against numpy as the oracle."""

import ctypes
import mmap

import kvc
import ml_dtypes
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model, check
from kvc import _native

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


class DLPackOnly:
    """An array of a library that has no buffer protocol."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("max_version is of DLPack 1.0")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_what_was_appended_is_gathered_bit_for_bit(scope, model):
    seq = model.store(scope)
    k, v = model.poisoned()
    result = seq.gather([kvc.Rows.of(k=k, v=v)])
    check(model, k, v, 200)
    assert result.done == 200
    assert result.bytes == k.nbytes + v.nbytes


def test_nan_and_infinity_survive_bit_for_bit(scope):
    bits = np.arange(65536, dtype=np.uint16)  # every float16 there is
    k = np.resize(bits, (LAYERS, 2048, HEADS, DIM)).view(np.float16)
    seq = scope.sequence(private=True)
    seq.append(None, [kvc.Rows.of(k=k, v=k)])
    out = np.zeros_like(k), np.zeros_like(k)
    seq.gather([kvc.Rows.of(k=out[0], v=out[1])])
    for side in out:
        np.testing.assert_array_equal(side.view(np.uint16), k.view(np.uint16))


def test_axes_may_come_in_any_order_on_both_sides(scope, model):
    seq = scope.sequence()
    seq.append(model.tokens, [kvc.Rows.of(k=np.ascontiguousarray(model.k.transpose(2, 0, 3, 1)), v=model.v.transpose(1, 0, 2, 3),
                                          axes="head layer dim token", v_axes="token layer head dim")])
    k = np.zeros((LAYERS, HEADS, 200, DIM), np.float16)
    v = np.zeros((LAYERS, HEADS, DIM, 200), np.float16)
    seq.gather([kvc.Rows.of(k=k, v=v, axes="layer head token dim", v_axes="layer head dim token")])
    check(model, k.transpose(0, 2, 1, 3), v.transpose(0, 3, 1, 2), 200)


def test_arrays_need_not_be_contiguous(scope, model):
    wide = np.full((LAYERS, 300, 2, HEADS, DIM + 3), 777, np.float16)  # K and V of a token side by side, padding behind each head
    k, v = wide[:, 50:250, 0, :, :DIM], wide[:, 50:250, 1, :, :DIM]
    k[...], v[...] = model.k, model.v
    seq = scope.sequence()
    seq.append(model.tokens, [kvc.Rows.of(k=k, v=v)])
    wide[:] = 777
    seq.gather([kvc.Rows.of(k=k, v=v)])
    check(model, k, v, 200)
    k[...], v[...] = 777, 777
    assert (wide == 777).all(), "something was written between the rows"


def test_some_tokens_some_layers_some_heads(scope, model):
    seq = model.store(scope)
    k = np.zeros((2, 30, 1, DIM), np.float16)
    seq.gather([kvc.Rows.of(k=k, layer_begin=1, head_begin=1, token_begin=70)])
    np.testing.assert_array_equal(k, model.k[1:3, 70:100, 1:2])


def test_an_axis_may_be_missing(scope, model):
    seq = model.store(scope)
    k, v = np.zeros((200, DIM), np.float16), np.zeros((HEADS, 200, DIM), np.float16)
    seq.gather([kvc.Rows.of(k=k, axes="token dim", layer_begin=2, head_begin=1), kvc.Rows.of(v=v, axes="head token dim", layer_begin=2)])
    np.testing.assert_array_equal(k, model.k[2, :, 1])
    np.testing.assert_array_equal(v.transpose(1, 0, 2), model.v[2])


@pytest.mark.parametrize("listed", [list, tuple, *(lambda blocks, kind=kind: np.array(blocks, kind) for kind in INTEGERS),
                                    lambda blocks: DLPackOnly(np.array(blocks, np.int64)),
                                    lambda blocks: np.stack([blocks, blocks], axis=1)[:, 1]])
def test_block_tables(scope, model, listed):
    seq = model.store(scope)
    pool = np.full((LAYERS, 2, 40, 16, HEADS, DIM), 777, np.float16)
    order = list(np.random.default_rng(3).permutation(40)[:13].tolist())
    blocks = listed(order)
    seq.gather([kvc.Rows.of(k=pool[:, 0], v=pool[:, 1], axes="layer block token head dim", blocks=blocks, token_count=200)])
    k = pool[:, 0][:, order].reshape(LAYERS, 13 * 16, HEADS, DIM)
    v = pool[:, 1][:, order].reshape(LAYERS, 13 * 16, HEADS, DIM)
    check(model, k, v, 200)
    assert (k[:, 200:] == 777).all() and (np.delete(pool, order, axis=2) == 777).all()


def test_with_a_block_table_tokens_stand_in_the_slots_of_their_positions_unless_slot_begin_says_otherwise(scope, model):
    pool = np.zeros((LAYERS, 2, 40, 16, HEADS, DIM), np.float16)
    table = np.random.default_rng(3).permutation(40)[:13]
    for side, whole in enumerate((model.k, model.v)):
        for token in range(200):
            pool[:, side, table[token // 16], token % 16] = whole[:, token]
    of_pool = dict(k=pool[:, 0], v=pool[:, 1], axes="layer block token head dim")
    seq = scope.sequence()
    seq.append(model.tokens[:70], kvc.Rows.of(**of_pool, blocks=table, token_count=70))
    seq.append(model.tokens[70:120], kvc.Rows.of(**of_pool, blocks=table, token_begin=70, token_count=50))
    seq.append(model.tokens[120:], kvc.Rows.of(**of_pool, blocks=table[7:], token_begin=120, slot_begin=8, token_count=80))
    k, v = model.poisoned()
    seq.gather(kvc.Rows.of(k=k, v=v))
    check(model, k, v, 200)
    pool[:] = 0
    seq.gather(kvc.Rows.of(**of_pool, blocks=table, token_begin=150, token_count=50))
    np.testing.assert_array_equal(pool[:, 1, table[150 // 16], 150 % 16], model.v[:, 150])
    assert kvc.Rows.of(k=k, token_begin=150, token_count=50).slot_begin == 0


@pytest.mark.parametrize("blocks, message", [
    (np.array([3, 2**31, -2**40]), r"blocks\[1\]: 2147483648 is not in -2147483648..2147483647"),
    (np.array([3, 1, -2**40]), r"blocks\[2\]: -1099511627776 is not in"),
    (np.array([2**64 - 1], np.uint64), r"blocks\[0\]: 18446744073709551615 is not in"),
    (np.array([2**31], np.uint32), r"blocks\[0\]: 2147483648 is not in"), ([0, 2**31], r"blocks\[1\]: 2147483648 is not in"),
    (np.array([1.0]), r"blocks: elements of 8 bytes, code 'd'; integers are needed: x.astype\('int64'\)"),
    (np.array([True]), "blocks: elements of 1 bytes, code '\\?'"), (bytearray(8), "blocks: raw bytes; an array or a list of integers"),
    (np.zeros((1, 1), int), "blocks: 2 dimensions; one is needed")])
def test_a_block_table_that_cannot_be_meant_is_refused_by_its_first_wrong_value(scope, model, blocks, message):
    seq = model.store(scope)
    pool = np.zeros((LAYERS, 4, 16, HEADS, DIM), np.float16)
    with pytest.raises(kvc.ArgumentError, match=message):
        seq.gather(kvc.Rows.of(k=pool, axes="layer block token head dim", blocks=blocks, token_count=10))
    with pytest.raises(TypeError, match="blocks: a list or an array of integers is needed, not <class 'int'>"):
        seq.gather(kvc.Rows.of(k=pool, axes="layer block token head dim", blocks=7, token_count=10))


def test_grouped_dims(scope, model):
    seq = model.store(scope)
    k = np.zeros((LAYERS, 13, HEADS, DIM // 4, 16, 4), np.float16)  # the K cache of paged attention kernels
    seq.gather([kvc.Rows.of(k=k, axes="layer block head group token dim", blocks=range(13), token_count=200)])
    plain = k.transpose(0, 1, 4, 2, 3, 5).reshape(LAYERS, 208, HEADS, DIM)
    np.testing.assert_array_equal(plain[:, :200], model.k)


@pytest.mark.parametrize("wanted", [[5, 3, 199, 64], *(np.array([5, 3, 199, 64], kind) for kind in INTEGERS[1:])])
def test_token_lists(scope, model, wanted):
    seq = model.store(scope)
    k = np.zeros((LAYERS, 4, HEADS, DIM), np.float16)
    seq.gather([kvc.Rows.of(k=k, token_list=wanted)])
    np.testing.assert_array_equal(k, model.k[:, [5, 3, 199, 64]])
    with pytest.raises(kvc.ArgumentError, match=r"token_list\[1\]: -3 is not in 0..18446744073709551615"):
        seq.gather([kvc.Rows.of(k=k, token_list=np.array([5, -3]))])


def test_strides_by_hand_in_plain_bytes(scope, model):
    row = HEADS * DIM * 2
    blob = bytearray(100 + LAYERS * 250 * row)
    seq = model.store(scope)
    seq.gather([kvc.Rows(layer_begin=0, layer_count=LAYERS, token_begin=0, token_count=200,
                         k=kvc.Array(blob, offset=100, layer_stride=250 * row))])
    k = np.frombuffer(blob, np.float16, offset=100).reshape(LAYERS, 250, HEADS, DIM)
    np.testing.assert_array_equal(k[:, :200], model.k)
    assert (k[:, 200:] == 0).all()


@pytest.mark.parametrize("kind", ["bytearray", "memoryview", "mmap", "ctypes", "uint8"])
def test_bytes_of_every_kind_are_written_in_place(scope, model, kind):
    size = model.k.nbytes
    memory = {"bytearray": bytearray, "memoryview": lambda n: memoryview(bytearray(n)), "mmap": lambda n: mmap.mmap(-1, n),
              "ctypes": lambda n: (ctypes.c_char * n)(), "uint8": lambda n: np.zeros(n, np.uint8)}[kind](size)
    seq = model.store(scope)
    rows = kvc.Rows(layer_begin=0, layer_count=LAYERS, token_count=200, k=kvc.Array(memory, layer_stride=size // LAYERS))
    seq.gather([rows])
    assert bytes(memory) == model.k.tobytes()
    copy = scope.sequence(private=True)
    copy.append(None, [kvc.Rows(layer_begin=0, layer_count=LAYERS, token_count=200, k=kvc.Array(bytes(memory), layer_stride=size // LAYERS),
                                v=kvc.Array(memory, layer_stride=size // LAYERS))])
    k, v = model.poisoned()
    copy.gather([kvc.Rows.of(k=k, v=v)])
    np.testing.assert_array_equal(k, model.k)
    np.testing.assert_array_equal(v, model.k)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_memory_is_used_in_place(scope, model, versioned):
    seq = scope.sequence()
    seq.append(DLPackOnly(model.tokens, versioned), [kvc.Rows.of(k=DLPackOnly(model.k, versioned), v=DLPackOnly(model.v, versioned))])
    k, v = model.poisoned()
    k_view = k.transpose(0, 2, 1, 3)
    seq.gather([kvc.Rows.of(k=DLPackOnly(k_view, versioned), axes="layer head token dim"), kvc.Rows.of(v=DLPackOnly(v, versioned))])
    check(model, k, v, 200)


@pytest.mark.parametrize("make", [lambda a: a, DLPackOnly, memoryview, lambda a: a[:, ::2], lambda a: DLPackOnly(a[1:])])
def test_the_library_sees_the_caller_s_own_address(model, make):
    array = make(model.k)
    source = array.array if isinstance(array, DLPackOnly) else np.asarray(array)
    lengths, strides, element, dtype, _, address = _native.array_layout(array, "array")
    assert address == source.ctypes.data
    assert (lengths, strides, element, dtype) == (source.shape, source.strides, 2, kvc.F16)


def test_rows_are_converted_between_number_formats(scope, model):
    seq = model.store(scope)
    k32 = np.zeros(model.k.shape, np.float32)
    bits = np.zeros(model.k.shape, np.uint16)
    seq.gather([kvc.Rows.of(k=k32), kvc.Rows.of(v=bits, dtype=kvc.BF16)])
    np.testing.assert_array_equal(k32, model.k.astype(np.float32))
    np.testing.assert_array_equal(bits.view(ml_dtypes.bfloat16), model.v.astype(np.float32).astype(ml_dtypes.bfloat16))


def test_bfloat16_arrives_as_16_bit_integers(store, model):
    shape = kvc.Shape(dtype=kvc.BF16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])
    scope = store.scope(model="bf16", shape=shape)
    k = model.k.astype(ml_dtypes.bfloat16).view(np.uint16)
    seq = scope.sequence()
    seq.append(model.tokens, [kvc.Rows.of(k=k, v=k, dtype=kvc.BF16)])
    out = np.zeros_like(k)
    seq.gather([kvc.Rows.of(k=out, dtype=kvc.BF16)])
    np.testing.assert_array_equal(out, k)


def refused(kind, match, **options):
    with pytest.raises(kind, match=match):
        kvc.Rows.of(**options)


def test_arrays_that_cannot_be_meant_are_refused_by_name():
    k = np.zeros((LAYERS, 10, HEADS, DIM), np.float16)
    refused(kvc.ArgumentError, "k: 4 dimensions; axes 'token head dim' name 3", k=k, axes="token head dim")
    refused(kvc.ArgumentError, "axes: 'channel' is none of", k=k, axes="layer token head channel")
    refused(kvc.ArgumentError, "names an axis twice", k=k, axes="layer token token dim")
    refused(kvc.ArgumentError, "lacks token or dim", k=k[0], axes="layer token head")
    refused(kvc.ArgumentError, "k: axis 1 has the stride -", k=k[:, ::-1])
    refused(kvc.ArgumentError, "k: the head axis is broadcast", k=np.broadcast_to(k[:, :, :1], k.shape))
    refused(kvc.ArgumentError, "k: the token axis has length 0", k=k[:, :0])
    refused(kvc.ArgumentError, "v: the token axis has length 5, k's has 10", k=k, v=k[:, :5])
    refused(kvc.ArgumentError, "k: elements of 2 bytes, code 'H'", k=k.view(np.uint16))
    refused(kvc.ArgumentError, r"k: elements of 8 bytes, code 'd', are not taken: float32, float16, .*; x.astype\('float32'\)", k=k.astype(np.float64))
    refused(kvc.ArgumentError, "do not fit dtype F32", k=k, dtype=kvc.F32)
    refused(kvc.ArgumentError, "big-endian", k=k.astype(">f2"))
    refused(kvc.ArgumentError, "blocks: the arrays have a block axis", k=k, axes="block token head dim")
    refused(kvc.ArgumentError, "token_count: needed", k=k, axes="block token head dim", blocks=[0])
    refused(kvc.ArgumentError, "token_count: 6 tokens from slot 5 do not fit", k=k, slot_begin=5, token_count=6)
    refused(kvc.ArgumentError, "at least one array")
    refused(TypeError, "buffer protocol or __dlpack__", k=[[1.0]])


def test_a_wrong_head_width_is_a_shape_error(scope, model):
    seq = model.store(scope)
    with pytest.raises(kvc.ShapeError, match="k: 4 elements a head; the shape's layer 0 has 8"):
        seq.gather([kvc.Rows.of(k=np.zeros((LAYERS, 200, HEADS, 4), np.float16))])


def test_a_read_only_destination_is_refused_before_the_call(scope, model):
    seq = model.store(scope)
    k, _ = model.poisoned()
    k.flags.writeable = False
    for memory in (k, DLPackOnly(k)):
        with pytest.raises(kvc.ArgumentError, match="read-only|readonly"):
            seq.gather([kvc.Rows.of(k=memory)])
    with pytest.raises(kvc.ArgumentError, match="read-only"):
        seq.gather([kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(bytes(200 * HEADS * DIM * 2)))])
    assert (k == 777).all()


def test_a_declared_dtype_that_the_memory_denies_is_refused(scope, model):
    seq = model.store(scope)
    k = np.zeros((200, HEADS, DIM), np.float32)
    with pytest.raises(kvc.ArgumentError, match="k: dtype 2 is declared, the memory holds dtype 1"):
        seq.gather([kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(k, dtype=kvc.F16))])
    seq.gather([kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(k))])  # and taken when nothing is declared
    np.testing.assert_array_equal(k, model.k[0].astype(np.float32))


def test_memory_that_is_too_small_is_refused(scope, model):
    seq = model.store(scope)
    with pytest.raises(kvc.Error) as caught:
        seq.gather([kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(bytearray(200 * HEADS * DIM * 2 - 1)))])
    assert isinstance(caught.value, kvc.ArgumentError)
    with pytest.raises(kvc.ArgumentError, match="offset 11 is past the 10 bytes"):
        seq.gather([kvc.Rows(layer_begin=0, layer_count=1, token_count=1, k=kvc.Array(bytearray(10), offset=11))])


def test_a_wrong_element_type_by_hand_is_refused_with_what_to_do(scope, model):
    seq = model.store(scope)
    with pytest.raises(kvc.ArgumentError, match=r"k: elements of 8 bytes, code 'd', are not taken: float32, .*; x.astype\('float32'\)"):
        seq.gather(kvc.Rows(layer_begin=0, layer_count=1, token_count=200, k=kvc.Array(np.zeros((200, HEADS, DIM)))))


def test_one_rows_is_a_list_of_one(scope, model):
    seq = scope.sequence()
    seq.append(model.tokens, model.rows())
    k, v = model.poisoned()
    seq.gather(kvc.Rows.of(k=k, v=v))
    check(model, k, v, 200)


def test_rows_that_are_none_are_a_type_error(scope, model):
    seq = model.store(scope)
    for rows in (model.k, [model.k], [None], [(1, 2)]):
        with pytest.raises(TypeError, match=r"rows: a kvc.Rows or a list of them is needed, not '\w+' \(Rows.of makes one"):
            seq.gather(rows)


def test_gather_takes_a_list_of_rows(scope, model):
    seq = model.store(scope)
    seq.gather(kvc.Rows.of(k=np.zeros((200, HEADS, DIM), np.float16), axes="token head dim", layer_begin=i) for i in range(LAYERS))
    per_layer = [np.zeros((200, HEADS, DIM), np.float16) for _ in range(LAYERS)]
    seq.gather([kvc.Rows.of(k=k, axes="token head dim", layer_begin=i) for i, k in enumerate(per_layer)])
    for i, k in enumerate(per_layer):
        np.testing.assert_array_equal(k, model.k[i])


def test_B120_device_memory_is_unsupported(scope, model):
    import struct

    class Capsule:
        def __dlpack__(self, **options):
            tensor = ctypes.create_string_buffer(64)
            struct.pack_into("<QiiiBBHQQQ", tensor, 0, 0x1000, 2, 0, 1, 2, 16, 1, ctypes.addressof(tensor) + 56, 0, 0)
            struct.pack_into("<q", tensor, 56, 8)
            make = ctypes.pythonapi.PyCapsule_New
            make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            self.tensor = tensor
            return make(ctypes.addressof(tensor), b"dltensor", None)

    with pytest.raises(kvc.Unsupported, match="device type 2"):
        kvc.Rows.of(k=Capsule(), axes="token dim")


def test_a_model_appended_in_steps_is_one_model(scope):
    model = Model(150, seed=4)
    seq = scope.sequence()
    for begin, end in ((0, 1), (1, 63), (63, 130), (130, 150)):
        seq.append(model.tokens[begin:end].tolist(), [model.rows(begin, end)])
    k, v = model.poisoned()
    seq.gather([kvc.Rows.of(k=k, v=v)])
    check(model, k, v, 150)


@pytest.mark.parametrize("kind, dtype", [(ml_dtypes.bfloat16, kvc.BF16), (ml_dtypes.float8_e4m3fn, kvc.F8_E4M3)])
def test_arrays_of_ml_dtypes_are_taken_as_they_are(store, kind, dtype):
    shape = kvc.Shape(dtype=dtype, layers=[kvc.Layer(count=2, kv_heads=2, k_dim=8, v_dim=8)])
    scope = store.scope(model="ml_dtypes", shape=shape)
    value = np.random.default_rng(1).standard_normal((2, 2, 80, 2, 8)).astype(kind)
    seq = scope.sequence(private=True)
    seq.append(None, kvc.Rows.of(k=value[0], v=value[1]))
    out = np.full_like(value, 77)
    seq.gather(kvc.Rows.of(k=out[0, :, ::2], v=out[1, :, ::2], token_count=40))
    np.testing.assert_array_equal(out[:, :, ::2], value[:, :, :40])
    assert (out[:, :, 1::2] == np.array(77, kind)).all()
    scope.put({"value": value}, layout=kvc.Layout.of(value, k=value[0], v=value[1]))
    assert scope.get("value") == value.tobytes()
    out.flags.writeable = False
    with pytest.raises(kvc.ArgumentError, match="read-only"):
        seq.gather(kvc.Rows.of(k=out[0], v=out[1]))
    for other in (kvc.F32, kvc.F16):
        with pytest.raises(kvc.ArgumentError, match="is declared, the memory holds"):
            kvc.Rows.of(k=value[0], v=value[1], dtype=other)


def test_rows_that_are_kept_are_held_against_each_shape(store):
    """A description that fits one shape and was used there is refused where it does not fit, each time anew."""
    def of(dim):
        return store.scope(model=f"dim {dim}", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=1, kv_heads=1, k_dim=dim, v_dim=dim)])).sequence(private=True)
    k, v = np.ones((1, 4, 1, 8), np.float16), np.ones((1, 4, 1, 8), np.float16)
    rows = kvc.Rows.of(k=k, v=v)
    fits, other = of(8), of(16)
    fits.append(None, rows)
    for _ in range(2):
        assert fits.gather(rows).done == 4
        with pytest.raises(kvc.ShapeError):
            other.append(None, rows)
