"""What is held stays while its process lives, and goes when it does not."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from codeact import tidying
from sandbox import held
from sandbox.held import hold, part_file, part_folder, remove_unheld, replacing, scratch_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_scratch_folder_is_private_and_goes_at_the_end(temporary: Path) -> None:
    with scratch_folder() as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert held.sweep() == 0
        assert folder.parent == temporary
    assert list(temporary.iterdir()) == []
    with pytest.raises(RuntimeError), scratch_folder():
        raise RuntimeError
    assert list(temporary.iterdir()) == []


def test_of_a_killed_process_it_is_swept_and_nothing_else(temporary: Path) -> None:
    code = (
        "from sandbox.held import scratch_folder\nimport sys\n"
        "with scratch_folder() as f: (f / 'stdin').touch(); print(f, flush=True); sys.stdin.read()"
    )
    others = [temporary / "codeact-notes", temporary / "codeact-0123456789abcdeg", temporary / "x"]
    for other in others:
        other.mkdir()
    with (
        scratch_folder() as mine,
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"TMPDIR": str(temporary), "PYTHONPATH": ":".join(sys.path)},
        ) as process,
    ):
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        assert (theirs / "stdin").is_file()
        assert held.sweep() == 0
        process.kill()
        process.wait()
        assert held.sweep() == 1
        assert set(temporary.iterdir()) == {mine, *others}


def test_a_link_is_not_followed(temporary: Path) -> None:
    target = temporary / "target"
    target.mkdir()
    link = temporary / "codeact-0123456789abcdef"
    link.symlink_to(target)
    assert held.sweep() == 0
    assert target.is_dir()
    assert link.is_symlink()


def test_what_was_removed_before_it_was_held_is_not_held(temporary: Path) -> None:
    assert hold(temporary / "absent") is None
    (temporary / "file").touch()
    assert remove_unheld(temporary / "file")
    assert not remove_unheld(temporary / "file")


def test_a_part_takes_its_name_or_is_gone(tmp_path: Path) -> None:
    with part_file(tmp_path) as (part, file):
        file.write(b"whole")
        file.flush()
        assert held.sweep_parts(tmp_path) == 0
        part.replace(tmp_path / "result")
    with part_folder(tmp_path) as made:
        (made / "inside").touch()
        made.rename(tmp_path / "folder")
    for part_of in (part_file, part_folder):
        with pytest.raises(RuntimeError), part_of(tmp_path):
            raise RuntimeError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "result"]
    assert (tmp_path / "result").read_bytes() == b"whole"
    assert (tmp_path / "folder" / "inside").exists()


def test_parts_of_a_killed_process_are_swept_and_nothing_else(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from sandbox.held import part_file, part_folder\n"
        "here = Path(sys.argv[1])\n"
        "with part_file(here) as (_, file), part_folder(here) as folder:\n"
        "    file.write(b'half'); file.flush(); (folder / 'x').touch(); os.kill(os.getpid(), 9)"
    )
    (tmp_path / ".part-notes").touch()
    env = {"PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False, env=env).returncode == -9
    assert len(list(tmp_path.iterdir())) == 3
    assert held.sweep_parts(tmp_path, tmp_path / "absent") == 2
    assert [path.name for path in tmp_path.iterdir()] == [".part-notes"]


def test_of_runs_what_is_half_made_or_half_removed_is_swept(tmp_path: Path) -> None:
    number = "0123456789abcdef"
    kept = [
        tmp_path / "run-1" / "run.jsonl",
        tmp_path / ".hidden" / "file",
        tmp_path / "run-1" / "blobs" / "a",
    ]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    outside = tmp_path / "given" / "plots"
    outside.mkdir(parents=True)
    for left in ("run-1", "run-1/blobs", "given", "given/plots"):
        (tmp_path / left / f".part-{number}").touch()
    (tmp_path / ".run-2-0a1b2c").mkdir()
    (tmp_path / ".run-2-0a1b2c" / "run.jsonl").touch()
    kept[0].write_text(json.dumps({"type": "run_started", "settings": {"out": str(tmp_path / "given")}}))
    assert tidying.sweep(tmp_path) == 5
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert tidying.sweep(tmp_path / "absent") == 0


def test_what_is_replaced_is_whole_or_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with replacing(target, 0o640) as file:
        file.write(b"one")
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"one", 0o640)

    def half() -> None:
        with replacing(target) as file:
            file.write(b"two")
            raise KeyError

    with pytest.raises(KeyError):
        half()
    assert (target.read_bytes(), list(tmp_path.iterdir())) == (b"one", [target])
