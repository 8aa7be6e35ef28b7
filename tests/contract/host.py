"""What this process, the host of the sandboxes, holds: threads, descriptors, memory."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from dataclasses import dataclass
from pathlib import Path

MORE_MEMORY = 32 * 1024**2
"""Bytes that may be kept after a module, by caches of libraries and in pages that hold some small object still."""
M_MMAP_THRESHOLD = -3
LARGE = 1024**2
SETTLING_SECONDS = 10.0


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


def keep_no_large_blocks() -> None:
    """Has the C library give large blocks back when they are freed, so that what is held is what objects hold.

    By itself it learns from what is freed: after some blocks of 16 MiB it takes the next ones from the heaps of threads, of
    which it gives the end back at 64 MiB only, to no `malloc_trim` sooner. Two such heaps were 110 MiB.
    """
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)


def held() -> Held:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return Held(threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), _own_memory())


def _own_memory() -> int:
    """Bytes; without the pages of programs and libraries, which come and go as the machine has room for them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/self/status tells no RssAnon")


def assert_as_before(before: Held) -> None:
    """Threads and descriptors to the last one; what is ended in the background gets the time to end."""
    deadline = time.monotonic() + SETTLING_SECONDS
    while not (now := held()).within(before):
        assert time.monotonic() < deadline, f"before: {before}; now: {now}"
        time.sleep(0.05)
