"""The rules.  Each is a function of the tree that yields (path, line, message); the message says what to do instead."""
import fnmatch
import os
import re

import reports
import source

LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# Which room may include which: the table of the architecture, as data.  Every room may include itself, the public headers (but for the
# kernels, which know nothing of kvc) and what is not ours.
_BELOW_SERVER = ('base', 'memory', 'io', 'kernels', 'codec', 'seq', 'policy', 'tier', 'transport', 'store', 'cluster')
ROOMS = {
    'kernels': (),
    'base': (),
    'memory': ('base',),
    'io': ('base',),
    'codec': ('base', 'kernels'),
    'seq': ('base',),
    'policy': ('base',),
    'tier': ('base', 'memory', 'io', 'codec'),
    'transport': ('base', 'memory'),
    'store': ('base', 'memory', 'io', 'kernels', 'codec', 'seq', 'policy', 'tier'),
    'cluster': ('base', 'transport', 'store'),
    'server': _BELOW_SERVER,
    'cli': _BELOW_SERVER,
    'api': ('base', 'store', 'cluster'),
}
PUBLIC = 'kvc'  # include/kvc, included as kvc/*.h

TOP_LEVEL = {
    'CMakeLists.txt', 'CMakePresets.json', 'README.md', 'LICENSE', 'CHANGELOG.md', '.gitignore', '.clang-format', '.ci',
    'include', 'lib', 'kernels', 'bindings', 'examples', 'tests', 'pkgconfig',
}
BANNED_FOLDERS = ('src', 'utils', 'util', 'common', 'third_party', 'misc', 'helpers')
BANNED_FOLDERS_EXCEPT = ('bindings/*/src', 'bindings/rust/*/src', 'bindings/rust/*/tests/common', 'tests/rust/*/src')  # what packagers of a language expect

# Written by a program that is itself in the tree: their length and their form are that program's.
GENERATED = ('tests/golden/vectors.h', 'bindings/go/internal/raw/raw.go', 'bindings/go/internal/raw/raw_wrap.c', 'bindings/go/layout.go', 'bindings/go/constants.go',
             'bindings/go/layout_generated_test.go', 'bindings/rust/kvc-sys/src/bindings.rs')

C_LIKE = ('.c', '.h', '.cc', '.cpp', '.hpp', '.cu', '.cuh')
CODE = C_LIKE + ('.py', '.pyi', '.sh', '.cmake', '.i', '.go', '.rs', '.map')
TEXT = CODE + ('.md', '.txt.in', '.in', '.toml', '.json')
NOT_OURS = {'.git', 'build', 'dist', '__pycache__', '.venv', '.pytest_cache', '.mypy_cache'}


class Tree:
    """The files below `root` that are ours, read once."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        self.folders = []
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in NOT_OURS and not f.endswith('.egg-info'))
            relative = os.path.relpath(folder, root).replace(os.sep, '/')
            self.folders.append(relative)
            for name in sorted(files):
                path = name if relative == '.' else f'{relative}/{name}'
                if name == 'CMakeLists.txt' or name.endswith(TEXT):
                    with open(os.path.join(folder, name), encoding='utf-8', errors='replace') as file:
                        self.texts[path] = file.read()

    def files(self, *endings, under=''):
        return ((path, text) for path, text in self.texts.items() if path.endswith(endings) and path.startswith(under))


def room_of(path):
    """The room a file lies in: a room of the table, 'include', 'bindings', 'examples', or None where everything is allowed."""
    parts = path.split('/')
    if parts[0] == 'lib' and len(parts) > 2:
        return parts[1]
    return parts[0] if parts[0] in ('kernels', 'include', 'bindings', 'examples') else None


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def includes(text):
    for match in _INCLUDE.finditer(source.without_comments(text)):
        yield source.line_of(text, match.start()), match.group(2)


def check_includes(tree):
    for path, text in tree.files(*C_LIKE):
        room = room_of(path)
        for line, name in includes(text):
            if room is not None and '..' in name.split('/'):
                yield path, line, f'"{name}": name an include by its room, "room/file.h", not by a way out of the folder'
                continue
            target = name.split('/')[0] if '/' in name else None
            if room is None or target is None or target == room or target not in (*ROOMS, PUBLIC):
                continue
            allowed = ROOMS.get(room, ())
            if target == PUBLIC and room != 'kernels' or target in allowed:
                continue
            may = ', '.join(allowed) or 'no other room'
            yield path, line, f'{room} may not include "{name}": it may include {may}; move the code or the seam, not the rule'


def check_rooms(tree):
    for folder in tree.folders:
        parts = folder.split('/')
        if len(parts) == 2 and parts[0] == 'lib' and parts[1] not in ROOMS:
            yield folder, 0, 'not a room of the table: put the files into one, or add the room here and to the architecture'
        excepted = any(fnmatch.fnmatch(folder, pattern) for pattern in BANNED_FOLDERS_EXCEPT)
        if parts[-1] in BANNED_FOLDERS and not excepted:
            yield folder, 0, f'"{parts[-1]}" says nothing about what is inside: name the folder after its feature'
    for name in sorted(os.listdir(tree.root)):
        if name not in TOP_LEVEL and name not in NOT_OURS:
            yield name, 0, 'not part of the top level: put it beside its subject'


def check_file_lines(tree):
    for path, text in tree.texts.items():
        lines = text.count('\n')
        is_code = path.endswith(CODE) or path.endswith('CMakeLists.txt')
        if is_code and lines > LINES_MAX and path not in GENERATED:
            yield path, 0, f'{lines} lines: split it, {LINES_MAX} is the limit'


def check_function_lines(tree):
    for path, text in tree.files(*C_LIKE, '.py'):
        if path in GENERATED:
            continue
        try:
            functions = source.python_functions(text) if path.endswith('.py') else source.c_functions(text)
        except SyntaxError as error:
            yield path, error.lineno or 0, f'not Python: {error.msg}'
            continue
        for line, lines in functions:
            if lines > FUNCTION_LINES_MAX:
                yield path, line, f'a function of {lines} lines: push the ifs up and the loops down, {FUNCTION_LINES_MAX} is the limit'


def check_dead_headers(tree):
    included = set()
    for path, text in tree.files(*C_LIKE, '.i', '.py', '.cmake', 'CMakeLists.txt'):
        folder = os.path.dirname(path)
        for _, name in includes(text):
            for at in (name, f'lib/{name}', f'include/{name}', f'tests/{name}', f'{folder}/{name}'):
                if at != path:
                    included.add(os.path.normpath(at))
        for name in re.findall(r'%(?:include|import)\s+[<"]([^>"]+)[>"]', text):
            included.add(f'{folder}/{name}')
            included.add(f'include/{name}')
    for path, _ in tree.files('.h', '.hpp', '.cuh'):
        if path not in included and path != 'include/kvc/kvc.h':
            yield path, 0, 'nobody includes it: use it or delete it'


def check_dead_sources(tree):
    for path, _ in tree.files('.c', '.cc', '.cpp', '.cu', '.py', '.sh'):
        folder, name = os.path.split(path)
        stem = name.rsplit('.', 1)[0]
        is_test = path.startswith('tests/') and (stem.endswith('_test') or stem.startswith('test_'))
        if (path.endswith(('.py', '.sh')) and not is_test) or path in GENERATED:
            continue
        if not any(_names(tree, above, path, name) for above in _folders_above(folder)):
            yield path, 0, 'no CMakeLists.txt builds or runs it: add it or delete it'


def _folders_above(folder):
    while folder:
        yield folder
        folder = os.path.dirname(folder)


def _names(tree, folder, path, name):
    """Whether the build files or the test programs of `folder` name `path`, or take all of its kind."""
    inside = path[len(folder) + 1:]
    for user, text in tree.texts.items():
        if os.path.dirname(user) != folder or user == path:
            continue
        if user.endswith(('CMakeLists.txt', '.cmake')):
            if re.search(rf'(?<![\w.]){re.escape(inside)}(?![\w.])|(?<![\w.]){re.escape(name)}(?![\w.])', text):
                return True
            if re.search(r'\bGLOB(_RECURSE)?\b[^)]*\*' + re.escape(os.path.splitext(name)[1]) + r'\b', text):
                return True
            if name.endswith('.py') and 'pytest' in text:
                return True
        elif user.endswith(('.py', '.sh', '.toml')) and re.search(rf'(?<![\w.]){re.escape(name)}(?![\w.])', text):
            return True
    return False


# The brackets keep the patterns from finding themselves.
_BANNED_WORDS = (
    (re.compile(r'\b(TOD[O]|FIXM[E])\b'), 'finish it, or say in a sentence why it is so'),
    (re.compile(r'''(?<![\w.~*})-])/(work|root|home)[/]\w'''), 'a path outside the tree: take it as an option'),
)
_GETENV = re.compile(r'\b(secure_)?getenv\s*\(|\benviron\b')
GETENV_ROOMS = ('api', 'cli', 'server')


def check_banned_words(tree):
    for path, text in tree.texts.items():
        for pattern, instead in _BANNED_WORDS:
            for match in pattern.finditer(text):
                yield path, source.line_of(text, match.start()), f'"{match.group()}": {instead}'
    for path, text in tree.files(*C_LIKE):
        room = room_of(path)
        if room in (*ROOMS, 'include') and room not in GETENV_ROOMS:
            for match in _GETENV.finditer(source.without_literals(text)):
                yield path, source.line_of(text, match.start()), 'reads the environment: configuration enters once, through options'


_FAULT = re.compile(r'\bKVC_FAULT\(\s*"([^"]*)"\s*\)')
_FAULT_NAME = re.compile(r'[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+')


def check_faults(tree):
    seen = {}
    for path, text in tree.files(*C_LIKE):
        if room_of(path) not in ROOMS:
            continue
        code = source.without_comments(text)
        for match in _FAULT.finditer(code):
            line, name = source.line_of(code, match.start()), match.group(1)
            if not _FAULT_NAME.fullmatch(name):
                yield path, line, f'fault point "{name}": name it room.noun.verb, in lower case'
            if name in seen:
                yield path, line, f'fault point "{name}" is taken by {seen[name]}: one place, one name'
            seen.setdefault(name, f'{path}:{line}')


def check_header_guards(tree):
    for path, text in tree.files('.h', '.hpp', '.cuh'):
        public = path.startswith('include/')
        if public:
            # Public headers are read by compilers and tools of others: a guard is the common ground.
            guard = 'KVC_' + os.path.basename(path).upper().replace('.', '_')
            if not re.search(rf'^#ifndef {guard}\n#define {guard}$', source.without_comments(text), re.MULTILINE):
                yield path, 0, f'wants the guard {guard}'
        elif path not in GENERATED and '#pragma once' not in text:
            yield path, 0, 'wants #pragma once'


RULES = {
    'include': check_includes,
    'rooms': check_rooms,
    'file-lines': check_file_lines,
    'function-lines': check_function_lines,
    'dead-header': check_dead_headers,
    'dead-source': check_dead_sources,
    'banned-word': check_banned_words,
    'fault-name': check_faults,
    'header-guard': check_header_guards,
    'field-reports': reports.check_field_reports,
}


def check(root):
    """[(rule, path, line, message)] of all that is wrong below `root`."""
    tree = Tree(root)
    return [(rule, *finding) for rule, function in RULES.items() for finding in function(tree)]
