"""Reads requests and writes replies, one JSON object a line.

Requests are {"do": "tasks"}, {"do": "start", "task": ID}, {"do": "call", "tool": NAME, "arguments": {...}}, {"do": "state"}
(its digest) and {"do": "score", "answer": ...}; replies {"value": ...} or {"error": {"type": ..., "message": ...}}.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Protocol

from .bfcl import Bfcl
from .m3 import M3
from .plain import as_json, digest
from .tau2 import Tau2


class Suite(Protocol):
    def tasks(self) -> list[dict[str, Any]]: ...
    def start(self, key: str) -> None: ...
    def call(self, tool: str, arguments: dict[str, Any]) -> Any: ...
    def state(self) -> Any: ...
    def score(self, answer: Any) -> bool: ...


KINDS: dict[str, Any] = {"bfcl": Bfcl, "tau2": Tau2, "m3tooleval": M3}


def main() -> None:
    kind, path = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what their code prints is no reply
    suite: Suite | None = None
    for line in sys.stdin:
        try:
            suite = suite or KINDS[kind](Path(path))
            assert suite is not None
            reply = {"value": answer(suite, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - theirs may raise anything
            reply = {"error": {"type": type(error).__name__, "message": str(error)}}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def answer(suite: Suite, request: dict[str, Any]) -> Any:
    match request["do"]:
        case "tasks":
            return suite.tasks()
        case "start":
            return suite.start(request["task"])
        case "call":
            return as_json(suite.call(request["tool"], request["arguments"]))
        case "state":
            return digest(suite.state())
        case "score":
            return suite.score(request["answer"])
    raise ValueError(f"there is no request {request['do']!r}")
