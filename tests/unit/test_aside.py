"""Files that are laid aside while code runs again, and put back as they were last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeact.inside import aside


def tree(root: Path) -> dict[str, str]:
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = path.read_text()
        else:
            found[name] = "(folder)"
    return found


def make(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content == "(folder)":
            path.mkdir()
        elif content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            path.write_text(content)


BEFORE = {
    "a.txt": "last",
    "out/deep/b.txt": "b",
    "empty": "(folder)",
    "link": "-> /nowhere",
    "was a file": "(folder)",
    "\udcff": "no text",
    "data/in.csv": "input",
    ".outputs/1.txt": "full",
}


@pytest.mark.parametrize(
    "again",
    [
        {},
        {"a.txt": "first", "more.txt": "not last", "out/deep/c.txt": "c", "was a file": "file"},
        {"link/in a folder": "x", "out/deep": "a file now", "empty/full": "x"},
    ],
)
def test_code_finds_none_of_it_and_all_is_as_it_was(tmp_path: Path, again: dict[str, str]) -> None:
    make(tmp_path, BEFORE)
    before = tree(tmp_path)
    assert aside.keep(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"data", ".outputs", ".aside", "out"}
    assert list((tmp_path / "out").iterdir()) == []
    make(tmp_path, again)
    aside.back(str(tmp_path))
    assert tree(tmp_path) == before


def test_what_is_written_again_as_it_was_stays_the_same_file(tmp_path: Path) -> None:
    make(tmp_path, {"same": "s", "other": "o"})
    aside.keep(str(tmp_path))
    make(tmp_path, {"same": "s", "other": "not o"})
    with (tmp_path / "same").open() as same, (tmp_path / "other").open() as other:
        aside.back(str(tmp_path))
        assert os.fstat(same.fileno()).st_ino == (tmp_path / "same").stat().st_ino
        assert os.fstat(other.fileno()).st_ino != (tmp_path / "other").stat().st_ino


def test_files_that_there_is_no_room_for_twice_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, {"a": "a" * 100})
    monkeypatch.setattr(aside, "_free", lambda root: 10)
    assert not aside.keep(str(tmp_path))
    make(tmp_path, {"b": "b"})
    aside.back(str(tmp_path))
    assert tree(tmp_path) == {"a": "a" * 100, "b": "b"}
