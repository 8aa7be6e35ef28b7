"""Answers of a run: given by code, refused or accepted, or said in plain words."""

from __future__ import annotations

import reprlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from codeact import events, unseen
from codeact.answers import Answer, Check
from codeact.errors import Answered
from codeact.run.record import Record
from sandbox.errors import HostCallRefused
from sandbox.hostcalls import Answer as Returned
from sandbox.hostcalls import HostCall


class Answering:
    """`small`: the model is a small one, and asked once about an answer that says nothing. `guess` is an answer in words that was
    asked about; it stands where nothing better comes. While `muted`, answers are checked as ever, and kept for `again` alone:
    the code that gives them is executed again."""

    def __init__(self, check: Check, said: Mapping[str, str], record: Record, *, small: bool) -> None:
        self._check, self._said, self._record, self.small = check, said, record, small
        self._accepted: deque[Answer] = deque()
        self._refused: deque[tuple[Any, str]] = deque()
        self.guess: Answer | None = None
        self.muted = False
        self._asked: set[bool] = set()  # whether muted
        self._nothing: Answer | None = None
        self._again: list[Answer] = []

    def renew(self) -> None:
        """For another task: no answer was given yet."""
        self._accepted.clear()
        self._refused.clear()
        self.guess = None
        self._nothing = None
        self._asked.clear()

    @property
    def left(self) -> Answer | None:
        """What was asked about and not given again: the answer of a run that comes to none."""
        return self.guess or self._nothing

    def mute(self, muted: bool) -> None:
        """What was asked about when code ran first is asked about when it runs again."""
        self.muted = muted
        self._asked.discard(True)

    def take(self, call: HostCall) -> Returned:
        """`final_answer`, called by code in the sandbox. Raises HostCallRefused, which is raised in the cell."""
        payload = call.value
        given = payload.get("value") if isinstance(payload, dict) else None
        self._take(given, lambda: self._check.given(payload, call.buffers))
        return Returned(None)

    def take_written(self, arguments: Mapping[str, Any]) -> None:
        """`final_answer`, called by the model itself. Raises HostCallRefused."""
        self._take(arguments.get("value"), lambda: self._check.called(arguments))

    def _take(self, given: Any, answer: Callable[[], Answer]) -> None:
        try:
            made = answer()
            if self.small and self.muted not in self._asked and unseen.says_nothing(made.shown):
                self._asked.add(self.muted)
                self._nothing = self._nothing if self.muted else made
                raise HostCallRefused(
                    self._said["says_nothing"].format(value=reprlib.repr(made.shown)), name="ValueError"
                )
            (self._again if self.muted else self._accepted).append(made)
        except Exception as refusal:
            if not self.muted:
                self._refused.append((given, str(refusal)))
            raise

    def again(self) -> Sequence[Answer]:
        """What was accepted while `muted`, since this was last asked."""
        answers, self._again = self._again, []
        return answers

    @property
    def given(self) -> bool:
        return bool(self._accepted)

    @property
    def last(self) -> Answer:
        return self._accepted[-1]

    def told(self) -> Iterator[events.Event]:
        """The answers that a cell gave, accepted or not, as events."""
        while self._refused:
            answer, problem = self._refused.popleft()
            yield self._record.emit(events.AnswerGiven(answer=answer, accepted=False, problem=problem))
        for answer in self._accepted:
            file = None if answer.typed is None else self._record.keep_answer(*answer.typed)
            yield self._record.emit(events.AnswerGiven(answer=answer.shown, accepted=True, file=file))

    def in_words(self, text: str, *, unfounded: bool) -> Iterator[events.AnswerGiven | str]:
        """A plain reply is an answer. One that no code stands behind (`unfounded`), and one of a small model, is asked
        about once: yields the event, then what is asked. Raises Answered."""
        answer, problem = self._check.said(text)
        given = self._record.emit(
            events.AnswerGiven(answer=answer.shown, accepted=problem is None, problem=problem)
        )
        assert isinstance(given, events.AnswerGiven)
        yield given
        said = self._said
        if problem is not None:
            yield said["refused"].format(problem=problem)
        elif self.guess is None and (unfounded or self.small):
            self.guess = answer
            yield said["not_run" if unfounded else "in_words"]
        else:
            raise Answered(answer=answer)
