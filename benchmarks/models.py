"""One attempt's view of the model: asked in the same way in every arm, what it costs counted, ended where it costs too much."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from codeact.errors import ModelError, UsageError
from codeact.models import wire
from codeact.types import Delta, Model, Reply, Request, Retrying, Usage

PRICES = Path(__file__).with_name("prices.toml")
MILLION = 1_000_000
HERE = ("local", "scripted", "replay")
"""What the names of models begin with that this machine answers for."""


class CostLimit(ModelError):
    """The attempt has cost what it may."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens."""

    prompt: float
    cached: float
    completion: float

    def of(self, usage: Usage) -> float:
        fresh = usage.prompt_tokens - usage.cached_tokens
        spent = (
            fresh * self.prompt
            + usage.cached_tokens * self.cached
            + usage.completion_tokens * self.completion
        )
        return spent / MILLION


FREE = Price(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Prices:
    version: str
    models: Mapping[str, Price]

    def find(self, model: str) -> Price | None:
        """The price of a model: under its whole name, else without the date that ends it; what runs here is free."""
        if model.partition(":")[0] in HERE:
            return FREE
        known = [name for name in self.models if model == name or model.startswith(f"{name}-20")]
        return self.models[max(known, key=len)] if known else None


def read_prices(path: Path = PRICES) -> Prices:
    """A table of prices, as `prices.toml` is written. Raises UsageError for what is none."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        models = {name: _price(name, price) for name, price in table["models"].items()}
        return Prices(str(table["version"]), models)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}: is not a table of prices ({error}); write it as {PRICES.name} beside this program"
        ) from error


def _price(name: str, given: Mapping[str, Any]) -> Price:
    """Raises ValueError, TypeError or AttributeError for what is no price."""
    for kind, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ValueError(f"{name}: {kind} is {str(value)[:60]!r} and not a number of USD from 0")
    return Price(**given)


def providers(model: str, base_url: str | None) -> list[str]:
    """The host that answers for a model; none where this machine does."""
    from codeact.models.openai import OPENAI

    if model.partition(":")[0] in HERE:
        return []
    url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
    return [urlsplit(url).netloc.rpartition("@")[2]]


@dataclass(frozen=True, slots=True)
class Sampling:
    """What each request asks for, where the agent leaves it open. The seed of a repeat is `seed` plus its number."""

    temperature: float | None = None
    seed: int | None = None

    def of(self, repeat: int) -> Sampling:
        return replace(self, seed=None if self.seed is None else self.seed + repeat)


class Watched:
    """`model` for one attempt: with a sampling of its own, its cost in USD, and a limit of it. Raises CostLimit once the limit
    is reached, before the next request."""

    def __init__(
        self, model: Model, sampling: Sampling, price: Price | None = None, limit: float | None = None
    ) -> None:
        self.name, self.sees, self.small = model.name, model.sees, model.small
        self.usage = Usage()
        self.cut = False
        self._model, self._sampling, self._price, self._limit = model, sampling, price, limit

    @property
    def cost(self) -> float | None:
        return None if self._price is None else self._price.of(self.usage)

    def __call__(self, request: Request) -> Iterator[Delta | Retrying | Reply]:
        if self._limit is not None and (self.cost or 0.0) >= self._limit:
            self.cut = True
            raise CostLimit(f"the limit of {self._limit:g} USD was reached")
        asked = replace(
            request,
            temperature=self._sampling.temperature if request.temperature is None else request.temperature,
            seed=self._sampling.seed if request.seed is None else request.seed,
        )
        text = ""
        try:
            for item in self._model(asked):
                match item:
                    case Reply():
                        self.usage += item.usage
                    case Delta():
                        text += item.text
                yield item
        except GeneratorExit:  # a reply that was ended early is paid for all the same
            self.usage += wire.estimate(asked, text)
            raise
