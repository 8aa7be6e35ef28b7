"""What an attempt costs, by what it asked of its model."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.models import Price, Sampling, Watched
from codeact.types import Delta, Message, Reply, Request, Usage


class Model:
    name, sees, small = "m", False, False

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        yield Delta("a" * 40)
        yield Delta("b" * 40)
        yield Reply("whole", usage=Usage(1, 1000, 100))


ASK = Request((Message("user", "x" * 400),))


def test_a_whole_reply_costs_what_was_counted() -> None:
    watched = Watched(Model(), Sampling(), Price(1.0, 1.0, 10.0))
    assert len(list(watched(ASK))) == 3
    assert watched.cost == (1000 + 100 * 10) / 1e6


def test_a_reply_that_is_ended_early_costs_what_was_written_of_it() -> None:
    """400 characters asked, 40 written: 100 tokens and 10, by four characters a token."""
    watched = Watched(Model(), Sampling(), Price(1.0, 1.0, 10.0))
    items = watched(ASK)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert watched.cost == (100 + 10 * 10) / 1e6
