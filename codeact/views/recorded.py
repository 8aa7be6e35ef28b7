"""Events read back from a journal, for views to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from codeact.events import Event
from codeact.journal import event_of


def events_of(lines: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """The events that JSON objects of a journal stand for. What this version does not know, or cannot read, is passed over."""
    for line in lines:
        event = event_of(line)
        if event is not None:
            yield event
