"""`codeact chat` in a pipe: a line of output for each question, whatever comes of it."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from codeact.commands import chat, invocation, solve
from codeact.config import Settings
from codeact.errors import UsageError
from codeact.types import Result
from sandbox import StartError


class Talk:
    """Answers as a model would, but for the questions that raise."""

    over = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def take(self, text: str) -> Result | None:
        self.asked.append(text)
        match text:
            case "fails":
                raise StartError("the sandbox was not started")
            case "/nothing":
                raise UsageError("/nothing: there is no such command")
            case "gives up":
                return Result(None, "no_answer", run="r")
        print(f"answer to {text}")
        return Result(text, "answered", run="r")


def piped(monkeypatch: pytest.MonkeyPatch, lines: bytes, **settings: Any) -> tuple[Talk, int]:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(lines)))
    talk: Any = Talk()
    return talk, chat._filter(talk, Settings(**settings))


def test_each_question_has_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = b"fails\n/nothing\ngives up\n" + b"x" * (2 * solve.TASK_BYTES + 5) + b"\nlast"
    talk, code = piped(monkeypatch, lines)
    assert talk.asked == ["fails", "/nothing", "gives up", "last"]
    assert capsys.readouterr().out == "\n\n\nanswer to last\n"
    assert code == invocation.USAGE


def test_each_question_has_its_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, code = piped(monkeypatch, b"fails\n", json=True)
    (line,) = capsys.readouterr().out.splitlines()
    made = json.loads(line)
    assert (made["answer"], made["status"], made["error"]) == (None, "failed", "the sandbox was not started")
    assert code == invocation.NO_SANDBOX
