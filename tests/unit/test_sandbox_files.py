"""The guest's end of file transfers, on a folder of this machine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sandbox.errors import FileError
from sandbox.files import Files as HostFiles
from sandbox.files import check_input_name, is_input
from sandbox.guest.files import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "root").mkdir()
    return Files(str(tmp_path / "root"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def put(files: Files, path: str, content: bytes, mode: int = 0o664) -> str | None:
    """The reason of the first refusal, or None."""
    steps: list[tuple[dict[str, Any], bytes]] = [
        ({"do": "put", "path": path, "mode": mode}, b""),
        ({"do": "write"}, content),
        ({"do": "finish"}, b""),
    ]
    for request, body in steps:
        answer = files.serve({"file": 1, **request}, body)
        if answer is not None and "error" in answer[0]:
            return str(answer[0]["error"])
    return None


def get(files: Files, path: str) -> bytes | str:
    answer = files.serve({"do": "get", "file": 2, "path": path}, b"")
    assert answer is not None
    if "error" in answer[0]:
        return str(answer[0]["error"])
    content = b""
    while True:
        answer = files.serve({"do": "read", "file": 2}, b"")
        assert answer is not None
        if not answer[1]:
            break
        content += answer[1]
    files.serve({"do": "close", "file": 2}, b"")
    return content


def test_there_and_back(files: Files, root: Path) -> None:
    content = os.urandom(3_000_000)
    assert put(files, "a/b/c.bin", content) is None
    assert (root / "a/b/c.bin").read_bytes() == content
    assert get(files, "/workspace/a/b/c.bin") == content


@pytest.mark.parametrize(("path", "mode"), [("x", 0o664), ("data/x", 0o444)])
def test_the_mode_is_the_one_asked_for(files: Files, root: Path, path: str, mode: int) -> None:
    assert put(files, path, b"", mode) is None
    assert stat.S_IMODE((root / path).stat().st_mode) == mode


def test_a_file_is_not_seen_before_it_is_whole(files: Files, root: Path) -> None:
    (root / "x").write_text("old")
    files.serve({"do": "put", "file": 1, "path": "x", "mode": 0o664}, b"")
    files.serve({"do": "write", "file": 1}, b"new")
    assert (root / "x").read_text() == "old"
    files.serve({"do": "abandon", "file": 1}, b"")
    assert [path.name for path in root.iterdir()] == ["x"]
    assert files.serve({"do": "finish", "file": 1}, b"") is None
    assert (root / "x").read_text() == "old"


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../secret", "/etc/passwd", "/workspace//etc", "", ".", "/"]
)
def test_paths_that_leave(files: Files, path: str) -> None:
    assert get(files, path) == "is not a path within /workspace"
    assert put(files, path, b"x") == "is not a path within /workspace"


def test_links_are_not_followed(files: Files, root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    assert get(files, "link") == "is a link, or lies behind one"
    assert get(files, "folder/secret") == "is a link, or lies behind one"
    assert put(files, "folder/secret", b"x") == "is a link, or lies behind one"
    assert put(files, "link", b"x") is None  # the link is replaced
    assert (tmp_path / "secret").read_text() == "outside"


def test_a_link_swapped_in_while_writing_changes_nothing_else(
    files: Files, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").chmod(0o600)
    files.serve({"do": "put", "file": 1, "path": "x", "mode": 0o666}, b"")
    (temporary,) = root.iterdir()
    temporary.unlink()
    temporary.symlink_to(tmp_path / "secret")
    files.serve({"do": "write", "file": 1}, b"new")
    files.serve({"do": "finish", "file": 1}, b"")
    assert (tmp_path / "secret").read_text() == "outside"
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_what_is_not_a_file(files: Files, root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    with (root / "sparse").open("wb") as file:
        file.truncate(5_000_000)
    assert get(files, "fifo") == "is a named pipe, not a file"
    assert get(files, "folder") == "is a folder, not a file"
    assert get(files, "sparse") == "is sparse: it says 5000000 bytes and holds 0"
    assert get(files, "missing") == "is not there"
    assert get(files, "a\0b") == "holds a NUL character"
    assert get(files, "\ud800") == "is not a name that a file can have"


def test_a_listing(files: Files, root: Path) -> None:
    (root / "b").mkdir()
    (root / "b" / "two").write_text("22")
    (root / "a").symlink_to("b")
    (root / os.fsdecode(b"\xff")).write_text("")
    answer = files.serve({"do": "list", "file": 1, "path": ""}, b"")
    assert answer is not None
    assert [(e["path"], e["kind"]) for e in json.loads(answer[1])] == [
        ("a", "other"),
        ("b", "folder"),
        ("b/two", "file"),
        ("\udcff", "file"),
    ]
    assert json.loads(answer[1])[2]["size"] == 2


def test_a_listing_of_deep_folders_ends(files: Files, root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    answer = files.serve({"do": "list", "file": 1, "path": ""}, b"")
    assert answer is not None
    assert len(json.loads(answer[1])) == 41
    subprocess.run(["rm", "-rf", str(root / "d")], check=True)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a.csv", "a/../b.csv", "/a.csv", "a//b.csv", "a\0b", "x" * 256, "漢" * 86]
)
def test_inputs_have_names_below_their_folder(name: str) -> None:
    with pytest.raises(FileError):
        check_input_name(name)


@pytest.mark.parametrize(
    "name", ["a.csv", ".hidden", "a/b.csv", "..a", "ü 漢.csv", "-rf", "x" * 255, "\udcff"]
)
def test_other_names_of_inputs_are_taken(name: str) -> None:
    check_input_name(name)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data/a.csv", True),
        ("/workspace/data/a.csv", True),
        ("./data/a.csv", True),
        ("/workspace/./data/b/a.csv", True),
        (".//data/./a.csv", True),
        ("data", False),
        ("./data/", False),
        ("out/data/a.csv", False),
        ("database/a.csv", False),
    ],
)
def test_an_input_is_one_however_its_path_is_written(path: str, expected: bool) -> None:
    assert is_input(path) is expected


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x" * 300, "File name too long"),
        ("a\0b", "embedded null byte"),
        ("missing", "No such file or directory"),
        ("pipe", "is neither a file nor a folder"),
    ],
)
def test_what_cannot_be_sent_says_why_and_nothing_of_space(tmp_path: Path, name: str, said: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    bridge: Any = None  # nothing is sent
    with pytest.raises(FileError, match=f"cannot be read on the host: {said}$"):
        HostFiles(bridge, 1).put_inputs({"a.csv": tmp_path / name})
