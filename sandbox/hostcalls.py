"""Functions of the host that code in a sandbox may call, by name, with JSON values."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.bridge import Bridge
from sandbox.errors import HostCallRefused, SandboxError
from sandbox.guest import frames
from sandbox.text import clean

HostFunction = Callable[[Any], Any]
"""JSON value in, JSON value out. HostCallRefused and any other exception are raised in the cell, without host frames."""

THREADS = 32
MAX_WAITING = 64
"""Calls under way at one moment; the supervisor refuses more, so more are not of its making."""

_Call = tuple[int, str, bytes]


class HostCalls:
    """Runs calls on threads of its own, so that a slow one delays no other and never the bridge.

    The threads are daemons: a function that never returns keeps no program from ending.
    """

    def __init__(self, functions: Mapping[str, HostFunction]) -> None:
        self.functions = functions
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._under_way = 0
        self._since = 0.0
        self._waited = 0.0
        self.bridge: Bridge | None = None

    def take(self, header: dict[str, Any], body: bytes) -> None:
        """A `call` frame from the bridge; what is malformed is dropped, never raised."""
        number = header.get("call")
        with self._lock:
            if type(number) is not int or self._under_way >= MAX_WAITING:
                return
            if self._under_way == 0:
                self._since = time.monotonic()
            self._under_way += 1
            if self._threads < min(THREADS, self._under_way):
                self._threads += 1
                threading.Thread(target=self._work, name="host-call", daemon=True).start()
        self._calls.put((number, clean(header.get("name")), body))

    def waited(self) -> float:
        """Seconds, all told, in which the sandbox waited for at least one call."""
        with self._lock:
            return self._waited + (time.monotonic() - self._since if self._under_way else 0.0)

    def close(self) -> None:
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            self._run(*call)

    def _run(self, number: int, name: str, body: bytes) -> None:
        ok, kind, value = self._outcome(name, body)
        try:
            payload = json.dumps(value).encode()
        except (TypeError, ValueError, RecursionError):
            ok, kind, payload = False, "BadResult", b'"the host function returned what is not a JSON value"'
        if len(payload) > frames.MAX_CALL:
            ok, kind, payload = False, "TooLarge", b'"the result is too large to hand over"'
        with self._lock:
            self._under_way -= 1
            if self._under_way == 0:
                self._waited += time.monotonic() - self._since
        if self.bridge is not None:
            try:
                self.bridge.send({"op": "return", "call": number, "ok": ok, "kind": kind}, payload)
            except SandboxError:
                pass  # nobody is left to hear it

    def _outcome(self, name: str, body: bytes) -> tuple[bool, str, Any]:
        function = self.functions.get(name)
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
