"""Objects: write-once values under keys of the host's own."""

import kvc
import numpy as np
import pytest


@pytest.fixture
def objects(store):
    return store.scope(model="objects")


def test_what_was_put_is_got(objects):
    value = np.random.default_rng(1).integers(0, 256, 5000, dtype=np.uint8)
    objects.put({"text": value, b"\x00\xff": b"bytes", "empty": b""})
    assert objects.get("text") == value.tobytes()
    assert objects.get(b"text") == value.tobytes()
    assert objects.get(b"\x00\xff") == b"bytes"
    assert objects.get("empty") == b""
    room = np.full(6000, 7, np.uint8)
    assert objects.get_into([("text", room)]) == [5000]
    np.testing.assert_array_equal(room[:5000], value)
    assert (room[5000:] == 7).all()


def test_values_are_gathered_from_pieces_and_scattered_into_pieces(objects):
    objects.put([("k", [b"ab", bytearray(b"cde"), memoryview(b"f"), np.frombuffer(b"gh", np.uint8)])])
    first, second = bytearray(3), np.zeros(5, np.uint8)
    assert objects.get_into([("k", [first, second])]) == [8]
    assert bytes(first) + second.tobytes() == b"abcdefgh"


def test_a_batch_lands_in_slices_of_one_arena(objects):
    arena = np.zeros(64 * 4096, np.uint8)
    values = [bytes([i]) * 4096 for i in range(64)]
    objects.put([(f"{i}", value) for i, value in enumerate(values)])
    view = memoryview(arena)
    sizes = objects.get_into([(f"{63 - i}", view[i * 4096:(i + 1) * 4096]) for i in range(64)])
    assert sizes == [4096] * 64
    assert arena.tobytes() == b"".join(reversed(values))


def test_items_may_name_their_part_of_an_arena(objects):
    source, arena = np.random.default_rng(2).integers(0, 256, 1000, dtype=np.uint8), bytearray(1000)
    other = np.zeros(100, np.uint8)
    objects.put([("a", source, 10, 200), ("b", source, 500, 500), ("c", memoryview(source), 0, 0)])
    assert objects.get_into([("b", arena, 0, 500), ("a", arena, 700, 300), ("c", other, 100, 0), ("a", [other, bytearray(100)]),
                             ("b", arena, 200, 500)]) == [500, 200, 0, 200, 500]
    assert arena == source[500:700].tobytes() + source[500:].tobytes() + source[10:210].tobytes() + bytes(100)
    np.testing.assert_array_equal(other, source[10:110])
    for offset, size in ((501, 500), (1001, 0), (0, 1001), (2**64 - 1, 2)):
        with pytest.raises(kvc.ArgumentError, match="do not lie in the 1000 bytes"):
            objects.get_into([("b", arena, offset, size)])
    with pytest.raises(kvc.ArgumentError, match="offset: -1"):
        objects.get_into([("b", arena, -1, 5)])
    with pytest.raises(kvc.ArgumentError, match="value: "):
        objects.get_into([("b", arena, 0, 500), ("b", bytes(source), 0, 500)])


def test_an_absent_key_is_not_found_and_names_the_leading_part(objects):
    objects.put({"a": b"1", "b": b"2", "d": b"4"})
    rooms = [bytearray(1) for _ in range(4)]
    with pytest.raises(kvc.NotFound) as caught:
        objects.get_into(list(zip("abcd", rooms)))
    assert caught.value.done == 2
    assert [status for status, _, _ in caught.value.items] == [0, 0, caught.value.status, 0]
    assert objects.get_into(list(zip("abcd", rooms)), leading=True) == [1, 1]
    assert [bytes(room) for room in rooms[:2]] == [b"1", b"2"]
    with pytest.raises(kvc.NotFound):
        objects.get("c")


def test_equal_bytes_may_be_put_again_and_others_may_not(objects):
    objects.put({"k": b"one"})
    objects.put({"k": b"one"})
    with pytest.raises(kvc.Exists) as caught:
        objects.put([("new", b"x"), ("k", b"two")])
    assert caught.value.done == 1
    assert objects.get("k") == b"one"
    objects.delete(["k"])
    objects.put({"k": b"two"})
    assert objects.get("k") == b"two"


def test_a_group_is_stored_whole_or_not_at_all(objects):
    objects.put({"k": b"one"})
    with pytest.raises(kvc.Exists):
        objects.put([("a", b"1"), ("k", b"two")], group=True)
    assert objects.exists(["a"]).sizes == [None]
    objects.put([("a", b"1"), ("b", b"2")], group=True)
    assert objects.exists(["a", "b"]).done == 2


def test_a_destination_that_is_too_short_is_a_range_error_with_the_size(objects):
    objects.put({"k": bytes(100)})
    room = bytearray(b"\x07" * 99)
    with pytest.raises(kvc.RangeError) as caught:
        objects.get_into([("k", room)])
    assert caught.value.items[0][1] == 100
    assert room == b"\x07" * 99
    objects.put({"large": bytes(1 << 20)})
    assert objects.get("large") == bytes(1 << 20)


def test_exists_counts_and_holds(store, objects):
    objects.put({"a": b"1", "b": b"22"})
    found = objects.exists(["a", "b", "c", "a"])
    assert (found.sizes, found.done, found.lease) == ([1, 2, None, 1], 2, None)
    assert objects.exists(["c", "a"], leading=True).done == 0
    found = objects.exists(["a", "c"], lease_ms=60_000)
    assert store.info().lease_count == 1
    with found.lease:
        found.lease.renew(1000)
    assert store.info().lease_count == 0
    assert objects.exists(["c"], lease_ms=60_000).lease is None


def test_keys_come_in_order_and_in_pages(objects):
    names = sorted(f"key{i}".encode() for i in range(600))
    objects.put([(name, name) for name in reversed(names)])
    assert list(objects.keys()) == names
    assert list(objects.keys(after=names[299])) == names[300:]
    entry = next(objects.entries())
    assert (entry.key, entry.value_bytes, entry.tier) == (b"key0", 4, kvc.TIER_HOST)


def test_scopes_keep_their_objects_apart(store, objects):
    objects.put({"k": b"1"})
    assert store.scope(model="other").exists(["k"]).done == 0


@pytest.mark.parametrize("call, kind, message", [
    (lambda o: o.put({"": b"1"}), kvc.ArgumentError, "key"), (lambda o: o.put({"k" * 65: b"1"}), kvc.ArgumentError, "key"),
    (lambda o: o.put([("k", 5)]), TypeError, "value: an object with the buffer protocol"),
    (lambda o: o.put([(5, b"1")]), TypeError, "key: bytes or str are needed"), (lambda o: o.put(["k"]), TypeError, "tuples is needed"),
    (lambda o: o.put([("k", np.zeros((4, 4))[:, ::2])]), kvc.ArgumentError, "value: "),
    (lambda o: o.get_into([("k", b"constant")]), kvc.ArgumentError, "value: "), (lambda o: o.get_into("k"), TypeError, "tuples is needed"),
    (lambda o: o.exists("k"), TypeError, "keys: a list is needed"), (lambda o: o.exists([None]), TypeError, "key: bytes or str"),
    (lambda o: o.delete(["absent"]), kvc.NotFound, "no such key")])
def test_wrong_batches_are_refused(objects, call, kind, message):
    with pytest.raises(kind, match=message):
        call(objects)
    assert list(objects.keys()) == []


def test_an_empty_batch_is_refused_as_everywhere(objects):
    for call in (lambda: objects.put({}), lambda: objects.get_into([]), lambda: objects.exists([]), lambda: objects.delete([])):
        with pytest.raises(kvc.ArgumentError, match="object_count 0: nothing to do"):
            call()


def test_a_list_that_changes_while_it_is_read_harms_nobody(objects):
    class Value:
        """Shrinks the list of pieces that it is in."""

        def __init__(self, pieces):
            self.pieces = pieces

        def __dlpack__(self, **options):
            del self.pieces[1:]
            return np.zeros(4, np.uint8).__dlpack__(**options)

    pieces = []
    pieces += [Value(pieces), b"gone", b"gone too"]
    with pytest.raises((kvc.ArgumentError, IndexError)):
        objects.put([("k", pieces)])
    assert list(objects.keys()) == []
