#!/usr/bin/env python3
"""Answers questions about a document with a real model, the document's K and V kept in kvc: the program behind quickstart.sh.

    python quickstart.py --model SmolLM2-135M-Instruct.Q4_1.gguf [--picture quickstart.png]

The document is computed once and stored.  Every question then matches that prefix, takes its rows straight into a state that llama.cpp
accepts, and computes only what follows.  Each answer is compared with recomputed runs (conversation.py says how).  At the end the document is
saved as a file, and a second process restores it and answers the first question (second_process.py; with --go-process one in Go too, go/).  Exits 0 only if every token is the same
and every prefix really came out of kvc.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time

import kvc

import conversation
import llama
import llama_state
import report

DOCUMENT = pathlib.Path(__file__).with_name("document.txt")
CONTEXT_TOKENS = 4096
ANSWER_TOKENS = 24
STORE_BYTES = 1 << 30

SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
PREFIX = SYSTEM + "<|im_start|>user\nHere is a text.\n\n{document}\n\nAnswer from the text: "
QUESTION = "{question}<|im_end|>\n<|im_start|>assistant\n"
FOLLOW_UP = "\n<|im_start|>user\n" + QUESTION
END_OF_TURN = "<|im_end|>"

QUESTIONS = ("What is the name of the girl?", "Which animal ran close by Alice?", "What was Alice tired of?",
             "What did Alice find on the glass table?")
FOLLOW_UPS = ("What was printed on the label of the bottle?", "Which animal took a watch out of its waistcoat-pocket?")


def make_parser(text):
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--model", required=True, type=pathlib.Path, help="a GGUF file with the ChatML template and full attention")
    parser.add_argument("--document", type=pathlib.Path, default=DOCUMENT)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-flash-attention", action="store_true", help="llama.cpp then keeps V transposed; kvc reads it all the same")
    return parser


def parse_arguments():
    def earlier_phase(text):
        name, _, seconds = text.rpartition("=")
        return name, float(seconds)
    parser = make_parser(__doc__)
    parser.add_argument("--picture", type=pathlib.Path, help="where to draw the results (PNG)")
    parser.add_argument("--go-process", type=pathlib.Path, help="what go/ builds: it takes the saved file and answers as the second process does")
    parser.add_argument("--phase", type=earlier_phase, action="append", default=[], metavar="NAME=SECONDS",
                        help="a phase that went before, for the table of times")
    return parser.parse_args()


def prefix_text(arguments):
    return PREFIX.format(document=arguments.document.read_text().strip("\n"))


def document_prefix(model, arguments):
    return model.tokenize(prefix_text(arguments))


def revision_of(arguments):
    with open(arguments.model, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"sha256:{digest} xllamacpp:{llama.PINNED_VERSION} flash-attention:{int(not arguments.no_flash_attention)}"


def open_scope(store, model, arguments):
    """Everything that changes K and V is part of the identity, or a hit could return another model's rows."""
    shape = kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_PAIRS,
                      layers=[kvc.Layer(count=model.layer_count, kv_heads=model.kv_heads, k_dim=model.head_dim, v_dim=model.head_dim)])
    return store.scope(model=arguments.model.stem, revision=revision_of(arguments), shape=shape)


def store_document(scope, model, context, prefix, saved, console):
    """Prefills the document, appends its rows, saves them as the file `saved`.  Returns the line that every question continues, and the layout
    of the states."""
    document = conversation.Line(prefix, [(0, len(prefix))])
    seq, info = scope.match(prefix)
    with seq:
        if info.tokens != 0:
            raise conversation.NotRead(f"kvc matched {info.tokens} tokens in an empty store")
        context.decode(prefix, console.progress("document"))
        layout = llama_state.learn(context.get_state(), model)
        conversation.store_rows(seq, context, layout, document)
        begin = time.perf_counter()
        seq.save(saved)
        seconds = time.perf_counter() - begin
    console.line(f"   {len(prefix):,} tokens, {layout.payload_bytes(len(prefix)) / 1e6:.1f} MB of K and V, "
                 f"V {'transposed' if layout.transposed else 'by token'}; {document.sealed:,} tokens can be matched from now on\n"
                 f"   saved as a file of {os.path.getsize(saved) / 1e6:.1f} MB in {seconds * 1e3:.0f} ms")
    return document, layout


def ask(question, line, scope, layout, contexts, store, console):
    """One question, three times over.  Leaves `line` extended by the answer."""
    context, reference = contexts
    prompt, calls = list(line.tokens), list(line.calls)
    answer, blob = conversation.ask_kvc(question, line, scope, layout, context, ANSWER_TOKENS)
    info = store.info()
    answer.bytes_held, answer.chunks_held = info.memory_used, info.chunk_count
    conversation.replay(answer, blob, prompt, calls, layout, reference, console.progress("replaying"))
    conversation.straight(answer, prompt, reference, console.progress("recomputing"))
    return answer


def ask_all(model, scope, document, layout, contexts, store, console):
    """Questions that share the document, then follow-ups that share the last conversation too."""
    answers = []

    def run(question, line):
        answers.append(ask(question, line, scope, layout, contexts, store, console))
        report.print_answer(console, len(answers), answers[-1], model.text(answers[-1].tokens))

    for question in QUESTIONS:
        line = conversation.Line(document.tokens + model.tokenize(QUESTION.format(question=question)), document.calls, document.sealed)
        run(question, line)
    for question in FOLLOW_UPS:
        turn = FOLLOW_UP.format(question=question)
        line.tokens += model.tokenize(turn if model.ends(line.tokens[-1]) else END_OF_TURN + turn)
        run(question, line)
    if answers[-1].matched_tokens <= document.sealed:
        raise conversation.NotRead(f"the last follow-up matched {answers[-1].matched_tokens} tokens: nothing of its own conversation")
    return answers


def second_command(arguments, saved, question):
    command = [sys.executable, str(pathlib.Path(__file__).with_name("second_process.py")), "--document", str(arguments.document), "--question", question]
    return command + common_options(arguments, saved)


def common_options(arguments, saved):
    return ["--model", str(arguments.model), "--saved", saved, "--threads", str(arguments.threads), *["--no-flash-attention"] * arguments.no_flash_attention]


def go_command(arguments, saved, question):
    """Go tokenizes by itself, from the same text; the module of Python that has llama.cpp wants Python's symbols, which a program in Go has not."""
    text = pathlib.Path(saved).with_name("prefix.txt")
    text.write_text(prefix_text(arguments))
    return [str(arguments.go_process), "--before", sysconfig.get_config_var("INSTSONAME"), "--library", str(llama.library_path()), "--prefix", str(text),
            "--scope", arguments.model.stem, "--revision", revision_of(arguments), "--question", QUESTION.format(question=question), *common_options(arguments, saved)]


def ask_another(name, command, first, console):
    """The first question once more, in a process that has nothing but the file.  Whether its tokens are the same."""
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        raise conversation.NotRead(f"the {name} ended with status {run.returncode}")
    second = json.loads(run.stdout)
    same = second["tokens"] == first.tokens and second["matched_tokens"] == first.matched_tokens
    report.print_second_process(console, name, first, second, same)
    return same


def main():
    with tempfile.TemporaryDirectory(prefix="kvc-quickstart-") as folder:
        return run(os.path.join(folder, "document.kvc"))


def run(saved):
    arguments = parse_arguments()
    console = report.Console(arguments.phase)
    report.note_busy_machine(console)
    with kvc.Store("mem:", memory_bytes=STORE_BYTES) as store:
        with console.phase(f"load the model, threads: {arguments.threads}"):
            model = llama.Model(arguments.model)
            contexts = [llama.Context(model, CONTEXT_TOKENS, arguments.threads, not arguments.no_flash_attention) for _ in range(2)]
            scope = open_scope(store, model, arguments)
            prefix = document_prefix(model, arguments)
        with console.phase("compute the document once, store it, save it"):
            document, layout = store_document(scope, model, contexts[0], prefix, saved, console)
        with console.phase("ask, with kvc and recomputed twice"):
            console.line("   replayed run: the decode calls that computed the stored rows, made again from an empty context; has to be equal\n"
                         "   straight run: the whole prompt at once, as without a store; its calls are split elsewhere, which alone moves\n"
                         "   llama.cpp's logits a little (most where an answer, decoded token by token, is recomputed as part of a prompt)")
            answers = ask_all(model, scope, document, layout, contexts, store, console)
        for context in contexts:
            context.close()
        model.close()
    with console.phase("ask a second process that has the file alone"):
        question = answers[0].question
        wrong = [] if ask_another("second process", second_command(arguments, saved, question), answers[0], console) else ["the second process"]
        if arguments.go_process and not ask_another("process in Go", go_command(arguments, saved, question), answers[0], console):
            wrong.append("the process in Go")
    report.print_chart(console, answers)
    if arguments.picture:
        with console.phase("draw the picture"):
            report.draw(arguments.picture, answers, f"{arguments.model.stem}, {len(prefix):,} tokens of document, threads: {arguments.threads}")
            console.line(f"   {arguments.picture}")
    report.print_total(console, answers)
    console.print_phases()
    for other in wrong:
        console.line(f"FAILED: {other} gave another answer")
    changed = [answer.question for answer in answers if not (answer.tokens_identical and answer.state_identical)]
    for question in changed:
        console.line(f"FAILED: the answer to {question!r} differs from the replayed run")
    return 1 if changed or wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (conversation.NotRead, llama.LlamaError, llama_state.UnknownLayout, kvc.Error, OSError) as error:
        sys.exit(f"FAILED: {error}")
