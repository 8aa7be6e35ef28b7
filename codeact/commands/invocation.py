"""What one call of the command line shares with the function that turns errors into lines and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeact.types import Artifact, Result

ANSWERED, NO_ANSWER, USAGE, LIMIT, NO_SANDBOX, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
STATUS_CODES = {"answered": ANSWERED, "no_answer": NO_ANSWER, "limit": LIMIT, "interrupted": INTERRUPTED}


@dataclass
class Invocation:
    """`json` is whether standard output gets one JSON object whatever happens, `debug` whether tracebacks are shown."""

    json: bool = False
    debug: bool = False


def exit_code(error: BaseException) -> int:
    """The exit code of an error that ended a command."""
    from codeact.errors import ModelError, UsageError
    from sandbox.errors import SandboxError

    if isinstance(error, UsageError):
        return USAGE
    if isinstance(error, ModelError):
        return NO_MODEL
    return NO_SANDBOX if isinstance(error, SandboxError) else NO_ANSWER


def result_code(result: Result) -> int:
    return STATUS_CODES.get(result.status, NO_ANSWER)


def outcome(result: Result | None, error: str | None = None, status: str = "failed") -> dict[str, Any]:
    """The object of `--json`; `result` is None where no run came about."""
    if result is None:
        usage = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "estimated": False}
        return {"answer": None, "status": status, "run": None, "usage": usage, "artifacts": [], "error": error}
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
    """One line on standard error."""
    print(line, file=sys.stderr, flush=True)


def put(text: str) -> None:
    """The command's product, on standard output, as UTF-8 whatever the terminal's encoding."""
    print(text.encode("utf-8", "replace").decode(), flush=True)
