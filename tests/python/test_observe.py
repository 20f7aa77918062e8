"""What a store tells: events, metrics as text, traces, log lines."""

import asyncio
import hashlib
import json
import struct
import sys
import threading

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model


def names_of(scope, tokens):
    """The names of whole chunks, from the text of the format."""
    parent, names = scope.info().fingerprint, []
    for begin in range(0, len(tokens) - 63, 64):
        part = [int(token) for token in tokens[begin:begin + 64]]
        parent = hashlib.sha256(b"kvc chunk 1" + parent + struct.pack("<I64iI", 64, *part, 0)).digest()
        names.append(parent)
    return names


def test_events_tell_what_a_match_finds(store, scope, model):
    with store.queue() as queue:
        queue.watch(scope)
        assert list(queue.events()) == []
        model.store(scope).release()
        events = list(queue.events())
        names, fingerprint = names_of(scope, model.tokens), scope.info().fingerprint
        assert [event.kind for event in events] == [kvc.EVENT_STORED] * 3
        assert [event.chunk for event in events] == names and {event.scope for event in events} == {fingerprint}
        assert [event.parent for event in events] == [fingerprint, *names[:-1]]
        assert [(event.token_begin, event.token_count, event.tier_to) for event in events] == [(64 * i, 64, kvc.TIER_HOST) for i in range(3)]
        assert [token for event in events for token in event.tokens] == model.tokens[:192].tolist()
        assert [event.sequence_number for event in events] == list(range(events[0].sequence_number, events[0].sequence_number + 3))
        scope.clear()
        (cleared,) = queue.events()
        assert cleared.kind == kvc.EVENT_CLEARED and cleared.scope == fingerprint and cleared.tokens is None
        queue.watch(scope, 0)
        Model(64, seed=9).store(scope)
        assert list(queue.events()) == []


def test_events_wait_beside_results_and_a_loop_takes_both(store, scope, model):
    async def main():
        with store.queue() as queue:
            queue.watch()
            seq, _ = await queue.match(scope, model.tokens)
            await queue.append(seq, model.tokens, model.rows())
            k, v = model.poisoned()
            for _ in range(20):
                await queue.gather(seq, kvc.Rows.of(k=k, v=v))
            return [event.kind for event in queue.events()]

    assert asyncio.run(main()) == [kvc.EVENT_STORED] * 3


def test_a_reader_that_is_too_slow_is_told(store, scope, monkeypatch):
    import kvc.queue
    monkeypatch.setattr(kvc.queue, "EVENTS_MAX", 10)
    with store.queue() as queue:
        queue.watch(scope)
        for seed in range(20):
            Model(64, seed=seed).store(scope).release()
            queue.drain()  # takes the events off the descriptor, and nobody reads them
        events = list(queue.events())
        assert events[0].kind == kvc.EVENT_LOST and all(event.kind == kvc.EVENT_STORED for event in events[1:])
        assert events[-1].sequence_number - events[0].sequence_number == len(events) - 1


def test_metrics_are_text_for_prometheus(store, scope, model):
    model.store(scope)
    text = store.metrics_text()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    assert len(samples) > 20 and all(name.startswith("kvc_") for name in samples)
    wanted = str(store.metrics().append_bytes)
    assert [value for name, value in samples.items() if "append_bytes" in name] == [wanted]


def test_a_trace_is_a_file_of_spans(store, scope, model, tmp_path):
    path = tmp_path / "träce.json"
    store.trace(path)
    seq = model.store(scope)
    k, v = model.poisoned()
    seq.gather(kvc.Rows.of(k=k, v=v))
    store.trace(None)
    spans = json.loads(path.read_text())
    spans = spans["traceEvents"] if isinstance(spans, dict) else spans
    assert {"append", "gather"} <= {word for span in spans for word in ("append", "gather") if word in span.get("name", "")}
    with pytest.raises(kvc.InputOutputError):
        store.trace(tmp_path / "no folder" / "file")


def test_B106_log_lines_come_to_a_callable_and_what_it_raises_to_the_hook(monkeypatch):
    lines, raised = [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: raised.append(what.exc_value))
    with kvc.Store("mem:", memory_bytes=16 << 20, log=lambda level, line: lines.append((level, line)), log_level=3) as store:
        scope = store.scope(model="m")
        with pytest.raises(kvc.Full):
            scope.put({"large": bytes(32 << 20)})
    assert len(lines) >= 3 and {level for level, _ in lines} <= {1, 2, 3} and all("\n" not in line for _, line in lines)

    def bad(level, line):
        raise ZeroDivisionError(line)

    with kvc.Store("mem:", memory_bytes=16 << 20, log=bad, log_level=4) as store:
        store.scope(model="m").put({"a": b"value"})
    assert len(raised) >= 2 and all(isinstance(error, ZeroDivisionError) for error in raised)
    with pytest.raises(TypeError, match="callable"):
        kvc.Store("mem:", memory_bytes=16 << 20, log=5)


def test_B106_a_log_from_threads_inside_calls_hangs_nobody():
    lines = []
    with kvc.Store("mem:", memory_bytes=8 << 20, lease_ms=1, log=lambda level, line: lines.append(np.zeros(10).sum()), log_level=4) as store:
        shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])
        scope = store.scope(model="m", shape=shape)

        def work(seed):
            for i in range(30):
                try:
                    scope.put({f"{seed} {i}": bytes(400_000)})
                    scope.put({f"{seed} {i} small": bytes(100)})
                    Model(128, seed=seed).store(scope)
                except kvc.RoomError:
                    pass

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert lines
