"""Many sandboxes at once on one machine: how long each took to start, and what it costs to have it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from sandbox import Limits, Sandbox
from sandbox.types import BackendName

LIMITS = Limits(memory="256m")


@dataclass(frozen=True, slots=True)
class Started:
    """`alive` sandboxes were there, this one included, when it had started; `seconds` is how long that took."""

    alive: int
    seconds: float
    memory: int
    """Bytes that the sandbox itself uses, idle."""


@contextmanager
def many(count: int, image: str = "minimal", backend: BackendName = "auto") -> Iterator[Sequence[Sandbox]]:
    """`count` sandboxes, all asked for at the same moment; all of them run when this yields. Raises a SandboxError."""
    boxes = [Sandbox(image, limits=LIMITS, label=f"many-{n}", backend=backend) for n in range(count)]
    with ThreadPoolExecutor(count) as threads, ExitStack() as stack:
        stack.callback(lambda: list(threads.map(Sandbox.close, boxes)))
        list(threads.map(Sandbox.start, boxes))
        yield boxes


def growth(count: int, image: str = "minimal") -> list[Started]:
    """Starts `count` sandboxes one after the other, and keeps them: the start of each, beside the number alive."""
    found = []
    with ExitStack() as stack:
        for alive in range(1, count + 1):
            began = time.monotonic()
            box = stack.enter_context(Sandbox(image, limits=LIMITS, label="growth"))
            seconds = time.monotonic() - began
            found.append(Started(alive, seconds, box.memory()))
    return found
