"""What is held stays while its process lives, and goes when it does not."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sandbox import held
from sandbox.held import hold, remove_unheld, scratch_folder


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
