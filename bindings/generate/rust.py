"""Rust: everything of the C headers as kvc-sys declares it, and its test of the layout.

The text is as rustfmt leaves it: whatever fits in a hundred columns stands on one line, else one parameter a line."""

import re

from tree import ROOT

WIDTH = 100
SCALARS = {"void": "c_void", "char": "c_char", "int": "c_int", "float": "f32", "double": "f64", "size_t": "usize", "int32_t": "i32", "int64_t": "i64", "uint8_t": "u8",
           "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64"}
KEYWORDS = {"as", "async", "const", "fn", "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "self", "type", "use", "where"}
# What constants are for: statuses are signed, a few stand in members of 64 bits, all others in those of 32.
SIGNED = ("KVC_OK", "KVC_ERR_")
WIDE = ("KVC_ALL", "KVC_FOREVER", "KVC_FEATURE_")

HEAD = """\
// Written by bindings/generate from the C headers: change those, and run it again.

//! The declarations of the C headers, with their comments.

use core::ffi::{c_char, c_int, c_void};
use core::marker::{PhantomData, PhantomPinned};

"""

MACROS = """\
macro_rules! sized {
    ($($name:ident)*) => {$(
        impl $name {
            /// All zero, and `size` set: what `KVC_INIT` does in C.
            #[must_use]
            pub const fn init() -> Self {
                let mut out = Self::zeroed();
                out.size = size_of::<Self>() as u32;
                out
            }
        }
    )*};
}

macro_rules! zeroed {
    ($($name:ident)*) => {$(
        impl $name {
            /// All zero.
            #[must_use]
            pub const fn zeroed() -> Self {
                // SAFETY: numbers, pointers and optional functions, and arrays of those, may all be zero.
                unsafe { core::mem::zeroed() }
            }
        }
    )*};
}
"""


def name_of(name):
    return f"r#{name}" if name in KEYWORDS else name


def type_of(t):
    base = SCALARS.get(t.base, t.base)
    text = "".join("*const " if const else "*mut " for const in t.pointers) + base
    return f"[{text}; {t.count}]" if t.count else text


def escaped(text):
    """C's words as Markdown that means nothing but them; what stands in backticks stays."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if i % 2 else re.sub(r"([\[\]<>*|\\])", r"\\\1", piece) for i, piece in enumerate(pieces))


def is_table(lines):
    return any(line.startswith("  ") and not line.lstrip().startswith("- ") for line in lines)


def prose(text):
    """The lines of a comment without its @ part.  What is indented in C is code or a table, and stays as it stands."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines = paragraph.splitlines()
        listed = [i for i, line in enumerate(lines) if line.lstrip().startswith("- ")]
        if listed:
            lines = [line.strip() if i in listed or i < listed[0] else f"  {line.strip()}" for i, line in enumerate(lines)]
        table = not listed and is_table(lines)
        if out:
            out.append("")
        out += ["```text", *lines, "```"] if table else [escaped(line) for line in lines]
    return out


def doc(text, indent=""):
    """A rustdoc comment: the description, the parameters as a list, what comes back, since when."""
    said, *tagged = re.split(r"^@(?=param|return|since)", text, flags=re.M)
    out = prose(said) if said.strip() else []
    items = [" ".join(item.split()).split(" ", 1) for item in tagged]
    parameters = [rest.split(" ", 1) for tag, rest in items if tag == "param"]
    if parameters:
        out += ["", *(f"- `{name}`: {escaped(rest)}" for name, rest in parameters)]
    for tag, rest in items:
        if tag == "return":
            out += ["", f"Returns {escaped(rest)}"]
        elif tag == "since":
            out += ["", f"Since: {escaped(rest)}"]
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in out)


def constant(c):
    kind = "i32" if c.name.startswith(SIGNED) else "u64" if c.name.startswith(WIDE) else "u32"
    value = f"{c.value:#X}".replace("X", "x") if c.value > 1 << 20 else str(c.value)
    value = re.sub(r"(?<=[0-9A-F])(?=(?:[0-9A-F]{4})+$)", "_", value) if value.startswith("0x") else value
    return doc(c.doc or f"`{c.name}` of the C headers.") + f"pub const {c.name}: {kind} = {value};\n"


def struct(s):
    out = [doc(s.doc), "#[repr(C)]\n#[derive(Clone, Copy, Debug)]\n", f"pub struct {s.name} {{\n"]
    for m in s.members:
        out.append(doc(m.doc or m.name, "    ") + f"    pub {name_of(m.name)}: {type_of(m.type)},\n")
    return "".join([*out, "}\n"])


def handle(name, said):
    members = "    opaque: [u8; 0],\n    marker: PhantomData<(*mut u8, PhantomPinned)>,\n"
    return doc(said) + f"#[repr(C)]\n#[derive(Debug)]\npub struct {name} {{\n{members}}}\n"


def signature(head, parameters, tail, indent):
    line = f"{indent}{head}({', '.join(parameters)}){tail}"
    if len(line) <= WIDTH:
        return line + "\n"
    return f"{indent}{head}(\n" + "".join(f"{indent}    {p},\n" for p in parameters) + f"{indent}){tail}\n"


def result(t):
    return "" if t.base == "void" and not t.pointers else f" -> {type_of(t)}"


def function(f):
    parameters = [f"{name_of(p.name)}: {type_of(p.type)}" for p in f.parameters]
    safe = "" if any(p.type.pointers for p in f.parameters) else "safe "
    return doc(f.doc, "    ") + signature(f"pub {safe}fn {f.name}", parameters, result(f.result) + ";", "    ")


def callback(c):
    parameters = [f"{name_of(p.name)}: {type_of(p.type)}" for p in c.parameters]
    tail = result(c.result)
    one = f"pub type {c.name} = Option<unsafe extern \"C\" fn({', '.join(parameters)}){tail}>;"
    if len(one) > WIDTH:
        one = f"pub type {c.name} =\n    Option<unsafe extern \"C\" fn({', '.join(parameters)}){tail}>;"
    return doc(c.doc) + one + "\n"


def invoked(macro, names):
    """macro! { names }, filled up to the width."""
    lines, line = [], "   "
    for name in names:
        if len(line) + 1 + len(name) > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {name}"
    return f"{macro}! {{\n" + "\n".join([*lines, line]) + "\n}\n"


def bindings(tree):
    numbers = [constant(c) for e in tree.enums for c in e.constants]
    handles = [handle(name, said) for name, said in tree.handles.items()]
    structs = [struct(s) for s in tree.structs]
    sized = [s.name for s in tree.structs if s.members[0].name == "size"]
    functions = [function(f) for f in tree.functions]
    status = "/// 0 or negative.  Values are pinned and never reused.\npub type kvc_status = i32;\n"
    blocks = [status, *handles, *[callback(c) for c in tree.callbacks], *structs, MACROS, invoked("zeroed", [s.name for s in tree.structs]), invoked("sized", sized),
              'unsafe extern "C" {\n' + "\n".join(functions) + "}\n"]
    return HEAD + "\n".join([*numbers, *blocks])


LAYOUT_HEAD = """\
//! Written by bindings/generate: every struct, member and constant, to be compared with what the C compiler says of them.

use kvc_sys::*;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{align_of, offset_of, size_of};

/// `tests/abi/layout.txt`: "struct NAME SIZE ALIGNMENT", "member STRUCT.NAME OFFSET SIZE", "constant NAME VALUE".
const TABLE: &str = include_str!("layout.txt");

fn size_of_member<S, M>(_: fn(&S) -> &M) -> usize {
    size_of::<M>()
}

macro_rules! layout {
    ($out:ident: $($name:ident { $($member:ident)* })*) => {$(
        let said = format!("{} {}", size_of::<$name>(), align_of::<$name>());
        $out.insert(concat!("struct ", stringify!($name)).to_string(), said);
        $(
            let member = stringify!($member).trim_start_matches("r#");
            let size = size_of_member(|of: &$name| &of.$member);
            let said = format!("{} {size}", offset_of!($name, $member));
            $out.insert(format!("member {}.{member}", stringify!($name)), said);
        )*
    )*};
}

macro_rules! constants {
    ($out:ident: $($name:ident)*) => {$(
        $out.insert(concat!("constant ", stringify!($name)).to_string(), $name.to_string());
    )*};
}

#[test]
fn everything_is_as_the_c_compiler_has_it() {
    let mut table = BTreeMap::new();
    for line in TABLE.lines() {
        let (what, said) = line.match_indices(' ').nth(1).map(|(at, _)| line.split_at(at)).unwrap();
        table.insert(what.to_string(), said.trim().to_string());
    }
    assert!(table.len() > 400, "the table is not whole");
    let mut ours = BTreeMap::new();
"""


LAYOUT_TAIL = """\
    // Versions change with every release, and lie nowhere.
    ours.retain(|what, _| !what.contains("KVC_VERSION_"));
    table.retain(|what, _| !what.contains("KVC_VERSION_"));
    let all: BTreeSet<_> = ours.keys().chain(table.keys()).collect();
    for what in all {
        assert_eq!(ours.get(what), table.get(what), "{what}: here, and in the table");
    }
}
""".split("\n")


def filled(indent, words):
    lines, line = [], indent
    for word in words:
        if len(line) + 1 + len(word) > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += f"{word} "
    return [*lines, line.rstrip()]


def layout_test(tree):
    out = [LAYOUT_HEAD.rstrip("\n"), "    layout! { ours:"]
    for s in tree.structs:
        out += [f"        {s.name} {{", *filled(" " * 12, [name_of(m.name) for m in s.members]), "        }"]
    out += ["    }", "    constants! { ours:", *filled(" " * 8, [c.name for e in tree.enums for c in e.constants]), "    }"]
    return "\n".join([*out, *LAYOUT_TAIL])


def files(tree):
    return {
        "rust/kvc-sys/src/bindings.rs": bindings(tree),
        "rust/kvc-sys/tests/layout.rs": layout_test(tree),
        "rust/kvc-sys/tests/layout.txt": (ROOT / "tests" / "abi" / "layout.txt").read_text(),
    }
