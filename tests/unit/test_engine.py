"""Finding and starting a container engine, against sockets and processes made here."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sandbox import engine, images, private_engine, probe
from sandbox.engine import Engine, ensure_engine, find_engine
from sandbox.errors import EngineError, EngineNotFound, EnginePermission
from sandbox.image_packages import find_or_derive
from sandbox.private_engine import Places, start_private, stop_private
from sandbox.probe import Silence, ping
from sandbox.processes import descendants, processes_naming

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
TEAPOT = b"HTTP/1.1 418 I'm a teapot\r\nContent-Length: 0\r\n\r\n"

Listen = Callable[[Path, bytes], None]
VERSION = b'{"ApiVersion": "1.45", "MinAPIVersion": "1.24", "Version": "26.1"}'
KNOWS_ITS_VERSION = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(VERSION),
    VERSION,
)


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Opens a unix socket where every caller gets the same answer; an empty one means a line that is cut."""
    servers: list[tuple[socket.socket, threading.Thread]] = []

    def start(path: Path, answer: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve, args=(server, answer))
        thread.start()
        servers.append((server, thread))

    def serve(server: socket.socket, answer: bytes) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(1024)
                connection.sendall(KNOWS_ITS_VERSION if b" /version " in asked else answer)

    yield start
    for server, thread in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for a machine without an engine: its `home`, `runtime`, `cache`, and `system.sock`."""
    folder = tmp_path_factory.mktemp("m")
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(engine, "SYSTEM_SOCKET", folder / "system.sock")
    return folder


PLACES = [
    "system.sock",
    "runtime/docker.sock",
    "home/.docker/run/docker.sock",
    "runtime/podman/podman.sock",
]


@pytest.mark.parametrize("place", PLACES)
def test_each_usual_socket_is_found(machine: Path, listen: Listen, place: str) -> None:
    listen(machine / place, OK)
    assert find_engine() == Engine(f"unix://{machine / place}", local=True)


def test_the_private_socket_is_found(machine: Path, listen: Listen) -> None:
    path = Places.for_user().socket
    listen(path, OK)
    assert find_engine().url == f"unix://{path}"


def test_the_first_that_answers_wins(machine: Path, listen: Listen) -> None:
    listen(machine / PLACES[0], TEAPOT)
    listen(machine / PLACES[1], OK)
    listen(machine / PLACES[2], OK)
    assert find_engine().url == f"unix://{machine / PLACES[1]}"


def test_docker_host_beats_the_rest(machine: Path, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    listen(machine / "system.sock", OK)
    listen(machine / "other.sock", OK)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{machine / 'other.sock'}")
    assert find_engine().url == f"unix://{machine / 'other.sock'}"


@pytest.mark.parametrize("call", [find_engine, lambda: ensure_engine(print)])
def test_a_dead_docker_host_is_an_error_even_beside_a_living_engine(
    machine: Path, listen: Listen, monkeypatch: pytest.MonkeyPatch, call: Callable[[], Engine]
) -> None:
    listen(machine / "system.sock", OK)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{machine / 'dead.sock'}")
    with pytest.raises(
        EngineNotFound, match=r"DOCKER_HOST=unix://.*dead\.sock \(no such socket\).*unset DOCKER_HOST"
    ):
        call()


def test_a_tcp_docker_host_that_refuses_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(EngineNotFound, match=f"DOCKER_HOST=tcp://127.0.0.1:{port} .*refused"):
            find_engine()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_CERT_PATH": "/nowhere"}, "correct DOCKER_CERT_PATH"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY": "1"}, "correct DOCKER_CERT_PATH"),
        ({"DOCKER_HOST": "ssh://u@h:99999999"}, "write it as ssh://user@host:port"),
        ({"DOCKER_HOST": "ssh://[::1"}, "write it as ssh://user@host:port"),
        ({"DOCKER_HOST": "tcp://h:99999999"}, "Port out of range 0-65535"),
        ({"DOCKER_HOST": "x://y"}, "Invalid bind address protocol"),
    ],
)
def test_settings_of_an_engine_that_are_none_are_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], said: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(EngineNotFound) as caught:
        find_engine()
    assert f"DOCKER_HOST={settings['DOCKER_HOST']}" in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_current_docker_context_is_read(machine: Path, listen: Listen) -> None:
    listen(machine / "context.sock", OK)
    listen(machine / "system.sock", OK)
    _write_context(machine / "home" / ".docker", "mine", f"unix://{machine / 'context.sock'}")
    assert find_engine().url == f"unix://{machine / 'context.sock'}"


def _write_context(folder: Path, name: str, host: str) -> None:
    """As `docker context create` and `docker context use` write it."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = folder / "contexts" / "meta" / digest
    meta.mkdir(parents=True)
    (folder / "config.json").write_text(f'{{"currentContext": "{name}"}}')
    (meta / "meta.json").write_text(
        f'{{"Name": "{name}", "Metadata": {{}}, "Endpoints": {{"docker": {{"Host": "{host}", "SkipTLSVerify": false}}}}}}'
    )


def test_a_context_that_cannot_be_read_is_an_error(machine: Path) -> None:
    _write_context(machine / "home" / ".docker", "mine", '"')
    with pytest.raises(EngineNotFound, match="docker context ls"):
        find_engine()


def test_nothing_at_all(machine: Path) -> None:
    with pytest.raises(EngineNotFound, match=r"^no container engine answers: run `make engine`"):
        find_engine()


def test_a_socket_that_nobody_serves_is_named(machine: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(machine / "system.sock"))
    with pytest.raises(EngineNotFound, match=r"system\.sock is there, but .*Connection refused"):
        find_engine()


def test_a_refusal_says_how_to_get_the_right(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Silence:
        return Silence("denied" if path.name == "system.sock" else "absent", str(path), "permission denied")

    monkeypatch.setattr(engine, "ping", refuse)  # root, who may run these tests, is refused nowhere
    with pytest.raises(
        EnginePermission, match=r"system\.sock refuses this user: run `sudo usermod -aG docker"
    ):
        ensure_engine(print)


@pytest.mark.parametrize(
    ("answer", "kind"), [(OK, None), (TEAPOT, "mute"), (b"", "mute"), (b"SSH-2.0-OpenSSH 200 \r\n", "mute")]
)
def test_only_a_200_is_an_engine(tmp_path: Path, listen: Listen, answer: bytes, kind: str | None) -> None:
    listen(tmp_path / "s", answer)
    silence = ping(tmp_path / "s")
    assert (silence and silence.kind) == kind


def test_a_socket_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 0.05)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        assert ping(tmp_path / "s") == Silence("mute", str(tmp_path / "s"), "timed out")


@pytest.mark.parametrize("length", [1, 40, 60, 100, 200])
def test_every_socket_path_fits_the_kernel(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/" + "c" * length)
    places = Places.for_user()
    assert len(f"{places.exec_root}/containerd/containerd.sock.ttrpc".encode()) <= 107
    assert places.home == Path("/", "c" * length, "codeact", "engine")


def test_two_long_homes_do_not_share_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = set()
    for letter in "ab":
        monkeypatch.setenv("XDG_CACHE_HOME", "/" + letter * 100)
        runs.add(Places.for_user().run)
    assert len(runs) == 2


@pytest.fixture
def dockerd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a `dockerd` of our own, a Python script, where programs are looked for; and makes us root."""

    def write(script: str) -> None:
        program = tmp_path / "bin" / "dockerd"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\n{script}")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    return write


DAEMON = """
import socket, sys, os
value = lambda flag: next(a.partition('=')[2] for a in sys.argv if a.startswith(flag + '='))
with open(value("--pidfile"), "w") as file:
    file.write(str(os.getpid()))
server = socket.socket(socket.AF_UNIX)
server.bind(value("--host").removeprefix("unix://"))
server.listen()
print("serving", flush=True)
while True:
    connection, _ = server.accept()
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\nOK")
    connection.close()
"""


def test_a_daemon_is_started_once_and_stopped(
    machine: Path, dockerd: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    dockerd(DAEMON)
    places = Places.for_user()
    said: list[str] = []
    try:
        assert ensure_engine(said.append).url == f"unix://{places.socket}"
        assert said == [f"starting a private container engine in {places.home}"]
        pid = places.pid_file.read_text()
        start_private(places, said.append)
        assert places.pid_file.read_text() == pid
        assert len(said) == 1
        assert places.home.stat().st_mode & 0o777 == 0o700
    finally:
        assert engine.main(["stop"]) == 0
    assert not places.socket.exists()
    assert not Path(f"/proc/{pid}/cwd").exists()
    assert engine.main(["stop"]) == 0
    assert capsys.readouterr().err.splitlines() == ["private engine stopped", "no private engine runs"]


def test_what_a_killed_daemon_left_is_cleared_away(machine: Path, dockerd: Callable[[str], None]) -> None:
    dockerd(DAEMON)
    places = Places.for_user()
    start_private(places, print)
    first = int(places.pid_file.read_text())
    os.kill(first, 9)
    assert places.socket.exists()
    try:
        start_private(places, print)
        assert int(places.pid_file.read_text()) != first
        assert ping(places.socket) is None
    finally:
        assert stop_private(places)


def test_a_daemon_that_ends_at_once_says_why(machine: Path, dockerd: Callable[[str], None]) -> None:
    dockerd("import sys; print('first'); sys.exit('no space left on device')")
    with pytest.raises(EngineError, match=r"ended at once: .*no space left on device"):
        start_private(Places.for_user(), print)


def test_a_daemon_that_never_answers_is_given_up(
    machine: Path, dockerd: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    dockerd("import time; print('waiting for Godot', flush=True); time.sleep(60)")
    monkeypatch.setattr(private_engine, "START_SECONDS", 0.5)
    places = Places.for_user()
    with pytest.raises(EngineError, match="gave no answer in"):
        start_private(places, print)
    assert not processes_naming(str(places.exec_root))


def test_a_number_in_the_pid_file_that_is_another_process_is_spared(machine: Path) -> None:
    places = Places.for_user()
    places.run.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as other:
        places.pid_file.write_text(str(other.pid))
        assert not stop_private(places)
        assert other.poll() is None
        other.kill()
    assert not places.pid_file.exists()


def test_a_folder_of_somebody_else_is_refused(machine: Path, tmp_path: Path) -> None:
    places = Places(tmp_path / "home", tmp_path / "run")
    places.run.symlink_to(tmp_path)
    with pytest.raises(EngineError, match="belongs to somebody else"):
        start_private(places, print)


def test_descendants_are_found() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout
        child = int(shell.stdout.readline())
        assert {shell.pid, child} <= descendants({os.getpid()})
        assert descendants({shell.pid}) == {child}
        os.kill(child, 9)
        shell.kill()
    assert descendants({shell.pid}) == set()


def test_errors_exit_with_four_and_one_line(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert engine.main(["find"]) == 4
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("{}", True),
        ("{}/containerd.toml", True),
        ("--exec-root={}", True),
        ("unix://{}/docker.sock", True),
        ("{}:/mnt", True),
        ("{}ution.txt", False),
        ("/var/tmp{}", False),
        ("see {} for more", False),
    ],
)
def test_only_who_names_a_path_itself_is_found(tmp_path: Path, argument: str, named: bool) -> None:
    """What is found is ended: the path in the middle of another, or of words, is none."""
    command = ["sleep", "60", argument.format(tmp_path / "exec")]
    with subprocess.Popen(
        ["sh", "-c", "echo; read _", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(1)  # it runs: before that it has no command line
            assert (process.pid in processes_naming(str(tmp_path / "exec"))) is named
        finally:
            process.kill()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"], ids=["cut", "500"]
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of docker's client, whose connection was cut
def test_an_engine_that_fails_when_it_is_asked_for_more_is_an_error_of_the_engine(
    machine: Path, listen: Listen, answer: bytes
) -> None:
    listen(machine / "system.sock", answer)
    found = Engine(f"unix://{machine / 'system.sock'}", local=True)
    said = rf"^the container engine at {found.url} failed: .*; restart it, and see `codeact doctor`$"
    with pytest.raises(EngineError, match=said), found.connected() as client:
        images.list_images(client)
    with pytest.raises(EngineError, match=said):
        find_or_derive(found, "data", (), print)


def test_an_error_of_the_caller_stays_what_it_is(machine: Path, listen: Listen) -> None:
    listen(machine / "system.sock", OK)
    with pytest.raises(OSError, match="mine"), Engine(f"unix://{machine / 'system.sock'}", True).connected():
        raise OSError("mine")
