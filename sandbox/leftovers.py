"""What killed processes left on this machine and on its engine, found and removed."""

from __future__ import annotations

import shutil
import time

from sandbox import held, queueing
from sandbox.backends import cgroups
from sandbox.backends.reaper import reap_now
from sandbox.engine import find_engine
from sandbox.errors import EngineNotFound
from sandbox.roots import roots_folder
from sandbox.wheels import wheel_cache

UNFINISHED_SECONDS = 1.0
"""How long an engine may still be making what it was asked for by a process that died meanwhile."""


def remove_leftovers() -> int:
    """Removes sandboxes and scratch folders that no live process owns; how many. Raises EngineError.

    Of bubblewrap's sandboxes, which the kernel ends, only their empty control groups can be left.
    """
    died_while_starting = queueing.sweep()
    removed = held.sweep() + held.sweep_parts(roots_folder(), wheel_cache()) + cgroups.remove_left()
    try:
        engine = find_engine()
    except EngineNotFound:
        if not shutil.which("bwrap"):
            raise
        return removed
    removed += reap_now(engine)
    if died_while_starting:
        time.sleep(UNFINISHED_SECONDS)
        removed += reap_now(engine)
    return removed
