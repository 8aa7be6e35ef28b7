"""Answers of a Python type: what `output_type` names, by pydantic; and tables."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from codeact.answers import MAX_TEXT, Answer, Buffer, as_json, unfit, written_answers
from codeact.errors import UsageError
from codeact.inside import arrow, packed, values
from sandbox.errors import HostCallRefused

MAX_ERRORS = 5
"""Faults of one answer that are told."""
TABLES = {
    "pandas.DataFrame": "a pandas DataFrame",
    "polars.DataFrame": "a polars DataFrame",
    "pyarrow.Table": "a pyarrow Table",
}


class TypedCheck:
    """A check by a type: whatever pydantic's TypeAdapter takes, or a DataFrame of pandas or polars, or a pyarrow.Table.

    Raises UsageError for what is no such type.
    """

    typed = True

    def __init__(self, output_type: Any) -> None:
        self.table = TABLES.get(_name(output_type))
        self._adapter = _adapter(output_type)
        try:
            self.schema: dict[str, Any] | None = self._adapter.json_schema(schema_generator=_Schema)
        except PydanticUserError as error:
            raise _no_type(output_type, error) from error
        self.asked = f"The value given to final_answer must be {self.table}." if self.table else ""
        if self.table:
            self.schema = None

    def given(self, payload: Any, buffers: Sequence[Buffer]) -> Answer:
        match payload:
            case {"typed": made, "single": bool(single)}:
                plain = [payload["value"]] if "value" in payload else []
            case _:
                raise HostCallRefused("final_answer was not called as final_answer(value)", name="TypeError")
        if single and plain and isinstance(plain[0], list) and len(plain[0]) == 1:
            plain.append(
                plain[0][0]
            )  # a Series or an array with one element, where a single value is asked for
        value = self._first_that_fits(made, buffers, plain)
        whole = not buffers and plain[:1] == [made]
        shown = plain[0] if plain else _told(value)
        return Answer(value, shown, None if whole else (made, buffers))

    def called(self, arguments: Mapping[str, Any]) -> Answer:
        candidates = written_answers(arguments, self.schema, whole=True)
        said = []
        for candidate in candidates:
            try:
                return Answer(self._validated(candidate), candidate)
            except _Wrong as wrong:
                said.append(str(wrong))
        raise _refused(said[0])

    def said(self, text: str) -> tuple[Answer, str | None]:
        text = text.strip()
        problem = None
        for candidate in (*as_json(text), text):
            try:
                return Answer(self._validated(candidate), candidate), None
            except _Wrong as wrong:
                problem = problem or str(wrong)
        return Answer(text, text), problem

    def recorded(self, shown: Any, file: Path | None) -> Answer:
        try:
            if file is None:
                return Answer(self._validated(shown), shown)
            made, buffers = packed.read(memoryview(bytearray(file.read_bytes())))
            plain = (
                [] if isinstance(shown, str) else [shown, *shown[:1]] if isinstance(shown, list) else [shown]
            )
            return Answer(self._first_that_fits(made, buffers, plain), shown, (made, buffers))
        except (OSError, packed.BadFile, HostCallRefused, _Wrong) as error:
            where = "" if file is None else f"{file}: "
            raise UsageError(f"{where}the recorded answer cannot be taken again: {error}") from error

    def _first_that_fits(self, made: Any, buffers: Sequence[Buffer], plain: Sequence[Any]) -> Any:
        """The answer as it was given, or else in its plain form: a table as a list of records, an array as a list."""
        candidates: list[Callable[[], Any]] = [
            lambda: values.decode(made, buffers),
            *((lambda p=p: p) for p in plain),
        ]
        said: list[str] = []
        for candidate in candidates:
            try:
                return self._validated(candidate())
            except (_Wrong, values.BadValue) as wrong:
                said.append(str(wrong))
        told = said[1] if len(said) > 1 and buffers and not self.table else said[0]
        raise _refused(told)

    def _validated(self, value: Any) -> Any:
        """What the value is as the type. Raises _Wrong."""
        _check_fit(value)
        validated = self._of_type(value)
        _check_fit(validated)  # pydantic reads the text "inf" as a number
        return validated

    def _of_type(self, value: Any) -> Any:
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise _Wrong("; ".join(_faults(error))) from None
        except RecursionError:
            raise _Wrong("it is nested too deep") from None
        except Exception as error:  # a validator of the user's own
            raise _Wrong(f"{type(error).__name__}: {error}") from error


class _Wrong(Exception):
    """The value is not of the type; the message says where and why."""


def _check_fit(value: Any) -> None:
    if (reason := unfit(value)) is not None:
        raise _Wrong(f"it is {reason}")


def _refused(fault: str) -> HostCallRefused:
    return HostCallRefused(f"the answer is not of the type that is asked for: {fault}", name="TypeError")


def _faults(error: ValidationError) -> Iterator[str]:
    """Each fault as the path of its field and pydantic's words."""
    found = error.errors(include_url=False, include_context=False)
    for fault in found[:MAX_ERRORS]:
        path = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
        yield f"{path}: {fault['msg'][:MAX_TEXT]}{_got(fault['input'])}"
    if len(found) > MAX_ERRORS:
        yield f"and {len(found) - MAX_ERRORS} more"


def _got(value: Any) -> str:
    if isinstance(value, str | int | float | bool | None):
        return f" (got {value!r:.60})"
    return f" (got a {type(value).__name__})"


def _told(value: Any) -> str:
    """A value in place of its plain form, which would be too large."""
    if isinstance(value, int | float | Mapping | list | tuple | set | frozenset):
        with suppress(ValueError):  # of an integer with too many digits
            return reprlib.repr(value)
    shape = getattr(value, "shape", None)
    size = " " + "×".join(map(str, shape)) if isinstance(shape, tuple) else ""
    return f"{type(value).__name__}{size}"


# -- types -----------------------------------------------------------------------------------------------------------


def _adapter(output_type: Any) -> TypeAdapter[Any]:
    kind = _name(output_type)
    if kind in TABLES:
        output_type = Annotated[output_type, BeforeValidator(_CONVERTERS[kind])]
    try:
        return TypeAdapter(output_type)
    except PydanticSchemaGenerationError:
        pass  # a class that pydantic does not know, which an answer may be an object of all the same
    except PydanticUserError as error:
        raise _no_type(output_type, error) from error
    try:
        return TypeAdapter(output_type, config=ConfigDict(arbitrary_types_allowed=True))
    except (PydanticUserError, TypeError) as error:
        raise _no_type(output_type, error) from error


def _no_type(output_type: Any, error: Exception) -> UsageError:
    said = str(error).partition("\n")[0]
    return UsageError(
        f"output_type {output_type!r:.80}: {said}; give a type that pydantic takes, or a table's class"
    )


def _name(kind: Any) -> str:
    if not isinstance(kind, type):
        return ""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


class _Schema(GenerateJsonSchema):
    """Classes that JSON knows nothing of are told by their name."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        kind = schema.get("cls")
        name = _name(kind)
        return {"description": TABLES.get(name, f"an object of the class {getattr(kind, '__name__', kind)}")}


def _to_pandas(value: Any) -> Any:
    import pandas as pd

    match _name(type(value)):
        case "pandas.Series":
            return value.to_frame()
        case "polars.DataFrame":
            return value.to_pandas()
        case "pyarrow.Table":
            arrow.check_objects(value, ValueError)
            return value.to_pandas()
    return pd.DataFrame(value) if _is_records(value) else value


def _to_polars(value: Any) -> Any:
    import polars as pl

    match _name(type(value)):
        case "pandas.DataFrame":
            return pl.from_pandas(value)
        case "pyarrow.Table":
            return pl.from_arrow(value)
    return pl.DataFrame(value) if _is_records(value) else value


def _to_arrow(value: Any) -> Any:
    import pyarrow as pa

    match _name(type(value)):
        case "pandas.DataFrame":
            return pa.Table.from_pandas(value)
        case "polars.DataFrame":
            return value.to_arrow()
    return pa.Table.from_pylist(value) if _is_records(value) else value


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "pandas.DataFrame": _to_pandas,
    "polars.DataFrame": _to_polars,
    "pyarrow.Table": _to_arrow,
}
