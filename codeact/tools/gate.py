"""What a call goes through before it is executed: permission, its budget, the circuit breaker, approval, its rate."""

from __future__ import annotations

import time
from collections.abc import Mapping

from codeact.tools.asking import Asking
from codeact.tools.call import Call
from codeact.tools.execution import Workers
from codeact.tools.policy import Budget, Guards


class Gate:
    """Lets the calls of one run through. A call that is refused, or cancelled before it is made, takes nothing from the
    calls that may be made."""

    def __init__(self, guards: Guards, asking: Asking, workers: Workers, made: Mapping[str, int]) -> None:
        """`made` says how often tools were called in earlier lives of the run."""
        self._guards, self._asking, self._workers = guards, asking, workers
        self._budget = Budget(made)

    def admit(self, call: Call) -> None:
        """Returns when the call may be made. Raises CallRefused, CallCancelled."""
        self._asking.permit(call)
        self._workers.check()
        self._budget.spend(call.tool.path, call.tool.policy)
        try:
            self._wait(call)
        except BaseException:
            self._budget.give_back(call.tool.path)
            raise

    def _wait(self, call: Call) -> None:
        path = call.tool.path
        rate, breaker = self._guards.rates.get(path), self._guards.breakers.get(path)
        if breaker is not None:
            breaker.admit(path)
        try:
            if rate is not None:
                rate.check(path)  # nobody is asked for nothing
            self._asking.approve(call)
            if rate is not None:
                pause(call, rate.turn(path))
        except BaseException:
            if breaker is not None:
                breaker.forget()
            raise


def pause(call: Call, seconds: float) -> None:
    """Raises CallCancelled."""
    if seconds <= 0:
        return
    began = time.monotonic()
    try:
        call.waiting.sleep(seconds)
    finally:
        call.waited += time.monotonic() - began
