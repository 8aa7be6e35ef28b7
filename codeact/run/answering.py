"""Answers of a run: given by code, refused or accepted, or said in plain words."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from codeact import events
from codeact.answers import AnswerCheck
from codeact.errors import Answered
from codeact.run.record import Record


class Answering:
    """`guess` is an answer in words that was asked about; it stands where nothing better comes. While `muted`, answers are
    checked as ever, and kept nowhere but in `again`: the code that gives them is executed again."""

    def __init__(self, check: AnswerCheck, said: Mapping[str, str], record: Record) -> None:
        self._check, self._said, self._record = check, said, record
        self._accepted: deque[Any] = deque()
        self._refused: deque[tuple[Any, str]] = deque()
        self.guess: Any = None
        self.muted = False
        self.again: list[Any] = []

    def take(self, payload: Any) -> None:
        """`final_answer`, called by code in the sandbox. Raises HostCallRefused, which is raised in the cell."""
        try:
            answer = self._check.from_code(payload)
            (self.again if self.muted else self._accepted).append(answer)
        except Exception as refusal:
            if self.muted:
                raise
            answer = payload.get("value") if isinstance(payload, dict) else None
            self._refused.append((answer, str(refusal)))
            raise

    def take_written(self, arguments: Mapping[str, Any]) -> None:
        """`final_answer`, called by the model itself. Raises HostCallRefused."""
        self.take({"value": self._check.written(arguments)})

    @property
    def given(self) -> bool:
        return bool(self._accepted)

    @property
    def last(self) -> Any:
        return self._accepted[-1]

    def told(self) -> Iterator[events.Event]:
        """The answers that a cell gave, accepted or not, as events."""
        while self._refused:
            answer, problem = self._refused.popleft()
            yield self._record.emit(events.AnswerGiven(answer=answer, accepted=False, problem=problem))
        for answer in self._accepted:
            yield self._record.emit(events.AnswerGiven(answer=answer, accepted=True))

    def in_words(self, text: str, *, unfounded: bool, small: bool) -> Iterator[events.AnswerGiven | str]:
        """A plain reply is an answer. One that no code stands behind (`unfounded`), and one of a small model, is asked
        about once: yields the event, then what is asked. Raises Answered."""
        answer, problem = self._check.from_words(text)
        given = self._record.emit(
            events.AnswerGiven(answer=answer, accepted=problem is None, problem=problem)
        )
        assert isinstance(given, events.AnswerGiven)
        yield given
        said = self._said
        if problem is not None:
            yield said["refused"].format(problem=problem)
        elif self.guess is None and (unfounded or small):
            self.guess = answer
            yield said["not_run" if unfounded else "in_words"]
        else:
            raise Answered(answer=answer)
