"""The process that holds a local model's weights: llama.cpp's own OpenAI-compatible server, from the xllamacpp wheel.

Run as `python -m codeact.models.server`; `embedded.py` starts and finds it. It listens on a loopback port that the
kernel chooses, with a key made at its start, says so in its state file (mode 0600), and ends after idling.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CONTEXT = 16_384
"""Tokens of prompt and reply together."""
IDLE = 15 * 60.0
"""Seconds without a request after which the server ends."""
_LOOK_EVERY = 5.0
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class State:
    """Where a server is: `started` is its process's start time as the kernel counts it, so that a reused pid is told apart."""

    pid: int
    started: int
    url: str
    key: str
    model: str

    def get(self, path: str, timeout: float = 5.0) -> bytes:
        """The body of a GET. Raises OSError when the server does not answer with success."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.key}"})  # noqa: S310
        with _NO_PROXY.open(request, timeout=timeout) as response:
            body: bytes = response.read()
            return body

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; None if it has ended, also as a zombie. Linux only."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def read_state(path: Path) -> State | None:
    """None where no server has written one, or what is written is not one."""
    try:
        return State(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_state(path: Path, state: State) -> None:
    partial = path.with_name(f"{path.name}.{state.pid}")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(state), file)
    partial.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="serve a local model on a loopback port")
    parser.add_argument("--model", required=True, help="name that the server answers to")
    parser.add_argument("--file", type=Path, required=True, help="weights, GGUF")
    parser.add_argument("--state", type=Path, required=True, help="where to write address and key")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--idle", type=float, default=IDLE, help="seconds; 0: end with the parent process")
    parser.add_argument("--detach", action="store_true", help="print the server's pid and leave it running")
    given = parser.parse_args()
    if given.detach:
        _detach()
    parent = os.getppid()
    server = _listen(given.model, given.file, given.port)
    state = State(os.getpid(), start_time(os.getpid()) or 0, server.address, server.key, given.model)
    write_state(given.state, state)
    try:
        if given.idle:
            _wait_for_idleness(state, given.idle)
        else:
            _wait_for_parent(parent)
    except KeyboardInterrupt:
        pass
    if read_state(given.state) == state:
        given.state.unlink()
    os._exit(0)  # without waiting for what the engine's threads hold


def _detach() -> None:
    """Go on in a child that no one waits for; its output stays where ours goes."""
    child = os.fork()
    if child:
        print(child, flush=True)
        os._exit(0)
    os.setsid()
    os.dup2(2, 1)


@dataclass(frozen=True, slots=True)
class _Listening:
    """`engine` serves as long as it is referred to."""

    engine: Any
    address: str
    key: str


def _listen(model: str, file: Path, port: int) -> _Listening:
    import xllamacpp  # loads the engine: not before the fork

    key = secrets.token_urlsafe(32)
    params: Any = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {model}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key]
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = len(os.sched_getaffinity(0))
    params.use_jinja = True
    params.cache_prompt = True
    params.offline = True
    params.ui = False
    engine: Any = xllamacpp.Server(params)
    return _Listening(engine, engine.listening_address, key)


def _wait_for_idleness(state: State, idle: float) -> None:
    """Return after `idle` seconds in which the engine's slot neither worked nor was given another task."""
    seen, since = b"", time.monotonic()
    while time.monotonic() - since < idle:
        time.sleep(min(_LOOK_EVERY, idle))
        slots = _slots(state)
        if slots is None or slots != seen or b'"is_processing":true' in slots:
            seen, since = slots or b"", time.monotonic()


def _wait_for_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)


def _slots(state: State) -> bytes | None:
    try:
        return state.get("/slots")
    except OSError:
        return None  # too busy to answer


if __name__ == "__main__":
    main()
