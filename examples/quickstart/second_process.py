#!/usr/bin/env python3
"""A process of its own that takes the document out of the file that the first one saved, and answers one question.

    python second_process.py --model FILE.gguf --saved FILE --question TEXT [--document FILE] [--threads N] [--no-flash-attention]

Nothing of the document is computed again.  Prints one line of JSON: the tokens of the answer, what came out of the file, and the times.
quickstart.py starts it and compares the tokens with those of its own answer.
"""
import json
import os
import sys
import time

import kvc

import conversation
import llama
import llama_state
import quickstart


def learn_layout(model, context, prefix):
    """How a state of this context lies in memory: seen in one of a few tokens."""
    context.decode(prefix[:2])
    layout = llama_state.learn(context.get_state(), model)
    context.clear()
    return layout


def main():
    parser = quickstart.make_parser(__doc__)
    parser.add_argument("--saved", required=True, help="a file that kvc_seq_save wrote")
    parser.add_argument("--question", required=True)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    model = llama.Model(arguments.model)
    context = llama.Context(model, quickstart.CONTEXT_TOKENS, arguments.threads, not arguments.no_flash_attention)
    prefix = quickstart.document_prefix(model, arguments)
    layout = learn_layout(model, context, prefix)
    seconds_to_load = time.perf_counter() - begin
    with kvc.Store("mem:", memory_bytes=quickstart.STORE_BYTES) as store:
        scope = quickstart.open_scope(store, model, arguments)
        begin = time.perf_counter()
        with scope.restore(arguments.saved) as restored:
            seconds_to_restore = time.perf_counter() - begin
            info = restored.info()
            if info.tokens != len(prefix):
                raise conversation.NotRead(f"the file gave {info.tokens} tokens, the document has {len(prefix)}")
            question = quickstart.QUESTION.format(question=arguments.question)
            line = conversation.Line(prefix + model.tokenize(question), [(0, len(prefix))], info.tokens_sealed)
            answer, _ = conversation.ask_kvc(arguments.question, line, scope, layout, context, quickstart.ANSWER_TOKENS)
    print(json.dumps({"tokens": answer.tokens, "matched_tokens": answer.matched_tokens, "restored_tokens": info.tokens,
                      "file_bytes": os.path.getsize(arguments.saved), "seconds_to_load": seconds_to_load,
                      "seconds_to_restore": seconds_to_restore, "seconds_to_first_token": answer.seconds_to_first_token}))


if __name__ == "__main__":
    try:
        main()
    except (conversation.NotRead, llama.LlamaError, llama_state.UnknownLayout, kvc.Error, OSError) as error:
        sys.exit(f"FAILED: {error}")
