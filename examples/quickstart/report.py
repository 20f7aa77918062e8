"""What the quickstart shows: progress while it works, a table and bars in the terminal, a picture."""
import contextlib
import statistics
import sys
import textwrap
import time


class Console:
    """Phases with their times; a progress bar where there is a terminal to redraw it on, plain lines elsewhere."""

    def __init__(self, earlier_phases):
        self.phases = list(earlier_phases)
        self.live = sys.stdout.isatty()
        self.blocks = "█░" if "utf" in (sys.stdout.encoding or "").lower() else "#."

    def line(self, text=""):
        if self.live:
            sys.stdout.write("\r\x1b[K")
        print(text, flush=True)

    @contextlib.contextmanager
    def phase(self, name):
        self.line(f"== {name}")
        begin = time.perf_counter()
        yield
        self.phases.append((name, time.perf_counter() - begin))

    def bar(self, share, width=32):
        full = round(max(0.0, min(1.0, share)) * width)
        return self.blocks[0] * full + self.blocks[1] * (width - full)

    def progress(self, what):
        """A callback (done, total)."""
        if not self.live:
            return None

        def show(done, total):
            sys.stdout.write(f"\r\x1b[K   {self.bar(done / total)} {what}: {done:,} of {total:,} tokens")
            if done == total:
                sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()
        return show

    def print_phases(self):
        self.line("\nTime by phase")
        for name, seconds in self.phases:
            self.line(f"  {name:<58}{seconds:>8.1f} s")
        self.line(f"  {'total':<58}{sum(seconds for _, seconds in self.phases):>8.1f} s")


def note_busy_machine(console):
    """The times are only as good as the machine is idle, so say it when others compute at this moment (Linux)."""
    with contextlib.suppress(OSError), open("/proc/loadavg") as file:
        others = int(file.read().split()[3].split("/")[0]) - 1
        if others > 0:
            what = "another thread is" if others == 1 else f"{others} other threads are"
            console.line(f"   note: {what} running now; llama.cpp's threads wait for each other, so its times suffer")


def yes_no(value):
    return "yes" if value else "NO"


def print_answer(console, number, answer, text):
    steps = ", ".join(f"{name} {seconds * 1e3:.1f}" for name, seconds in answer.seconds.items())
    rest = answer.prompt_tokens - answer.matched_tokens
    count = len(answer.tokens)
    console.line(f"\n{number}. {answer.question}\n   {' '.join(text.split())!r}")
    for name, value in (
            ("read from kvc", f"{answer.matched_tokens:,} of {answer.prompt_tokens:,} tokens, {answer.bytes_gathered / 1e6:.1f} MB; "
                              f"{rest} decoded"),
            ("state = replayed state, byte for byte", yes_no(answer.state_identical)),
            ("tokens = replayed run", f"{yes_no(answer.tokens_identical)}, {answer.same_tokens} of {count}"),
            ("largest logit difference, replayed run", f"{answer.logit_difference:.3g}"),
            ("straight run", f"{answer.straight_same_tokens} of {count} tokens, logit difference {answer.straight_logit_difference:.3g}"),
            ("time to first token, with kvc", f"{answer.seconds_to_first_token:.3f} s (ms: {steps})"),
            ("time to first token, without", f"{answer.straight_seconds:.3f} s: {answer.speedup:.1f} times as long"),
            ("held by kvc now", f"{answer.bytes_held / 1e6:.1f} MB in {answer.chunks_held} chunks")):
        console.line(f"   {name:<40}{value}")


def print_second_process(console, process, first, second, same):
    console.line(f"\n1. {first.question} ({process})")
    for name, value in (
            ("restored from the file", f"{second['restored_tokens']:,} tokens, {second['file_bytes'] / 1e6:.1f} MB, {second['seconds_to_restore'] * 1e3:.0f} ms"),
            ("tokens = first process", f"{yes_no(same)}, {len(second['tokens'])} of {len(first.tokens)}"),
            ("restore and time to first token", f"{second['seconds_to_restore'] + second['seconds_to_first_token']:.3f} s; "
                                                f"computing the prompt took {first.straight_seconds:.3f} s"),
            ("loading the model before that", f"{second['seconds_to_load']:.3f} s")):
        console.line(f"   {name:<40}{value}")


def print_chart(console, answers):
    longest = max(max(answer.straight_seconds, answer.seconds_to_first_token) for answer in answers)
    console.line("\nTime to first token")
    for number, answer in enumerate(answers, 1):
        for name, seconds in (("with kvc", answer.seconds_to_first_token), ("without", answer.straight_seconds)):
            label = f"{number}." if name == "with kvc" else ""
            width = max(1, round(40 * seconds / longest))
            note = f"  1/{answer.speedup:.0f}" if name == "with kvc" else ""
            console.line(f"  {label:<3}{name:<9}{console.blocks[0] * width} {seconds:.2f} s{note}")


def print_total(console, answers):
    with_kvc = sum(answer.seconds_to_first_token for answer in answers)
    without = sum(answer.straight_seconds for answer in answers)
    matched, prompt = sum(answer.matched_tokens for answer in answers), sum(answer.prompt_tokens for answer in answers)
    same, count = sum(answer.same_tokens for answer in answers), sum(len(answer.tokens) for answer in answers)
    console.line(f"\nTotal of {len(answers)} questions")
    for name, value in (
            ("tokens = replayed runs", f"{yes_no(same == count)}, {same} of {count}"),
            ("largest logit difference, replayed runs", f"{max(answer.logit_difference for answer in answers):.3g}"),
            ("prompt tokens read from kvc", f"{matched:,} of {prompt:,}"),
            ("time to first token, all questions", f"{with_kvc:.2f} s with kvc, {without:.2f} s without; without, a question takes "
                                                   f"{statistics.median(answer.speedup for answer in answers):.1f} times as long (median)"),
            ("held by kvc", f"{answers[-1].bytes_held / 1e6:.1f} MB in {answers[-1].chunks_held} chunks")):
        console.line(f"   {name:<40}{value}")


def draw(path, answers, title):
    """Opaque mid-light ground and dark ink: readable on a light page and on a dark one."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ground, ink, quiet, kvc_colour, plain_colour = "#eceff1", "#1f2a30", "#6b7a83", "#00796b", "#b0632f"
    style = {"figure.facecolor": ground, "axes.facecolor": ground, "savefig.facecolor": ground, "text.color": ink, "axes.labelcolor": ink,
             "xtick.color": ink, "ytick.color": ink, "axes.edgecolor": quiet, "font.size": 10, "axes.spines.top": False,
             "axes.spines.right": False}
    with plt.rc_context(style):
        figure, (time_axes, token_axes) = plt.subplots(1, 2, figsize=(13, 1.6 + 0.85 * len(answers)), width_ratios=(3, 2),
                                                        layout="constrained")
        rows = range(len(answers))
        labels = ["\n".join(textwrap.wrap(f"{number}. {answer.question}", 30)) for number, answer in enumerate(answers, 1)]
        with_kvc, without = [a.seconds_to_first_token for a in answers], [a.straight_seconds for a in answers]
        time_axes.barh([row - 0.2 for row in rows], without, 0.36, color=plain_colour, label="recomputed")
        time_axes.barh([row + 0.2 for row in rows], with_kvc, 0.36, color=kvc_colour, label="prefix read from kvc")
        for row, answer in enumerate(answers):
            time_axes.text(answer.straight_seconds, row - 0.2, f" {answer.straight_seconds:.2f} s", va="center")
            time_axes.text(answer.seconds_to_first_token, row + 0.2,
                           f" {answer.seconds_to_first_token:.2f} s, {answer.speedup:.0f} times as fast",
                           va="center", color=kvc_colour, weight="bold")
        time_axes.set_yticks(list(rows), labels)
        time_axes.set_xlim(0, max(without + with_kvc) * 1.15)
        time_axes.set_xlabel("time to first token (s); shorter is better")
        matched = [answer.matched_tokens for answer in answers]
        rest = [answer.prompt_tokens - answer.matched_tokens for answer in answers]
        token_axes.barh(list(rows), matched, 0.5, color=kvc_colour, label="read from kvc")
        token_axes.barh(list(rows), rest, 0.5, left=matched, color=plain_colour, label="decoded")
        for row, answer in enumerate(answers):
            token_axes.text(answer.matched_tokens / 2, row, f"{answer.matched_tokens:,} + {rest[row]}", va="center", ha="center",
                            color="white")
            token_axes.text(answer.prompt_tokens, row,
                            f"  {answer.same_tokens}/{len(answer.tokens)} tokens\n  max |Δlogit| {answer.logit_difference:.3g}",
                            va="center", fontsize=8.5)
        token_axes.set_yticks([])
        token_axes.set_xlim(0, max(answer.prompt_tokens for answer in answers) * 1.38)
        token_axes.set_xlabel("prompt tokens; right: against the replayed run")
        for axes in (time_axes, token_axes):
            axes.invert_yaxis()
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
        figure.suptitle(title, weight="bold")
        figure.savefig(path, dpi=130)
        plt.close(figure)
