"""One run: its sandbox, its journal, and the steps that the loop is made of."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from codeact import actions, artifacts, context, events, journal, manifest, observation, unseen, workspace
from codeact.answers import AnswerCheck
from codeact.errors import Answered, CodeActError, Interrupted, LimitReached, ModelError, RunEnded
from codeact.models import wire
from codeact.pump import Interrupted as PumpInterrupted
from codeact.pump import Pump
from codeact.types import (
    Artifact,
    Code,
    Delta,
    Model,
    Reading,
    Reply,
    Request,
    Retrying,
    RunLimits,
    Usage,
)
from sandbox import CellResult, Connection, Image, Limits, Network, Sandbox, SandboxError

STUCK_TEMPERATURE = 0.8
CELL_NUMBER = re.compile(r"(?<=\bCell )\d+")
MAX_PICTURES = 8
"""Figures of one cell that are kept."""


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """What the runs of one agent have in common; see `Agent` for what each setting means."""

    model: Model
    limits: RunLimits
    check: AnswerCheck
    image: str
    sandbox_limits: Limits
    cell_timeout: float
    runtime: str | None
    network: Network | None
    packages: tuple[str, ...]
    on_progress: Callable[[str], None]
    out: Path | None
    runs: Path


class Run:
    """State and steps of one run. Used by one thread; `interrupt` may be called from any."""

    def __init__(self, setup: Setup, task: str, data: Mapping[str, Path]) -> None:
        self._setup, self._task, self._data = setup, task, data
        self.id = journal.new_run_id()
        self._folder = setup.runs / self.id
        self._journal: journal.Journal | None = None
        self._log: list[events.Event] = []
        self._seq = 0
        self._began = time.monotonic()
        self._usage = Usage()
        self._pictures: dict[str, Image] = {}
        self._figures: list[Artifact] = []
        self._answers: deque[Any] = deque()
        self._refused: deque[tuple[Any, str]] = deque()
        self._names: Mapping[str, str] = {}
        self._connections: deque[Connection] = deque()
        self._seen_code: dict[str, str] = {}
        self._repeats = 0
        self._ran_code = self._asked_unseen = False
        self._guess: Any = None
        self._described: Any = None
        self._kernel_ready = True
        self._interrupts = self._interrupts_seen = 0
        self._pump: Pump[Delta | Retrying | Reply] | None = None
        self._full_texts = 0
        self._box = Sandbox(
            setup.image,
            limits=setup.sandbox_limits,
            timeout=setup.cell_timeout,
            inputs=data,
            functions={"final_answer": self._take_answer, "names": self._take_names},
            runtime=setup.runtime,
            network=setup.network,
            on_connection=self._connections.append,
            packages=setup.packages,
            on_progress=setup.on_progress,
            label=self.id,
        )

    # -- the frame of a run --------------------------------------------------------------------------------------

    def play(self, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        """Starts the sandbox, goes through the turns, and ends with `RunEnded`, however they end."""
        with self._box:
            self._described = workspace.prepare(self._box, list(self._data))
            self._journal = journal.Journal(self._folder)
            try:
                yield self.emit(self._started())
                yield from self._to_the_end(turns)
            finally:
                self._journal.close()

    def _started(self) -> events.RunStarted:
        setup = self._setup
        schema = json.dumps(setup.check.schema) if setup.check.schema else None
        text = manifest.render(self._described) if self._data else ""
        settings = {
            "image": setup.image,
            "limits": dataclasses.asdict(setup.limits),
            "sandbox_limits": dataclasses.asdict(setup.sandbox_limits),
            "cell_timeout": setup.cell_timeout,
            "network": "none" if setup.network is None else str(setup.network),
            "packages": list(setup.packages),
            "data": {name: str(path.absolute()) for name, path in self._data.items()},
            "loaded": manifest.loaded_lines(self._described),
        }
        return events.RunStarted(
            task=self._task,
            model=setup.model.name,
            settings=settings,
            system=context.system_text(
                workspace.described(setup.image, setup.packages), workspace.network(setup.network)
            ),
            first=context.first_text(self._task, text, schema),
        )

    def _to_the_end(self, turns: Iterator[events.Event]) -> Iterator[events.Event]:
        failure: Exception | None = None
        try:
            yield from turns
            raise AssertionError("the turns ended without saying how")
        except RunEnded as end:
            ended = end
            if isinstance(end, LimitReached):
                yield self.emit(events.LimitReached(limit=end.limit, value=end.value))
        except (CodeActError, SandboxError) as error:
            yield self.emit(events.Error(kind=type(error).__name__, message=str(error)))
            ended, failure = RunEnded(str(error)), error
        if not isinstance(ended, Answered) and self._guess is not None:
            ended, failure = Answered(answer=self._guess), None
        self._box.end_connections()
        yield from self._network_used()
        kept, problems = self._collect()
        for problem in problems:
            yield self.emit(events.Error(kind="FileError", message=problem))
        yield self.emit(
            events.RunEnded(
                status=ended.status,  # type: ignore[arg-type]
                answer=ended.answer,
                usage=self._usage,
                seconds=time.monotonic() - self._began,
                artifacts=tuple(kept),
                error=str(ended) or None,
            )
        )
        if failure is not None:
            raise failure

    def _collect(self) -> tuple[list[Artifact], list[str]]:
        target = self._setup.out or self._folder / "artifacts"
        try:
            kept, problems = artifacts.collect(self._box, target)
        except SandboxError:  # it is gone, and what it held with it
            kept, problems = [], []
        return [*kept, *self._figures], problems

    def emit(self, event: events.Event) -> events.Event:
        """Stamps an event, writes it to the journal and keeps it for the context."""
        self._seq += 1
        event = dataclasses.replace(event, run=self.id, seq=self._seq, time=time.time())
        assert self._journal is not None
        self._journal.append(event)
        if not event.live_only:
            self._log.append(event)
        return event

    def interrupt(self) -> None:
        self._interrupts += 1
        if self._pump is not None:
            self._pump.interrupt()
        self._box.interrupt()

    # -- the steps of a turn -------------------------------------------------------------------------------------

    def check_limits(self, turn: int) -> None:
        """Raises LimitReached, or Interrupted when the person said so twice."""
        limits = self._setup.limits
        if self._interrupts > 1:
            raise Interrupted("ended by the person")
        for name, value, limit in (
            ("turns", turn - 1, limits.turns),
            ("seconds", time.monotonic() - self._began, limits.seconds),
            ("tokens", self._usage.total_tokens, limits.tokens),
        ):
            if limit is not None and value >= limit:
                raise LimitReached(name, limit)

    def _left(self) -> float | None:
        limit = self._setup.limits.seconds
        return None if limit is None else max(0.0, limit - (time.monotonic() - self._began))

    def ask(self, turn: int) -> Generator[events.Event, None, Reading]:
        """Asks the model and reads its reply. A reply that was cut is never executed."""
        began = time.monotonic()
        request = Request(context.keep_all(self._log, self._pictures), **self._warmth())
        try:
            reply = yield from self._stream_reply(request)
        except PumpInterrupted:
            self._interrupts_seen = self._interrupts
            self.check_limits(turn)
            return Reading("", problem=context.follow_ups()["interrupted"])
        self._usage += reply.usage
        reading = self._read(reply)
        yield self.emit(
            events.Replied(
                turn=turn,
                text=reply.text,
                reading=reading,
                finish=reply.finish,
                usage=reply.usage,
                model=reply.model,
                seconds=time.monotonic() - began,
            )
        )
        return reading

    def _warmth(self) -> dict[str, Any]:
        """A model that writes the same code again would do so for ever at the temperature it has."""
        return {"temperature": STUCK_TEMPERATURE, "seed": self._repeats} if self._repeats else {}

    def _read(self, reply: Reply) -> Reading:
        said = context.follow_ups()
        if reply.finish == "length":
            return Reading(reply.text, problem=said["cut"])
        if reply.finish == "content_filter":
            return Reading(reply.text, problem=said["filtered"])
        return actions.read(reply.text)

    def _stream_reply(self, request: Request) -> Generator[events.Event, None, Reply]:
        """The reply, with its pieces as events. It is ended early where more text could not change what is done."""
        text = ""
        only_first = self._setup.model.small
        self._pump = Pump(self._setup.model(request))
        if self._interrupts > self._interrupts_seen:  # it came before there was a pump to tell
            self._pump.interrupt()
        try:
            while True:
                try:
                    item = self._pump.get(timeout=self._left())
                except TimeoutError:
                    raise LimitReached("seconds", self._setup.limits.seconds or 0) from None
                match item:
                    case Reply():
                        return item
                    case Retrying(attempt, reason, wait):
                        text = ""
                        yield self.emit(events.Retrying(attempt=attempt, reason=reason, wait=wait))
                    case Delta(piece, kind):
                        yield self.emit(events.TextDelta(text=piece, kind=kind))
                        if kind == "text":
                            text += piece
                            end = (
                                actions.complete(text, first_block_only=only_first) if "\n" in piece else None
                            )
                            if end is not None:
                                return Reply(text[:end], usage=wire.estimate(request.messages, text))
        except StopIteration:
            raise ModelError(f"{self._setup.model.name} ended without a reply") from None
        finally:
            self._pump.close()
            self._pump = None

    def execute(self, turn: int, reading: Reading) -> Iterator[events.Event]:
        """Runs the actions of a reply up to the first that fails; ends the run when one of them gave the answer."""
        invented = self._made_up(reading)
        if invented is not None:
            yield self.observe(turn, context.follow_ups()["unseen"].format(value=invented))
            return
        texts: list[str] = []
        shown: list[str] = []
        for action in reading.actions:
            yield from self._restore()
            yield self.emit(events.CodeStarted(turn=turn, source=action.source))
            cell = yield from self._run_cell(action)
            yield from self._given()
            text, pictures = self._observed(cell)
            texts.append(text)
            shown += pictures
            if self._answers or cell.status != "ok":
                break
        output = "\n".join(f"Output:\n{text}" for text in texts)
        if self._answers:
            yield self.observe(turn, output, cell, tuple(shown))
            raise Answered(answer=self._answers[-1])
        follow_up = self._follow_up(reading.actions[len(texts) - 1], cell, texts[-1])
        if len(texts) < len(reading.actions):
            follow_up = f"{context.follow_ups()['more_blocks']} {follow_up}"
        notes = "".join(f"({note})\n" for note in reading.notes)
        yield self.observe(turn, f"{output}\n\n{notes}{follow_up}", cell, tuple(shown))
        self.check_limits(turn)

    def _made_up(self, reading: Reading) -> str | None:
        """A constant that a small model answers with and that it was never shown. It is asked about once."""
        if not self._setup.model.small or self._asked_unseen or len(reading.actions) != 1:
            return None
        shown = [message.content for message in context.keep_all(self._log, {}) if message.role == "user"]
        invented = unseen.made_up(reading.actions[0].source, shown)
        self._asked_unseen = invented is not None
        return invented

    def observe(
        self, turn: int, text: str, cell: CellResult | None = None, images: tuple[str, ...] = ()
    ) -> events.Event:
        return self.emit(events.Observed(turn=turn, text=text, cell=cell, images=images))

    def take_words(self, turn: int, text: str) -> Iterator[events.Event]:
        """A plain reply is an answer. One that no code stands behind is asked about once, when there are files to read."""
        answer, problem = self._setup.check.from_words(text)
        yield self.emit(events.AnswerGiven(answer=answer, accepted=problem is None, problem=problem))
        said = context.follow_ups()
        if problem is not None:
            yield self.observe(turn, said["refused"].format(problem=problem))
        elif self._guess is None and self._data and not self._ran_code:
            self._guess = answer
            yield self.observe(turn, said["not_run"])
        elif self._guess is None and self._setup.model.small:
            self._guess = answer
            yield self.observe(turn, said["in_words"])
        else:
            raise Answered(answer=answer)

    # -- what a cell does ----------------------------------------------------------------------------------------

    def _restore(self) -> Iterator[events.Event]:
        """After a kernel died, the next one gets what every kernel of a run has."""
        if not self._kernel_ready:
            workspace.restore(self._box, manifest.loaded_lines(self._described))
            self._kernel_ready = True
            yield self.emit(events.SandboxRestarted(reason="the kernel had ended", lost="all variables"))

    def _run_cell(self, action: Code) -> Generator[events.Event, None, CellResult]:
        left = self._left()
        timeout = self._setup.cell_timeout if left is None else min(self._setup.cell_timeout, max(left, 1.0))
        self._names = {}
        self._ran_code = True
        longest = math.inf if left is None else left
        outputs = self._box.stream(action.source, timeout=timeout, max_timeout=longest)
        while True:
            try:
                output = next(outputs)
            except StopIteration as ended:
                cell: CellResult = ended.value
                break
            yield from self._network_used()
            yield self.emit(events.OutputDelta(output=output))
        yield from self._network_used()
        if cell.lost:
            self._kernel_ready = False
        return cell

    def _network_used(self) -> Iterator[events.Event]:
        """The connections that have ended, as events."""
        while self._connections:
            yield self.emit(events.ConnectionEnded(**dataclasses.asdict(self._connections.popleft())))

    def _given(self) -> Iterator[events.Event]:
        """The answers that the cell gave, accepted or not, as events."""
        while self._refused:
            answer, problem = self._refused.popleft()
            yield self.emit(events.AnswerGiven(answer=answer, accepted=False, problem=problem))
        for answer in self._answers:
            yield self.emit(events.AnswerGiven(answer=answer, accepted=True))

    def _observed(self, cell: CellResult) -> tuple[str, list[str]]:
        names = []
        for image in cell.images[:MAX_PICTURES]:
            path = self._journal.keep_picture(image) if self._journal else None
            if path is not None:
                names.append(path.name)
                self._pictures[path.name] = image
                self._figures.append(Artifact(path.name, path, path.stat().st_size))
        budget = observation.SMALL_BUDGET if self._setup.model.small else observation.BUDGET
        return observation.cell_text(cell, len(names), budget=budget, keep_full=self._keep_full), names

    def _keep_full(self, text: str) -> str:
        self._full_texts += 1
        path = f".outputs/{self._full_texts}.txt"
        try:
            self._box.write(path, text)
        except SandboxError:
            return "no file, for it could not be written"
        return f"/workspace/{path}"

    def _follow_up(self, action: Code, cell: CellResult, text: str) -> str:
        said = context.follow_ups()
        if cell.status == "interrupted" and cell.lost is None:
            return said["interrupted"]
        came_of_it = CELL_NUMBER.sub("", text)
        if self._seen_code.get(action.source) == came_of_it:
            self._repeats += 1
            return said["repeated"]
        self._repeats = 0
        self._seen_code[action.source] = came_of_it
        if cell.lost:
            return said["lost"]
        if cell.status == "timeout":
            return said["slow"]
        if cell.status != "ok":
            names = said["names"].format(names=observation.names_text(self._names)) if self._names else ""
            return f"{names}\n{said['error']}".strip()
        if text == observation.NOTHING:
            return said["nothing"]
        return said["empty" if observation.is_empty(text) else "ok"]

    # -- called on the host by code in the sandbox ---------------------------------------------------------------

    def _take_answer(self, payload: Any) -> None:
        try:
            self._answers.append(self._setup.check.from_code(payload))
        except Exception as refusal:
            answer = payload.get("value") if isinstance(payload, dict) else None
            self._refused.append((answer, str(refusal)))
            raise

    def _take_names(self, payload: Any) -> None:
        if isinstance(payload, dict):
            self._names = {str(k)[:60]: str(v)[:400] for k, v in list(payload.items())[:40]}
