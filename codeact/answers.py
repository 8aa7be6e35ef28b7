"""Final answers: given by code in the sandbox or in plain words, checked here on the host."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import jsonschema
import referencing.exceptions
from jsonschema.protocols import Validator

from codeact.errors import UsageError
from sandbox.errors import HostCallRefused

FUNCTION = "final_answer"
MAX_TEXT = 300
MAX_DEPTH = 64
"""How deep an answer may be nested, as where code gives it."""
_FENCED = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer: `value` is what the user gets, `shown` the same as JSON. `typed` is what it is made of again, as
    `inside.values` encodes it, where JSON does not hold it all."""

    value: Any
    shown: Any
    typed: tuple[Any, Sequence[Buffer]] | None = None


class Check(Protocol):
    """Takes answers and says what is wrong with them. `schema` is what the model and the record are told, `asked` the line
    for the model where there is no schema; `typed` is whether the sandbox sends values with their types."""

    schema: dict[str, Any] | None
    asked: str
    typed: bool

    def given(self, payload: Any, buffers: Sequence[Buffer]) -> Answer:
        """The answer in what the sandbox handed over. Raises HostCallRefused, which is raised in the cell."""

    def called(self, arguments: Mapping[str, Any]) -> Answer:
        """The answer in the arguments of a call of `final_answer` by the model itself. Raises HostCallRefused."""

    def said(self, text: str) -> tuple[Answer, str | None]:
        """A plain reply as an answer, and what is wrong with it."""

    def recorded(self, shown: Any, file: Path | None) -> Answer:
        """An answer of a record, which was accepted then; `file` holds its typed form. Raises UsageError where it is none
        any more."""


class AnswerCheck:
    """A check by JSON Schema, or with None one that any value passes."""

    asked = ""
    typed = False

    def __init__(self, schema: dict[str, Any] | None = None) -> None:
        self._validator: Validator | None = None
        if schema is not None:
            self._validator = _validator(schema)
        self.schema = schema

    def problem(self, answer: Any) -> str | None:
        """What is wrong with an answer, with the path of the field, or None."""
        if answer is None and self.schema is None:
            return "final_answer got None: pass the value of the answer, as in final_answer(total)"
        if (reason := unfit(answer)) is not None:
            return f"the answer is {reason}"
        if self._validator is None:
            return None
        try:
            error = jsonschema.exceptions.best_match(self._validator.iter_errors(answer))
        except referencing.exceptions.Unresolvable as missing:
            raise UsageError(
                f"the output schema refers to what is not in it: {missing.ref[:MAX_TEXT]}; write it into the schema itself"
            ) from missing
        except (ArithmeticError, RecursionError) as beyond:
            return f"the answer cannot be compared with the schema: {str(beyond)[:MAX_TEXT]}"
        if error is None:
            return None
        return (
            f"the answer is not of the type that is asked for: {error.json_path}: {error.message[:MAX_TEXT]}"
        )

    def given(self, payload: Any, buffers: Sequence[Buffer]) -> Answer:
        answer = self.from_code(payload)
        return Answer(answer, answer)

    def called(self, arguments: Mapping[str, Any]) -> Answer:
        return self.given({"value": self.written(arguments)}, ())

    def said(self, text: str) -> tuple[Answer, str | None]:
        answer, problem = self.from_words(text)
        return Answer(answer, answer), problem

    def recorded(self, shown: Any, file: Path | None) -> Answer:
        return Answer(shown, shown)

    def from_code(self, payload: Any) -> Any:
        """The answer in what the sandbox handed over. Raises HostCallRefused, which is raised in the cell."""
        if not isinstance(payload, dict) or "value" not in payload:
            raise HostCallRefused("final_answer was not called as final_answer(value)", name="TypeError")
        answer = payload["value"]
        single = payload.get("single")
        if single is True and isinstance(answer, list) and len(answer) == 1 and self._wants_single(answer):
            answer = answer[0]  # a Series or array with one element, as boolean indexing makes them
        problem = self.problem(answer)
        if problem:
            raise HostCallRefused(problem, name="TypeError")
        return answer

    def written(self, arguments: Mapping[str, Any]) -> Any:
        """The answer in the arguments of a call of `final_answer`, whatever name it has there; also where it was encoded as text.

        Raises HostCallRefused.
        """
        candidates = written_answers(arguments, self.schema, whole=self.schema is not None)
        return next((each for each in candidates if self.problem(each) is None), candidates[0])

    def from_words(self, text: str) -> tuple[Any, str | None]:
        """A plain reply as an answer, and what is wrong with it."""
        text = text.strip()
        if self.schema is None:
            return text, None
        for candidate in (*as_json(text), text):
            if self.problem(candidate) is None:
                return candidate, None
        return text, self.problem(text)

    def _wants_single(self, answer: list[Any]) -> bool:
        return self.schema is None or (self.problem(answer) is not None and self.problem(answer[0]) is None)


def written_answers(
    arguments: Mapping[str, Any], schema: Mapping[str, Any] | None, *, whole: bool
) -> list[Any]:
    """What the arguments of a call of `final_answer` may mean, the likeliest first. `whole`: an answer may be an object, which
    they are then themselves, unless they are a `value` that the `schema` has no field for. Raises HostCallRefused where
    there is none."""
    candidates = []
    if "value" in arguments:
        candidates.append(value := arguments["value"])
        if whole and isinstance(value, str):
            candidates += as_json(value)
    if whole and arguments and (list(arguments) != ["value"] or "value" in _fields(schema)):
        candidates.append(dict(arguments))
    if "value" not in arguments and len(arguments) == 1:
        candidates += arguments.values()
    if not candidates:
        raise HostCallRefused(
            'final_answer(): value is missing. Write {"value": ...}, with the answer itself',
            name="ArgumentError",
        )
    return candidates


def as_json(text: str) -> list[Any]:
    """The value in JSON, perhaps in a block of code: that alone, or nothing where there is none. `null` is a value, NaN none."""
    fenced = _FENCED.match(text)
    try:
        return [json.loads(fenced[1] if fenced else text, parse_constant=_refuse)]
    except (ValueError, RecursionError):
        return []


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def unfit(value: Any) -> str | None:
    """What no answer can be, whatever its type, to follow `is`: nested too deep, or NaN or infinite, somewhere in it. Tables and
    arrays may hold these: there they stand for what is missing."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        for each in level:
            if isinstance(each, float) and not math.isfinite(each):
                return f"{float(each)}: look at why before answering"
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return None
    return f"nested more than {MAX_DEPTH} deep"


def _inside(value: Any) -> Iterator[Any]:
    match value:
        case Mapping():
            yield from value.values()
        case list() | tuple() | set() | frozenset():
            yield from value


def _fields(schema: Any) -> set[str]:
    """The fields that an object of this schema is known to have, also where it is one of several, or stands in `$defs`."""
    found: set[str] = set()
    seen: set[int] = set()
    pending = [schema]
    while pending:
        match pending.pop():
            case Mapping() as each if id(each) not in seen:
                seen.add(id(each))
                found |= set(each.get("properties", ()))
                pending += [part for key in ("anyOf", "oneOf", "allOf") for part in each.get(key, ())]
                pending.append(_referred(schema, each.get("$ref")))
    return found


def _referred(root: Any, ref: Any) -> Any:
    """What a reference within a schema leads to; None where there is nothing."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    found = root
    for step in filter(None, ref[1:].split("/")):
        found = (
            found.get(unquote(step).replace("~1", "/").replace("~0", "~"))
            if isinstance(found, Mapping)
            else None
        )
    return found


def _validator(schema: dict[str, Any]) -> Validator:
    """Raises UsageError for what is no schema, or cannot be sent as one."""
    try:
        json.dumps(schema)
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise UsageError(f"the output schema is not a JSON Schema: {error.message[:MAX_TEXT]}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the output schema is not a JSON Schema: {str(error)[:MAX_TEXT]}") from error
    return kind(schema)
