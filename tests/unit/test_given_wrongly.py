"""What an agent is given by mistake: one line that names the argument, what it got and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from codeact import Agent, ScriptedModel, UsageError
from codeact.types import Usage

agent: Callable[..., Agent[Any]] = Agent  # whatever a caller without a type checker gives


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (None, "is of type NoneType"),
        (5, "is of type int"),
        (lambda request: iter(()), "is of type function"),
        ("", "is empty"),
    ],
)
def test_what_is_no_model(given: Any, got: str) -> None:
    with pytest.raises(UsageError, match=rf"^model: {got}; give a name such as .*$"):
        agent(given)


def test_packages_as_one_text() -> None:
    with pytest.raises(UsageError, match=r'^packages: is a text; write packages=\["numpy"\]$'):
        agent(ScriptedModel([]), packages="numpy")


@pytest.mark.parametrize("task", [None, 5, b"Count."])
def test_what_is_no_task(tmp_path: Path, task: Any) -> None:
    with pytest.raises(UsageError, match=rf"^task: is of type {type(task).__name__}; give a text"):
        agent(ScriptedModel([]), runs=tmp_path).run(task)


@pytest.mark.parametrize("data", [[1], (), "sales.csv", pd.DataFrame({"a": [1]})])
def test_what_is_no_data(tmp_path: Path, data: Any) -> None:
    made = agent(ScriptedModel([]), runs=tmp_path)
    for use in (lambda: made.run("Count.", data), lambda: made.session(data)):
        with pytest.raises(UsageError, match=rf"^data: is of type {type(data).__name__}; give .* by name"):
            use()


def test_a_session_that_was_not_used_has_used_nothing(tmp_path: Path) -> None:
    assert agent(ScriptedModel([]), runs=tmp_path).session().usage == Usage()
