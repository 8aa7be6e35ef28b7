"""Calls that come as such: what models and endpoints make of names, arguments and code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codeact.actions.styles import STYLES, style
from codeact.tools.load import tools_from
from codeact.types import ActionStyle, Code, Reply
from tests.unit.test_written_calls import order_status, rate

TOOLS = tools_from([order_status, rate])
FUNCTIONS = style("functions", TOOLS, run_python=True)
CODE = style("python-tool", TOOLS)


def called(name: str, arguments: Any, acting: Any = FUNCTIONS) -> list[tuple[str, Any]]:
    reply = Reply("", tool_calls=({"id": "a", "function": {"name": name, "arguments": arguments}},))
    reading = acting.read(reply, 1, ())
    assert reading.native
    return [(call.name, call.problem or call.arguments) for call in reading.calls]


@pytest.mark.parametrize(
    "name",
    [
        "order_status", " order_status ", "functions.order_status", "default_api.order_status", "order_status:0", "tools/order_status",
        "Order_Status", "order status", "order_status<|channel|>commentary", "order_status<｜tool▁sep｜>",
    ],
)  # fmt: skip
def test_a_name_is_known_whatever_is_put_around_it(name: str) -> None:
    assert called(name, {"order_id": "A"}) == [("order_status", {"order_id": "A"})]


@pytest.mark.parametrize(
    ("name", "sent"), [("no such", "no_such"), ("", "unnamed"), ("ö" * 80, "_" * 64), ("a.b", "a_b")]
)
def test_an_unknown_name_goes_back_as_one_that_endpoints_take(name: str, sent: str) -> None:
    assert called(name, {}) == [(sent, {})]


@pytest.mark.parametrize("odd", ["x", 5, ["x"], {"id": "a", "function": "x"}])
def test_what_is_no_call_is_told_to_the_model(odd: Any) -> None:
    [call] = FUNCTIONS.read(Reply("", tool_calls=(odd,)), 1, ()).calls
    assert call.name == "unnamed"
    assert call.problem is not None
    assert "arguments are not a" in call.problem


def test_several_calls_in_openais_wrapping() -> None:
    uses = [
        {"recipient_name": "functions.order_status", "parameters": {"order_id": "A"}},
        {"recipient_name": "functions.rate", "parameters": {"currency": "EUR"}},
    ]
    for given in ({"tool_uses": uses}, json.dumps({"tool_uses": uses})):
        assert called("multi_tool_use.parallel", given) == [
            ("order_status", {"order_id": "A"}),
            ("rate", {"currency": "EUR"}),
        ]


CODES: dict[str, Any] = {
    "as asked": {"code": "x = 1"},
    "encoded": json.dumps({"code": "x = 1"}),
    "under another name": {"source": "x = 1"},
    "under any name": {"cell": "x = 1"},
    "in lines": {"code": ["x = 1"]},
    "in a block": {"code": "```python\nx = 1\n```"},
    "by itself": "x = 1",
    "by itself, encoded": json.dumps("x = 1"),
    "real newlines": '{"code": "x = 1\n"}',
}


@pytest.mark.parametrize("acting", [FUNCTIONS, CODE], ids=["run_python", "python"])
@pytest.mark.parametrize("given", CODES.values(), ids=CODES)
@pytest.mark.parametrize("name", ["python", "run_python", "code_interpreter", "functions.python"])
def test_code_is_found_where_models_put_it(name: str, given: Any, acting: Any) -> None:
    [(found, arguments)] = called(name, given, acting)
    assert found == acting.functions[-2 if acting is FUNCTIONS else -1]["function"]["name"]
    assert arguments["code"].strip() == "x = 1"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ('{"code": "x = ', "are cut off"),
        ('"{\\"code\\": \\"x = ', "are "),
        ("{}", "code is missing"),
        ("", "code is missing"),
        ({"code": " "}, "code is missing"),
        ({"code": 5}, "code is missing"),
        ("[1]", "are not an object"),
    ],
)
def test_code_that_is_not_there_is_said(given: Any, problem: str) -> None:
    [(_, said)] = called("python", given, CODE)
    assert problem in said
    assert 'Write {"code": "print(1 + 1)"}' in said


def test_an_endpoint_that_takes_a_call_out_of_fenced_text() -> None:
    made = {
        "id": "a",
        "type": "function",
        "function": {"name": "python", "arguments": json.dumps({"code": "x = 1"})},
    }
    assert style("fenced").read(Reply("I look.", tool_calls=(made,)), 1, ()).actions == (Code("x = 1"),)


def test_thinking_before_calls_is_no_thought() -> None:
    made = {"id": "a", "function": {"name": "rate", "arguments": {"currency": "EUR"}}}
    assert FUNCTIONS.read(Reply("<think>hm</think>I look.", tool_calls=(made,)), 1, ()).thoughts == "I look."


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("text", ["", " \n", "<think>It is 5.</think>", "<think>It is 5.</think>\n"])
def test_a_reply_of_nothing_is_no_answer(name: ActionStyle, text: str) -> None:
    reading = style(name).read(Reply(text), 1, ())
    assert reading.problem is not None
    assert "empty" in reading.problem
    assert not reading.acts


@pytest.mark.parametrize("given", [5, "abc", None, {"a": 1}])
def test_a_star_that_holds_no_list_is_a_name_like_any(given: Any) -> None:
    assert called("order_status", {"*": given}) == [("order_status", {"*": given})]
    [(name, told)] = called("run_python", {"*": given})
    assert name == "run_python"
    assert told == {"code": "abc"} or "code is missing" in str(told)


def test_arguments_that_are_nested_deeper_than_any_tool_takes_are_refused() -> None:
    for depth, well in ((64, True), (65, False), (480, False), (980, False), (100_000, False)):
        [(_, told)] = called("order_status", '{"order_id": ' + "[" * depth + "]" * depth + "}")
        assert isinstance(told, dict) == well
        assert well or "nested" in str(told)
