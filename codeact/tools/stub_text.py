"""Texts, types and values of any origin as Python source that says them and does nothing."""

from __future__ import annotations

import ast
import inspect
import io
import math
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from codeact.tools.schemas import Schemas
from sandbox.text import clean

MAX_LINE = 100
MAX_ANNOTATION = 1000
MAX_DEPTH = 20
ROOT_TEXT = """Your tools: `search(words)` and `list(namespace)` find them, `help(tool)` explains one.

Each call runs on the host. `await tool.aio(...)` is its twin for coroutines; `tool.map(items, concurrency=8)`
makes many calls at once and returns the results in order.
"""
BUILTIN = frozenset(
    [
        "bool",
        "bytes",
        "complex",
        "dict",
        "float",
        "frozenset",
        "int",
        "list",
        "object",
        "set",
        "str",
        "tuple",
        "None",
        "True",
        "False",
    ]
)
IMPORTS: Mapping[str, str] = {
    **dict.fromkeys(("Any", "Literal", "Iterator"), "typing"),
    **dict.fromkeys(("date", "datetime", "time", "timedelta"), "datetime"),
    "Decimal": "decimal",
    "Path": "pathlib",
    "UUID": "uuid",
}
LIBRARIES = frozenset(["numpy", "pandas", "polars", "pyarrow"])
_QUOTES = re.compile(r'""+|"\Z')
"""Quotes that could end a docstring."""
KNOWN = BUILTIN | set(IMPORTS) | LIBRARIES


def annotation(text: str, renamed: Mapping[str, str]) -> str:
    """A type expression with `renamed` classes under their names here; `Any` in place of all that is none."""
    try:
        node = ast.parse(text, mode="eval").body if len(text) <= MAX_ANNOTATION else None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        node = None
    return "Any" if node is None else ast.unparse(_type(node, renamed, 0))


def _type(node: ast.expr, renamed: Mapping[str, str], depth: int) -> ast.expr:
    if depth > MAX_DEPTH:
        return ast.Name("Any")
    match node:
        case ast.Name(id=name) if name in renamed:
            return ast.Name(renamed[name])
        case ast.Name(id=name) if name in KNOWN:
            return ast.Name(name)
        case ast.Constant(value=None):
            return node
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if (
            name in LIBRARIES and attribute[:1].isalpha()
        ):
            return ast.Attribute(ast.Name(name), attribute)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            values = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if all(_is_literal(each) for each in values):
                return ast.Subscript(ast.Name("Literal"), inner)
        case ast.Subscript(value=ast.Name() as outer, slice=inner):
            return ast.Subscript(_type(outer, renamed, depth + 1), _inner(inner, renamed, depth))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            sides = [_type(each, renamed, depth + 1) for each in (left, right)]
            return ast.BinOp(sides[0], ast.BitOr(), sides[1])
    return ast.Name("Any")


def _inner(node: ast.expr, renamed: Mapping[str, str], depth: int) -> ast.expr:
    match node:
        case ast.Tuple(elts=elements):
            return ast.Tuple([_inner(each, renamed, depth + 1) for each in elements])
        case ast.List(elts=elements):
            return ast.List([_inner(each, renamed, depth + 1) for each in elements])
        case ast.Constant(value=value) if value is ...:
            return node
    return _type(node, renamed, depth + 1)


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and type(node.operand.value) is int
    return isinstance(node, ast.Constant) and type(node.value) in (str, int, bool, bytes, type(None))


def of_schema(schema: Any, types: Mapping[str, Any]) -> str:
    """The type of a value with this JSON Schema."""
    reader = Schemas({})
    reader.types.update(types)
    try:
        return reader.text(schema)
    except Exception:  # noqa: BLE001 - a schema of any origin says anything
        return "Any"


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a default's `repr` is a literal that makes it again."""
    if type(value) in (str, int, bool, bytes, type(None), type(...)):
        return True
    if type(value) is float:
        return math.isfinite(value)
    if depth < 8 and type(value) in (list, tuple):
        return all(is_plain(each, depth + 1) for each in value)
    if depth < 8 and type(value) is dict:
        return all(is_plain(each, depth + 1) for pair in value.items() for each in pair)
    return False


def imports(body: str) -> list[str]:
    """The import lines for the names of types that annotations in `body` use."""
    used: set[str] = set()
    for node in ast.walk(ast.parse(body)):
        for hint in _annotations(node):
            used |= {each.id for each in ast.walk(hint) if isinstance(each, ast.Name)}
    by_module: dict[str, list[str]] = {}
    for name in sorted(used & set(IMPORTS)):
        by_module.setdefault(IMPORTS[name], []).append(name)
    return [from_import(module, names) for module, names in sorted(by_module.items())]


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.FunctionDef(returns=hint) | ast.AsyncFunctionDef(returns=hint) if hint is not None:
            yield hint
        case ast.arg(annotation=hint) | ast.AnnAssign(annotation=hint) if hint is not None:
            yield hint


def from_import(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= MAX_LINE:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def call(function: str, given: Sequence[str]) -> str:
    line = f"{function}({', '.join(given)})"
    if len(line) <= MAX_LINE - 4:
        return line
    return "\n".join([f"{function}(", *(f"    {each}," for each in given), ")"])


def cleaned(text: str, limit: int) -> str:
    """A text without control characters, its lines without outer space, cut to `limit` characters."""
    lines = [line.rstrip() for line in inspect.cleandoc(clean(text[: 4 * limit]).expandtabs(4)).splitlines()]
    whole = "\n".join(lines).strip()
    return whole if len(whole) <= limit else f"{whole[:limit].rstrip()}…"


def one_line(text: str) -> str:
    return " ".join(text.split())


def docstring(text: str) -> str:
    """A text as a docstring, whatever it holds."""
    inner = _QUOTES.sub(lambda found: found.group().replace('"', '\\"'), text.replace("\\", "\\\\"))
    return f'"""{inner}\n"""' if "\n" in inner else f'"""{inner}"""'


def definition(name: str, text: str) -> str:
    """The first line of a function with the signature `text`; a long one has a line for each parameter."""
    line = f"def {text}:"
    if len(line) <= MAX_LINE:
        return line
    parts = _parameters(text)
    before, after = text[: len(name) + 1], parts.pop()
    return "\n".join([f"def {before}", *(f"    {part}," for part in parts), f"){after}:"])


def _parameters(text: str) -> list[str]:
    """The parameters of a signature, and what follows the bracket that closes them."""
    depth, start = 0, 0
    found: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        at, end = token.start[1], token.end[1]
        if token.type != tokenize.OP:
            continue
        if token.string in "([{":
            depth += 1
            start = end if depth == 1 else start
        elif token.string in ")]}":
            depth -= 1
            if depth == 0:
                return [*found, text[start:at].strip(), text[end:]]
        elif token.string == "," and depth == 1:
            found.append(text[start:at].strip())
            start = end
    raise AssertionError(f"not a signature: {text}")
