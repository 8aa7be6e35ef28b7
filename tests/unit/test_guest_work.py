"""Which part of the time counts, of that in which code computes and waits for the host."""

from __future__ import annotations

import pytest

from sandbox.guest.work import Work, processor_seconds


@pytest.mark.parametrize(
    ("processor", "waited", "expected"),
    [
        ([0.0, 0.0], [0.0, 1.0], 0.0),  # it only waits
        ([0.0, 1.0], [0.0, 0.0], 0.0),  # it only computes
        ([0.0, 1.0], [0.0, 1.0], 1.0),  # both, all the time
        ([0.0, 0.4], [0.0, 0.6], 0.0),  # one after the other
        ([0.0, 0.6], [0.0, 0.6], 0.2),  # what must have been both
        ([0.0, 2.0], [0.0, 1.0], 1.0),  # on two processors: a second has one second
        ([0.0, 0.05], [0.0, 1.0], 0.0),  # the kernel's own heartbeat
    ],
)
def test_only_what_is_both_counts(processor: list[float], waited: list[float], expected: float) -> None:
    spent = {"processor": 0.0, "waited": -0.1}
    work = Work(lambda: spent["waited"], lambda: spent["processor"])
    found = []
    for at in (0, 1):
        spent["processor"], spent["waited"] = processor[at], waited[at]
        found.append(work.overlap(100.0 + at))
    assert found == [0.0, pytest.approx(expected)]


def test_nothing_is_looked_at_before_the_code_waits_nor_too_often() -> None:
    looks = []

    def processor() -> float:
        looks.append(1)
        return 0.0

    waited = [0.0]
    work = Work(lambda: waited[0], processor)
    work.overlap(1.0)
    assert looks == []
    waited[0] = 0.1
    for at in (2.0, 2.1, 2.2, 2.3):
        work.overlap(at)
    assert len(looks) == 1


def test_processor_time_of_others_grows() -> None:
    assert 0 < processor_seconds() <= processor_seconds()
