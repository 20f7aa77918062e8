"""tests/field_reports.md against the tree: what it names exists, and what is named after a row is in it."""
import re

import source

TABLE = 'tests/field_reports.md'
_CASE = re.compile(r'\bTEST(?:_[FP])?\(\s*(\w+)\s*,\s*(\w+)\s*\)')
_PYTHON = re.compile(r'^(?:async )?def (test_\w+)\(', re.MULTILINE)
_RUST = re.compile(r'^ *(?:async )?fn (\w+)\(', re.MULTILINE)
_GO = re.compile(r'^func (Test\w+)\(', re.MULTILINE)
_ID = re.compile(r'(?<![A-Za-z0-9])B(\d{2,3})(?![0-9a-f])')


def tests_of(tree):
    """{name as the table has it: (path, line)} of every test in the tree."""
    found = {}
    for path, text in tree.files('.cpp', under='tests/'):
        code = source.without_comments(text)
        for match in _CASE.finditer(code):
            found[f'{match.group(1)}.{match.group(2)}'] = (path, source.line_of(code, match.start()))
    for ending, under, pattern in (('.py', 'tests/python/', _PYTHON), ('_test.go', 'bindings/go/', _GO), ('.rs', 'bindings/rust/kvc/tests/', _RUST)):
        for path, text in tree.files(ending, under=under):
            for match in pattern.finditer(text):
                found[match.group(1)] = (path, source.line_of(text, match.start()))
    return found


def rows_of(text):
    """[(line, cells)] of every line of a table but its head."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith('| ') and line.endswith('|'):
            yield number, [cell.strip() for cell in line.strip('|').split('|')]


def check_field_reports(tree):
    text = tree.texts.get(TABLE)
    if text is None:
        return
    tests, rows, abilities, last = tests_of(tree), {}, set(), 0
    for line, cells in rows_of(text):
        if len(cells) == 2:
            abilities.add(cells[0])
            continue
        if len(cells) != 5:
            yield TABLE, line, f'{len(cells)} cells: a row has five'
            continue
        identity, issue, scenario, shown, waits = cells
        if not re.fullmatch(r'B\d{2,3}', identity):
            if identity != 'id':
                yield TABLE, line, f'"{identity}" is no id'
            continue
        if int(identity[1:]) <= last:
            yield TABLE, line, f'{identity} is there before, or out of order'
        last = int(identity[1:])
        rows[identity] = set(re.findall(r'`([^`]+)`', shown))
        if not issue or not scenario:
            yield TABLE, line, f'{identity} names no issue, or no scenario'
        if not rows[identity] and not waits:
            yield TABLE, line, f'{identity} is neither shown nor waits: write its test'
        for name in sorted(rows[identity] - tests.keys()):
            yield TABLE, line, f'{identity}: there is no test {name}: write it, or name the one there is'
        for name in sorted(rows[identity] & tests.keys()):
            if identity not in ids_of(name):
                yield TABLE, line, f'{identity}: {name} does not carry the id in its name: rename it'
        for ability in filter(None, (part.strip() for part in waits.split(';'))):
            if ability not in abilities:
                yield TABLE, line, f'{identity} waits for "{ability}", which the first table does not say: add it there, or write the test'
    for name, (path, line) in tests.items():
        for identity in ids_of(name):
            if name not in rows.get(identity, ()):
                yield path, line, f'{name} is not in the row {identity} of {TABLE}: add it'


def ids_of(name):
    return {f'B{number}' for number in _ID.findall(name.replace('_', ' ').replace('.', ' '))} | {f'B{number}' for number in re.findall(r'\.B(\d{2,3})(?=[A-Z])', name)}
