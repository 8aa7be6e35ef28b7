"""A call under way, and how what it raised is told."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from codeact.tools.execution import Raised, Waiting
from codeact.tools.record import Scrub
from codeact.tools.tool import Tool


@dataclass(slots=True)
class Call:
    """A call under way. `given` is what code gave, by the names that it uses; `values` is what the tool takes of it."""

    tool: Tool
    given: Mapping[str, Any]
    values: Mapping[str, Any]
    id: str
    key: str
    scrub: Scrub
    waiting: Waiting
    attempts: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    stream: Generator[Any, Any, Any] | None = None

    @property
    def checked(self) -> Mapping[str, Any]:
        """What the tool takes, by the names that code uses: what is judged is what will be done."""
        return self.tool.by_code_names(self.values)


def kind(error: BaseException) -> str:
    return type(error.error if isinstance(error, Raised) else error).__name__


def words(error: BaseException) -> str:
    """What an exception says; its str() is the tool's own code."""
    if isinstance(error, Raised):
        error = error.error
    try:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    except Exception:  # noqa: BLE001
        text = ""
    return text or f"{type(error).__name__} without a message"
