"""Waiting for a model that can be interrupted."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from codeact.pump import Interrupted, Late, Pump


def test_items_come_in_order_then_the_end() -> None:
    pump = Pump(iter([1, 2]))
    assert [pump.get(), pump.get()] == [1, 2]
    with pytest.raises(StopIteration):
        pump.get()


def test_an_error_is_raised_where_the_item_is_waited_for() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    pump = Pump(broken())
    assert pump.get() == 1
    with pytest.raises(OSError, match="gone"):
        pump.get()


def test_a_silent_iterator_can_be_interrupted_timed_out_and_closed() -> None:
    go_on, closed = threading.Event(), threading.Event()

    def silent() -> Iterator[int]:
        try:
            go_on.wait()
            yield 1
            yield 2
        finally:
            closed.set()

    pump = Pump(silent())
    with pytest.raises(Late):
        pump.get(timeout=0.01)
    pump.interrupt()
    with pytest.raises(Interrupted):
        pump.get(timeout=10)
    pump.close()
    go_on.set()
    assert closed.wait(10)
