"""Starts one worker a peer and lets them work in turns."""

import json
import os
import pathlib
import select
import signal
import subprocess
import time

ANSWER_SECONDS = 180  # a start of LMCache takes 30
END_SECONDS = 10
SPINNING = {"nixl"}  # its progress threads take a whole core also when idle: stopped outside its turns, or everybody else would pay


class Failed(Exception):
    """A peer that cannot go on; the text says why."""


class Peer:
    def __init__(self, name, python, window_bytes, helper, home):
        self.name, self.log = name, home / f"{name}.log"
        if not pathlib.Path(python).exists():
            raise Failed("not installed: run with --install")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([python, pathlib.Path(__file__).with_name("worker.py"), name, str(window_bytes), helper], cwd=home,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        self.pending = b""

    def send(self, **command):
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"it ended; see {self.log.name}") from None

    def answer(self):
        end = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self.pending:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise Failed(f"no answer in {ANSWER_SECONDS} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            if not piece:
                raise Failed(f"it ended; see {self.log.name}")
            self.pending += piece
        line, self.pending = self.pending.split(b"\n", 1)
        self.signal(signal.SIGSTOP)
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def signal(self, number):
        if self.name in SPINNING and self.process.poll() is None:
            self.process.send_signal(number)

    def ask(self, **command):
        self.send(**command)
        return self.answer()

    def end(self):
        """Closes it, and ends what is left of it and of its servers."""
        self.signal(signal.SIGCONT)
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # the group is its own
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()


class Driver:
    def __init__(self, pythons, window_bytes, helper, home):
        self.peers, self.skipped, self.window_bytes = {}, {}, window_bytes
        for name, python in pythons.items():
            try:
                self.peers[name] = Peer(name, python, window_bytes, helper, home)
            except Failed as error:
                self.skipped[name] = str(error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.peers.values():
            peer.end()

    def _each(self, round, call):
        """Every peer that is still there, beginning with another each round."""
        names = list(self.peers)
        turn = round % max(1, len(names))
        for name in names[turn:] + names[:turn]:
            try:
                yield name, call(self.peers[name])
            except Failed as error:
                self.skipped[name] = str(error)
                self.peers.pop(name).end()

    def versions(self):
        return {name: answer["version"] for name, answer in self._each(0, Peer.answer)}

    def measure(self, size, batch, rounds, seconds):
        """The rows of one size and batch.  All put, then all get: between a peer's put and its get the others have used the caches."""
        times = {}
        for round in range(rounds + 1):
            list(self._each(round, lambda peer: peer.ask(do="begin", size=size, batch=batch, round=round)))
            for operation in ("put", "get"):
                for name, answer in self._each(round, lambda peer: peer.ask(do=operation, seconds=seconds)):
                    sums = times.setdefault((operation, name), {"ns": [], "libc_ns": [], "stream_ns": []})
                    for key in sums if round else ():  # the first round warms up
                        sums[key] += answer[key]
            list(self._each(round, lambda peer: peer.ask(do="forget")))
        blocks = min(batch, self.window_bytes // size)
        return [{"operation": operation, "size": size, "batch": batch, "peer": name, **figures(size * blocks, sums)}
                for (operation, name), sums in times.items() if sums["ns"]]


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def figures(operation_bytes, times):
    """GB/s are of the median operation, and of the median copy of as many blocks: the faster of the two kinds."""
    middle = {key: percentile(values, 0.5) for key, values in times.items() if values}
    copy = min(middle.keys() - {"ns"}, key=middle.get)
    return {"value": operation_bytes / middle["ns"], "baseline": operation_bytes / middle[copy], "copy": copy.removesuffix("_ns"),
            "ratio": middle[copy] / middle["ns"], "p50_us": middle["ns"] / 1e3, "p99_us": percentile(times["ns"], 0.99) / 1e3,
            "operations": len(times["ns"])}
