"""Files in and out: whole or not at all, and nothing inside chooses what is read or written outside."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox import FileError, Limits, Sandbox
from tests.contract.conftest import Make, fine, value


def test_round_trip_of_twenty_megabytes(box: Sandbox, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(20_000_000)
    (tmp_path / "in.bin").write_bytes(content)
    box.put(tmp_path / "in.bin", "deep/er/copy.bin")
    assert value(box, "import os\nvalue = os.path.getsize('deep/er/copy.bin')") == 20_000_000
    assert box.get("/workspace/deep/er/copy.bin", tmp_path / "out.bin") == 20_000_000
    assert (tmp_path / "out.bin").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    "name", ["with space.txt", "new\nline.txt", "émoji 🎉.txt", "-rf", "a" * 255, "quote'\".txt"]
)
def test_names(box: Sandbox, name: str) -> None:
    box.write(f"names/{name}", name)
    assert box.read(f"names/{name}") == name.encode()
    assert name in [file.path for file in box.list("names")]


def test_a_name_that_is_not_utf8(box: Sandbox, tmp_path: Path) -> None:
    fine(
        box.run("import os\nos.makedirs('odd', exist_ok=True)\nopen(b'odd/\\xff\\xfe', 'w').write('content')")
    )
    (file,) = box.list("odd")
    assert file.path == "\udcff\udcfe"
    assert box.read(f"odd/{file.path}") == b"content"


def test_an_input_that_is_larger_than_the_disk(settings: Mapping[str, Any], tmp_path: Path) -> None:
    source = tmp_path / "large.bin"
    source.write_bytes(bytes(3_000_000))
    source.chmod(0o600)  # sent, not mounted
    box = Sandbox(image="minimal", inputs={"large.bin": source}, limits=Limits(disk="2m"), **settings)
    with pytest.raises(
        FileError, match=rf"{source}: was not sent .* raise `disk` \(2 MiB\), or let every user read it"
    ):
        box.start()


def test_the_agent_can_change_what_was_put_in_its_workspace_and_not_the_inputs(box: Sandbox) -> None:
    box.write("mine.txt", "a")
    box.write("data/input.txt", "b")
    fine(box.run("open('mine.txt', 'a').write('!')"))
    assert box.read("mine.txt") == b"a!"
    assert box.run("open('data/input.txt', 'a')").status == "error"


MADE = """
import os, socket
os.makedirs('traps', exist_ok=True)
os.chdir('traps')
def make(name, how):
    if not os.path.lexists(name): how(name)
make('link', lambda n: os.symlink('/etc/passwd', n))
make('dangling', lambda n: os.symlink('nowhere', n))
make('folder_link', lambda n: os.symlink('/etc', n))
make('fifo', os.mkfifo)
make('folder', os.mkdir)
make('socket', lambda n: socket.socket(socket.AF_UNIX).bind(n))
make('sparse', lambda n: open(n, 'wb').truncate(10**8))
make('locked', lambda n: (open(n, 'w').write('x'), os.chmod(n, 0)))
make('closed', lambda n: (os.mkdir(n), open(n + '/file', 'w').close(), os.chmod(n, 0)))
os.chdir('/workspace')
"""


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("traps/link", "is a link"),
        ("traps/dangling", "is a link"),
        ("traps/folder_link/passwd", "is a link, or lies behind one"),
        ("traps/fifo", "is a named pipe, not a file"),
        ("traps/folder", "is a folder, not a file"),
        ("traps/socket", "is a socket, not a file"),
        ("traps/sparse", "is sparse: it says 100000000 bytes"),
        ("traps/locked", "took the permission away"),
        ("traps/closed/file", "took the permission away"),
        ("traps/missing", "is not there"),
        ("../etc/passwd", "is not a path within /workspace"),
        ("traps/../../etc/passwd", "is not a path within /workspace"),
        ("/etc/passwd", "is not a path within /workspace"),
        ("/workspace//etc/passwd", "is not a path within /workspace"),
        ("", "is not a path within /workspace"),
        ("a\0b", "holds a NUL"),
        ("\ud800", "is not a name"),
        ("x" * 300, "name too long"),
    ],
)
def test_what_is_not_carried_out(box: Sandbox, tmp_path: Path, path: str, reason: str) -> None:
    fine(box.run(MADE))
    with pytest.raises(FileError) as refused:
        box.get(path, tmp_path / "target")
    assert reason in str(refused.value)
    assert path in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("traps/folder_link/new", "is a link"),
        ("../new", "is not a path within"),
        ("/etc/new", "is not a path within"),
        ("traps/closed/new", "took the permission away"),
        ("traps/folder", "failed"),
        ("traps/fifo/new", "is a link, or lies behind one"),
    ],
)
def test_what_is_not_carried_in(box: Sandbox, path: str, reason: str) -> None:
    fine(box.run(MADE))
    before = value(box, COUNT)
    with pytest.raises(FileError) as refused:
        box.write(path, b"content")
    assert reason in str(refused.value)
    assert value(box, COUNT) == before


COUNT = "import os\nvalue = sum(len(files) for _, _, files in os.walk('/workspace'))"


def test_a_link_in_the_way_is_replaced_not_followed(box: Sandbox) -> None:
    fine(box.run("import os\nopen('victim', 'w').write('safe')\nos.symlink('victim', 'way')"))
    box.write("way", "new")
    assert box.read("victim") == b"safe"
    assert box.read("way") == b"new"


def test_a_file_that_changes_while_it_is_read(box: Sandbox, tmp_path: Path) -> None:
    box.write("growing.bin", bytes(30_000_000))
    cell = box.stream(
        "with open('growing.bin', 'ab', 0) as f:\n    print('on', flush=True)\n    while True: f.write(b'x')"
    )
    next(cell)
    with pytest.raises(FileError, match="changed while it was read"):
        box.get("growing.bin", tmp_path / "target")
    cell.close()
    assert list(tmp_path.iterdir()) == []


def test_a_listing_shows_what_there_is_and_follows_nothing(box: Sandbox) -> None:
    fine(box.run(MADE))
    kinds = {file.path: file.kind for file in box.list("traps")}
    assert kinds == {
        "closed": "folder",
        "dangling": "other",
        "fifo": "other",
        "folder": "folder",
        "folder_link": "other",
        "link": "other",
        "locked": "file",
        "socket": "other",
        "sparse": "file",
    }
    for path in ("traps/folder_link", "traps/link", "traps/missing", ".."):
        with pytest.raises(FileError):
            box.list(path)


def test_deep_and_wide_folders_are_listed_or_refused(make: Make) -> None:
    box = make(limits=Limits(files="10k"))
    fine(
        box.run(
            "import os\nfor i in range(3000): open(f'{i:04}', 'w').close()\n"
            "for _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\nos.chdir('/workspace')"
        )
    )
    found = [file.path for file in box.list()]
    assert sum(path.isdigit() for path in found) == 3000
    assert "d/" * 30 + "d" in found
    assert value(box, "value = 1") == 1


def test_what_the_host_cannot_take(box: Sandbox, tmp_path: Path, tiny: Path) -> None:
    box.write("ten.bin", bytes(10_000_000))
    with pytest.raises(FileError, match="cannot be written"):
        box.get("ten.bin", tiny / "target")
    assert list(tiny.iterdir()) == []
    with pytest.raises(FileError, match="cannot be written"):
        box.get("ten.bin", tmp_path / "no folder" / "target")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="cannot be written"):
        box.get("ten.bin", tmp_path / "folder")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "tiny"}
    assert value(box, "value = 1") == 1


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for a megabyte."""
    place = tmp_path / "tiny"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True
    ).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)
    place.rmdir()


def test_what_the_sandbox_cannot_take(make: Make) -> None:
    box = make(limits=Limits(disk="5m"))
    with pytest.raises(FileError, match=r"No space left|File too large"):
        box.write("big.bin", bytes(10_000_000))
    assert "big.bin" not in [file.path for file in box.list()]
    box.write("small.bin", b"x")
    assert box.read("small.bin") == b"x"


def test_what_the_host_cannot_read(box: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read on the host: No such file"):
        box.put(tmp_path / "missing", "x")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FileError, match="neither a file nor a folder"):
        box.put(tmp_path / "fifo", "x")


def test_a_folder_is_put_with_all_that_is_in_it(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one.txt").write_text("1")
    (tmp_path / "a" / "b" / "two.txt").write_text("2")
    box.put(tmp_path / "a", "tree")
    assert {file.path for file in box.list("tree")} == {"b", "b/two.txt", "one.txt"}
    assert box.read("tree/b/two.txt") == b"2"


def test_inputs_are_there_from_the_start_whoever_may_read_them(make: Make, tmp_path: Path) -> None:
    (tmp_path / "open.csv").write_text("a\n1\n")
    (tmp_path / "private.csv").write_text("b\n2\n")
    (tmp_path / "private.csv").chmod(0o600)
    box = make(inputs={"open.csv": tmp_path / "open.csv", "private.csv": tmp_path / "private.csv"})
    code = "value = [open(f'/workspace/data/{n}.csv').read() for n in ('open', 'private')]"
    assert value(box, code) == ["a\n1\n", "b\n2\n"]
    for name in ("open", "private"):
        cell = box.run(f"open('/workspace/data/{name}.csv', 'w')")
        assert cell.error is not None
        assert cell.error.name in ("PermissionError", "OSError")


def test_inputs_lie_in_folders_where_their_names_say_so(make: Make, tmp_path: Path) -> None:
    for name in ("open", "private"):
        (tmp_path / name).write_text(name)
    (tmp_path / "private").chmod(0o600)
    box = make(inputs={"a/b/one.txt": tmp_path / "open", "a/two.txt": tmp_path / "private"})
    code = "value = [open(f'/workspace/data/a/{n}.txt').read() for n in ('b/one', 'two')]"
    assert value(box, code) == ["open", "private"]


def test_a_folder_that_is_swapped_for_a_link_while_it_is_read(box: Sandbox) -> None:
    """What comes out is the file that was there, or a refusal; never what the link points at."""
    cell = box.stream(
        "import os\nos.makedirs('swap'); open('swap/passwd', 'w').write('mine'); os.symlink('/etc', 'away')\n"
        "os.link('swap/passwd', 'hard')\nprint('on', flush=True)\n"
        "while True:\n    os.rename('swap', 'kept'); os.rename('away', 'swap')\n"
        "    os.rename('swap', 'away'); os.rename('kept', 'swap')"
    )
    next(cell)
    seen = set()
    deadline, tries = time.monotonic() + 60, 0
    while tries < 300 or (b"mine" not in seen and time.monotonic() < deadline):
        tries += 1
        try:
            seen.add(box.read("swap/passwd"))
        except FileError:
            seen.add(b"refused")
    cell.close()
    assert seen <= {b"mine", b"refused"}
    assert b"mine" in seen
    assert box.read("hard") == b"mine"
