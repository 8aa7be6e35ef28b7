"""Where control groups are made, on trees of both versions that are written out here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.backends import cgroups
from sandbox.backends.identity import process_name, process_of
from sandbox.types import Limits


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """A tree of version 2: the terminal's group holds processes; the one above hands its controllers on."""
    top = tmp_path / "cgroup"
    own = top / "user.slice" / "app.slice" / "terminal.scope"
    own.mkdir(parents=True)
    for folder, handed in ((own, ""), (own.parent, "cpu memory pids"), (top, "memory")):
        (folder / "cgroup.subtree_control").write_text(handed)
        (folder / "cgroup.procs").write_text("")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/user.slice/app.slice/terminal.scope\n")
    (proc / "mountinfo").write_text(
        f"30 25 0:26 / {top} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    )
    return proc


def test_version_2_takes_the_nearest_that_hands_on(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cgroups, "_may_move", lambda *_: True
    )  # the files that the kernel puts there are missing
    parents = cgroups.find_parents(unified)
    assert parents is not None
    assert parents.version == 2
    assert {folder.name for folder in parents.folders.values()} == {"app.slice"}
    assert set(parents.folders) == {"memory", "pids", "cpu"}


def test_the_limits_of_a_group_in_version_2(tmp_path: Path) -> None:
    parents = cgroups.Parents(2, dict.fromkeys(("memory", "pids", "cpu"), tmp_path))
    group = cgroups.make_group(parents, Limits(memory="300m", cpus=0.5, pids=100))
    (folder,) = set(group.folders.values())
    written = {file.name: file.read_text() for file in folder.iterdir()}
    assert written == {
        "memory.max": str(300 * 1024**2),
        "pids.max": "100",
        "cpu.max": "50000 100000",
    }
    assert process_of(folder.name.removeprefix(cgroups.PREFIX).rpartition("-")[0]) == os.getpid()


def test_version_1_without_memory_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("3:pids:/mine\n1:cpu,cpuacct:/\n")
    (tmp_path / "mountinfo").write_text(f"30 25 0:26 / {tmp_path}/pids rw shared:4 - cgroup cgroup rw,pids\n")
    assert cgroups.find_parents(tmp_path) is None


def test_a_process_is_told_from_a_later_one_of_its_number() -> None:
    name = process_name(os.getpid())
    assert process_of(name) == os.getpid()
    assert process_of(f"{os.getpid()}.1") is None
    assert process_of("junk") is None
