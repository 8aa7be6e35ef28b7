"""What --data takes, under which names, and what is said of what it cannot take."""

from __future__ import annotations

import io
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact.data import collect, left_behind, safe_name
from codeact.errors import UsageError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a.csv, b.csv, and a folder `more` that holds another a.csv."""
    folder = tmp_path / "here"
    (folder / "more").mkdir(parents=True)
    for name in ("a.csv", "b.csv", "more/a.csv"):
        (folder / name).write_text("x\n1\n")
    monkeypatch.chdir(folder)
    return folder


def take(*specs: str, stdin: bytes = b"", scratch: Path | None = None) -> dict[str, str]:
    """Name → path, as text."""
    with tempfile.TemporaryDirectory() as other:
        found = collect(specs, io.BytesIO(stdin), scratch or Path(other))
    return {name: str(path) for name, path in found.items()}


@pytest.mark.parametrize(
    ("specs", "found"),
    [
        ([], {}),
        (["a.csv"], {"a.csv": "a.csv"}),
        (["./more/"], {"more": "more"}),
        (["more", "a.csv"], {"more": "more", "a.csv": "a.csv"}),
        (["*.csv"], {"a.csv": "a.csv", "b.csv": "b.csv"}),
        (["*.csv", "a.csv"], {"a.csv": "a.csv", "b.csv": "b.csv"}),
        (["[b-z].csv"], {"b.csv": "b.csv"}),
        (["a.csv", "other.csv=more/a.csv"], {"a.csv": "a.csv", "other.csv": "more/a.csv"}),
        (["one=b*.csv"], {"one": "b.csv"}),
        (["**/b.csv"], {"b.csv": "b.csv"}),
    ],
)
@pytest.mark.usefixtures("here")
def test_names(specs: list[str], found: dict[str, str]) -> None:
    assert take(*specs) == found


def test_the_current_folder_goes_by_its_own_name(here: Path) -> None:
    assert take(".") == {"here": str(here)}
    assert take("more/..") == {"here": str(here)}


@pytest.mark.parametrize("name", ["x=y.csv", "[1].csv", "what?.csv", "two words.csv", "-"])
def test_a_file_that_is_there_is_taken_by_its_name_as_it_is(here: Path, name: str) -> None:
    (here / name).write_text("x\n")
    spec = f"./{name}" if name == "-" else name
    assert take(spec) == {name: name}


def test_a_home_folder_is_found_behind_a_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert take("n=~/a.csv") == {"n": str(here / "a.csv")}


def test_a_link_is_followed(here: Path) -> None:
    (here / "link.csv").symlink_to(here / "a.csv")
    assert take("link.csv") == {"link.csv": "link.csv"}


def test_standard_input_is_saved(tmp_path: Path) -> None:
    found = collect(["-"], io.BytesIO(b"a,b\n1,2\n"), tmp_path)
    assert found == {"stdin": tmp_path / "stdin"}
    assert found["stdin"].read_bytes() == b"a,b\n1,2\n"


def test_standard_input_under_a_name(tmp_path: Path) -> None:
    found = collect(["sales.csv=-"], io.BytesIO(b"a\n"), tmp_path)
    assert found == {"sales.csv": tmp_path / "stdin"}


def test_ten_thousand_files(here: Path) -> None:
    many = here / "many"
    many.mkdir()
    for number in range(10_000):
        (many / f"{number}.txt").touch()
    assert take("many") == {"many": "many"}


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))


def _loop(folder: Path) -> None:
    (folder / "s").symlink_to("s")


@pytest.mark.parametrize(
    ("make", "spec", "words"),
    [
        (None, "none.csv", ["none.csv: no such file or folder", "check the path"]),
        (None, "none/a.csv", ["none/a.csv: no such file or folder"]),
        (None, "a.csv/x", ["a.csv/x: cannot be read: not a directory"]),
        (None, "*.parquet", ["--data *.parquet: no file matches"]),
        (None, "n=*.csv", ["--data n=*.csv: 2 files match, and one name was given"]),
        (None, "/dev/null", ["/dev/null: is a device, not a file or folder"]),
        (None, "x" * 300, ["cannot be read: file name too long"]),
        (None, "bad\0name", ["cannot be read: ", "embedded null"]),
        (lambda f: (f / "s").touch(), "s", ["s: is empty; give a file with data in it"]),
        (lambda f: (f / "s").mkdir(), "s", ["s: is empty; give a folder with data in it"]),
        (lambda f: (f / "s").symlink_to("gone"), "s", ["s: is a link to gone, which is not there"]),
        (_loop, "s", ["s: cannot be read: too many levels of symbolic links"]),
        (lambda f: os.mkfifo(f / "s"), "s", ["s: is a pipe, not a file or folder", "--data -"]),
        (_socket, "s", ["s: is a socket, not a file or folder"]),
        (lambda f: (f / "a\nb").touch(), "a\nb", [r"'a\nb': is empty"]),
    ],
)
def test_what_cannot_be_taken(
    here: Path, make: Callable[[Path], object] | None, spec: str, words: list[str]
) -> None:
    if make is not None:
        make(here)
    with pytest.raises(UsageError) as caught:
        take(spec)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


@pytest.mark.usefixtures("here")
def test_two_of_the_same_name() -> None:
    with pytest.raises(UsageError) as caught:
        take("a.csv", "more/a.csv")
    assert "a.csv and more/a.csv have the same name" in str(caught.value)
    assert "--data NAME=more/a.csv" in str(caught.value)


def test_empty_standard_input() -> None:
    with pytest.raises(UsageError, match="standard input is empty"):
        take("-")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a.csv", "a.csv"),
        ("a b ü 数.csv", "a b ü 数.csv"),
        ("a/b\n\x1b[31m", "a_b__[31m"),
        ("\u202egpj.exe", "_gpj.exe"),
        ("\udcff.csv", "_.csv"),
        ("cafe\u0301.csv", "caf\xe9.csv"),
        ("..", "data"),
        ("", "data"),
        ("x" * 300 + ".csv", "x" * 251 + ".csv"),
        ("ü" * 200, "ü" * 127),
    ],
)
def test_safe_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@given(st.text())
def test_every_name_is_made_safe(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe.encode()) <= 255
    assert "/" not in safe
    assert safe not in (".", "..")
    assert not any(ord(c) < 32 for c in safe)


@pytest.mark.parametrize("end", ["-wal", "-journal"])
def test_changes_that_lie_beside_a_database_are_missed_where_they_are_not_given(
    tmp_path: Path, end: str
) -> None:
    database, beside = tmp_path / "a.db", tmp_path / f"a.db{end}"
    database.write_bytes(b"SQLite format 3\0" + bytes(84))
    assert left_behind({"x.db": database, "gone.db": tmp_path / "gone", "more": tmp_path}) == []
    beside.touch()
    assert left_behind({"x.db": database}) == []
    beside.write_bytes(b"changes")
    assert left_behind({"x.db": database}) == [
        f"x.db: its latest changes lie in {beside}, which is not given; give it too, as x.db{end}"
    ]
    assert left_behind({"x.db": database, f"x.db{end}": beside}) == []
    database.write_bytes(b"some notes")
    assert left_behind({"x.db": database}) == []
