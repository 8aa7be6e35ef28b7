"""What this process, the host of the sandboxes, holds: threads, descriptors, memory."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from dataclasses import dataclass
from pathlib import Path

MORE_MEMORY = 256 * 1024**2
"""Bytes that the allocator and caches of libraries may keep after a module: less than one call's payload at its largest."""
SETTLING_SECONDS = 10.0
PAGE = 4096


@dataclass(frozen=True, slots=True)
class Held:
    threads: int
    descriptors: int
    memory: int

    def within(self, before: Held) -> bool:
        return (
            self.threads <= before.threads
            and self.descriptors <= before.descriptors
            and self.memory <= before.memory + MORE_MEMORY
        )


def held() -> Held:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    return Held(threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), resident)


def assert_as_before(before: Held) -> None:
    """Threads and descriptors to the last one; what is ended in the background gets the time to end."""
    deadline = time.monotonic() + SETTLING_SECONDS
    while not (now := held()).within(before):
        assert time.monotonic() < deadline, f"before: {before}; now: {now}"
        time.sleep(0.05)
