"""Starts processes that end with this one.

The kernel ends such a process when the *thread* that started it ends, so one thread that stays starts them all.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PERIOD = 60.0
"""The least number of seconds between two looks for what is left over."""


def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="sandbox-spawner")


_spawner = _thread()
_last_look = -PERIOD


def _forget() -> None:
    """In a fork there is no such thread, and what it had started belongs to the parent."""
    global _spawner
    _spawner = _thread()


os.register_at_fork(after_in_child=_forget)


def spawn(command: Sequence[str], **settings: Any) -> subprocess.Popen[bytes]:
    """As `subprocess.Popen`. Raises OSError."""
    return _spawner.submit(_start, command, settings).result()


def _start(command: Sequence[str], settings: dict[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, **settings)


def clear_away(remove: Callable[[], int]) -> None:
    """Has the spawner remove what killed processes left, now and then, beside whatever the caller goes on to do."""
    global _last_look
    now = time.monotonic()
    if now - _last_look >= PERIOD:
        _last_look = now
        _spawner.submit(_quietly, remove)


def _quietly(remove: Callable[[], int]) -> None:
    with contextlib.suppress(OSError):
        remove()
