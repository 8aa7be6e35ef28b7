"""Whoever runs a cell may leave it at any moment: the sandbox is well after it, or says what was lost, and holds nothing more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from sandbox import Sandbox
from tests.contract.conftest import fine, next_cell_works

MOMENTS = int(os.environ.get("CODEACT_MOMENTS", "40"))
CELL = """
from sandbox_guest.host import call
import sys
print('one', flush=True)
print('two', file=sys.stderr, flush=True)
display('three')
print(call('echo', 'four'), flush=True)
try: call('fail', 5)
except Exception as error: print('five', flush=True)
with more_time(5): print('six', flush=True)
6 * 7
"""


@pytest.mark.parametrize("leave", ["close", "interrupt", "drop"])
def test_left_at_each_of_its_outputs(fresh: Sandbox, leave: str) -> None:
    whole = sum(1 for _ in fresh.stream(CELL))
    assert whole >= 7
    fine(fresh.run("kept = 1"))
    for taken in range(whole + 1):
        cell = fresh.stream(CELL)
        for _ in range(taken):
            next(cell)
        match leave:
            case "close":
                cell.close()
            case "interrupt":
                with pytest.raises(KeyboardInterrupt):
                    cell.throw(KeyboardInterrupt())
        del cell
        next_cell_works(fresh)
    assert fresh.run("kept").result == "1"


@contextmanager
def interrupted_at(step: int, steps: list[int]) -> Iterator[None]:
    """Ctrl-C at one of the moments at which Python looks for it in this thread: when a function begins, and after each call
    of one in C. `steps` gets how many there were."""
    count = 0

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == step:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
        steps.append(count)


def test_interrupted_at_moments_of_the_hosts_code(fresh: Sandbox) -> None:
    steps: list[int] = []
    with interrupted_at(0, steps):
        fine(fresh.run("print(1)"))
    (whole,) = steps
    assert whole > 100
    fine(fresh.run("kept = 1"))
    for step in range(1, whole, max(1, whole // MOMENTS)):
        with suppress(KeyboardInterrupt), interrupted_at(step, steps):
            fresh.run("print(1)")
        assert fresh.run("kept").result == "1", step
