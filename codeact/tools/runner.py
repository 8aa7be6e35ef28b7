"""One call from the sandbox, from its name and arguments to what goes back: checked, allowed, recorded, executed."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from codeact import events
from codeact.errors import CallCancelled, CallRefused, ToolError, ToolTimeout, UnknownTool
from codeact.tools import crossing, execution, given, policy, record
from codeact.tools.approval import Approval, Permit
from codeact.tools.asking import Asking
from codeact.tools.call import Call, words
from codeact.tools.context import CURRENT, RunContext, ToolContext
from codeact.tools.execution import Raised, Waiting, Workers
from codeact.tools.gate import Gate, pause
from codeact.tools.policy import Guards
from codeact.tools.progress import teller
from codeact.tools.record import Scrub
from codeact.tools.tool import Tool
from sandbox.errors import HostCallRefused
from sandbox.text import clean, clean_error

MAX_NAME = 200
SETTLE_SECONDS = 1.0
"""For calls to be recorded as cancelled, when their cell has ended."""
MAX_STREAMED = 10_000
"""Items of a stream that the record keeps."""


class Unknown(Protocol):
    """A recorded call of which nobody knows whether it was carried out: the host ended meanwhile."""

    @property
    def key(self) -> str: ...


class RecordedCalls(Protocol):
    """Calls of an earlier life of this run. Each is handed out once. Raises CallRefused for what must not be executed."""

    def take(self, tool: str, digest: str) -> events.ToolReturned | Unknown | None: ...


ASKS_NOBODY = Approval()


@dataclass(frozen=True, slots=True)
class Setup:
    """What the tools of one agent's runs have in common."""

    tools: tuple[Tool, ...] = ()
    approval: Approval = ASKS_NOBODY
    permit: Permit | None = None
    guards: Guards = field(default_factory=lambda: Guards(()))


class ToolRunner:
    """Answers calls, from any number of threads at once. `emit` records an event before it returns; `left` gives the
    seconds that the run still has; `made` says how often tools were called in its earlier lives. `encode` makes of a
    result, and a name for it that no other has, what crosses; it raises ToolError for what cannot."""

    def __init__(
        self,
        setup: Setup,
        *,
        run: str,
        emit: Callable[[events.Event], object],
        context: RunContext = RunContext(),  # noqa: B008 - frozen
        recorded: RecordedCalls | None = None,
        encode: Callable[[Any, str], Any] = lambda value, name: value,
        left: Callable[[], float | None] = lambda: None,
        first_call: int = 1,
        made: Mapping[str, int] | None = None,
    ) -> None:
        self._setup = setup
        self._tools = {tool.path: tool for tool in setup.tools}
        self._run, self._emit, self._context = run, emit, context
        self._recorded, self._encode, self._left = recorded, encode, left
        self._numbers = itertools.count(first_call)
        self._workers = Workers()
        self._asking = Asking(setup.approval, setup.permit, run, context, emit, self._perform)
        self._gate = Gate(setup.guards, self._asking, self._workers, made or {})
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        self._answering = 0
        self._cell: int | None = None
        self._under_way: dict[str, Call] = {}

    # -- the life of a cell --------------------------------------------------------------------------------------

    def begin(self, cell: int) -> None:
        """From now on calls belong to this cell, the n-th of the run; to the n-th turn itself where it is -n."""
        with self._lock:
            self._cell = cell

    def end(self) -> None:
        """The cell is over: what is under way is cancelled and recorded, and no call is taken until the next begins."""
        self._cancel(self._cell)
        with self._lock:
            self._quiet.wait_for(lambda: not self._answering, SETTLE_SECONDS)
            streams = [call for call in self._under_way.values() if call.stream is not None]
        for call in streams:
            self._drop(call)

    def interrupt(self) -> None:
        """Cancels the calls of the cell that runs now. Takes no lock: signal handlers may call it."""
        if self._tools:
            execution.loop().call_soon_threadsafe(self._cancel, self._cell)

    def _cancel(self, cell: int | None) -> None:
        with self._lock:
            if cell is None or cell != self._cell:  # the next has begun meanwhile
                return
            self._cell = None
            calls = list(self._under_way.values())
        for call in calls:
            call.waiting.cancel(execution.ENDED)

    def _drop(self, call: Call) -> None:
        """Ends a stream that nobody reads to its end."""
        assert call.stream is not None
        try:
            call.stream.close()
        except ValueError:
            return  # it is being read: who does is told that it was cancelled
        if call.id in self._under_way:  # it was never read
            self._failed(call, CallCancelled("the cell ended before the stream was read"))

    def close(self) -> None:
        self.end()
        self._workers.close()

    @property
    def waited(self) -> float:
        """Seconds in which at least one call waited for a person, all told."""
        return self._asking.waited

    # -- one call ------------------------------------------------------------------------------------------------

    def call(self, path: str, arguments: Mapping[str, Any], waiting: Waiting | None = None) -> Any:
        """The encoded result, or an iterator of encoded items where the tool streams. Where `waiting` is cancelled, so is
        the call, and no other.

        Raises HostCallRefused, whose name is the class of the error for the code in the sandbox.
        """
        with self._lock:
            self._answering += 1
        try:
            return self._answer(path, arguments, waiting or Waiting())
        except HostCallRefused:
            raise
        except Exception as error:
            raise HostCallRefused(
                f"the call could not be made or recorded ({type(error).__name__})", name="ToolError"
            ) from error
        finally:
            with self._quiet:
                self._answering -= 1
                self._quiet.notify_all()

    def _answer(self, path: str, arguments: Mapping[str, Any], waiting: Waiting) -> Any:
        tool = self._tools.get(path)
        if tool is None:
            raise _refused(self._unknown(path))
        call, known = self._admit(tool, arguments, waiting)
        if known is not None:
            return self._replayed(call, known)
        try:
            self._gate.admit(call)
            result = self._execute(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the call's result
            raise self._failed(call, error) from None
        if isinstance(result, Generator):
            call.stream = result
            return result
        self._returned(call, value=result)
        return result

    def _unknown(self, path: str) -> UnknownTool:
        name = clean(path)[:MAX_NAME]
        near = difflib.get_close_matches(name, self._tools, 3, 0.5)
        near += [known for known in self._tools if known.endswith(f".{name}") and known not in near]
        known = f"did you mean {' or '.join(near[:3])}?" if near else "see tools.list()"
        return UnknownTool(f"there is no tool {name!r}; {known}")

    def _admit(
        self, tool: Tool, arguments: Mapping[str, Any], waiting: Waiting
    ) -> tuple[Call, events.ToolReturned | None]:
        """The call, recorded as called, or what an earlier life of the run recorded of it."""
        digest = record.digest(tool, arguments)
        try:
            known = self._recorded.take(tool.path, digest) if self._recorded is not None else None
        except CallRefused as error:
            raise _refused(error) from None
        number = next(self._numbers)
        arguments = tool.by_code_names(arguments)
        scrub = Scrub(tool, arguments)
        call = Call(tool, arguments, {}, f"c{number}", f"{self._run}-c{number}", scrub, waiting)
        if isinstance(known, events.ToolReturned):
            return call, known
        if known is not None:
            call.key = known.key
        self._begin(call, digest)
        try:
            if known is not None and not tool.policy.idempotent:
                raise CallRefused(
                    f"{tool.path} was called with these arguments before the run was cut off, and whether it was carried out is not known; find out before calling it again"
                )
            call.values = tool.check(arguments)
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
            raise self._failed(call, error) from None
        return call, None

    def _begin(self, call: Call, digest: str) -> None:
        with self._lock:
            cell = self._cell
            if cell is None:
                raise _refused(CallCancelled("no cell is running"))
            self._under_way[call.id] = call
        self._emit(
            events.ToolCalled(
                call=call.id,
                cell=max(cell, 0),
                turn=max(-cell, 0),
                tool=call.tool.path,
                arguments=call.scrub.value(record.recorded(call.tool, call.given)),
                digest=digest,
                key=call.key,
            )
        )

    def _replayed(self, call: Call, known: events.ToolReturned) -> Any:
        self._emit(dataclasses.replace(known, replayed=True, seconds=0.0, waited=0.0))
        if not known.ok:
            error = known.error or {}
            raise HostCallRefused(error.get("message", ""), name=error.get("class", "ToolError"))
        return iter(known.value) if call.tool.streams else known.value

    # -- its execution -------------------------------------------------------------------------------------------

    def _execute(self, call: Call) -> Any:
        """The encoded result; a generator of encoded items where the tool streams, which records how the call ended."""
        value = self._attempts(call)
        if call.tool.streams:
            return self._items(call, value)
        if inspect.isgenerator(value):
            value = self._perform(call, lambda: list(value), self._timeout(call))
        return self._encode(value, call.id)

    def _attempts(self, call: Call) -> Any:
        tool = call.tool
        breaker = self._setup.guards.breakers.get(tool.path)
        retries = tool.policy.retries if tool.policy.idempotent else 0
        while True:
            call.attempts += 1
            began = time.monotonic()
            try:
                value = self._perform(call, lambda: tool.call(**call.values), self._timeout(call))
            except (Raised, ToolTimeout) as failure:
                error = failure.error if isinstance(failure, Raised) else failure
                if breaker is not None:
                    failed = policy.counts_as_failure(tool, error)
                    breaker.tell(type(error).__name__ if failed else None)
                if call.attempts > retries or not policy.may_retry(tool, error):
                    raise
                wait = policy.before_retry(error, call.attempts)
            except BaseException:
                if breaker is not None:
                    breaker.forget()
                raise
            else:
                if breaker is not None:
                    breaker.tell(None)
                return value
            finally:
                call.seconds += time.monotonic() - began
            pause(call, wait)

    def _timeout(self, call: Call) -> float | None:
        """Never longer than the run has."""
        known = [seconds for seconds in (call.tool.policy.timeout, self._left()) if seconds is not None]
        return given.seconds(min(known)) if known else None

    def _perform(self, call: Call, function: Callable[[], Any], timeout: float | None) -> Any:
        token = CURRENT.set(
            ToolContext(
                run=self._run,
                call=call.id,
                key=call.key,
                attempt=max(1, call.attempts),
                cancelled=call.waiting.cancelled,
                context=self._context,
                tell=teller(call, self._emit),
            )
        )
        try:
            return execution.perform(self._workers, call.waiting, function, timeout, call.tool.path)
        finally:
            CURRENT.reset(token)

    def _items(self, call: Call, stream: Any) -> Iterator[Any]:
        """The items of a stream. Each may take as long as a call."""
        kept: list[Any] = []
        made = 0
        step = execution.items(stream)
        try:
            while True:
                began = time.monotonic()
                item = self._perform(call, step, self._timeout(call))
                call.seconds += time.monotonic() - began
                if item is execution.END:
                    break
                made += 1
                encoded = self._encode(item, f"{call.id}-{made}")
                if len(kept) < MAX_STREAMED:
                    kept.append(crossing.recorded(encoded))
                yield encoded
        except GeneratorExit:
            self._close(call, stream)
            self._returned(call, value=kept + crossing.left_out(made - len(kept)))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the call's result
            self._close(call, stream)
            raise self._failed(call, error) from None
        self._returned(call, value=kept + crossing.left_out(made - len(kept)))

    def _close(self, call: Call, stream: Any) -> None:
        try:
            execution.start(self._workers, lambda: execution.close(stream))
        except Exception:  # noqa: BLE001, S110 - it is given up already
            pass

    # -- how it ended --------------------------------------------------------------------------------------------

    def _returned(self, call: Call, **how: Any) -> None:
        with self._lock:
            self._under_way.pop(call.id, None)
        if "value" in how:
            how["value"] = call.scrub.value(crossing.recorded(how["value"]))
        self._emit(
            events.ToolReturned(
                call=call.id,
                tool=call.tool.path,
                ok="value" in how,
                seconds=call.seconds,
                waited=call.waited,
                attempts=call.attempts,
                **how,
            )
        )

    def _failed(self, call: Call, error: BaseException) -> HostCallRefused:
        error = error.error if isinstance(error, Raised) else error
        name = clean_error(type(error).__name__) or "ToolError"
        message = call.scrub.message(words(error))
        self._returned(call, error={"class": name, "message": message})
        return HostCallRefused(message, name=name)


def _refused(error: ToolError) -> HostCallRefused:
    return HostCallRefused(str(error), name=type(error).__name__)
