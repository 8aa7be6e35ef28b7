"""What stands in for the tools of a run in a notebook that was exported: what was recorded for the arguments, else the next."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def tool() -> Iterator[Callable[..., Any]]:
    """A tool of which three calls are recorded; large arguments are recorded as what they are in a few words."""
    scope: dict[str, Any] = {}
    exec((resources.files("codeact.views") / "assets" / "stand_in.py").read_text(encoding="utf-8"), scope)
    calls = [
        {"tool": "shop.put", "arguments": arguments, "ok": True, "value": value, "error": ""}
        for arguments, value in (
            ({"rows": "DataFrame 2×1", "name": "a"}, "first"),
            ({"rows": "array 3", "name": "b"}, "second"),
            ({"rows": [1, 2], "name": "c"}, "third"),
        )
    ]
    with patch.dict(sys.modules):
        scope["stand_in_tools"](calls, lambda value, record: value)
        yield sys.modules["tools.shop"].put


def test_a_call_gives_what_was_recorded_for_its_arguments(tool: Callable[..., Any]) -> None:
    assert [tool([1, 2], name="c"), tool("array 3", "b"), tool([5], "other")] == ["third", "second", "first"]


def test_tables_and_arrays_are_arguments_too(tool: Callable[..., Any]) -> None:
    """They equal nothing that is recorded as words."""
    assert tool(pd.DataFrame({"a": [1, 2]}), "a") == "first"
    assert tool(np.array([1, 2, 3]), name="b") == "second"
    assert tool([1, 2], "c") == "third"


def test_another_number_of_arguments_is_another_call(tool: Callable[..., Any]) -> None:
    assert tool([1, 2]) == "first"
