#!/usr/bin/env python3
"""Fails when the tree breaks one of the rules in rules.py.

    tidy_test.py ROOT          check the tree at ROOT
    tidy_test.py --self-test   plant one violation of each kind in a small tree and find each, and nothing else
"""
import os
import sys
import tempfile

import rules
import source

_HEAD = '| id | issue | scenario | tests | waits for |\n|---|---|---|---|---|\n'

# A tree without a fault.
CLEAN = {
    'CMakeLists.txt': 'add_subdirectory(lib)\n',
    'include/kvc/kvc.h': '#ifndef KVC_KVC_H\n#define KVC_KVC_H\n#include <kvc/error.h>\n#endif\n',
    'include/kvc/error.h': '/* errors */\n#ifndef KVC_ERROR_H\n#define KVC_ERROR_H\n#endif\n',
    'lib/base/CMakeLists.txt': 'target_sources(kvc_objects PRIVATE check.cpp)\n',
    'lib/base/check.h': '#pragma once\n#include "kvc/error.h"\n',
    'lib/base/check.cpp': '#include "base/check.h"\n// getenv() is named in a comment only.\nint f() { return KVC_FAULT("base.check.f"); }\n',
    'lib/memory/CMakeLists.txt': 'target_sources(kvc_objects PRIVATE slab.cpp)\n',
    'lib/memory/slab.cpp': '#include "base/check.h"\n#include <vector>\nconst char *s = "getenv(";\n',
    'bindings/python/src/kvc/__init__.py': 'def f():\n    return 1\n',
    'tests/unit/base/CMakeLists.txt': 'kvc_unit_test(base_test check_test.cpp)\n',
    'tests/unit/base/check_test.cpp': '#include "../../../lib/base/check.h"\nTEST(Check, B01_holds) {}\nTEST(Check, B100Holds) {}\n',
    'tests/python/test_all.py': 'def test_B01_holds():\n    pass\n',
    'tests/python/CMakeLists.txt': 'pytest test_all.py\n',
    'tests/field_reports.md': '| waits for | what that is |\n|---|---|\n| flying | wings |\n\n' + _HEAD +
                              '| B01 | a/b#1 | x | `Check.B01_holds`<br>`test_B01_holds` | |\n| B03 | a/b#3 | x | | flying |\n| B100 | a/b#4 | x | `Check.B100Holds` | flying |\n',
}

_ROW = '| B01 | a/b#1 | x | `Check.B01_holds`<br>`test_B01_holds` | |'


def _reports(*rows):
    return '| flying | wings |\n\n' + _HEAD + ''.join(row + '\n' for row in rows) + '| B100 | a/b#4 | x | `Check.B100Holds` | |\n'


_LONG = ''.join(f'  x += {i};\n' for i in range(70))

# rule -> [(what, {path: text})]: each laid over CLEAN alone, each must be found by its rule.
PLANTED = {
    'include': [
        ('a room includes one above it', {'lib/base/check.h': '#pragma once\n#include "memory/slab.h"\n'}),
        ('a room includes its neighbour', {'lib/memory/slab.cpp': '#include "base/check.h"\n#include <codec/frame.h>\n'}),
        ('kernels know the public headers', {'kernels/CMakeLists.txt': 'a.cpp', 'kernels/a.cpp': '#include "kvc/kvc.h"\n'}),
        ('a public header includes an internal one', {'include/kvc/kvc.h': CLEAN['include/kvc/kvc.h'] + '#include "base/check.h"\n'}),
        ('a binding includes an internal header', {'bindings/python/CMakeLists.txt': 'a.c', 'bindings/python/a.c': '#include "base/check.h"\n'}),
        ('an include by a way out', {'lib/memory/slab.cpp': '#include "../base/check.h"\n#include "base/check.h"\n'}),
    ],
    'rooms': [
        ('a room that is not in the table', {'lib/tools/CMakeLists.txt': ''}),
        ('a folder named after nothing', {'lib/base/utils/CMakeLists.txt': ''}),
        ('a stray file at the top', {'notes.md': 'x\n'}),
    ],
    'file-lines': [
        ('a source of 501 lines', {'lib/memory/slab.cpp': '#include "base/check.h"\n' + '\n' * 500}),
        ('a script of 501 lines', {'examples/run.sh': ':\n' * 501}),
    ],
    'function-lines': [
        ('a function of 72 lines', {'lib/memory/slab.cpp': 'int f(int x) {\n' + _LONG + '}\n'}),
        ('a method in a class in a namespace', {'lib/memory/slab.cpp': 'namespace a {\nclass B : C<int> {\n int f() const {\n' + _LONG + '}\n};\n}\n'}),
        ('a constructor with member initialisers', {'lib/memory/slab.cpp': 'A::A(int a) : b_{a}, c_(a) {\n' + _LONG + '}\n'}),
        ('a template with a brace in a string', {'lib/memory/slab.cpp': 'template <typename T = A<B>>\nT f(T x) {\n s = "}}";\n' + _LONG + '}\n'}),
        ('a test', {'tests/unit/base/check_test.cpp': 'TEST(A, B) {\n' + _LONG + '}\n'}),
        ('a Python function', {'bindings/python/src/kvc/__init__.py': 'def f(x):\n' + _LONG + '  return x\n'}),
    ],
    'dead-header': [
        ('a header nobody includes', {'lib/memory/lost.h': '#pragma once\n'}),
        ('a header that only includes itself', {'lib/memory/lost.h': '#pragma once\n#include "memory/lost.h"\n'}),
        ('a public header outside the umbrella', {'include/kvc/seq.h': '#ifndef KVC_SEQ_H\n#define KVC_SEQ_H\n#endif\n'}),
    ],
    'dead-source': [
        ('a source in no CMakeLists.txt', {'lib/memory/lost.cpp': ''}),
        ('a source whose name ends another', {'lib/memory/lab.cpp': ''}),
        ('a test in no CMakeLists.txt', {'tests/unit/base/lost_test.cpp': ''}),
        ('a script that tests nothing', {'tests/tidy/CMakeLists.txt': '', 'tests/tidy/lost_test.py': ''}),
    ],
    'banned-word': [
        ('work left undone', {'lib/memory/slab.cpp': '// TO' + 'DO: later\n'}),
        ('work left undone in a page', {'README.md': 'FIX' + 'ME\n'}),
        ('a path outside the tree', {'CMakeLists.txt': 'set(x /wo' + 'rk/data)\n'}),
        ('the environment read below the shim', {'lib/memory/slab.cpp': 'auto x = std::getenv("X");\n'}),
    ],
    'fault-name': [
        ('a name without a dot', {'lib/memory/slab.cpp': 'bool x = KVC_FAULT("take");\n'}),
        ('a name used twice', {'lib/memory/slab.cpp': 'bool x = KVC_FAULT("base.check.f");\n'}),
    ],
    'field-reports': [
        ('a test that does not exist', {'tests/field_reports.md': _reports('| B01 | a/b#1 | x | `Check.B01_holds`<br>`test_B01_holds`<br>`Check.B01_more` | |')}),
        ('a test that is in no row', {'tests/field_reports.md': _reports('| B01 | a/b#1 | x | `Check.B01_holds` | |')}),
        ('a test that only a comment holds', {'tests/unit/base/check_test.cpp': '#include "../../../lib/base/check.h"\n// TEST(Check, B01_holds) {}\nTEST(Check, B100Holds) {}\n'}),
        ('a test of a row that is not there', {'tests/python/test_all.py': 'def test_B01_holds():\n    pass\ndef test_B77_too():\n    pass\n'}),
        ('a test without the id', {'tests/python/test_all.py': CLEAN['tests/python/test_all.py'] + 'def test_plain():\n    pass\n',
                                   'tests/field_reports.md': _reports('| B01 | a/b#1 | x | `Check.B01_holds`<br>`test_B01_holds`<br>`test_plain` | |')}),
        ('a row with nothing', {'tests/field_reports.md': _reports(_ROW, '| B02 | a/b#2 | x | | |')}),
        ('a row twice', {'tests/field_reports.md': _reports(_ROW, '| B01 | a/b#2 | x | | flying |')}),
        ('an ability that nobody explains', {'tests/field_reports.md': _reports(_ROW, '| B02 | a/b#2 | x | | diving |')}),
        ('a row without an issue', {'tests/field_reports.md': _reports(_ROW, '| B02 | | x | | flying |')}),
    ],
    'header-guard': [
        ('an internal header without #pragma once', {'lib/base/check.h': '#include "kvc/error.h"\n'}),
        ('a public header without a guard', {'include/kvc/error.h': '#pragma once\n'}),
    ],
}


def check_tree(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w', encoding='utf-8') as file:
                file.write(text)
        return rules.check(root)


def measures_functions():
    """Shapes of C++ that a brace counter gets wrong, each with the lengths of its functions."""
    shapes = [
        ('enum class A { kB, kC };\nstruct D { int e = 1; };\n', []),
        ('int a[] = {1, 2};\nconst Table t = {f(1), {g(2)}};\n', []),
        ('extern "C" {\nint f(void) {\n}\n}\n', [2]),
        ('struct alignas(64) A {\n int f() {\n }\n std::atomic<int> x{0};\n int g() { return x; }\n};\n', [2, 1]),
        ('A::A() : b_{1}, c_(2) {\n if (b_) {\n }\n}\nint f() {}\n', [4, 1]),
        ("int f() {\n char c = '{'; int n = 1'000'000;\n // {\n}\n", [4]),
        ('#define F(x) do { \\\n  x; } while (0) {\nint f() {\n}\n', [2]),
        ('auto f = [](int x) {\n return x;\n};\n', [3]),
        ('template <A a, typename T = B<C>>\nrequires D<T>\nauto f(T t) -> decltype(t) {\n}\n', [2]),
        ('static struct a *f(struct b *c)\n{\n}\n', [2]),
        ('auto s = R"x({{{)x";\nint f() { return 1; }\n', [1]),
    ]
    return [f'{text!r}: {got}, not {want}' for text, want in shapes if (got := [n for _, n in source.c_functions(text)]) != want]


def self_test():
    wrong = [f'clean tree: {finding}' for finding in check_tree(CLEAN)] + measures_functions()
    wrong += [f'{rule}: no violation is planted' for rule in rules.RULES if rule not in PLANTED]
    for rule, plants in PLANTED.items():
        for what, files in plants:
            found = {finding[0] for finding in check_tree({**CLEAN, **files})}
            if rule not in found:
                wrong.append(f'{rule}: did not find {what}')
    for line in wrong:
        print(line)
    print(f'{sum(map(len, PLANTED.values()))} planted violations, {len(wrong)} mistakes')
    return 1 if wrong else 0


def main(arguments):
    if arguments == ['--self-test']:
        return self_test()
    if len(arguments) != 1 or not os.path.isdir(arguments[0]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    findings = rules.check(arguments[0])
    for rule, path, line, message in findings:
        print(f'{path}:{line}: {rule}: {message}' if line else f'{path}: {rule}: {message}')
    print(f'{len(findings)} findings')
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
