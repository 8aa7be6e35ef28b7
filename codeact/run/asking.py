"""Asking the model: from the log of a run to a reply that was read."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from codeact import context, events
from codeact.actions.styles import Style
from codeact.errors import LimitReached, ModelError, ModelUnreachable
from codeact.models import wire
from codeact.pump import Interrupted, Late, Pump
from codeact.run.meter import Meter
from codeact.run.record import Record
from codeact.run.repeats import Repeats
from codeact.types import Delta, Model, Reading, Reply, Request, Retrying

STUCK_TEMPERATURE = 0.8


class Asking:
    def __init__(self, model: Model, style: Style, record: Record, meter: Meter, repeats: Repeats) -> None:
        self._model, self._style, self._record, self._meter = model, style, record, meter
        self._repeats = repeats
        self._pump: Pump[Delta | Retrying | Reply] | None = None

    def renew(self) -> None:
        """For another task."""
        self._repeats.renew()

    def use(self, model: Model) -> None:
        """Another model answers from here on."""
        self._model = model

    def interrupt(self) -> None:
        """May be called from any thread."""
        pump = self._pump  # which the run's own thread may take away meanwhile
        if pump is not None:
            pump.interrupt()

    def ask(self, turn: int) -> Generator[events.Event, None, Reading]:
        """Asks the model and reads its reply. A reply that was cut is never executed."""
        began = time.monotonic()
        request = Request(
            context.keep_all(self._record.log, self._record.pictures, self._style.example, self._style.plain),
            tools=self._style.functions,
            one_call=self._style.one_call,
            **self._warmth(),
        )
        try:
            reply = yield from self._stream_reply(request)
        except Interrupted:
            self._meter.heed()
            self._meter.check(turn)
            return Reading("", problem=self._style.said["interrupted"])
        self._meter.usage += reply.usage
        reading = self._style.read(reply, turn, self._used())
        yield self._record.emit(
            events.Replied(
                turn=turn,
                text=reply.text,
                reading=reading,
                finish=reply.finish,
                usage=reply.usage,
                model=reply.model,
                seconds=time.monotonic() - began,
                fingerprint=reply.fingerprint,
            )
        )
        return reading

    def _warmth(self) -> dict[str, Any]:
        """A model that writes the same code again would do so for ever at the temperature it has."""
        return {"temperature": STUCK_TEMPERATURE, "seed": self._repeats.count} if self._repeats.count else {}

    def _stream_reply(self, request: Request) -> Generator[events.Event, None, Reply]:
        """The reply, with its pieces as events. It is ended early where more text could not change what is done."""
        text, written, asked = "", 0, 0
        emit = self._record.emit
        if self._meter.unheeded:
            raise Interrupted
        self._pump = Pump(self._model(request))
        try:
            if self._meter.unheeded:  # it came before there was a pump to tell
                raise Interrupted
            while True:
                match self._next():
                    case Reply() as reply:
                        return reply
                    case Retrying(attempt, reason, wait):
                        text, written, asked = "", 0, 0
                        yield emit(events.Retrying(attempt=attempt, reason=reason, wait=wait))
                    case Delta(piece, kind) if piece:
                        yield emit(events.TextDelta(text=piece, kind=kind))
                        if kind == "text":
                            text += piece
                            written = len(text) if piece.strip() else written
                            if (
                                "\n" not in piece or written == asked
                            ):  # a flood of blank lines is not read again
                                continue
                            asked = written
                            end = self._complete(text)
                            if end is not None:
                                return Reply(text[:end], usage=wire.estimate(request, text))
        finally:
            self._pump.close()
            self._pump = None

    def _next(self) -> Delta | Retrying | Reply:
        assert self._pump is not None
        try:
            return self._pump.get(timeout=self._meter.left())
        except Late:
            raise LimitReached("seconds", self._meter.limits.seconds or 0) from None
        except TimeoutError as error:  # a socket's, of a model of the person's own
            raise ModelUnreachable(
                f"{self._model.name} gave no answer in time: {error}; try again"
            ) from error
        except StopIteration:
            raise ModelError(f"{self._model.name} ended without a reply") from None

    def _complete(self, text: str) -> int | None:
        return self._style.complete(text, first_block_only=self._model.small)

    def _used(self) -> set[str]:
        """The ids of the calls of the run so far."""
        replies = [event for event in self._record.log if isinstance(event, events.Replied)]
        return {call.id for event in replies for call in event.reading.calls}
