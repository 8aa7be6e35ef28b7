"""The host functions by which calls of tools come out of a sandbox."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from codeact.errors import ToolError
from codeact.tools.runner import ToolRunner
from sandbox.errors import HostCallRefused

MAX_STREAMS = 64


def encode(value: Any) -> Any:
    """A result as JSON. Raises ToolError for what cannot be."""
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ToolError(
            f"the tool returned a {type(value).__name__}, which cannot cross into the sandbox: {error}"
        ) from None


class Channel:
    """`functions` are for a sandbox. Code there asks for the items of a stream one by one; streams end with their cell."""

    def __init__(self, runner: ToolRunner) -> None:
        self._runner = runner
        self._numbers = itertools.count(1)
        self._streams: dict[int, Iterator[Any]] = {}
        self._lock = threading.Lock()
        self.functions: Mapping[str, Callable[[Any], Any]] = {
            "tool": self._call,
            "tool_next": self._next,
            "tool_close": self._close,
        }

    def end(self) -> None:
        """The cell is over."""
        with self._lock:
            self._streams.clear()

    def _call(self, payload: Any) -> Any:
        if not isinstance(payload, dict) or not isinstance(payload.get("arguments"), dict):
            raise HostCallRefused("a call is {'tool': ..., 'arguments': {...}}", name="ArgumentError")
        result = self._runner.call(str(payload.get("tool")), payload["arguments"])
        if not isinstance(result, Iterator):
            return {"value": result}
        with self._lock:
            if len(self._streams) >= MAX_STREAMS:
                raise HostCallRefused(f"{MAX_STREAMS} streams are open; end some", name="CallRefused")
            number = next(self._numbers)
            self._streams[number] = result
        return {"stream": number}

    def _next(self, payload: Any) -> Any:
        with self._lock:
            stream = self._streams.pop(payload, None) if isinstance(payload, int) else None
        if stream is None:
            raise HostCallRefused("this stream has ended, or is being read", name="ToolError")
        try:
            item = next(stream)
        except StopIteration:
            return None
        with self._lock:
            self._streams[payload] = stream
        return {"item": item}

    def _close(self, payload: Any) -> None:
        with self._lock:
            stream = self._streams.pop(payload, None) if isinstance(payload, int) else None
        close = getattr(stream, "close", None)
        if close is not None:
            close()
