"""Whether a call may be made: permission, then approval, with what was asked and said as events."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from codeact import events
from codeact.errors import ArgumentError, CallRefused
from codeact.tools import record
from codeact.tools.approval import Approval, CallRequest, Decision, Line, Permit, decision
from codeact.tools.call import Call, kind, words
from codeact.tools.context import RunContext
from codeact.tools.execution import Raised
from codeact.tools.record import Scrub
from sandbox.text import clean

Perform = Callable[[Call, Callable[[], Any], float | None], Any]
"""Runs a function for a call, so that the call can be cancelled meanwhile; None is no limit of time."""


class Asking:
    """Asks for one run. `always` is remembered for its tools."""

    def __init__(
        self,
        approval: Approval,
        check: Permit | None,
        run: str,
        context: RunContext,
        emit: Callable[[events.Event], object],
        perform: Perform,
    ) -> None:
        self._approval, self._check = approval, check
        self._run, self._context, self._emit, self._perform = run, context, emit, perform
        self._line = Line()
        self._always: set[str] = set()
        self._lock = threading.Lock()
        self._waiting = 0
        self._since = self._waited = 0.0

    def permit(self, call: Call) -> None:
        if self._check is None:
            return
        try:
            reason = self._check(self._request(call), self._context)
        except Exception as error:
            raise CallRefused(
                f"{call.tool.path} is not permitted: the permission check failed ({type(error).__name__})"
            ) from error
        if reason is not None:
            raise CallRefused(f"{call.tool.path} is not permitted: {_reason(reason)}")

    def _request(self, call: Call, problem: str = "") -> CallRequest:
        return CallRequest(
            tool=call.tool,
            arguments=call.checked,
            source=call.scrub.text(record.as_python(call.tool, call.given)),
            run=self._run,
            call=call.id,
            context=self._context,
            cancelled=call.waiting.cancelled,
            problem=problem,
        )

    def approve(self, call: Call) -> None:
        tool, approval = call.tool, self._approval
        if not approval.asks(tool) or tool.path in self._always:
            return
        if approval.ask is None:
            raise CallRefused(
                f"{tool.path} needs a person's approval (its effects are {tool.policy.effects!r}) and nobody can be asked; "
                "it is for the person to allow it, with --yes or --approve never, or in Python with approve="
            )
        self._emit(
            events.ApprovalAsked(
                call=call.id,
                tool=tool.path,
                arguments=call.scrub.value(record.recorded(tool, call.given)),
                effects=tool.policy.effects,
            )
        )
        began = self._begin()
        try:
            said = self._ask(call)
        except Exception as error:
            failed = isinstance(error, Raised)
            why = f"the approval function failed ({kind(error)})" if failed else words(error)
            self._given(call, Decision(False, why))
            if failed:
                raise CallRefused(f"{tool.path} was refused: {why}") from error
            raise
        finally:
            call.waited += self._end(began)
        self._given(call, said)
        if not said.allowed:
            reason = f": {clean(said.reason)}" if said.reason else "; no reason was given"
            raise CallRefused(f"{tool.path} was refused{reason}")
        if said.always:
            self._always.add(tool.path)

    def _ask(self, call: Call) -> Decision:
        """Asks until the answer is a refusal, or leaves arguments that fit."""
        approval = self._approval
        ask = approval.ask
        assert ask is not None
        problem = ""
        while True:
            request = self._request(call, problem)
            if approval.one_at_a_time:
                with self._line.turn(call.waiting.cancelled):
                    if call.tool.path in self._always:  # said while this one waited
                        return Decision(True)
                    said = decision(self._perform(call, lambda: ask(request), None))  # noqa: B023
                    if said.always and said.allowed:
                        self._always.add(call.tool.path)
            else:
                said = decision(self._perform(call, lambda: ask(request), None))  # noqa: B023
            if not said.allowed or not said.arguments:
                return said
            problem = self._change(call, said)
            if not problem:
                return said

    def _given(self, call: Call, said: Decision) -> None:
        self._emit(
            events.ApprovalGiven(
                call=call.id,
                tool=call.tool.path,
                allowed=said.allowed,
                by=self._approval.by,
                reason=call.scrub.text(clean(said.reason)),
                arguments=call.scrub.value(
                    record.recorded(call.tool, call.tool.by_code_names(said.arguments))
                )
                if said.arguments
                else None,
            )
        )

    def _change(self, call: Call, said: Decision) -> str:
        """Gives the call the arguments that the person wrote; or what is wrong with them."""
        changed = {**call.given, **call.tool.by_code_names(said.arguments)}
        try:
            values = call.tool.check(changed)
            self.permit(dataclasses.replace(call, given=changed, values=values))
        except (ArgumentError, CallRefused) as error:
            return str(error)
        call.given, call.values = changed, values
        call.scrub = Scrub(call.tool, changed, call.scrub)
        return ""

    # -- the time of people --------------------------------------------------------------------------------------

    @property
    def waited(self) -> float:
        """Seconds, all told, in which at least one call waited for a person."""
        with self._lock:
            return self._waited + (time.monotonic() - self._since if self._waiting else 0.0)

    def _begin(self) -> float:
        now = time.monotonic()
        with self._lock:
            if not self._waiting:
                self._since = now
            self._waiting += 1
        return now

    def _end(self, began: float) -> float:
        """Seconds since it began."""
        now = time.monotonic()
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                self._waited += now - self._since
        return now - began


def _reason(said: object) -> str:
    """Why a call is not permitted. A check that means yes by True is as wrong as one that means no by False."""
    if not isinstance(said, str):
        return f"the permission check returned {type(said).__name__}; it allows with None, and refuses with a text"
    return said.strip() or "no reason was given"
