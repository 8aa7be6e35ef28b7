"""Which variables a restored state is told to lack, and which pictures of a carried-on run are handed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeact import events
from codeact.run.record import Record
from codeact.run.restore import assigned, deleted
from sandbox import Image

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.parametrize(
    ("cells", "gone"),
    [
        (["a = 1", "del a"], {"a"}),
        (["a = b = 1\ndel a, b"], {"a", "b"}),
        (["del a", "a = 2"], set()),
        (["a = 1", "del a\nimport os as a"], set()),
        (["a = {}", "del a['x'], a.y"], set()),
        (["def f():\n    x = 1\n    del x"], set()),
        (["a = (", "%reset -f\ndel b"], {"b"}),
    ],
)
def test_what_was_deleted(cells: list[str], gone: set[str]) -> None:
    assert deleted(cells) == gone


def test_a_deletion_gives_no_value() -> None:
    assert assigned("a = 1\ndel a") == ["a"]


def observed(name: str) -> events.Observed:
    return events.Observed(turn=1, text="", images=(name,))


def test_pictures_that_nothing_shows_any_more_are_not_handed_over(tmp_path: Path) -> None:
    record = Record("r", tmp_path / "r")
    record.open()
    kept = [record.keep_picture(Image("image/png", PNG)) for _ in range(3)]
    assert all(kept)
    size, log = (tmp_path / "r" / "run.jsonl").stat().st_size, [observed(str(kept[1]))]
    record.close()
    again = Record("r", tmp_path / "r")
    again.reopen(size, 0, log)
    again.close()
    assert [figure.name for figure in again.figures] == [kept[1]]
    assert set(again.pictures) == set(kept)
