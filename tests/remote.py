"""Engines that are reached as remote ones are: a second daemon behind TLS on a loopback port, and an SSH server."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import docker
import pytest

from sandbox import images
from sandbox.engine import Engine, find_engine
from sandbox.errors import EngineError

START_SECONDS = 30.0


@dataclass
class Remote:
    """`variables` are what a user would set; `cut` breaks all connections that are open; `client` talks to the engine."""

    variables: dict[str, str]
    client: docker.DockerClient
    links: list[socket.socket] = field(default_factory=list)
    server: int | None = None
    """The process whose children serve the connections."""

    def cut(self) -> None:
        for link in list(self.links):
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if self.server is not None:
            for child in Path(f"/proc/{self.server}/task/{self.server}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run(*words: str, folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


def certificates(folder: Path) -> Path:
    """A certificate authority, and certificates of a server on 127.0.0.1 and of its client, as Docker names them."""
    folder.mkdir()
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-subj", "/CN=test authority", "-keyout", "ca-key.pem", "-out", "ca.pem", folder=folder)  # fmt: skip
    for name, extension in (
        ("server", "subjectAltName=IP:127.0.0.1"),
        ("client", "extendedKeyUsage=clientAuth"),
    ):
        files = {"server": ("server-key.pem", "server-cert.pem"), "client": ("key.pem", "cert.pem")}[name]
        (folder / f"{name}.ext").write_text(extension)
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", files[0], "-out", f"{name}.csr", folder=folder)  # fmt: skip
        run("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
            "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext", "-out", files[1], folder=folder)  # fmt: skip
    return folder


@contextmanager
def relay(to: int) -> Iterator[tuple[int, list[socket.socket]]]:
    """A port that passes connections on to another, and the connections, to be cut."""
    links: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for link in (source, target):
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", to))
            links.extend((near, far))
            threading.Thread(target=pump, args=(near, far), daemon=True).start()
            threading.Thread(target=pump, args=(far, near), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(listener.getsockname()[1]), links
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for link in links:
            link.close()


@contextmanager
def tls_engine(folder: Path, image: str) -> Iterator[Remote]:
    """A second daemon, with a copy of `image`, that takes TLS connections with a client's certificate only."""
    program = shutil.which("dockerd")
    if program is None or os.geteuid() != 0:
        pytest.skip("a second daemon needs dockerd and root")
    keys = certificates(folder / "keys")
    port, data = free_port(), folder / "data"
    command = [
        program, f"--data-root={data}", f"--exec-root={folder / 'exec'}", f"--pidfile={folder / 'pid'}",
        f"--host=tcp://127.0.0.1:{port}", "--tlsverify", f"--tlscacert={keys / 'ca.pem'}",
        f"--tlscert={keys / 'server-cert.pem'}", f"--tlskey={keys / 'server-key.pem'}",
        "--log-level=warn", "--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false",
        f"--containerd-namespace=test-{port}", f"--containerd-plugins-namespace=test-{port}-plugins",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        with relay(port) as (near, links):
            tls = docker.tls.TLSConfig(
                client_cert=(str(keys / "cert.pem"), str(keys / "key.pem")),
                ca_cert=str(keys / "ca.pem"),
                verify=True,
            )
            with closing(answering(Engine(f"https://127.0.0.1:{port}", False, tls), daemon)) as client:
                copy_image(client, image)
                variables = {
                    "DOCKER_HOST": f"tcp://127.0.0.1:{near}",
                    "DOCKER_TLS_VERIFY": "1",
                    "DOCKER_CERT_PATH": str(keys),
                }
                yield Remote(variables, client, links)
    finally:
        daemon.terminate()
        daemon.wait(20)


def answering(engine: Engine, daemon: subprocess.Popen[bytes]) -> docker.DockerClient:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return engine.client()
        except EngineError:
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def copy_image(target: docker.DockerClient, name: str) -> None:
    with closing(find_engine().client()) as source:
        tag = images.find(source, name).tag
        target.images.load(source.images.get(tag).save(named=True))


@contextmanager
def ssh_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    """This machine's engine, through an SSH server of the test's own on a loopback port."""
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])
    ssh = shutil.which("ssh")
    if server is None or ssh is None:
        pytest.skip("no OpenSSH server: install openssh-server")
    port = free_port()
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name, folder=folder)
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    (folder / "authorized").chmod(0o600)
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
        "StrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\nUsePAM no\nPidFile none\n"
    )
    public = (folder / "host.pub").read_text().split()[:2]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "ssh"
    wrapper.write_text(
        f'#!/bin/sh\nexec {ssh} -F none -i {folder / "user"} -o UserKnownHostsFile={folder / "known"} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    Path("/run/sshd").mkdir(exist_ok=True)
    engine = find_engine().url.removeprefix("unix://")
    daemon = subprocess.Popen(
        [server, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL
    )
    user = os.environ.get("USER") or "root"
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert daemon.poll() is None, "the SSH server ended"
                assert time.monotonic() < deadline, "the SSH server does not answer"
                time.sleep(0.02)
        with closing(find_engine().client()) as client:
            yield Remote({"DOCKER_HOST": f"ssh://{user}@127.0.0.1:{port}{engine}"}, client, server=daemon.pid)
    finally:
        daemon.terminate()
        daemon.wait(10)
