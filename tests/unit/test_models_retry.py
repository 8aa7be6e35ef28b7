"""Asking again: what is waited for and how long, as a recorder in the place of `sleep` saw it."""

from __future__ import annotations

import datetime
import email.utils
import json
import threading
from collections.abc import Iterator

import pytest

from codeact.errors import ModelAuthError, ModelUnreachable
from codeact.models import RetryingModel, faults, retrying
from codeact.models.openai import OpenAIModel
from codeact.models.retry import Transient
from codeact.types import Delta, Message, Reply, Request, Retrying
from tests.gateway import Answer, Gateway, fails, says

ASK = Request([Message("user", "hi")])


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def asked(gateway: Gateway, waits: list[float]) -> RetryingModel:
    return retrying(OpenAIModel("m", base_url=gateway.url), sleep=waits.append)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "120"}, 120.0),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
    ],
)
def test_the_wait_is_what_the_endpoint_asks_for(
    gateway: Gateway, asked: RetryingModel, waits: list[float], headers: dict[str, str], wait: float
) -> None:
    gateway.add(fails(429, "slow down", headers), says("there"))
    retry, _, *deltas, reply = asked(ASK)
    assert isinstance(retry, Retrying)
    assert (retry.attempt, retry.wait) == (1, wait)
    assert "429 (Too Many Requests): slow down" in retry.reason
    assert deltas == [Delta("there")]
    assert isinstance(reply, Reply)
    assert waits == [wait]


NOON = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (
            {"retry-after": email.utils.format_datetime(NOON + datetime.timedelta(seconds=90), usegmt=True)},
            90.0,
        ),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_what_retry_after_says(headers: dict[str, str], seconds: float | None) -> None:
    assert faults.retry_after(headers, now=NOON.timestamp()) == seconds


def test_without_word_the_wait_is_drawn_from_a_doubling_range(
    gateway: Gateway, asked: RetryingModel, waits: list[float]
) -> None:
    gateway.add(*[fails(500)] * 4, says("at last"))
    *_, reply = asked(ASK)
    assert isinstance(reply, Reply)
    assert reply.text == "at last"
    assert len(waits) == 4
    assert all(0 <= wait <= most for wait, most in zip(waits, (1, 2, 4, 8), strict=True))
    assert len(set(waits)) == 4


def test_attempts_are_used_up(gateway: Gateway, asked: RetryingModel, waits: list[float]) -> None:
    gateway.add(*[fails(503, "down")] * 9)
    retries: list[Delta | Retrying | Reply] = []
    with pytest.raises(ModelUnreachable, match=r"503 \(Service Unavailable\): down \(asked 5 times\)"):
        retries.extend(asked(ASK))
    assert [r.attempt for r in retries if isinstance(r, Retrying)] == [1, 2, 3, 4]
    assert len(gateway.requests) == 5
    assert len(waits) == 4


def test_a_longer_wait_than_is_bearable_ends_it(
    gateway: Gateway, asked: RetryingModel, waits: list[float]
) -> None:
    gateway.add(fails(429, headers={"Retry-After": "121"}), says("never"))
    with pytest.raises(ModelUnreachable, match="asks for a wait of 121 s"):
        list(asked(ASK))
    assert waits == []


def test_what_will_not_pass_is_not_asked_again(gateway: Gateway, asked: RetryingModel) -> None:
    gateway.add(fails(401), says("never"))
    with pytest.raises(ModelAuthError):
        list(asked(ASK))
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(
    "cut", [says("half a", finish=None), says("half a", finish=None, usage=None, cut=True)]
)
def test_a_broken_stream_starts_again_after_a_retrying_item(
    gateway: Gateway, asked: RetryingModel, cut: Answer
) -> None:
    gateway.add(cut, says("whole text"))
    items = list(asked(ASK))
    again = next(i for i, item in enumerate(items) if isinstance(item, Retrying))
    assert items[:again] == [Delta("half"), Delta(" a")]
    assert items[again + 2 : -1] == [Delta("whole"), Delta(" text")]
    assert isinstance(items[-1], Reply)
    assert items[-1].text == "whole text"


def test_the_consumer_hears_of_a_wait_before_it_begins(
    gateway: Gateway, asked: RetryingModel, waits: list[float]
) -> None:
    gateway.add(fails(500), says("x"))
    items = asked(ASK)
    assert isinstance(next(items), Retrying)
    assert waits == []


def test_closing_early_reaches_the_model(gateway: Gateway, asked: RetryingModel) -> None:
    gateway.add(says("first word", stall="after"))
    items = asked(ASK)
    assert next(items) == Delta("first")
    items.close()  # type: ignore[attr-defined]
    assert gateway.client_left.wait(10)
    assert len(gateway.requests) == 1


def test_a_wait_can_be_ended_from_outside(gateway: Gateway) -> None:
    stop = threading.Event()
    stop.set()
    gateway.add(fails(429, headers={"Retry-After": "100"}), says("x"))
    items = list(retrying(OpenAIModel("m", base_url=gateway.url), sleep=stop.wait)(ASK))
    assert isinstance(items[-1], Reply)


def test_an_interrupt_in_the_model_passes_through() -> None:
    class Interrupted:
        name, sees, small = "m", False, False

        def __call__(self, request: Request) -> Iterator[Delta | Retrying | Reply]:
            yield Delta("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(retrying(Interrupted())(ASK))


def test_a_transient_error_is_a_model_error_that_says_unreachable() -> None:
    assert issubclass(Transient, ModelUnreachable)


@pytest.mark.parametrize(
    "error",
    [
        {"code": "server_error", "message": "Provider disconnected"},
        {"code": "rate_limit_exceeded", "type": "tokens", "message": "slow down"},
    ],
)
def test_an_error_within_a_stream_that_passes_is_asked_again(
    gateway: Gateway, asked: RetryingModel, error: dict[str, str]
) -> None:
    broken = f"data: {json.dumps({'error': error, 'choices': []})}\n\n".encode()
    gateway.add(Answer((broken,)), says("there"))
    assert [type(item) for item in asked(ASK)] == [Retrying, Delta, Delta, Reply]


def test_a_refusal_whose_body_breaks_off_is_asked_again(gateway: Gateway, asked: RetryingModel) -> None:
    gateway.add(Answer((b'{"error"',), 503, {"Content-Type": "application/json"}, cut=True), says("there"))
    assert [type(item) for item in asked(ASK)] == [Retrying, Delta, Delta, Reply]


def test_who_has_enough_while_it_waits_has_nothing_asked_again(
    gateway: Gateway, asked: RetryingModel
) -> None:
    gateway.add(fails(503), says("there"))
    stream = asked(ASK)
    assert isinstance(next(stream), Retrying)
    assert next(stream) == Delta("")
    stream.close()  # type: ignore[attr-defined]
    assert len(gateway.requests) == 1
