"""Whatever a model writes, reading its calls ends, quickly, and never with an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact.actions import arguments, written
from codeact.actions.styles import style
from codeact.tools.load import tools_from
from codeact.types import Reply
from tests.unit.test_written_calls import order_status, rate

PIECES = [
    "<tool_call>", "</tool_call>", "<tool_call", "[TOOL_CALLS]", "[ARGS]", "<function=order_status>", "</function>", "<|python_tag|>",
    "<invoke name=\"order_status\">", "<parameter name=\"order_id\">", "</parameter>", "</invoke>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
    "<|tool_call_begin|>", "<|channel|>commentary to=functions.rate", "<|message|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
    "```json", "```", "\n", "{", "}", "[", "]", '"', "'", ":", ",", '{"name": "order_status", "arguments": ', '{"order_id": "A"}',
    "order_status(", "order_id=", ")", "final_answer(5)", "Action: rate\nAction Input: ", "<think>", "</think>", "Observation: ", "\\", "\ud800",
    "null", "NaN", "1e999", "words ", "0",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=24).map("".join)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip
TOOLS = tools_from([order_status, rate])
STYLES = [
    style("functions", TOOLS),
    style("functions", TOOLS, run_python=True),
    style("python-tool", TOOLS),
    style("fenced"),
]


@given(st.one_of(TEXTS, JSON, JSON.map(json.dumps), JSON.map(repr)))
def test_arguments_are_read_or_it_is_said_why_not(given: Any) -> None:
    try:
        read = arguments.read(given)
    except arguments.Unreadable as error:
        read = {}
        said = str(error)
    else:
        said = "are read"
    assert said.startswith(("are ", "hold ", "have "))
    assert json.loads(json.dumps(read, allow_nan=False)) == read


CALLS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "id": JSON,
                "function": st.fixed_dictionaries(
                    {"name": st.one_of(TEXTS, JSON), "arguments": st.one_of(TEXTS, JSON)}
                ),
            }
        ),
        st.dictionaries(st.sampled_from(["id", "name", "arguments", "function", "type"]), JSON),
    ),
    max_size=4,
)


@given(TEXTS, CALLS, st.sampled_from(STYLES))
def test_any_reply_is_read(text: str, calls: list[dict[str, Any]], acting: Any) -> None:
    used = {"a"}
    reading = acting.read(Reply(text, tool_calls=tuple(calls)), 3, used)
    ids = [call.id for call in reading.calls]
    assert len(set(ids) | used) == len(ids) + 1
    assert all(call.name and json.dumps(call.arguments, allow_nan=False) for call in reading.calls)
    acting.complete(text, first_block_only=True)


@pytest.mark.parametrize("piece", PIECES)
def test_long_texts_are_read_too(piece: str) -> None:
    known: dict[str, dict[str, object]] = {"order_status": {}, "rate": {}}
    text = piece * (60_000 // len(piece))
    assert written.find(text, known).calls is not None  # it ends
