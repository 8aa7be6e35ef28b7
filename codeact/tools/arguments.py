"""Arguments from the sandbox, checked all at once against what a tool asks for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from codeact.errors import ArgumentError
from codeact.tools.shown import short
from codeact.tools.tool import Parameter, signature

MAX_PROBLEMS = 8
MAX_TEXT = 200
MAX_NAME = 60
MAX_SIGNATURE = 400

Convert = Callable[[Any], Any]
"""A value from the sandbox as the tool wants it; raises Wrong, or pydantic's ValidationError."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is within the argument, such as `[3].price`; `value` is what was found there."""

    path: str
    message: str
    value: Any = None
    missing: bool = False


class Wrong(Exception):
    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__("wrong value")
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Check:
    """The `check` of a tool. `convert` has an entry for each parameter; for `*args` and `**kwargs`, of one value."""

    name: str
    parameters: tuple[Parameter, ...]
    convert: Mapping[str, Convert] = field(repr=False)
    secret: frozenset[str] = frozenset()
    whole: Callable[[Any], None] | None = field(default=None, repr=False)
    """Checks what no argument alone can break, of the values by the names that the source gives them."""

    def __call__(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ArgumentError, which names all that is wrong."""
        checked: dict[str, Any] = {}
        problems: list[str] = []
        rest = dict(given)
        for parameter in self.parameters:
            name, sent = parameter.name, parameter.sent or parameter.name
            if parameter.kind == "options":
                value = rest.pop(name, {})
                options = {**value, **rest} if isinstance(value, Mapping) else {name: value, **rest}
                rest.clear()
                problems += [
                    f"{name}: {short(key)} is no name" for key in options if not isinstance(key, str)
                ]
                problems += [
                    f"{name}: {key!r:.80} is an argument of its own" for key in options.keys() & self._own
                ]
                checked[sent] = {
                    key: self._value(parameter, _cut(str(key), MAX_NAME), each, problems)
                    for key, each in options.items()
                    if isinstance(key, str)
                }
            elif (key := name if name in rest else sent) not in rest:
                if parameter.required and parameter.kind != "rest":
                    problems.append(f"{name} is missing")
            elif parameter.kind == "rest":
                values = rest.pop(key)
                listed = list(values) if isinstance(values, (list, tuple)) else [values]
                checked[sent] = tuple(
                    self._value(parameter, f"{name}[{at}]", each, problems) for at, each in enumerate(listed)
                )
            else:
                checked[sent] = self._value(parameter, name, rest.pop(key), problems)
        problems += [f"there is no argument {key!r:.80}{self._nearest(key)}" for key in rest]
        if not problems and self.whole is not None:
            problems += self._wrong_together(checked)
        if problems:
            raise ArgumentError(self._told(problems))
        return checked

    @property
    def _own(self) -> set[str]:
        """Names of the source that what is given beside them would take the place of."""
        named = (each for each in self.parameters if each.kind in ("normal", "keyword"))
        return {each.sent or each.name for each in named}

    def _wrong_together(self, checked: dict[str, Any]) -> list[str]:
        options = {each.sent or each.name for each in self.parameters if each.kind == "options"}
        flat = {key: value for key, value in checked.items() if key not in options}
        for key in options:
            flat.update(checked.get(key, {}))
        try:
            self.whole(flat)  # type: ignore[misc]
        except Wrong as error:
            return told("the arguments", flat, error, show_values=False)
        return []

    def _value(self, parameter: Parameter, label: str, value: Any, problems: list[str]) -> Any:
        try:
            return self.convert[parameter.name](value)
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything; all of it means a wrong value
            show = parameter.name not in self.secret
            problems += told(label, value, error, show_values=show)
            return None

    def _nearest(self, key: Any) -> str:
        names = [each.name for each in self.parameters if each.kind not in ("rest", "options")]
        found = difflib.get_close_matches(str(key)[:MAX_TEXT], names, n=2, cutoff=0.6)
        return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""

    def _told(self, problems: list[str]) -> str:
        shown = list(dict.fromkeys(problems))[:MAX_PROBLEMS]
        more = len(problems) - MAX_PROBLEMS
        listed = "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
        return f"{self.name}(): {listed}. Write {_cut(signature(self.name, self.parameters), MAX_SIGNATURE)}"


_MESSAGES = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "extra_forbidden": "there is no such field",
    "unexpected_keyword_argument": "there is no such field",
}


def told(label: str, value: Any, error: Exception, *, show_values: bool = True) -> list[str]:
    """What is wrong with an argument, one text for each place in it."""
    by_path: dict[str, list[Problem]] = {}
    for problem in _problems(value, error):
        by_path.setdefault(problem.path, []).append(problem)
    lines = []
    for path, problems in by_path.items():
        words = " or ".join(dict.fromkeys(_cut(each.message, MAX_TEXT) for each in problems))
        first = problems[0]
        got = (
            ""
            if first.missing
            else f", got {_shown(first.value) if show_values else type(first.value).__name__}"
        )
        lines.append(f"{label}{path}: {words}{got}")
    return lines


def _problems(value: Any, error: Exception) -> Iterator[Problem]:
    match error:
        case Wrong():
            yield from error.problems
        case ValidationError():
            for each in error.errors(include_url=False, include_context=False):
                missing = each["type"] in ("missing", "missing_argument")
                known = _MESSAGES.get(each["type"])
                message = known or each["msg"].removeprefix("Value error, ")
                yield Problem(_path(each["loc"], value, missing), message, each["input"], missing)
        case _:
            yield Problem("", f"{type(error).__name__}: {error}", value)


def _path(location: tuple[int | str, ...], value: Any, missing: bool) -> str:
    """Where in a value; pydantic's names of the members of a union, which are no part of it, are left out."""
    path = ""
    for index, part in enumerate(location):
        last = index == len(location) - 1
        if isinstance(part, int):
            path += f"[{part}]"
            value = value[part] if isinstance(value, (list, tuple)) and part < len(value) else None
        elif isinstance(value, Mapping) and part in value:
            path += _key(part)
            value = value[part]
        elif hasattr(value, part) and not isinstance(value, (str, int, float, list, tuple, Mapping)):
            path += _key(part)
            value = getattr(value, part)
        elif last and missing:
            path += _key(part)
    return path


def _key(name: str) -> str:
    return f".{name}" if name.isidentifier() and len(name) <= 60 else f"[{_cut(name, 60)!r}]"


def _shown(value: Any) -> str:
    return f"{_cut(short(value), 100)} ({type(value).__name__})"


def _cut(text: str, size: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= size else flat[: size - 1] + "…"
