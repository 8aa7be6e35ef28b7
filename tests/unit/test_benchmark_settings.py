"""What the benchmarks are told: flags in files, prices, addresses with secrets, and what a run may come to."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import pytest

from benchmarks import settings
from benchmarks.__main__ import run
from benchmarks.commands import Asked, asked_of
from benchmarks.models import Price, read_prices
from benchmarks.plan import estimates
from benchmarks.store import address
from codeact.errors import UsageError

ASKED = {"suite": "small-tasks", "out": "x", "model": "scripted:oracle"}


def asked(given: dict[str, Any]) -> Asked:
    """What `run` makes of a file that says so."""
    with run.make_context("run", [], default_map=settings.defaults(run, given, "f.toml")) as ctx:
        return Asked(**ctx.params)


def test_a_file_names_flags_in_either_way_and_lists_words_in_either_way() -> None:
    found = asked({**ASKED, "max-turns": 5, "token_limit": 9, "arms": ["code", "json"], "category": "A,B", "task": ["t"], "time-limit": 2})  # fmt: skip
    assert (found.max_turns, found.token_limit, found.time_limit) == (5, 9, 2.0)
    assert (found.arms, found.categories, list(found.tasks)) == ("code,json", "A,B", ["t"])
    assert found.out == Path("x")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"limit": 2.7}, "limit is '2.7'; write a whole number"),
        ({"jobs": True}, "jobs is 'True'; write a whole number"),
        ({"jobs": [1]}, "jobs is '[1]'; write a whole number"),
        ({"repeats": "2"}, "repeats is '2'; write a whole number"),
        ({"temperature": True}, "temperature is 'True'; write a number"),
        ({"temperature": math.nan}, "nan is not a finite number"),
        ({"cost-limit": math.inf}, "inf is not a finite number"),
        ({"temperature": 2.1}, "2.1 is not in the range 0<=x<=2"),
        ({"seed": -1}, "-1 is not in the range"),
        ({"seed": 2**31}, "2147483648 is not in the range"),
        ({"repeats": 10**9}, "is not in the range"),
        ({"dry-run": {"a": 1}}, "write true or false"),
        ({"allow_drift": "yes"}, "write true or false"),
        ({"prices": 5}, "prices is '5'; write a text, such as \"a\""),
        ({"base-url": ["x"]}, "write a text"),
        ({"base-url": " "}, "it is empty; leave it out, or give a value"),
        ({"model": ""}, "it is empty"),
        ({"arms": ["code", 5]}, "write a text"),
        ({"task": "small-01"}, "write an array of texts"),
        ({"tasks": [1]}, "write an array of texts"),
        ({"max-turns": 5, "max_turns": 5}, "is there twice"),
        ({"k": 5}, "there is no setting 'k'"),
        ({"config": "x"}, "there is no setting 'config'"),
        ({"limits": {"turns": 5}}, "there is no setting 'limits'"),
    ],
)
def test_what_a_flag_cannot_be_is_said(given: dict[str, Any], words: str) -> None:
    with pytest.raises(click.UsageError) as said:
        asked({**ASKED, **given})
    assert words in said.value.format_message()


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ('prompt = "1"', "m: prompt is '1' and not a number of USD"),
        ("prompt = -1", "m: prompt is '-1'"),
        ("prompt = nan", "m: prompt is 'nan'"),
        ("prompt = inf", "m: prompt is 'inf'"),
        ("prompt = true", "m: prompt is 'True'"),
        ("", "prompt"),
        ("prompt = 1\nreasoning = 2", "reasoning"),
    ],
)
def test_a_price_is_a_number_from_0(tmp_path: Path, prices: str, words: str) -> None:
    table = tmp_path / "p.toml"
    table.write_text(f"version = 1\n[models.m]\ncached = 0\ncompletion = 2\n{prices}\n")
    with pytest.raises(UsageError, match="is not a table of prices") as said:
        read_prices(table)
    assert words in str(said.value)


@pytest.mark.parametrize("turns", [1, 2, 100])
def test_least_is_not_above_most(turns: int) -> None:
    plan = Asked("small-tasks", Path("x"), arms="code,json,json-serial,json+python", max_turns=turns).plan()
    for each in estimates(plan, Price(1.0, 0.1, 8.0)):
        assert each.cost is not None
        for low, high in (each.calls, each.tokens, each.cost):
            assert 0 < low <= high
        assert each.calls[1] <= turns * len(plan.tasks)


def test_what_the_model_writes_costs_what_is_written() -> None:
    """One turn of one task: 1,500 tokens of prompt, and 150 to 900 after it, half of them written."""
    plan = Asked("small-tasks", Path("x"), limit=1, max_turns=1).plan()
    (found,) = estimates(plan, Price(prompt=1.0, cached=0.0, completion=10.0))
    assert found.tokens == (1650, 2400)
    assert found.cost == pytest.approx(((1575 + 750) / 1e6, (1950 + 4500) / 1e6))


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("https://me:hunter2@host/v1", "https://[redacted]@host/v1"),
        ("https://a@b:c@host", "https://[redacted]@host"),
        ("https://host/v1?key=abc&x=1", "https://host/v1?[redacted]"),
        ("https://host/very-secret-1/v1", "https://host/[redacted]/v1"),
        ("me:hunter2@host", "[redacted]@host"),
    ],
)
def test_an_address_is_kept_without_what_is_secret_in_it(url: str, kept: str) -> None:
    assert address(url, ["very-secret-1"]) == kept


def about(folder: Path, **flags: Any) -> None:
    frozen = {"suite": "small-tasks", "split": "test", "model": "m"}
    run_json = {"run": "r", "started": "2026", "frozen": frozen, "plan": {"arms": ["code"]}, "asked": flags}
    (folder / "run.json").write_text(json.dumps(run_json))


def test_a_run_is_resumed_as_it_was_asked_for_but_for_what_is_given(tmp_path: Path) -> None:
    about(
        tmp_path,
        suite="small-tasks",
        arms="json",
        jobs=3,
        limit=None,
        tasks=["small-01"],
        base_url="http://host/v1",
    )
    assert asked_of(tmp_path, jobs=2, cost_limit=None, base_url=None) == {
        "suite": "small-tasks", "arms": "json", "jobs": 2, "tasks": ["small-01"], "out": str(tmp_path), "base_url": "http://host/v1",
    }  # fmt: skip


def test_an_address_that_was_not_kept_is_asked_for_again(tmp_path: Path) -> None:
    about(tmp_path, suite="small-tasks", base_url="https://[redacted]@host/v1")
    with pytest.raises(UsageError, match="give --base-url again"):
        asked_of(tmp_path)
    assert asked_of(tmp_path, base_url="http://host/v1")["base_url"] == "http://host/v1"


@pytest.mark.parametrize("flags", [{}, {"suite": 5}])
def test_a_run_that_does_not_say_what_was_asked_for_is_not_resumed(
    tmp_path: Path, flags: dict[str, Any]
) -> None:
    about(tmp_path, **flags)
    with pytest.raises(UsageError, match="give the whole command again"):
        asked_of(tmp_path)
