"""One prompt asked three times over: with the prefix read from kvc, recomputed call for call, and recomputed straight through.

The rows that kvc returns were computed earlier, in the decode calls of that time.  llama.cpp's sums depend slightly on how many tokens share a
call, so two runs are bit for bit comparable only if they make the same calls.  The *replayed* run therefore makes, from an empty context, the
very calls that computed the stored rows, is cut back to the length that kvc matched, and then decodes the rest as the run with kvc does: its
tokens, its logits and its whole state have to be equal.  The *straight* run is what an engine without a store would do, the whole prompt in
full batches; the time without kvc is taken from it, and its logits show how far another split of the same work moves them.
"""
import dataclasses
import time

import numpy as np


class NotRead(RuntimeError):
    """Something that should have come from kvc did not."""


@dataclasses.dataclass
class Line:
    """Tokens in order, and the decode calls [begin, end) that computed them.  A call that begins before the end of the one in front of it
    took over there: the rows behind its begin are its own."""
    tokens: list
    calls: list = dataclasses.field(default_factory=list)
    sealed: int = 0  # tokens of it that a match has to find


@dataclasses.dataclass
class Answer:
    question: str
    prompt_tokens: int
    matched_tokens: int
    tokens: list
    logits: np.ndarray
    seconds: dict  # of each step up to the first token
    bytes_gathered: int
    bytes_held: int = 0
    chunks_held: int = 0
    same_tokens: int = 0
    state_identical: bool = False
    logit_difference: float = float("nan")
    straight_same_tokens: int = 0
    straight_logit_difference: float = float("nan")
    straight_seconds: float = float("nan")

    @property
    def seconds_to_first_token(self):
        return sum(self.seconds.values())

    @property
    def speedup(self):
        return self.straight_seconds / self.seconds_to_first_token

    @property
    def tokens_identical(self):
        return self.same_tokens == len(self.tokens)


class Stopwatch:
    def __init__(self):
        self.seconds, self.last = {}, time.perf_counter()

    def lap(self, name):
        now = time.perf_counter()
        self.seconds[name], self.last = now - self.last, now


def compare(answer_tokens, answer_logits, tokens, logits):
    """How many leading tokens agree, and the largest logit difference over the steps that had the same tokens before them."""
    same = 0
    while same < min(len(answer_tokens), len(tokens)) and answer_tokens[same] == tokens[same]:
        same += 1
    steps = min(same + 1, len(answer_tokens), len(tokens))
    return same, float(np.abs(answer_logits[:steps] - logits[:steps]).max())


def store_rows(seq, context, layout, line):
    """Appends what `context` has computed of `line` and `seq` does not hold."""
    begin, end = seq.info().tokens, context.length
    blob = context.get_state()
    if layout.check(blob) != end:
        raise NotRead(f"llama.cpp gave a state of {layout.check(blob)} tokens for {end}")
    seq.append(line.tokens[begin:end], [layout.rows(blob, end, begin, end)])
    info = seq.info()
    if info.tokens != end:
        raise NotRead(f"kvc holds {info.tokens} tokens after an append up to {end}")
    line.sealed = info.tokens_sealed
    return blob


def ask_kvc(question, line, scope, layout, context, token_limit):
    """Answers with the prefix out of the store, then stores the rows of the question and its answer.  Extends `line`."""
    prompt, sealed = list(line.tokens), line.sealed
    context.clear()
    watch = Stopwatch()
    seq, info = scope.match(prompt, tokens_max=len(prompt) - 1)
    with seq:
        watch.lap("match")
        matched = info.tokens
        if matched < sealed:
            raise NotRead(f"{question!r}: kvc matched {matched} of the {sealed} tokens stored before")
        blob = layout.forge(matched)
        watch.lap("lay out state")
        result = seq.gather([layout.rows(blob, matched, 0, matched)])
        watch.lap("gather")
        if result.done != matched or result.bytes != layout.payload_bytes(matched):
            raise NotRead(f"{question!r}: kvc gathered {result.done} tokens, {result.bytes} bytes; {matched} were matched")
        context.set_state(blob)
        watch.lap("set state")
        logits = context.decode(prompt[matched:])
        logits.argmax()
        watch.lap("decode rest")
        tokens, chosen_by = context.generate(logits, token_limit)
        line.tokens = prompt + tokens
        line.calls = [call for call in line.calls if call[0] < matched] + [(matched, len(prompt))]
        line.calls += [(position, position + 1) for position in range(len(prompt), context.length)]
        store_rows(seq, context, layout, line)
    return Answer(question, len(prompt), matched, tokens, chosen_by, watch.seconds, result.bytes), blob


def replay(answer, blob, prompt, calls, layout, context, progress):
    """The same decode calls from an empty context: everything has to be equal."""
    context.clear()
    for begin, end in calls:
        if begin < answer.matched_tokens:
            context.truncate(begin)
            context.decode(prompt[begin:end], progress)
    context.truncate(answer.matched_tokens)
    state = context.get_state()
    answer.state_identical = layout.check(state) == answer.matched_tokens and np.array_equal(state, blob)
    tokens, logits = context.generate(context.decode(prompt[answer.matched_tokens:]), len(answer.tokens))
    answer.same_tokens, answer.logit_difference = compare(answer.tokens, answer.logits, tokens, logits)


def straight(answer, prompt, context, progress):
    """What the engine does without a store."""
    context.clear()
    begin = time.perf_counter()
    logits = context.decode(prompt, progress)
    logits.argmax()
    answer.straight_seconds = time.perf_counter() - begin
    tokens, logits = context.generate(logits, len(answer.tokens))
    answer.straight_same_tokens, answer.straight_logit_difference = compare(answer.tokens, answer.logits, tokens, logits)
