"""Reading C, C++ and Python just well enough to find includes, literals and the length of functions.  Not a parser: it must never refuse a
file that a compiler takes, and a function it misses is only a function not measured."""
import ast
import re

_TOKEN = re.compile(
    r'''//(?:\\\n|[^\n])*            # a comment to the end of the line
      | /\*.*?\*/                    # a comment
      | R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"   # a raw string
      | "(?:\\.|[^"\\\n])*"          # a string
      | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'            # a character; behind a digit it separates thousands
    ''',
    re.VERBOSE | re.DOTALL,
)


def without_comments(text):
    """Comments become blanks; strings stay, and every character keeps its line."""
    return _TOKEN.sub(lambda m: _blank(m.group()) if m.group().startswith('/') else m.group(), text)


def without_literals(text):
    """Comments, strings, characters and preprocessor lines become blanks."""
    text = _TOKEN.sub(lambda m: _blank(m.group()), text)
    return re.sub(r'^[ \t]*#(?:\\\n|[^\n])*', lambda m: _blank(m.group()), text, flags=re.MULTILINE)


def _blank(text):
    return re.sub(r'[^\n]', ' ', text)


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1


_SCOPE = re.compile(r'(?:(?:export|typedef|inline|static|constexpr|const|friend)\s+)*(?:namespace|class|struct|union|enum|extern)\b')
_ATTRIBUTE = re.compile(r'__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]|alignas\s*\([^()]*\)|\bKVC_API\b', re.DOTALL)
_MEMBER_INITIALISER = re.compile(r'\)[\w\s]*(?<!:):(?!:).*[\w>]\s*$', re.DOTALL)


def _without_template(head):
    """Cuts `template <...>` and `requires` lists off the front of a declaration."""
    while head.startswith('template'):
        depth = 0
        for i, c in enumerate(head):
            depth += (c == '<') - (c == '>')
            if c == '>' and depth == 0:
                head = head[i + 1:].lstrip()
                break
        else:
            return head
    return head


def _opens(head):
    """What the brace behind `head` opens outside of functions: 'scope', 'value' or 'function'."""
    head = _without_template(_ATTRIBUTE.sub(' ', head).strip())
    if not head or (_SCOPE.match(head) and '(' not in head):
        return 'scope'
    if '(' not in head or head[-1] in '=,(' or _MEMBER_INITIALISER.search(head):
        return 'value'
    return 'function'


def c_functions(text):
    """[(line of the opening brace, lines of the body)] of the outermost functions of a C or C++ file."""
    found = []
    stack = []  # what each open brace opened; a function's inner braces are 'block'
    head_begin = 0
    line = 1
    heads = []
    code = without_literals(text)
    for i, c in enumerate(code):
        if c == '\n':
            line += 1
        elif c == '{':
            kind = 'block' if any(k[0] in ('function', 'block', 'value') for k in stack) else _opens(code[head_begin:i])
            stack.append((kind, line))
            heads.append(head_begin)
            if kind == 'scope':
                head_begin = i + 1
        elif c == '}' and stack:
            kind, begin = stack.pop()
            before = heads.pop()
            if kind == 'function':
                found.append((begin, line - begin + 1))
            if not any(k[0] != 'scope' for k in stack):
                # Behind a value the declaration goes on: `Type name{1}, other{2};`, or the body behind member initialisers.
                head_begin = before if kind == 'value' else i + 1
        elif c == ';' and not any(k[0] != 'scope' for k in stack):
            head_begin = i + 1
    return found


def python_functions(text):
    """[(first line, lines)] of all functions of a Python file."""
    tree = ast.parse(text)
    return [(n.lineno, n.end_lineno - n.lineno + 1) for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
