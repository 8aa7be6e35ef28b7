"""Final answers: given by code in the sandbox or in plain words, checked here on the host."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jsonschema
import referencing.exceptions
from jsonschema.protocols import Validator

from codeact.errors import UsageError
from sandbox.errors import HostCallRefused

FUNCTION = "final_answer"
MAX_TEXT = 300
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
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            try:
                kind.check_schema(schema)
            except jsonschema.SchemaError as error:
                raise UsageError(
                    f"the output schema is not a JSON Schema: {error.message[:MAX_TEXT]}"
                ) from error
            self._validator = kind(schema)
        self.schema = schema

    def problem(self, answer: Any) -> str | None:
        """What is wrong with an answer, with the path of the field, or None."""
        if answer is None and self.schema is None:
            return "final_answer got None: pass the value of the answer, as in final_answer(total)"
        if self._validator is None:
            return None
        try:
            error = jsonschema.exceptions.best_match(self._validator.iter_errors(answer))
        except referencing.exceptions.Unresolvable as missing:
            raise UsageError(
                f"the output schema refers to what is not in it: {missing.ref[:MAX_TEXT]}; write it into the schema itself"
            ) from missing
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
        candidates = written_answers(arguments, whole=self.schema is not None)
        return next((each for each in candidates if self.problem(each) is None), candidates[0])

    def from_words(self, text: str) -> tuple[Any, str | None]:
        """A plain reply as an answer, and what is wrong with it."""
        text = text.strip()
        if self.schema is None:
            return text, None
        for candidate in (_as_json(text), text):
            if candidate is not None and self.problem(candidate) is None:
                return candidate, None
        return text, self.problem(text)

    def _wants_single(self, answer: list[Any]) -> bool:
        return self.schema is None or (self.problem(answer) is not None and self.problem(answer[0]) is None)


def written_answers(arguments: Mapping[str, Any], *, whole: bool) -> list[Any]:
    """What the arguments of a call of `final_answer` may mean, the likeliest first. `whole`: an answer may be an object, which
    they are then themselves. Raises HostCallRefused where there is none."""
    candidates = [arguments["value"]] if "value" in arguments else []
    candidates += [dict(arguments)] if whole and arguments else []
    if "value" not in arguments and len(arguments) == 1:
        candidates += arguments.values()
    if not candidates:
        raise HostCallRefused(
            'final_answer(): value is missing. Write {"value": ...}, with the answer itself',
            name="ArgumentError",
        )
    if isinstance(candidates[0], str) and whole:
        candidates.append(_as_json(candidates[0]))
    return candidates


def _as_json(text: str) -> Any:
    """The value in JSON, perhaps in a block of code."""
    fenced = _FENCED.match(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None
