"""Events read back from a journal, for views to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from codeact.events import BY_TYPE, Event, field_names
from codeact.types import Artifact, Code, Reading, Usage
from sandbox.types import CellError, CellResult, Dropped, Notice, Rich, Rung, Stream, Variable

_OUTPUTS: Mapping[str, type] = {
    "stream": Stream,
    "rich": Rich,
    "error": CellError,
    "dropped": Dropped,
    "notice": Notice,
    "rung": Rung,
}


def events_of(lines: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """The events that JSON objects of a journal stand for. What this version does not know, or cannot read, is passed over."""
    for line in lines:
        kind = BY_TYPE.get(str(line.get("type")))
        if kind is None:
            continue
        try:
            known = {name: _value(name, line[name]) for name in field_names(kind) if name in line}
            yield kind(**known)
        except (TypeError, ValueError, KeyError, AttributeError):
            continue


def _value(name: str, value: Any) -> Any:
    match name:
        case "usage":
            return Usage(**value)
        case "reading":
            actions = tuple(Code(**action) for action in value["actions"])
            return Reading(**{**value, "actions": actions, "notes": tuple(value["notes"])})
        case "cell" if value is not None:
            outputs = tuple(_output(output) for output in value["outputs"])
            survived = value.get("survived")
            kept = survived if survived is None else tuple(Variable(**variable) for variable in survived)
            return CellResult(**{**value, "outputs": outputs, "survived": kept})
        case "images":
            return tuple(value)
        case "artifacts":
            return tuple(Artifact(**{**item, "path": Path(item["path"])}) for item in value)
    return value


def _output(output: Mapping[str, Any]) -> Any:
    return _OUTPUTS[output["type"]](**{name: value for name, value in output.items() if name != "type"})
