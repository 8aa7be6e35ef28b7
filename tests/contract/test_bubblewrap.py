"""bubblewrap where less can be had: one user, no control group; and how it comes to be chosen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import EngineNotFound, ImageError, Limits, Sandbox
from sandbox.backends import cgroups, choice, machine
from sandbox.backends.users import Users
from tests.contract.conftest import build_roots, fine, next_cell_works, value

pytestmark = pytest.mark.skipif(machine.look().program is None, reason="bubblewrap is not installed")


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox of somebody who may map no user but himself, and make no control group."""
    build_roots()
    alone = Users(((0, os.geteuid()),), ((0, os.getegid()),))
    monkeypatch.setattr(machine, "find_users", lambda: alone)
    monkeypatch.setattr(cgroups, "find_parents", lambda: None)
    with Sandbox("minimal", limits=Limits(memory="512m"), backend="bubblewrap") as box:
        yield box


def test_what_is_weaker_is_declared(poor: Sandbox) -> None:
    assert {"memory", "cpus", "users"} <= set(poor.unenforced)
    assert all("\n" not in reason for reason in poor.unenforced.values())


def test_one_user_for_both_is_still_kept_apart(poor: Sandbox) -> None:
    status = value(poor, "value = dict(l.rstrip('\\n').split(':', 1) for l in open('/proc/self/status'))")
    assert status["Uid"].split() == ["10002"] * 4
    assert {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    seen = value(
        poor,
        "import os\nvalue = [open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()]",
    )
    assert [line for line in seen if "sandbox_guest.supervisor" in line] == []
    hidden = poor.run("import os\nos.listdir('/run/s')")
    assert hidden.error is not None
    assert hidden.error.name == "PermissionError"


def test_ends_and_restarts_without_a_second_user(poor: Sandbox) -> None:
    fine(poor.run("import subprocess\nopen('kept', 'w').write('here')\nsubprocess.Popen(['sleep', '986'])"))
    cell = poor.run("import os, time; os.kill(-1, 9); time.sleep(20)")
    assert (cell.status, cell.lost) == ("died", "all variables")
    next_cell_works(poor)
    assert poor.read("kept") == b"here"
    poor.restart()
    next_cell_works(poor)
    assert poor.run("while True: pass", timeout=0.3).status == "timeout"
    next_cell_works(poor)


def test_memory_is_limited_for_each_process(poor: Sandbox) -> None:
    cell = poor.run("held = [bytearray(10**7) for _ in range(100)]")
    assert cell.error is not None
    assert cell.error.name == "MemoryError"
    next_cell_works(poor)


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise EngineNotFound("no container engine answers: run `make engine`, or start Docker")

    monkeypatch.setattr(choice, "find_engine", none)


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_bubblewrap_is_taken_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    build_roots()
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    said: list[str] = []
    with Sandbox("minimal", on_progress=said.append) as box:
        next_cell_works(box)
        assert box.backend == "bubblewrap"
        assert said == [box.notice]
    assert said[0].startswith("no container engine answers: bubblewrap contains the code")
    assert "\n" not in said[0]


@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_was_named_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(EngineNotFound):
        Sandbox("minimal").start()
    monkeypatch.delenv("DOCKER_HOST")
    for settings in ({"backend": "docker"}, {"runtime": "runsc"}):
        with pytest.raises(EngineNotFound):
            Sandbox("minimal", **settings).start()  # type: ignore[arg-type]


def test_added_packages_need_an_engine() -> None:
    with pytest.raises(ImageError, match="need a container engine"):
        Sandbox("minimal", backend="bubblewrap", packages=["six"]).start()


def test_no_folder_of_the_host_is_named_inside(tmp_path: Path) -> None:
    build_roots()
    (tmp_path / "secret-name.csv").write_text("a\n1\n")
    with Sandbox("minimal", backend="bubblewrap", inputs={"in.csv": tmp_path / "secret-name.csv"}) as box:
        assert value(box, "value = open('data/in.csv').read()") == "a\n1\n"
        lines = value(
            box,
            "import os\nvalue = [open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()]",
        )
    assert [line for line in lines if "secret-name" in line or ".cache" in line] == []


def test_two_thousand_inputs_are_there(tmp_path: Path) -> None:
    inputs = {f"{number:04}-{'long ' * 10}.txt": tmp_path / str(number) for number in range(2000)}
    for number, path in enumerate(inputs.values()):
        path.write_text(str(number))
    with Sandbox("minimal", backend="bubblewrap", inputs=inputs) as box:
        cell = box.run(
            "import os\nprint(sum(int(open(f'/workspace/data/{n}').read()) for n in os.listdir('/workspace/data')))"
        )
        assert cell.stdout == "1999000\n"
