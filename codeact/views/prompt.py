"""Asks the person at the terminal whether a call may be made."""

from __future__ import annotations

import ast
import os
import select
import termios
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

from codeact.tools.approval import CallRequest, Decision
from codeact.views.console import View

LOOK_SECONDS = 0.1
"""Between looks at whether anybody still waits for the answer."""
MAX_LINE = 16 * 1024


class Gone(Exception):
    """Nobody is there any more to answer, or to wait for the answer."""


class Prompt:
    """`ask` is for `Approval`, one call at a time. Nothing else is drawn while it waits."""

    def __init__(self, view: View, keyboard: TextIO) -> None:
        self._view = view
        self._keyboard = keyboard.fileno()

    def ask(self, request: CallRequest) -> Decision:
        with self._view.alone():
            try:
                return self._talk(request)
            except Gone as gone:
                self._view.say(str(gone))
                return Decision(False, str(gone))

    def _talk(self, request: CallRequest) -> Decision:
        tool = request.tool
        self._view.say(f"a call of a tool that may {does(tool.policy.effects)}:")
        self._view.show_call(request.source)
        if request.problem:
            self._view.say(f"as changed, it does not fit: {request.problem}")
        with suppress(termios.error):  # keys that were pressed before the question are no answer to it
            termios.tcflush(self._keyboard, termios.TCIFLUSH)
        while True:
            said = self._line(f"allow it? y / n / always for {tool.path} / edit: ", request.cancelled).lower()
            match said:
                case "y" | "yes":
                    return Decision(True)
                case "a" | "always":
                    return Decision(True, always=True)
                case "n" | "no":
                    return Decision(False, self._line("why not? (Enter for no reason): ", request.cancelled))
                case "e" | "edit":
                    changed = self._changed(request)
                    if changed:
                        return Decision(True, arguments=changed)

    def _changed(self, request: CallRequest) -> Mapping[str, Any]:
        """The arguments that the person writes anew; none where it thought better of it."""
        while True:
            text = self._line(
                "arguments to change, as in amount=10 (Enter to change none): ", request.cancelled
            )
            try:
                return keywords(text)
            except ValueError as error:
                self._view.say(str(error))

    def _line(self, question: str, cancelled: threading.Event) -> str:
        """What is typed up to the end of the line. Raises Gone at the end of the input, and when it is cancelled."""
        self._view.question(question)
        typed = b""
        while not typed.endswith(b"\n"):
            if cancelled.is_set():
                raise Gone("the call was cancelled; there is nothing to answer any more")
            ready, _, _ = select.select([self._keyboard], [], [], LOOK_SECONDS)
            if ready:
                try:
                    piece = os.read(self._keyboard, MAX_LINE)
                except OSError:
                    piece = b""
                if not piece:
                    raise Gone("there was no answer")
                typed += piece
        return typed.decode("utf-8", "replace").strip()


def keywords(text: str) -> dict[str, Any]:
    """`a=1, b="x"` as a dict of literal values. Raises ValueError that says what is wrong."""
    wrong = "write names and values as in a call, with literals only: amount=10, reason='damaged'"
    try:
        call = ast.parse(f"f({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(wrong) from None
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError(wrong)
    names = [each.arg for each in call.keywords]
    if None in names or len(set(names)) < len(names):
        raise ValueError(wrong)
    try:
        return {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(wrong) from None


def does(effects: str) -> str:
    return {"read": "read", "write": "change something", "dangerous": "do harm"}.get(effects, effects)
