"""JSON that stands for an action: code wrapped in an object, or the call of a tool by name, rendered as Python."""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from codeact.actions.python import is_code, parse

_NAMES = ("name", "tool", "tool_name", "function", "action", "command")
_ARGUMENTS = ("arguments", "args", "parameters", "params", "kwargs", "input", "action_input", "tool_input")
_CODE = ("code", "source", "python", "python_code", "script")
_THOUGHTS = {"thought", "thoughts", "thinking", "reasoning", "plan", "explanation", "language", "action"}
INTERPRETER = re.compile(
    r"i?python\w*|jupyter\w*|(?:code_?)?interpreter|(?:run|exec|eval|execute)(?:_?(?:i?python|code|cell))*|code",
    re.IGNORECASE,
)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]][\s}\]]*\Z)")
_OBJECT = re.compile(r"^[ \t]*(?=[{\[])", re.MULTILINE)
# an object in prose is tried at each line that starts with one; nobody writes more calls than this
_MOST_OBJECTS = 64


T = TypeVar("T")
Take = Callable[[Any], T | None]
"""What an object stands for; None if it is data."""


def read_calls(text: str, take: Take[T]) -> tuple[T, ...]:
    """What a text stands for that is JSON and nothing else: one or more objects, or an array. Empty if it is no action."""
    try:
        taken = [take(each) for value in _values(text) for each in _flat(value)]
    except RecursionError:
        return ()
    found = tuple(each for each in taken if each is not None)
    return found if len(found) == len(taken) else ()


def find_calls(text: str, take: Take[T]) -> tuple[tuple[T, ...], int, int]:
    """What the JSON objects in prose that are actions stand for, with where the first starts and where the last ends."""
    decoder = _decoder()
    found: list[T] = []
    start = stop = at = 0
    for _ in range(_MOST_OBJECTS):
        opening = _OBJECT.search(text, at)
        if opening is None:
            break
        try:
            value, at = decoder.raw_decode(text, opening.end())
            taken = [each for flat in _flat(value) if (each := take(flat)) is not None]
        except (ValueError, RecursionError):
            at = opening.end() + 1
            continue
        if taken:
            start, stop = start if found else opening.end(), at
            found += taken
    return tuple(found), start, stop


def is_json(text: str) -> bool:
    return any(True for _ in _values(text))


def _decoder() -> json.JSONDecoder:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    # not strict: models write code with real newlines into JSON strings
    return json.JSONDecoder(strict=False, parse_constant=refuse)


def _values(text: str) -> Iterator[Any]:
    """The JSON values (or the one Python dict) that make up `text`; none if there is anything else in it."""
    decoder = _decoder()
    text = _TRAILING_COMMA.sub("", text.strip().strip("\ufeff"))
    if text[:1] not in ("{", "["):
        return
    values: list[Any] = []
    at = 0
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            values.append(value)
            while at < len(text) and text[at] in " \t\r\n,;":
                at += 1
    except (ValueError, RecursionError):
        values = _python_dict(text)
    yield from values


def _python_dict(text: str) -> list[Any]:
    match parse(text):
        case ast.Module(body=[ast.Expr(value=ast.Dict() as value)]):
            try:
                return [ast.literal_eval(value)]
            except (ValueError, TypeError, RecursionError):
                return []
    return []


def _flat(value: Any) -> Iterator[Any]:
    """The single calls in an array, in OpenAI's `tool_calls` and in its `function` wrapping."""
    match value:
        case list():
            for each in value:
                yield from _flat(each) if isinstance(each, dict) else (each,)
        case {"tool_calls": [*calls]} | {"actions": [{"name": str()}, *_] as calls}:
            yield from _flat(list(calls))
        case (
            {"function": {"name": str()} as call}
            | {"tool_call": {"name": str()} as call}
            | {"function_call": {"name": str()} as call}
        ):
            yield call
        case _:
            yield value


def named_call(value: Any) -> tuple[str, Any] | None:
    """The name and the arguments, as they are written, of the call that one object stands for; None if it is none."""
    name, given = _named(value)
    if name == "final_answer" and "final_answer" in value:
        return name, {"value": value["final_answer"]}
    # a tool's definition has the keys of its call, and says what it does
    return (name, given[0]) if name is not None and given and "description" not in value else None


def cell(value: Any) -> str | None:
    """The cell that one object stands for; None if it is data."""
    if call := named_call(value):
        return _call(call[0], _decoded(call[1]))
    name, given = _named(value)
    is_definition = name is not None and given
    return _wrapped_code(value) if _is_object(value) and not is_definition else None


def _named(value: Any) -> tuple[str | None, list[Any]]:
    """The name in an object, and what stands where arguments do."""
    if not _is_object(value):
        return None, []
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    if (name is None and "final_answer" in value) or str(name).lower() in ("final answer", "finalanswer"):
        name = "final_answer"
    return name, [value[key] for key in _ARGUMENTS if key in value]


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _call(name: str, arguments: Any) -> str | None:
    if INTERPRETER.fullmatch(name):
        code = first_code(arguments) if isinstance(arguments, dict) else _text(arguments)
        if code is not None:
            return code
    function = name.rpartition(".")[2]
    if not function.isidentifier() or keyword.iskeyword(function):
        return None
    if function != "final_answer":
        return f"print({function}({_arguments(arguments)}))"
    if isinstance(arguments, dict) and len(arguments) == 1:
        return f"final_answer({next(iter(arguments.values()))!r})"
    return f"final_answer({arguments!r})"


def _arguments(arguments: Any) -> str:
    match arguments:
        case None:
            return ""
        case dict() if all(str(key).isidentifier() and not keyword.iskeyword(key) for key in arguments):
            return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        case dict():
            return f"**{arguments!r}"
        case list():
            return ", ".join(map(repr, arguments))
    return repr(arguments)


def _decoded(arguments: Any) -> Any:
    """Arguments, where they were encoded a second time as a string."""
    if isinstance(arguments, str) and arguments.lstrip()[:1] in ("{", "["):
        try:
            return _decoder().decode(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _wrapped_code(value: dict[str, Any]) -> str | None:
    code = first_code(value)
    if code is None or str(value.get("language", "python")).lower() not in (
        "python",
        "py",
        "python3",
        "ipython",
    ):
        return None
    return code if _THOUGHTS & value.keys() or is_code(code) else None


def first_code(value: dict[str, Any]) -> str | None:
    found = (_text(value[key]) for key in (*_CODE, *_ARGUMENTS) if key in value)
    return next((code for code in found if code is not None), None)


def _text(code: Any) -> str | None:
    """Code as a string, or as a list of its lines."""
    if isinstance(code, list) and all(isinstance(line, str) for line in code):
        return "\n".join(line.rstrip("\n") for line in code)
    return code if isinstance(code, str) else None
