"""M3ToolEval: tasks that are written as Python, with a scorer of their own."""

from __future__ import annotations

import ast
import copy
import inspect
import operator
import re
import sys
import types
from pathlib import Path
from typing import Any

from .plain import NotACopy, as_json, digest, imported

KINDS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "List": "array",
    "dict": "object",
    "Dict": "object",
}


class M3:
    def __init__(self, path: Path) -> None:
        places = [path, path / "scripts" / "eval" / "m3tooleval"]
        root = next((each for each in places if (each / "tasks" / "base.py").is_file()), None)
        if root is None:
            raise NotACopy(
                "there is no tasks/base.py in it; give scripts/eval/m3tooleval of a clone of code-act"
            )
        # what draws progress and what runs code are not needed here, nor the packages that they need
        sys.modules["tqdm"] = _module("tqdm", tqdm=lambda *_, **__: _module("bar", update=lambda count: None))
        sys.modules["tasks.repl"] = _module("tasks.repl", PythonREPL=None)
        self.asked = {task.name: task for task in imported("tasks", root).get_task_iterator()}

    def tasks(self) -> list[dict[str, Any]]:
        return [
            {
                "id": key,
                "instruction": task.instruction,
                "expected": as_json(task.expected_output),
                "state": digest(None),
                "tools": [definition(tool) for tool in self._fresh(key).tools.values()],
            }
            for key, task in self.asked.items()
        ]

    def _fresh(self, key: str) -> Any:
        task = copy.copy(self.asked[key])
        task.reset()
        return task

    def start(self, key: str) -> None:
        self.task = self._fresh(key)

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "calculator":  # theirs evaluates whatever a model writes
            return calculated(arguments["expression"])
        found = self.task.tools[tool]
        names, rest = parameters(found)
        placed = [arguments[name] for name in names if name in arguments]
        return found.function(*placed, *(arguments.get(rest, ()) if rest else ()))

    def state(self) -> None:
        return None

    def score(self, answer: Any) -> bool:
        return bool(self.task.check_answer(answer if isinstance(answer, str) else str(answer)))


def _module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


def definition(tool: Any) -> dict[str, Any]:
    """A function definition. Names are those of the function itself: some of the signatures that are shown to models have
    others, or lack one. Types come from either."""
    names, rest = parameters(tool)
    arguments = shown(tool)
    hints = {each.arg: each.annotation for each in arguments.args}
    if len(arguments.args) == len(names):
        hints |= {name: each.annotation for name, each in zip(names, arguments.args, strict=True)}
    properties = {name: schema_of(hints.get(name)) or {"type": "string"} for name in names}
    if rest:
        items = schema_of(arguments.vararg.annotation) if arguments.vararg else {}
        properties[rest] = {"type": "array", "items": items}
    schema = {"type": "object", "properties": properties, "required": names}
    return {"name": tool.name, "description": tool.description.strip(), "parameters": schema}


def parameters(tool: Any) -> tuple[list[str], str | None]:
    """The names of a function's parameters, and that of the one that takes the rest."""
    try:
        found = inspect.signature(tool.function).parameters.values()
    except ValueError:  # built into Python
        arguments = shown(tool)
        return [each.arg for each in arguments.args], arguments.vararg.arg if arguments.vararg else None
    names = [each.name for each in found if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return names, next((each.name for each in found if each.kind is each.VAR_POSITIONAL), None)


def shown(tool: Any) -> Any:
    """The arguments in the signature that is shown to models."""
    text = re.sub(r"^\s*(?:def\s+)?", "def ", tool.fn_signature.strip()).rstrip(":") + ": ..."
    written: Any = ast.parse(text).body[0]
    return written.args


def schema_of(annotation: Any) -> dict[str, Any]:
    """The JSON Schema of a type hint; {} where it is none that JSON has."""
    match annotation:
        case ast.Name(id=name) if name in KINDS:
            return {"type": KINDS[name]}
        case ast.Subscript(value=ast.Name(id="List" | "list"), slice=inner):
            return {"type": "array", "items": schema_of(inner)}
        case ast.Subscript(value=ast.Name(id="Dict" | "dict")):
            return {"type": "object"}
    return {}


# -- their calculator, without the rest of Python ----------------------------------------------------------------------

OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
FUNCTIONS: dict[str, Any] = {"abs": abs, "max": max, "min": min, "round": round, "sum": sum}
MAX_POWER = 1000


def calculated(expression: str) -> Any:
    """Arithmetic; what is more gets their words for what cannot be evaluated."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except Exception:  # noqa: BLE001 - as in the original
        return f"Failed to evaluate expression: {expression}"


def _value(node: Any) -> Any:
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.List() | ast.Tuple():
            return [_value(each) for each in node.elts]
        case ast.UnaryOp():
            return OPERATORS[type(node.op)](_value(node.operand))
        case ast.BinOp(op=ast.Pow()):
            base, power = _value(node.left), _value(node.right)
            if abs(base) > MAX_POWER or abs(power) > MAX_POWER:
                raise ValueError("too large")
            return base**power
        case ast.BinOp():
            return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            return FUNCTIONS[name](*(_value(each) for each in node.args))
    raise ValueError("not arithmetic")
