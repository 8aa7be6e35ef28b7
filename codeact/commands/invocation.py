"""What one call of the command line shares with the function that turns errors into lines and exit codes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from codeact import config
from codeact.errors import CodeActError

if TYPE_CHECKING:
    from codeact.config import Settings
    from codeact.types import Artifact, Result

ANSWERED, NO_ANSWER, USAGE, LIMIT, NO_SANDBOX, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a command to end."""
STATUS_CODES = {"answered": ANSWERED, "no_answer": NO_ANSWER, "limit": LIMIT, "interrupted": INTERRUPTED}


@dataclass
class Invocation:
    """`json` is whether standard output gets one JSON object whatever happens, `debug` whether tracebacks are shown."""

    json: bool = False
    debug: bool = False


def exit_code(kind: str) -> int:
    """The exit code of an error, by the name of its class."""
    from codeact.errors import ModelError, UsageError
    from sandbox.errors import SandboxError

    for tree, code in ((UsageError, USAGE), (ModelError, NO_MODEL), (SandboxError, NO_SANDBOX)):
        if kind in _names(tree):
            return code
    return NO_ANSWER


def _names(tree: type[Exception]) -> Iterator[str]:
    yield tree.__name__
    for below in tree.__subclasses__():
        yield from _names(below)


def result_code(result: Result) -> int:
    """The exit code of a run that began. A failed one ended with an error that its events name."""
    from codeact.events import Error

    if result.status != "failed":
        lost = any(isinstance(event, Error) and event.kind == "ArtifactLost" for event in result.events)
        return NO_ANSWER if lost and result.status == "answered" else STATUS_CODES[result.status]
    kinds = [
        event.kind for event in result.events if isinstance(event, Error) and event.message == result.error
    ]
    return exit_code(kinds[-1]) if kinds else NO_ANSWER


def outcome(result: Result | None, error: str | None = None, status: str = "failed") -> dict[str, Any]:
    """The object of `--json`; `result` is None where no run came about."""
    if result is None:
        usage = {
            "calls": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cached_tokens": 0,
            "reasoning_tokens": 0,
            "estimated": False,
            "tool_calls": 0,
            "tool_seconds": 0.0,
        }
        return {
            "answer": None,
            "status": status,
            "run": None,
            "usage": usage,
            "artifacts": [],
            "error": error,
        }
    return {
        "answer": result.answer,
        "status": result.status,
        "run": result.run,
        "usage": asdict(result.usage),
        "artifacts": _artifacts(result.artifacts),
        "error": result.error,
    }


def _artifacts(artifacts: Sequence[Artifact]) -> list[dict[str, Any]]:
    return [{"name": a.name, "path": str(a.path), "size": a.size} for a in artifacts]


def as_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON. What JSON has no number for (NaN, infinities) becomes null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def say(line: str) -> None:
    """One line on standard error; where that has gone, nowhere."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        discard(2)


def load_settings(flags: Mapping[str, Any], recorded: Mapping[str, Any] | None = None) -> Settings:
    """As `config.load`; what a codeact.toml that was found sets beyond the sandbox is told before anything is done."""
    settings = config.load(flags, recorded=recorded)
    if line := config.remark(settings):
        say(line)
    return settings


def fail(message: str) -> None:
    """The one line of an error, which may hold words of an endpoint."""
    from sandbox.text import clean  # here, for `sandbox` takes time to import

    say(f"codeact: error: {' '.join(clean(message).split())}")


def put(text: str) -> None:
    """The command's product, on standard output. A reader that has gone wants no more; raises CodeActError for a disk
    that does not take it."""
    try:
        print(text.encode("utf-8", "replace").decode(), flush=True)
    except BrokenPipeError:
        discard(1)
    except OSError as error:
        discard(1)
        raise CodeActError(
            f"standard output: {(error.strerror or str(error)).lower()}; write it somewhere else"
        ) from None


@contextmanager
def answer_alone() -> Iterator[None]:
    """Standard output is for the product alone: what tools of the user and their programs print there meanwhile goes to
    standard error."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed
        yield
        return
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def discard(descriptor: int) -> None:
    """What is still buffered for a descriptor goes nowhere, and does not fail again at exit."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, descriptor)
    os.close(sink)
