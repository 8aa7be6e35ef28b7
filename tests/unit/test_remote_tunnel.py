"""The tunnel to an engine elsewhere, with a program in place of `ssh`: what becomes of it when the network goes and comes back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import ssh
from sandbox.errors import EngineNotFound

URL = "ssh://me@far.example"
PROGRAM = f"""#!{sys.executable}
import os, select, socket, sys
place = sys.argv[sys.argv.index("-L") + 1].split(":")[0]
if not os.path.exists(os.environ["NETWORK"]):
    sys.exit("connect to host far.example port 22: Network is unreachable")
door = socket.socket(socket.AF_UNIX)
door.bind(place)
door.listen()
while True:
    ready, _, _ = select.select([door, 0], [], [])
    if 0 in ready:
        sys.exit()
    link, _ = door.accept()
    link.recv(1000)
    link.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nOK")
    link.close()
"""


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """There while the network is."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    up = tmp_path / "up"
    up.touch()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("NETWORK", str(up))
    yield up
    ssh.close_tunnels()


def test_a_tunnel_is_opened_again_at_the_same_place_once_the_network_is_back(
    network: Path, tmp_path: Path
) -> None:
    place = ssh.tunnel(URL)
    assert ssh.tunnel(URL) == place
    network.unlink()
    process = ssh._tunnels[os.getpid(), URL].process
    process.kill()
    process.wait()
    with (tmp_path / "mine").open("w") as mine:  # what others open meanwhile stays open
        for _ in range(2):
            with pytest.raises(EngineNotFound, match="Network is unreachable"):
                ssh.tunnel(URL)
        network.touch()
        assert ssh.tunnel(URL) == place
        mine.write("well")
    ssh.close_tunnels()
    assert not place.parent.exists()


def test_a_first_opening_that_fails_leaves_nothing(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    network.unlink()
    with pytest.raises(EngineNotFound, match="Network is unreachable"):
        ssh.tunnel(URL)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not ssh._tunnels
