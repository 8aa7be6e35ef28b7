"""Taking variables out of the kernel: their values cross as those of tools do, and nothing is pickled."""

from __future__ import annotations

import threading
import unicodedata
from collections import deque
from pathlib import PurePosixPath
from typing import Any

from codeact.errors import UsageError
from codeact.inside import records, values
from codeact.types import Figure
from codeact.workspace import PACKAGE
from sandbox import Sandbox
from sandbox.hostcalls import Answer, HostCall

FUNCTION = "take"
SECONDS = 120.0


class Taking:
    """`take` is called on the host by code in the sandbox, which is hostile: what it says counts only while it was asked."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box
        self._asked = threading.Event()
        self._taken: deque[HostCall] = deque(maxlen=1)

    def get(self, name: str) -> Any:
        """The value of a variable. Raises UsageError that says why there is none, or SandboxError."""
        if not name.isidentifier():
            raise UsageError(f"{name[:80]!r}: is no name of a variable; write one such as df")
        name = unicodedata.normalize("NFKC", name)  # as Python reads it in code
        self._taken.clear()
        self._asked.set()
        code = f"import {PACKAGE}.given as _taking; _taking.give({name!r}, globals()); del _taking"
        try:
            cell = self._box.run(code, timeout=SECONDS, max_timeout=SECONDS)
        finally:
            self._asked.clear()
        if not self._taken:
            raise UsageError(f"{name}: could not be handed over: {cell.error or cell.status}")
        return _value(name, self._taken.popleft())

    def take(self, call: HostCall) -> Answer:
        if self._asked.is_set():
            self._taken.append(call)
        return Answer(None)


def _value(name: str, call: HostCall) -> Any:
    match call.value:
        case {"problem": str(problem)}:
            raise UsageError(problem[:500])
        case {"picture": "image/png"} if len(call.buffers) == 1:
            return Figure(bytes(call.buffers[0]))
        case {"value": made}:
            try:
                return values.decode(made, call.buffers, record=records.made, path=PurePosixPath)
            except values.BadValue as error:
                raise UsageError(f"{name}: {error}") from error
    raise UsageError(f"{name}: the sandbox handed over what is no value")
