"""Functions of the host that code in a sandbox may call, by name, with JSON values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sandbox.bridge import Bridge
from sandbox.errors import HostCallRefused, SandboxError
from sandbox.guest import frames
from sandbox.text import clean

HostFunction = Callable[[Any], Any]
"""JSON value in, JSON value out. HostCallRefused and any other exception are raised in the cell, without host frames."""

IN_FLIGHT = 32


class HostCalls:
    """Runs calls on threads of its own, so that a slow one delays no other and never the bridge."""

    def __init__(self, functions: Mapping[str, HostFunction]) -> None:
        self._functions = functions
        self._threads = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="host-call")
        self.bridge: Bridge | None = None

    def take(self, header: dict[str, Any], body: bytes) -> None:
        """A `call` frame from the bridge; what is malformed is refused, never raised."""
        number = header.get("call")
        if type(number) is int:
            self._threads.submit(self._run, number, clean(header.get("name")), body)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, number: int, name: str, body: bytes) -> None:
        ok, kind, value = self._outcome(name, body)
        try:
            payload = json.dumps(value).encode()
        except (TypeError, ValueError, RecursionError):
            ok, kind, payload = False, "BadResult", b'"the host function returned what is not a JSON value"'
        if len(payload) > frames.MAX_BODY:
            ok, kind, payload = False, "TooLarge", b'"the result is too large to hand over"'
        if self.bridge is not None:
            try:
                self.bridge.send({"op": "return", "call": number, "ok": ok, "kind": kind}, payload)
            except SandboxError:
                pass  # nobody is left to hear it

    def _outcome(self, name: str, body: bytes) -> tuple[bool, str, Any]:
        function = self._functions.get(name)
        if function is None:
            return False, "UnknownFunction", f"the host has no function {name!r}"
        try:
            argument = json.loads(body) if body else None
        except (ValueError, RecursionError):
            return False, "BadArgument", "the argument is not a JSON value"
        try:
            return True, "", function(argument)
        except HostCallRefused as refusal:
            return False, refusal.name, str(refusal)
        except Exception as error:  # noqa: BLE001 - whatever a function raises belongs to the code that called it
            return False, type(error).__name__, str(error)
