"""Engines on other machines, as far as one machine can have them: nothing is mounted, all goes through one stream."""

from __future__ import annotations

import gc
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import EngineNotFound, Sandbox, ssh
from sandbox.engine import find_engine
from tests.remote import Remote, ssh_engine, tls_engine

pytestmark = pytest.mark.docker

BIG = 30 * 1024 * 1024


@pytest.fixture(scope="module", params=["tls", "ssh"])
def remote(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp(request.param)
        made = tls_engine(folder, "minimal") if request.param == "tls" else ssh_engine(folder, patch)
        with made as engine:
            for name, value in engine.variables.items():
                patch.setenv(name, value)
            yield engine
            ssh.close_tunnels()


def left(remote: Remote, label: str) -> int:
    return len(remote.client.containers.list(all=True, filters={"label": f"codeact.run={label}"}))


def test_cells_files_and_calls(remote: Remote, tmp_path: Path) -> None:
    assert not find_engine().local
    data = tmp_path / "numbers.bin"
    data.write_bytes(os.urandom(BIG))
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    functions = {"twice": lambda number: 2 * number}
    with Sandbox("minimal", inputs={"numbers.bin": data}, functions=functions, label="remote-cells") as box:
        code = "import hashlib\nprint(hashlib.sha256(open('data/numbers.bin', 'rb').read()).hexdigest())"
        assert box.run(code).stdout == f"{digest}\n"
        assert str(box.run("open('data/numbers.bin', 'w')").error).startswith("PermissionError")
        box.run("import shutil\nshutil.copy('data/numbers.bin', 'out/copy.bin')")
        assert box.get("out/copy.bin", tmp_path / "copy.bin") == BIG
        assert hashlib.sha256((tmp_path / "copy.bin").read_bytes()).hexdigest() == digest
        call = "from sandbox_guest.host import call\nprint([call('twice', n) for n in range(3)])"
        assert box.run(call).stdout == "[0, 2, 4]\n"
        assert len(box.run("print('x' * 500_000)").stdout) == 500_001
        assert left(remote, "remote-cells") == 1
    assert left(remote, "remote-cells") == 0


def test_a_cell_is_interrupted_and_variables_stay(remote: Remote) -> None:
    with Sandbox("minimal", label="remote-stop") as box:
        box.run("kept = 41")
        assert box.run("while True: pass", timeout=1).status == "timeout"
        assert box.run("kept + 1").result == "42"


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_the_stream_is_opened_again_when_it_breaks(remote: Remote) -> None:
    entered, release = threading.Event(), threading.Event()

    def hold(argument: object) -> object:
        entered.set()
        release.wait(30)
        return argument

    def cut() -> None:
        entered.wait(30)
        remote.cut()
        release.set()

    with Sandbox("minimal", functions={"hold": hold}, label="remote-cut") as box:
        cutter = threading.Thread(target=cut)
        cutter.start()
        cell = box.run("from sandbox_guest.host import call\nprint('before')\nprint(call('hold', 7))\nx = 1")
        cutter.join()
        assert (cell.status, cell.stdout) == ("ok", "before\n7\n"), cell
        assert box.run("x").result == "1"
    assert left(remote, "remote-cut") == 0
    gc.collect()  # sockets that could not be connected, which docker's client leaves to it: here, and not in another test


def test_an_engine_that_is_not_reached_is_named(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    host = remote.variables["DOCKER_HOST"]
    wrong = host.replace("/docker.sock", "/none.sock") if host.startswith("ssh") else "tcp://127.0.0.1:1"
    monkeypatch.setenv("DOCKER_HOST", wrong)
    with pytest.raises(EngineNotFound) as error:
        find_engine()
    assert wrong in str(error.value)
    assert "\n" not in str(error.value)
