"""What a line of a chat means: a question for the model, or a command for the chat itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from codeact import data
from codeact.commands.group import meant
from codeact.commands.invocation import answer_alone
from codeact.config import Settings
from codeact.errors import UsageError
from codeact.models import resolve
from codeact.outcome import Observer
from codeact.session import Session
from codeact.types import Result


class Talk:
    """`report` is for what a question came to, `tell` for a line of the chat's own. `over` is set once nothing more is wanted."""

    def __init__(
        self,
        session: Session,
        settings: Settings,
        *,
        observers: Sequence[Observer],
        report: Callable[[Result], None],
        tell: Callable[[str], None],
    ) -> None:
        self._session, self._settings = session, settings
        self._observers, self._report, self._tell = observers, report, tell
        self.over = False
        self._commands: dict[str, tuple[Callable[[list[str]], None], str, str]] = {
            "/data": (self._data, "PATH...", "adds files, folders, globs, or NAME=PATH"),
            "/vars": (self._vars, "", "lists the variables that there are"),
            "/undo": (self._undo, "", "goes back to before the last question"),
            "/save": (self._save, "FILE", "writes the chat as .ipynb, .html or .jsonl"),
            "/model": (self._use, "[NAME]", "says which model answers, or has another answer from here on"),
            "/cost": (self._cost, "", "says what the chat has used so far"),
            "/help": (self._help, "", "lists these"),
            "/quit": (self._quit, "", "ends the chat, as Ctrl-D does"),
        }

    @property
    def names(self) -> Sequence[str]:
        """The commands."""
        return tuple(self._commands)

    def take(self, text: str) -> Result | None:
        """One line; what a question came to. A line that begins with a space is a question, whatever follows.

        Raises UsageError, ModelError or SandboxError, with the chat as it was.
        """
        if not text.strip():
            return None
        if text.startswith("/"):
            self._command(text)
            return None
        with answer_alone():
            result = self._session.run(text.strip(), observers=self._observers)
        self._report(result)
        return result

    def _command(self, text: str) -> None:
        try:
            name, *words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{text.split()[0]}: {str(error).lower()}; close what was opened") from None
        if name not in self._commands:
            raise UsageError(
                f"{name}: no such command; {meant(name, self.names)}; begin with a space to ask the model"
            )
        run, takes, _ = self._commands[name]
        if words and not takes:
            raise UsageError(f"{name}: takes nothing more; write it alone")
        if not words and takes and not takes.startswith("["):
            raise UsageError(f"{name}: {takes} is missing; write for example {name} {_EXAMPLES[name]}")
        run(words)

    # -- the commands --------------------------------------------------------------------------------------------

    def _data(self, words: list[str]) -> None:
        if any(map(data.reads_stdin, words)):
            raise UsageError("/data -: standard input is what the chat reads; name a file")
        found = data.collect(words, sys.stdin.buffer, Path())
        for line in self._session.add(found).splitlines():
            self._tell(line)

    def _vars(self, words: list[str]) -> None:
        there = self._session.variables()
        for name, kind in there.items():
            self._tell(f"{name}: {kind}")
        if not there:
            self._tell("there is no variable yet")

    def _undo(self, words: list[str]) -> None:
        undone = self._session.undo()
        cells = len(undone.restored.cells)
        self._tell(
            f"undone: the last question; {cells} cell{'s' * (cells != 1)} run again for the state before it"
        )
        if undone.restored.failed:
            self._tell(f"the state before it could not be restored: {undone.restored.failed}")
        for line in undone.restored.differences:
            self._tell(f"not as before: {line}")
        if undone.standing:
            self._tell(f"what these tools did stands: {', '.join(undone.standing)}")

    def _save(self, words: list[str]) -> None:
        target = Path(words[0]).expanduser()
        if not self._session.begun:
            raise UsageError("/save: there is nothing to save yet; ask something first")
        self._session.save(target)
        self._tell(f"saved: {target}")

    def _use(self, words: list[str]) -> None:
        if words:
            model = resolve(
                words[0],
                base_url=self._settings.base_url,
                api_key=self._settings.api_key,
                on_progress=self._tell,
            )
            self._session.use(model)
        self._tell(f"model: {self._session.model}")

    def _cost(self, words: list[str]) -> None:
        used = self._session.usage
        about = "about " if used.estimated else ""
        parts = [
            f"{used.calls} call{'s' * (used.calls != 1)} of the model",
            f"{about}{used.prompt_tokens:,} tokens asked ({used.cached_tokens:,} of them cached), {used.completion_tokens:,} answered",
        ]
        if used.tool_calls:
            parts.append(f"{used.tool_calls} calls of tools in {used.tool_seconds:.1f} s")
        self._tell("; ".join(parts))

    def _help(self, words: list[str]) -> None:
        for name, (_, takes, about) in self._commands.items():
            self._tell(f"{f'{name} {takes}':<16} {about}")
        self._tell("anything else is a question; Ctrl-C ends one, and keeps what it made")
        self._tell("Enter asks, Alt-Enter begins a new line; what is pasted may have many")

    def _quit(self, words: list[str]) -> None:
        self.over = True


_EXAMPLES = {"/data": "sales.csv", "/save": "chat.ipynb"}
