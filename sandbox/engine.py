"""Which container engine is used: one that answers already, else a private one.

`find_engine` asks, in this order: `DOCKER_HOST` (and then nothing else), the current context of the Docker
command line, the sockets that Docker, rootless Docker, Docker Desktop and Podman open, our own daemon's socket.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.context import ContextAPI
from docker.errors import DockerException
from requests import RequestException

from sandbox import ssh
from sandbox.errors import EngineError, EngineNotFound, EnginePermission, SandboxError
from sandbox.private_engine import Places, start_private, stop_private
from sandbox.probe import PROBE_SECONDS, Silence, ping

_UNIX = "unix://"
_SSH = "ssh://"
REQUEST_SECONDS = 60.0
SYSTEM_SOCKET = Path("/var/run/docker.sock")


class _Api(docker.APIClient):  # type: ignore[misc]
    """Trusts the engine's own certificates: `requests` would rather have those of REQUESTS_CA_BUNDLE, and a proxy."""

    trust_env = property(lambda self: False, lambda self, value: None)


class _Client(docker.DockerClient):  # type: ignore[misc]
    def __init__(self, **settings: Any) -> None:
        self.api = _Api(**settings)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answered. `local` is whether it sees this machine's files; `tls` is for the client alone."""

    url: str
    local: bool
    tls: Any = field(default=None, repr=False)

    def reach(self) -> str:
        """Where this machine finds it; opens the way where there is one to be opened. Raises EngineNotFound."""
        return f"{_UNIX}{ssh.tunnel(self.url)}" if self.url.startswith(_SSH) else self.url

    def client(self, timeout: float = REQUEST_SECONDS) -> docker.DockerClient:
        """A new client; the caller closes it. `timeout` is in seconds, for one request. Raises EngineError."""
        address = self.reach()
        try:
            return _Client(base_url=address, tls=self.tls or False, timeout=timeout)
        except (DockerException, OSError, ValueError) as error:
            raise EngineError(
                f"the container engine at {self.url} does not answer: {_root(error)}"
            ) from error

    @contextmanager
    def connected(self) -> Iterator[docker.DockerClient]:
        """A client while this lasts. Raises EngineError, also for what the engine did not do or say that was asked of it."""
        with closing(self.client()) as client:
            try:
                yield client
            except (DockerException, RequestException) as error:
                raise EngineError(
                    f"the container engine at {self.url} failed: {_root(error)}; restart it, and see `codeact doctor`"
                ) from error


def find_engine() -> Engine:
    """The first engine that answers a ping. Raises EngineNotFound, or EnginePermission where one refuses this user."""
    if host := os.environ.get("DOCKER_HOST"):
        answer = _probe(_from_environment(host))
        if isinstance(answer, Engine):
            return answer
        if answer.kind == "denied":
            raise _permission(answer)
        raise EngineNotFound(
            f"no container engine answers at DOCKER_HOST={host} ({answer.reason}): start it, or unset DOCKER_HOST"
        )
    silences = []
    for candidate in _candidates():
        answer = _probe(candidate)
        if isinstance(answer, Engine):
            return answer
        silences.append(answer)
    raise _not_found(silences)


def ensure_engine(on_progress: Callable[[str], None]) -> Engine:
    """The engine that answers, else our private one, installed and started where needed.

    Raises EngineError; EnginePermission where an engine runs that refuses this user, since a second one beside it
    would be a surprise.
    """
    try:
        return find_engine()
    except EngineNotFound:
        if os.environ.get("DOCKER_HOST"):
            raise
    if not sys.platform.startswith("linux"):
        raise EngineNotFound("no container engine answers: start Docker Desktop, or set DOCKER_HOST")
    places = Places.for_user()
    start_private(places, on_progress)
    answer = _probe(_unix(places.socket))
    if not isinstance(answer, Engine):
        raise EngineError(
            f"the private engine does not answer at {places.socket} ({answer.reason}): see {places.log}"
        )
    return answer


def stop_engine() -> bool:
    """Ends the private engine and its containers; images stay. Returns whether there was one. Raises EngineError."""
    return stop_private(Places.for_user())


def _candidates() -> Iterator[Engine]:
    try:
        context = ContextAPI.kwargs_from_context()
    except Exception as error:  # noqa: BLE001 - the library raises no narrower class for a broken file
        raise EngineNotFound(
            f"the current Docker context cannot be read ({error}): see `docker context ls`"
        ) from None
    if "base_url" in context:
        yield _named(context)
    yield _unix(SYSTEM_SOCKET)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield _unix(Path(runtime, "docker.sock"))
    yield _unix(Path.home() / ".docker" / "run" / "docker.sock")
    if runtime:
        yield _unix(Path(runtime, "podman", "podman.sock"))
    yield _unix(Places.for_user().socket)


def _from_environment(host: str) -> Engine:
    try:
        return _named(docker.utils.kwargs_from_env())
    except (DockerException, OSError, ValueError) as error:  # of the certificates, which are read here
        reason = _root(error).partition(". ")[0]
        raise EngineNotFound(
            f"DOCKER_HOST={host}: {reason}: correct DOCKER_CERT_PATH and DOCKER_TLS_VERIFY, or unset them"
        ) from error


def _named(settings: Mapping[str, Any]) -> Engine:
    url = str(settings["base_url"]).removeprefix("http+")
    return Engine(url, url.startswith(_UNIX), settings.get("tls"))


def _unix(path: Path) -> Engine:
    return Engine(f"{_UNIX}{path}", local=True)


def _probe(candidate: Engine) -> Engine | Silence:
    if candidate.local:
        return ping(Path(candidate.url.removeprefix(_UNIX))) or candidate
    try:
        with closing(candidate.client(PROBE_SECONDS)) as client:
            client.ping()
    except (EngineError, DockerException, OSError, ValueError) as error:
        return Silence("mute", candidate.url, _root(error))
    return candidate


def _root(error: BaseException) -> str:
    """The error at the root: those around it repeat it with addresses of objects."""
    while inner := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = inner
    return " ".join(str(error).split())[:200]


def _permission(silence: Silence) -> EnginePermission:
    return EnginePermission(
        f"the container engine at {silence.where} refuses this user: "
        "run `sudo usermod -aG docker $USER` and log in again, or set DOCKER_HOST to an engine of yours"
    )


def _not_found(silences: list[Silence]) -> EngineError:
    for silence in silences:
        if silence.kind == "denied":
            return _permission(silence)
    for silence in silences:
        if silence.kind == "mute":
            return EngineNotFound(
                f"{silence.where} is there, but no container engine answers ({silence.reason}): "
                "start Docker, or run `make engine`"
            )
    return EngineNotFound(
        "no container engine answers: run `make engine`, or start Docker, or set DOCKER_HOST"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.engine", description="The container engine.")
    parser.add_argument("command", choices=("ensure", "find", "stop"))
    command = parser.parse_args(arguments).command
    try:
        if command == "stop":
            _say("private engine stopped" if stop_engine() else "no private engine runs")
        else:
            print((find_engine() if command == "find" else ensure_engine(_say)).url)
    except SandboxError as error:
        _say(str(error))
        return 4
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
