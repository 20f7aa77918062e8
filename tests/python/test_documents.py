"""The programs in the documents run, and print what they say they print."""

import contextlib
import inspect
import io
import pathlib
import re
import textwrap

import kvc
import numpy as np
from conftest import DIM, HEADS, LAYERS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def programs(text):
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def test_the_programs_of_the_readme_print_what_they_say():
    program = "\n".join(programs((ROOT / "bindings/python/README.md").read_text()))
    wanted = re.findall(r"^ *print\(.*\)  # (.*)$", program, re.M)
    assert len(wanted) == program.count("print(") > 5
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "README.md", "exec"), {})
    assert printed.getvalue().splitlines() == wanted


def test_the_first_program_of_the_module_s_help_runs():
    tokens = np.arange(70)
    k, v = np.ones((32, 70, 8, 128), np.float16), np.ones((32, 70, 8, 128), np.float16)
    names = {"tokens": tokens, "k": k, "v": v}
    exec(textwrap.dedent(kvc.__doc__[kvc.__doc__.index("    import kvc"):kvc.__doc__.index("Calls, structs")]), names)
    assert names["have"] == 0


def test_the_pool_of_the_help_of_array_lies_where_it_says(scope, model):
    seq = model.store(scope)
    pool = np.full((LAYERS, 2, 10, 16, HEADS, DIM), 777, np.float16)
    names = {"kvc": kvc, "pool": pool, "layers": LAYERS, "heads": HEADS, "dim": DIM, "block_count": 10}
    text = inspect.getdoc(kvc.Array)
    exec(textwrap.dedent(text[text.index("    block = "):]), names)
    seq.gather(names["rows"])
    wanted = np.full_like(pool, 777)
    for token in range(40):
        block = [7, 2, 9][token // 16]
        wanted[:, 0, block, token % 16], wanted[:, 1, block, token % 16] = model.k[:, token], model.v[:, token]
    np.testing.assert_array_equal(pool, wanted)
