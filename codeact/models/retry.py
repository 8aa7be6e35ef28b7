"""Ask again when a failure may pass, visibly: every wait is announced before it begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import tenacity

from codeact.errors import ModelUnreachable
from codeact.types import Delta, Model, Reply, Request, Retrying

ATTEMPTS = 5
LONGEST_BACKOFF = 30.0
"""Seconds. Without word from the endpoint the wait is drawn from 0 to 1, 2, 4, ... of them (full jitter), up to this."""

_backoff = tenacity.wait_random_exponential(multiplier=1, max=LONGEST_BACKOFF)


class Transient(ModelUnreachable):
    """A failure that may pass. `retry_after` is the wait in seconds that the endpoint asked for, if it did."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RetryingModel:
    """`model`, asked up to `attempts` times: after 408, 409, 429, 5xx, broken connections and broken streams.

    The wait is what the endpoint asks for (`Retry-After`), else exponential with full jitter. A `Retrying` item is
    yielded before each wait and voids the deltas before it: the text starts again. `sleep` takes seconds; give it
    `event.wait` to end a wait from outside. Raises ModelUnreachable when the attempts are used up.
    """

    def __init__(
        self, model: Model, attempts: int = ATTEMPTS, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self.name = model.name
        self.sees = model.sees
        self.small = model.small
        self._model = model
        self._attempts = attempts
        self._sleep = sleep

    def __call__(self, request: Request) -> Iterator[Delta | Retrying | Reply]:
        announced: list[Retrying] = []
        policy = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Transient),
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=_wait,
            before_sleep=lambda state: announced.append(_announce(state)),
            sleep=lambda seconds: None,  # the wait is below, once the consumer knows of it
            reraise=True,
        )
        try:
            for attempt in policy:
                if announced:
                    yield announced[-1]
                    self._sleep(announced[-1].wait)
                    yield Delta("")  # who has enough by now ends it here, before it is asked again
                with attempt:
                    yield from self._model(request)
                    return
        except Transient as error:
            raise ModelUnreachable(f"{error} (asked {self._attempts} times)") from error


def retrying(
    model: Model, attempts: int = ATTEMPTS, sleep: Callable[[float], object] = time.sleep
) -> RetryingModel:
    """`RetryingModel` under the name it is used by: `retrying(OpenAIModel("gpt-5-mini"))`."""
    return RetryingModel(model, attempts, sleep)


def _failure(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: tenacity.RetryCallState) -> float:
    error = _failure(state)
    asked = error.retry_after if isinstance(error, Transient) else None
    return _backoff(state) if asked is None else asked


def _announce(state: tenacity.RetryCallState) -> Retrying:
    return Retrying(
        state.attempt_number, str(_failure(state)), state.next_action.sleep if state.next_action else 0.0
    )
