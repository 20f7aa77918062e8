"""A log callable runs inside a call of the library: it cannot use kvc, and what ends in it is released when that call is over."""

import subprocess
import sys
import textwrap

LIMIT_S = 40

OPEN = """
    import faulthandler, gc, sys, threading
    import kvc

    faulthandler.dump_traceback_later(20, exit=True)
    shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=1, kv_heads=1, k_dim=8, v_dim=8)])

    class Garbage:
        def __init__(self, thing):
            self.thing, self.self = thing, self

    def check():
        thread = threading.Thread(target=lambda: kvc.Store("mem:", memory_bytes=8 << 20).close())
        thread.start()
        kvc.Store("mem:", memory_bytes=8 << 20).close()
        thread.join()
        print("all ended")
"""


def ends(program):
    code = textwrap.dedent(OPEN) + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and done.stdout.endswith("all ended\n"), done.stdout + done.stderr
    return done


def test_handles_that_the_garbage_collector_ends_while_a_store_logs_its_close():
    ends("""
        gc.disable()
        with kvc.Store("mem:", memory_bytes=8 << 20) as held:
            scope = held.scope(model="m", shape=shape)
            store = kvc.Store("mem:", memory_bytes=8 << 20, log=lambda level, line: gc.collect(), log_level=3)
            for thing in (scope.sequence(), scope.sequence().lease(), held.queue(), held.region(bytearray(4096)), store.scope(model="m")):
                Garbage(thing)
            del thing
            assert held.info().seq_count == 1 and held.info().region_count == 1
            store.close()
            gc.collect()
            info = held.info()
            assert (info.seq_count, info.lease_count, info.region_count) == (0, 0, 0), info
            check()
    """)


def test_a_handle_whose_last_reference_goes_in_a_log_callable():
    ends("""
        things = []
        with kvc.Store("mem:", memory_bytes=8 << 20, log=lambda level, line: things.clear(), log_level=3) as store:
            things += [store.scope(model="m", shape=shape).sequence() for _ in range(3)]
            things.append(kvc.Store("mem:", memory_bytes=8 << 20))
            try:
                store.scope(model="m").put({"large": bytes(32 << 20)})
            except kvc.Full:
                pass
            assert things == [] and store.info().seq_count == 0
            check()
    """)


def test_calls_of_kvc_in_a_log_callable_are_refused():
    done = ends("""
        def log(level, line):
            for use in (lambda: store.info(), lambda: scope.put({"a": b"b"}), lambda: scope.get("a"), lambda: queue.clear(scope), queue.release,
                        scope.release, store.close, lambda: kvc.Store("mem:")):
                try:
                    use()
                except kvc.MisuseError as error:
                    refused.append(error.message)

        refused, store = [], kvc.Store("mem:", memory_bytes=8 << 20)
        scope, queue = store.scope(model="m"), store.queue()
        with kvc.Store("mem:", memory_bytes=8 << 20, log=log, log_level=3) as other:
            pass
        assert len(refused) >= 8 and set(refused) == {"log: it must not use kvc"}, refused
        scope.put({"a": b"value"})
        assert scope.get("a") == b"value" and queue.drain() == []
        queue.release()
        store.close()
        check()
    """)
    assert done.stderr == ""
