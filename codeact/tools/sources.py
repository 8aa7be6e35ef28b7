"""The source of a function that is shipped into the sandbox: it must stand on its own."""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from codeact.errors import ToolSourceError


def own_source(function: Callable[..., Any], name: str) -> str:
    """Its definition under `name`, without decorators and type hints. Raises ToolSourceError where it needs more."""
    if not inspect.isfunction(function):
        raise ToolSourceError(f"{name} cannot run in the sandbox: only plain functions can, written with def")
    try:
        text = textwrap.dedent(inspect.getsource(function))
        node = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError) as error:
        raise ToolSourceError(f"{name} cannot run in the sandbox: its source is not in a file") from error
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise ToolSourceError(f"{name} cannot run in the sandbox: only functions written with def can")
    node.name, node.decorator_list = name, []
    _forget_hints(node)
    source = ast.unparse(node) + "\n"
    if needed := sorted(set(_outside(symtable.symtable(source, name, "exec"))) - set(dir(builtins)) - {name}):
        raise ToolSourceError(
            f"{name} cannot run in the sandbox: it uses {', '.join(needed[:5])} from outside; import it or write it inside the function"
        )
    return source


def _forget_hints(node: ast.AST) -> None:
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            each.annotation = None
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            each.returns = None


def _outside(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that are looked up outside of what a table's code defines."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _outside(child)
