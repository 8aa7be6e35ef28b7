"""A model that plays replies written beforehand: for tests, examples, and runs that must cost nothing."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

from codeact.errors import ScriptEnded, UsageError
from codeact.models import wire
from codeact.types import Delta, Finish, Reply, Request, Usage

_PIECE = re.compile(r"\s*\S+|\s+$")


class ScriptedModel:
    """Plays `replies` in order, whoever asks; a plain string is a reply that ends with `stop`.

    Text streams word by word, usage is estimated where a reply has none. `requests` are those it saw. Threads may share
    it. Raises ScriptEnded when asked once more than there are replies.
    """

    small = False

    def __init__(self, replies: Iterable[str | Reply], name: str = "scripted", sees: bool = False) -> None:
        self.name = name
        self.sees = sees
        self.requests: list[Request] = []
        self._replies = [
            Reply(reply, usage=Usage()) if isinstance(reply, str) else reply for reply in replies
        ]
        self._lock = threading.Lock()

    @classmethod
    def from_file(cls, path: Path, sees: bool = False) -> ScriptedModel:
        """Read one reply a line: `{"content": "..."}`, with `tool_calls`, `finish_reason` and `usage` where needed.

        Raises UsageError that names the file and the line.
        """
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"cannot read the script {path}: {getattr(error, 'strerror', None) or error}; check the path"
            ) from error
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        return cls([_reply(line, f"{path}:{number}") for number, line in numbered], f"scripted:{path}", sees)

    def skip(self, count: int) -> None:
        """Passes over the next replies: a run that is carried on has had them."""
        with self._lock:
            self._replies = self._replies[: len(self.requests)] + self._replies[len(self.requests) + count :]

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        reply = self._next(request)
        for piece in _PIECE.findall(reply.text):
            yield Delta(piece)
        written = reply.text + (json.dumps(reply.tool_calls, default=str) if reply.tool_calls else "")
        usage = reply.usage if reply.usage.calls else wire.estimate(request, written)
        yield replace(reply, usage=usage, model=reply.model or self.name)

    def _next(self, request: Request) -> Reply:
        with self._lock:
            position = len(self.requests)
            if position >= len(self._replies):
                raise ScriptEnded(
                    f"{self.name} has no reply left: it holds {position}, and one more was asked for; add a line to it"
                )
            self.requests.append(request)
            return self._replies[position]


def usage_from(counted: object) -> Usage:
    """Usage written as JSON, in the names of `Usage`. Raises ValueError."""
    if not isinstance(counted, Mapping):
        raise ValueError("usage is not an object of counts")
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    counts = [counted.get("calls", 1), *(counted.get(name, 0) for name in names)]
    if not all(isinstance(number, int) and number >= 0 for number in counts):
        raise ValueError("usage holds what is not a count of tokens")
    calls, prompt, completion, cached, reasoning = counts
    return Usage(calls, prompt, completion, cached, reasoning, counted.get("estimated") is True)


def finish_from(written: object) -> Finish:
    """How a reply ended, read from JSON. Raises ValueError."""
    known: tuple[Finish, ...] = get_args(Finish)
    for finish in known:
        if finish == written:
            return finish
    raise ValueError(f"finish_reason {written!r} is none of {', '.join(known)}")


def _reply(line: str, where: str) -> Reply:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise UsageError(f'{where}: not JSON ({error}): write one {{"content": "..."}} a line') from error
    if not isinstance(data, dict) or not isinstance(data.get("content") or "", str):
        raise UsageError(f'{where}: not a reply: write one {{"content": "..."}} a line')
    calls = data.get("tool_calls") or []
    if "content" not in data and not calls:
        raise UsageError(f"{where}: a reply needs content or tool_calls")
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UsageError(f"{where}: tool_calls is not a list of objects")
    try:
        finish = finish_from(data.get("finish_reason") or ("tool_calls" if calls else "stop"))
        usage = usage_from(data["usage"]) if "usage" in data else Usage()
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
    said = [str(data.get(name) or "") for name in ("content", "model", "system_fingerprint")]
    return Reply(said[0], finish, usage, said[1], tuple(calls), said[2])
