"""Reading lines that are run beforehand, with names of the files' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codeact.inside.loading import _renamed, load


def entry(path: Path, read: str, **more: Any) -> dict[str, Any]:
    return {
        "path": str(path),
        "name": path.name,
        "size": 10,
        "read": read,
        "read_verified": True,
        "notes": [],
        **more,
    }


def reads(path: Path) -> str:
    return f"import re; lines = open({str(path)!r}, encoding='utf-8').read().splitlines()"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("Orders 2026.txt", "class.txt", "3.txt")]
    for path in made:
        path.write_text(f"{path.name}\nb\n")
    return made


def test_one_file_keeps_the_names_of_its_line(files: list[Path]) -> None:
    space: dict[str, Any] = {}
    one = entry(files[0], reads(files[0]))
    load({"files": [one]}, space)
    assert space == {"lines": ["Orders 2026.txt", "b"]}
    assert one["loaded"] is True
    assert one["read"] == reads(files[0])


def test_several_files_get_names_of_their_own_that_are_free(files: list[Path]) -> None:
    space: dict[str, Any] = {"orders_2026": "taken"}
    made = [entry(path, reads(path), notes=["keep lines = lines[1:], not 'lines'"]) for path in files]
    load({"files": made}, space)
    assert sorted(space) == ["class_", "data_3", "orders_2026", "orders_2026_"]
    assert space["orders_2026"] == "taken"
    assert space["class_"] == ["class.txt", "b"]
    assert made[1]["read"] == reads(files[1]).replace("lines = ", "class_ = ", 1)
    assert made[1]["notes"] == ["keep class_ = class_[1:], not 'lines'"]


def test_a_line_that_fails_or_was_not_tried_stays_a_line(files: list[Path], tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    gone = entry(tmp_path / "gone.txt", reads(tmp_path / "gone.txt"))
    untried = entry(files[1], reads(files[1])) | {"read_verified": False}
    load({"files": [entry(files[0], reads(files[0])), gone, untried]}, space)
    assert sorted(space) == ["orders_2026"]
    assert "loaded" not in gone
    assert "loaded" not in untried


@pytest.mark.parametrize("size", [21 * 1024 * 1024, None])
def test_all_or_nothing(files: list[Path], size: int | None) -> None:
    space: dict[str, Any] = {}
    many = (
        [entry(files[0], reads(files[0])) for _ in range(9)]
        if size is None
        else [entry(files[0], reads(files[0]))]
    )
    if size is not None:
        many[0]["size"] = size
    load({"files": many}, space)
    assert space == {}


@pytest.mark.parametrize(
    ("line", "renamed"),
    [
        ("df = pd.read_csv('df.csv'); df['df'] = df.df", "t = pd.read_csv('df.csv'); t['df'] = t.df"),
        ("df = f(df=1, x=df)", "t = f(df=1, x=t)"),
        ("df = [df for df in x if df == 1]", "t = [t for t in x if t == 1]"),
    ],
)
def test_only_the_variable_is_renamed(line: str, renamed: str) -> None:
    assert _renamed(line, {"df": "t"}) == renamed
