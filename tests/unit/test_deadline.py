"""The seconds of a cell, by a clock of the test's own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.deadline import MAX_BLOCKS, Deadline


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_block_stops_the_time_around_it() -> None:
    clock = Clock()
    deadline = Deadline(30, 600, clock)
    clock.now += 10
    assert deadline.left() == 20
    block, granted = deadline.open(120)
    assert (granted, deadline.left()) == (120, 140)
    clock.now += 50
    deadline.close(block)
    assert deadline.left() == 20
    clock.now += 20
    assert deadline.left() == 0


def test_a_block_that_takes_longer_goes_on_with_the_time_around_it() -> None:
    clock = Clock()
    deadline = Deadline(30, 600, clock)
    outer, _ = deadline.open(10)
    inner, _ = deadline.open(5)
    clock.now += 7  # five of the inner one, two of the outer
    assert deadline.left() == 38
    deadline.close(inner)
    assert deadline.left() == 38
    clock.now += 10  # eight of the outer, two of the cell's own
    deadline.close(outer)
    assert deadline.left() == 28
    deadline.close(outer)
    deadline.close(99)
    assert deadline.left() == 28


def test_no_more_than_the_limit_in_all() -> None:
    clock = Clock()
    deadline = Deadline(30, 100, clock)
    assert deadline.open(1000)[1] == 70
    assert deadline.open(1)[1] == 0
    clock.now += 100
    assert deadline.left() == 0
    assert Deadline(30, 30, clock).open(5)[1] == 0
    assert Deadline(30, math.inf, clock).open(1e12)[1] == 1e12


def test_blocks_are_bounded() -> None:
    deadline = Deadline(1, math.inf, Clock())
    assert [deadline.open(1)[1] for _ in range(MAX_BLOCKS + 3)] == [1.0] * MAX_BLOCKS + [0.0] * 3


@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "close", "wait"]), st.integers(0, 12), st.integers(0, 40)),
        max_size=40,
    )
)
def test_whatever_the_code_does_it_ends_by_its_limit(steps: list[tuple[str, int, int]]) -> None:
    clock = Clock()
    deadline = Deadline(10, 50, clock)
    for what, block, seconds in steps:
        match what:
            case "open":
                deadline.open(seconds)
            case "close":
                deadline.close(block)
            case "wait":
                clock.now += seconds
        assert deadline.left() <= 150 - clock.now + 1e-6
        if deadline.left() <= 0:
            break
    before = deadline.left()
    clock.now += 1
    assert deadline.left() == pytest.approx(before - 1)
