"""A simulated service: tables of records, tools that are its marked methods, and a log of their calls."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.suites.base import Called, Invalid, NotFound, RateLimited, digest
from codeact.tools.functions import from_function, marked
from codeact.tools.tool import Tool

Record = dict[str, Any]
Tables = dict[str, dict[str, Record]]


@dataclass(frozen=True, slots=True)
class Busy:
    """The first `times` calls of a tool with this argument among its arguments are told to come again in `seconds`.

    They are counted and not timed, so that an attempt meets the same faults however fast it is.
    """

    tool: str
    argument: Any
    times: int = 1
    seconds: float = 0.03


class Service:
    """`tables` are copied. Tools run one at a time but for their latency, which is in seconds."""

    fixed: ClassVar[frozenset[str]] = frozenset()
    """Tables that no tool changes: they are not part of the state."""

    def __init__(self, tables: Tables, latency: float, busy: Sequence[Busy] = ()) -> None:
        self.tables: Tables = json.loads(json.dumps(tables))
        self.latency = latency
        self.log: list[Called] = []
        self._known = self.known(tables)
        self._busy = dict.fromkeys(busy, 0)
        self._lock = threading.RLock()

    def tools(self) -> list[Tool]:
        """In the order in which the class defines them."""
        return [self._logged(tool) for tool in _tools(type(self))]  # type: ignore[arg-type]  # classes can be hashed

    def meddle(self) -> tuple[str, dict[str, Any]]:
        """A harmless call that changes something: what no task asks for."""
        raise NotImplementedError

    @classmethod
    def known(cls, tables: Tables) -> dict[str, frozenset[str]]:
        """The ids that tables have, of those that make the state."""
        return {name: frozenset(records) for name, records in tables.items() if name not in cls.fixed}

    def state(self) -> Any:
        return state(self.tables, self._known)

    # -- a call ------------------------------------------------------------------------------------------------------

    def _logged(self, tool: Tool) -> Tool:
        method = getattr(self, tool.name)

        def call(**arguments: Any) -> Any:
            began = time.monotonic()
            if self.latency:
                time.sleep(self.latency)
            with self._lock:
                return self._call(tool, method, arguments, began)

        return dataclasses.replace(tool, call=call)

    def _call(
        self, tool: Tool, method: Callable[..., Any], arguments: Mapping[str, Any], began: float
    ) -> Any:
        reads = tool.policy.effects == "read"
        before = "" if reads else digest(self.state())
        error = None
        try:
            self._admit(tool.name, arguments)
            return copy.deepcopy(method(**arguments))
        except Exception as raised:
            error = type(raised).__name__
            raise
        finally:
            changed = not reads and digest(self.state()) != before
            seconds = time.monotonic() - began
            self.log.append(Called(tool.name, dict(arguments), changed, error, seconds))

    def _admit(self, tool: str, arguments: Mapping[str, Any]) -> None:
        for each, refused in self._busy.items():
            if each.tool == tool and each.argument in arguments.values() and refused < each.times:
                self._busy[each] += 1
                raise RateLimited(f"429 too many requests; retry_after={each.seconds:g} (seconds)")

    # -- for tools ---------------------------------------------------------------------------------------------------

    def _get(self, table: str, key: str, what: str) -> Record:
        found = self.tables[table].get(key)
        if found is None:
            raise NotFound(f"there is no {what} {key!r}")
        return found

    def _add(self, table: str, prefix: str, record: Record) -> str:
        """A new record, under a number of its own."""
        key = f"{prefix}-{9001 + len(self.tables[table]) - len(self._known[table])}"
        self.tables[table][key] = {"id": key, **record}
        return key


@functools.cache
def _tools(service: type[Service]) -> tuple[Tool, ...]:
    """What the tools of all instances have in common."""
    blank = object.__new__(service)
    return tuple(
        from_function(getattr(blank, name)) for name, member in vars(service).items() if marked(member)
    )


def state(tables: Tables, known: Mapping[str, frozenset[str]]) -> Any:
    """Tables as JSON; new records without their ids, in an order of their own."""
    return {
        name: {
            "known": {key: record for key, record in tables[name].items() if key in ids},
            "new": sorted(
                (
                    {field: value for field, value in record.items() if field != "id"}
                    for key, record in tables[name].items()
                    if key not in ids
                ),
                key=digest,
            ),
        }
        for name, ids in known.items()
    }


def page_of(records: Sequence[Any], name: str, page: int, size: int) -> Record:
    """One page of a list, with how many there are. Raises Invalid for a page that is not there."""
    pages = max(1, -(-len(records) // size))
    if not 1 <= page <= pages:
        raise Invalid(f"there is no page {page}; there are {pages}")
    return {name: list(records[(page - 1) * size : page * size]), "page": page, "pages": pages}


def piece(records: Sequence[Any], offset: int, limit: int | None) -> list[Any]:
    """Some of a list. Raises Invalid for a negative number."""
    if offset < 0 or (limit is not None and limit < 0):
        raise Invalid("offset and limit must not be negative")
    return list(records[offset:] if limit is None else records[offset : offset + limit])
