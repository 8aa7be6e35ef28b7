"""Sizes and limits, and what a cell's result says of itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import CellError, CellResult, Limits, Rich, Stream
from sandbox.types import parse_size, size_text


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (1, 1),
        (512, 512),
        (1.9, 1),
        ("20", 20),
        ("20k", 20480),
        ("512m", 536870912),
        ("512 MB", 536870912),
        ("512MiB", 536870912),
        ("1.5g", 1610612736),
        ("2T", 2199023255552),
        (" 1b ", 1),
    ],
)
def test_sizes(written: int | float | str, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize(
    "written",
    ["", "m", "-1", "1x", "1 2", "1e3", "0", 0, -5, 0.5, float("inf"), float("nan"), 2**63, "9" * 30],
)
def test_what_is_not_a_size(written: float | str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(written)


@given(st.integers(1, 2**62))
def test_a_number_is_its_own_size(number: int) -> None:
    assert parse_size(str(number)) == number or number > 2**53  # beyond it, text goes through a float


def test_limits_become_numbers() -> None:
    limits = Limits(memory="256m", cpus="0.5", pids="64", disk="10m", files="1k", output="1k")
    assert (limits.memory, limits.cpus, limits.pids) == (268435456, 0.5, 64)
    assert (limits.disk, limits.files, limits.output) == (10485760, 1024, 1024)


@pytest.mark.parametrize(
    "wrong", [{"memory": "much"}, {"cpus": 0}, {"cpus": "many"}, {"pids": 0}, {"disk": -1}]
)
def test_limits_that_are_none(wrong: dict[str, str | int]) -> None:
    with pytest.raises(ValueError, match=r"not a|convert"):
        Limits(**wrong)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1000 * 1024, "1000 KiB"),
        (1000 * 1024**2, "1000 MiB"),
        (1024, "1 KiB"),
        (1536 * 1024**2, "1.5 GiB"),
        (2**50, "1048576 GiB"),
    ],
)
def test_sizes_as_people_read_them(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_result_speaks_for_its_outputs() -> None:
    first, last = CellError("A", "", ""), CellError("B", "why", "")
    cell = CellResult(
        "error",
        (
            Stream("stdout", "1"),
            Stream("stderr", "e"),
            Rich("display", {"image/png": "cG5n", "text/plain": "figure"}),
            first,
            Stream("stdout", "2"),
            Rich("result", {"text/plain": "42"}),
            last,
        ),
    )
    assert (cell.stdout, cell.stderr, cell.result) == ("12", "e", "42")
    assert cell.error is last
    assert [str(first), str(last)] == ["A", "B: why"]
    assert [(image.mime, image.base64) for image in cell.images] == [("image/png", "cG5n")]
    assert CellResult("ok").error is None
