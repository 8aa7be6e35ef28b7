"""A line that a person types: edited, with a history, of one line or of several that are pasted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from codeact.home import home

FILE = "chat-history"


class Line:
    """`words` are completed at the beginning of a line. Drawn on standard error; the history is this user's alone."""

    def __init__(self, words: Sequence[str]) -> None:
        self._session: PromptSession[str] = PromptSession(
            message="> ",
            history=_history(),
            completer=WordCompleter(list(words), sentence=True),
            complete_while_typing=False,
            prompt_continuation="  ",
            key_bindings=_keys(),
            output=create_output(sys.stderr),
            enable_open_in_editor=True,
        )

    def read(self) -> str:
        """Raises KeyboardInterrupt on Ctrl-C, EOFError on Ctrl-D."""
        return self._session.prompt()


def _history() -> History:
    path = home() / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    """Enter ends the question, Alt-Enter ends its line."""
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
