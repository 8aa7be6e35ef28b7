"""Local models for everyone else: list, fetch, serve, stop, and the address of a server that answers."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codeact.errors import ModelError, ModelNotFound, UsageError
from codeact.home import models_dir
from codeact.models import catalogue, download
from codeact.models.download import Progress
from codeact.models.server import IDLE, State, read_state, start_time

START_TIMEOUT = 180.0
"""Seconds until a server must answer: the weights are read from disk once."""
PATIENCE = 30.0
"""Seconds that a server which lives is given to answer before it is replaced: the machine may be busy."""
STOP_TIMEOUT = 10.0
_LOG_LINES = 8


@dataclass(frozen=True, slots=True)
class LocalStatus:
    """One model of the catalogue: whether its weights are here, and the address of its server if one runs."""

    name: str
    size: int
    licence: str
    memory: int
    fetched: bool
    url: str | None


def list_models() -> list[LocalStatus]:
    """Every model of the catalogue, the default first."""
    return [status(name) for name in catalogue.CATALOGUE]


def status(name: str) -> LocalStatus:
    weights = catalogue.find(name)
    state = _running(name)
    fetched = (models_dir() / weights.file).is_file()
    return LocalStatus(
        name, weights.size, weights.licence, weights.memory, fetched, f"{state.url}/v1" if state else None
    )


def fetch(name: str, on_progress: Progress) -> Path:
    """The path of the model's weights, downloaded and checked if need be. Raises ModelError."""
    return download.fetch(catalogue.find(name), models_dir(), on_progress)


def require_engine() -> None:
    """Raises ModelNotFound where the embedded engine is not installed, or cannot be."""
    if importlib.util.find_spec("xllamacpp"):
        return
    if not sys.platform.startswith("linux"):
        raise ModelNotFound(
            f"the embedded model runs on Linux, not on {sys.platform}: use --base-url with Ollama or LM Studio"
        )
    raise ModelNotFound(
        "the embedded model is not installed: run `pip install 'codeact[local]'`, or use --base-url"
    )


def ensure_server(name: str, on_progress: Progress, idle: float = IDLE) -> tuple[str, str]:
    """Base URL and key of a server of `name` that answers, started if need be; it ends after `idle` seconds without work.

    Raises ModelNotFound, or ModelError with the last lines of the server's log where it does not come up.
    """
    require_engine()
    state = _running(name)
    if state is None or not _answers(state):
        file = fetch(name, on_progress)
        with download.lock(models_dir() / f"server-{name}.lock"):
            state = _running(name)
            if state is None or not _answers(state, PATIENCE):
                _stop(name)
                on_progress(f"starting {name} (log: {_log(name)})")
                state = _start(name, file, idle)
    return f"{state.url}/v1", state.key


def serve(name: str, on_progress: Progress, port: int = 0) -> None:
    """Serve `name` in the foreground until interrupted; runs that use the model use this server.

    Raises UsageError where one runs already.
    """
    require_engine()
    file = fetch(name, on_progress)
    with download.lock(models_dir() / f"server-{name}.lock"):
        if running := _running(name):
            raise UsageError(f"{name} is served already, at {running.url}/v1: stop it first, or use it")
        process = subprocess.Popen(_command(name, file, 0, port))
        try:
            state = _wait(name, process.pid, lambda: process.poll() is None, None)
            on_progress(f"{name} is served at {state.url}/v1; its key is in {_state(name)}; Ctrl-C ends it")
        except BaseException:
            process.kill()
            process.wait()
            raise
    try:
        process.wait()
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
    finally:
        _state(name).unlink(missing_ok=True)


def stop_server(name: str | None = None) -> list[str]:
    """End the server of `name`, or all; the names of those that ran."""
    names = [catalogue.find(name).name] if name else list(catalogue.CATALOGUE)
    return [each for each in names if _stop(each)]


def _stop(name: str) -> bool:
    state = _running(name)
    if state:
        _kill(state, signal.SIGTERM)
        if not _within(STOP_TIMEOUT, lambda: not state.alive):
            _kill(state, signal.SIGKILL)
    try:
        _state(name).unlink(missing_ok=True)
    except OSError as error:
        raise download.unusable(models_dir(), error) from None
    return state is not None


def _kill(state: State, number: signal.Signals) -> None:
    try:
        os.kill(state.pid, number)
    except ProcessLookupError:
        pass


def _running(name: str) -> State | None:
    state = read_state(_state(name))
    return state if state and state.alive else None


def _answers(state: State, timeout: float = 5.0) -> bool:
    try:
        state.get("/health", timeout)
    except OSError:
        return False
    return True


def _start(name: str, file: Path, idle: float) -> State:
    with _log(name).open("w") as log:
        command = [*_command(name, file, idle, 0), "--detach"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, check=False
        )
    if done.returncode:
        raise _startup_failure(name, "it could not be started", _log(name))
    pid = int(done.stdout)
    return _wait(name, pid, lambda: start_time(pid) is not None, _log(name))


def _command(name: str, file: Path, idle: float, port: int) -> list[str]:
    options = {"--model": name, "--file": file, "--state": _state(name), "--idle": idle, "--port": port}
    words = [str(word) for option in options.items() for word in option]
    return [sys.executable, "-m", "codeact.models.server", *words]


def _wait(name: str, pid: int, lives: Callable[[], bool], log: Path | None) -> State:
    """The state of the server that process `pid` becomes, once it answers. Without a `log` it speaks for itself."""

    def up() -> State | None:
        state = _running(name)
        return state if state and state.pid == pid and _answers(state) else None

    _within(START_TIMEOUT, lambda: up() is not None or not lives())
    if state := up():
        return state
    if not lives():
        raise _startup_failure(name, "it ended at once", log)
    os.kill(pid, signal.SIGKILL)
    raise _startup_failure(name, f"it did not answer within {START_TIMEOUT:.0f} s", log)


def _within(seconds: float, done: Callable[[], bool]) -> bool:
    """Whether `done()` came true before the time was up; asked twenty times a second."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _startup_failure(name: str, reason: str, log: Path | None) -> ModelError:
    if log is None:
        return ModelError(f"the server of {name} did not start: {reason}; see what it said above")
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if log.exists() else []
    return ModelError(f"the server of {name} did not start: {reason}; {log} ends with: {' | '.join(lines)}")


def _state(name: str) -> Path:
    return models_dir() / f"server-{name}.json"


def _log(name: str) -> Path:
    return models_dir() / f"server-{name}.log"
