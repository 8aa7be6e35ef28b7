"""Calls of functions in the text of replies, as models without a channel for them write them."""

from __future__ import annotations

import json

import pytest

from codeact.actions.styles import HOW_WRITTEN, style
from codeact.tools.functions import tool
from codeact.tools.load import tools_from
from codeact.types import Call, Reading, Reply


@tool(effects="read")
def order_status(order_id: str, details: bool = False) -> str:
    """Where an order is."""
    return "sent"


@tool(effects="read")
def rate(currency: str) -> float:
    """Of a currency."""
    return 1.0


FUNCTIONS = style("functions", tools_from([order_status, rate]))
ONE = [("order_status", {"order_id": "A-1"})]
NUMBER = [("order_status", {"order_id": "17", "details": True})]
TWO = [*ONE, ("rate", {"currency": "EUR"})]
OPENED, CLOSED = "<tool_call>", "</tool_call>"
JSON = '{"name": "order_status", "arguments": {"order_id": "A-1"}}'
SECOND = '{"name": "rate", "arguments": {"currency": "EUR"}}'


def read(text: str) -> Reading:
    return FUNCTIONS.read(Reply(text), 1, ())


def made(calls: tuple[Call, ...]) -> list[tuple[str, object]]:
    assert [call.problem for call in calls] == [None] * len(calls)
    return [(call.name, call.arguments) for call in calls]


FORMS = {
    "Hermes": (f"I look.\n{OPENED}\n{JSON}\n{CLOSED}", ONE),
    "Hermes, on one line": (f"{OPENED}{JSON}{CLOSED}", ONE),
    "Hermes, two": (f"{OPENED}\n{JSON}\n{CLOSED}\n{OPENED}\n{SECOND}\n{CLOSED}", TWO),
    "Hermes, left open": (f"{OPENED}\n{JSON}", ONE),
    "Hermes, a bracket short": (f"{OPENED}\n{JSON[:-1]}\n{CLOSED}", ONE),
    "Hermes, single quotes": (f"{OPENED}\n{JSON.replace(chr(34), chr(39))}\n{CLOSED}", ONE),
    "Hermes, arguments as text": (
        f'{OPENED}{json.dumps({"name": "order_status", "arguments": json.dumps(ONE[0][1])})}{CLOSED}', ONE),
    "Hermes, behind thinking": (f"<think>\n{OPENED}no{CLOSED}\n</think>\n\n{OPENED}\n{JSON}\n{CLOSED}", ONE),
    "Hermes, then a result that it made up": (
        f"{OPENED}\n{JSON}\n{CLOSED}\n<tool_response>\nsent\n</tool_response>\n{OPENED}\n{SECOND}\n{CLOSED}", ONE),
    "Qwen coder": (
        "<tool_call>\n<function=order_status>\n<parameter=order_id>\nA-1\n</parameter>\n</function>\n</tool_call>", ONE),
    "Llama, function tag": ('<function=order_status>{"order_id": "A-1"}</function>', ONE),
    "Llama, two function tags": (
        '<function=order_status>{"order_id": "A-1"}</function>\n<function=rate>{"currency": "EUR"}</function>', TWO),
    "Llama, python tag": ('<|python_tag|>{"name": "order_status", "parameters": {"order_id": "A-1"}}', ONE),
    "Llama, as Python": ("[order_status(order_id='A-1'), rate(currency='EUR')]", TWO),
    "as Python, without names": ("order_status('A-1')", ONE),
    "Mistral": (f"[TOOL_CALLS] [{JSON}, {SECOND}]", TWO),
    "Mistral, by name": ('[TOOL_CALLS]order_status{"order_id": "A-1"}', ONE),
    "Mistral, with ids": (
        '[TOOL_CALLS]order_status[CALL_ID]x1[ARGS]{"order_id": "A-1"}[TOOL_CALLS]rate[ARGS]{"currency": "EUR"}', TWO),
    "Anthropic": (
        '<function_calls>\n<invoke name="order_status">\n<parameter name="order_id">A-1</parameter>\n</invoke>\n</function_calls>', ONE),
    "DeepSeek": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>order_status\n```json\n"
        '{"order_id": "A-1"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>', ONE),
    "Kimi": (
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.order_status:0<|tool_call_argument_begin|>'
        '{"order_id": "A-1"}<|tool_call_end|><|tool_calls_section_end|>', ONE),
    "GLM": (
        "<tool_call>order_status\n<arg_key>order_id</arg_key>\n<arg_value>A-1</arg_value>\n</tool_call>", ONE),
    "gpt-oss": (
        '<|channel|>commentary to=functions.order_status <|constrain|>json<|message|>{"order_id": "A-1"}<|call|>', ONE),
    "firefunction": (f" functools[{JSON}]", ONE),
    "ReAct": ('Thought: I look.\nAction: order_status\nAction Input: {"order_id": "A-1"}\nObservation: sent', ONE),
    "GLM 4.7": ("<tool_call>order_status<arg_key>order_id</arg_key><arg_value>A-1</arg_value></tool_call>", ONE),
    "GLM, text that looks like a number": (
        "<tool_call>order_status\n<arg_key>order_id</arg_key>\n<arg_value>17</arg_value>\n<arg_key>details</arg_key>\n<arg_value>true</arg_value>\n</tool_call>", NUMBER),
    "GLM, without arguments": ("<tool_call>order_status\n</tool_call>", [("order_status", {})]),
    "Qwen coder, text that looks like a number": (
        "<tool_call>\n<function=order_status>\n<parameter=order_id>\n17\n</parameter>\n<parameter=details>\ntrue\n</parameter>\n</function>\n</tool_call>", NUMBER),
    "DeepSeek 3.1": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>order_status<｜tool▁sep｜>{"order_id": "A-1"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', ONE),
    "DeepSeek 3.2": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="order_status">\n<｜DSML｜parameter name="order_id" string="true">17</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="details" string="false">true</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>', NUMBER),
    "MiniMax": (
        '<minimax:tool_call>\n<invoke name="order_status">\n<parameter name="order_id">A-1</parameter>\n</invoke>\n</minimax:tool_call>', ONE),
    "Seed": ("<seed:tool_call>\n<function=order_status>\n<parameter=order_id>A-1</parameter>\n</function>\n</seed:tool_call>", ONE),
    "Step": (
        '<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="order_status"><steptml:parameter name="order_id">A-1'
        "</steptml:parameter></steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>", ONE),
    "Gemma 3": ('I look.\n```tool_code\nprint(default_api.order_status(order_id="A-1"))\n```', ONE),
    "FunctionGemma": ("<start_function_call>call:order_status{order_id:<escape>A-1<escape>,details:true}<end_function_call>", [("order_status", {"order_id": "A-1", "details": True})]),
    "Gemma 4": ('<|tool_call>call:order_status{order_id:<|"|>A-1<|"|>}<tool_call|><|tool_call>call:rate{currency:<|"|>EUR<|"|>}<tool_call|>', TWO),
    "Gemma 4, marks in a text": ('<|tool_call>call:order_status{order_id:<|"|>a: "b", {c}<|"|>}<tool_call|>', [("order_status", {"order_id": 'a: "b", {c}'})]),
    "Granite": (f"<|tool_call|>[{JSON}, {SECOND}]", TWO),
    "Phi": (f"<|tool_call|>[{JSON}]<|/tool_call|>", ONE),
    "OLMo": ('I look.\n<function_calls>\norder_status(order_id="A-1")\nrate(currency="EUR")\n</function_calls>', TWO),
    "LFM": ('<|tool_call_start|>[order_status(order_id="A-1")]<|tool_call_end|>I look.', ONE),
    "Llama 4": ("<|python_start|>[order_status(order_id='A-1'), rate(currency='EUR')]<|python_end|>", TWO),
    "InternLM": ('I look.<|action_start|><|plugin|>\n{"name": "order_status", "parameters": {"order_id": "A-1"}}<|action_end|>', ONE),
    "Nemotron": (f"<TOOLCALL>[{JSON}]</TOOLCALL>", ONE),
    "Apertus": ('<|tools_prefix|>[{"order_status": {"order_id": "A-1"}}]<|tools_suffix|>', ONE),
    "LongCat": (f"<longcat_tool_call>{JSON}</longcat_tool_call>", ONE),
    "gpt-oss, to whom in its role": ('<|start|>assistant to=functions.order_status<|channel|>commentary <|constrain|>json<|message|>{"order_id": "A-1"}<|call|>', ONE),
    "gpt-oss, without its start": (' to=functions.order_status<|channel|>commentary json<|message|>{"order_id": "A-1"}<|call|>', ONE),
    "elements": ('<tool_use>\n<name>order_status</name>\n<arguments>{"order_id": "A-1"}</arguments>\n</tool_use>', ONE),
    "a name in the tag": ('<tool_call name="order_status">{"order_id": "A-1"}</tool_call>', ONE),
    "Python in a block, within prose": ('I look.\n```python\nstatus = order_status(order_id="A-1")\n```\nThen I answer.', ONE),
    "arguments beside the name": (f'```json\n{{"name": "order_status", "order_id": "A-1"}}\n```\n{SECOND}', TWO),
    "the answer beside the name": ('```json\n{\n  "name": "final_answer",\n  "value": "Ada"\n}\n```', [("final_answer", {"value": "Ada"})]),
    "the name as a key": ('{"order_status": {"order_id": "A-1"}}', ONE),
    "bare JSON": (JSON, ONE),
    "bare JSON, two": (f"{JSON}\n{SECOND}", TWO),
    "an array": (f"[{JSON}, {SECOND}]", TWO),
    "in OpenAI's own form": (
        json.dumps({"tool_calls": [{"type": "function", "function": {"name": "order_status", "arguments": '{"order_id": "A-1"}'}}]}), ONE),
    "parameters": ('{"name": "order_status", "parameters": {"order_id": "A-1"}}', ONE),
    "in a block": (f"I look.\n```json\n{JSON}\n```\nThen I answer.", ONE),
    "in a block, within prose": (f"First:\n\n```\n{JSON}\n```\n", ONE),
    "in prose": (f"I call\n{JSON}\nnow.", ONE),
    "words of a result in an argument": (
        '{"name": "order_status", "arguments": {"order_id": "Output: A-1"}}', [("order_status", {"order_id": "Output: A-1"})]),
    "the answer": ('{"name": "final_answer", "arguments": {"value": 5}}', [("final_answer", {"value": 5})]),
    "the answer as Python": ("```python\nfinal_answer(5)\n```", [("final_answer", {"value": 5})]),
    "the answer as a key": ('{"final_answer": 5}', [("final_answer", {"value": 5})]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "calls"), FORMS.values(), ids=FORMS)
def test_calls_in_text_are_read(text: str, calls: list[tuple[str, object]]) -> None:
    reading = read(text)
    assert made(reading.calls) == calls
    assert not reading.native


NO_CALLS = {
    "words": "The order was sent.",
    "data": '{"id": "A-1", "state": "sent"}',
    "data with a name": '{"name": "Ann", "state": "sent"}',
    "Python data with a name": "{'name': 'Ann', 'state': 'sent'}",
    "a definition": '{"name": "order_status", "description": "Where an order is.", "parameters": {"type": "object"}}',
    "another's Python": "print(1 + 1)",
    "another's Python in a block": "So:\n```python\nx = 1\nprint(x)\n```",
    "data with the name of a function": '{"name": "order_status", "state": "sent"}',
    "data under a key": '{"order": {"order_id": "A-1"}}',
    "a call in a sentence": "I would call order_status(order_id) for that.",
}


@pytest.mark.parametrize("text", NO_CALLS.values(), ids=NO_CALLS)
def test_what_is_no_call_is_prose(text: str) -> None:
    reading = read(text)
    assert (reading.calls, reading.problem, reading.thoughts) == ((), None, text)


@pytest.mark.parametrize(
    "text",
    [
        f"{OPENED}\n{JSON[:40]}",
        f"{OPENED}\norder_status A-1\n{CLOSED}",
        "[TOOL_CALLS]",
        '<|tool_call>call:order_status{order_id:<|"|>A-1',
        "<start_function_call>call:order_status{order_id:<escape>A-1<escape>",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="order_status">\n<｜DSML｜parameter name="order_id" string="true">A-1',
        '<|tool_call_start|>[order_status(order_id="A',
        f"<TOOLCALL>[{JSON[:-1]}",
        "<think>\nhm\n<tool_call>",
        JSON[:-1],
        JSON[:30],
        f"I ask for it. {JSON[:40]}",
        f"```json\n{JSON[:40]}",
        "{'name': 'order_status', 'arguments': {'order_id': 'A-1'",
    ],
)
def test_what_tries_to_be_a_call_is_answered_with_how_to_write_it(text: str) -> None:
    reading = read(text)
    assert (reading.calls, reading.actions) == ((), ())
    assert reading.problem is not None
    assert '{"name": "NAME", "arguments"' in reading.problem


@pytest.mark.parametrize(
    "text",
    [
        f'{OPENED}{{"name": "order_status", "arguments": {{"order_id": "A-1"',
        f'{OPENED}{{"name": "order_status", "arguments": {{"order_id": 1',
        f'{OPENED}{{"name": "order_status", "arguments": {{"order_id": "A-1"}}',
        f'{OPENED}{{"name": "order_status", "arguments": {{"order_id": 1{CLOSED}',
        f'{OPENED}{{"name": "order_status", "arguments": {{"order_id": "A-1", "details": true{CLOSED}',
        f"{OPENED}order_status\n<arg_key>order_id</arg_key><arg_value>A-1</arg_value><arg_key>det",
        f"{OPENED}order_status\n<arg_key>order_id</arg_key>\n<arg_value>A-1</arg_value>\n<",
        f"{OPENED}order_status\n<arg_key>order_id</arg_key>\n<arg_value>A-1</arg_value>\n<arg_key>det",
        "<function=order_status>\n<parameter=order_id>\nA-1",
        "<function=order_status>\n<parameter=order_id>\nA-1\n</parameter>\n<para",
        "<function=order_status>\n<parameter=order_id>\nA-1\n</parameter>",
        '<function name="order_status">\n<parameter name="order_id">A-1',
        '<invoke name="order_status"><parameter name="order_id">A-1</parameter><parameter name="details">t',
    ],
)
def test_a_call_that_is_cut_off_is_not_completed(text: str) -> None:
    reading = read(text)
    assert reading.calls == ()
    assert reading.problem is not None


def test_arguments_that_are_cut_off_are_no_call_but_its_problem() -> None:
    [call] = read('<function=order_status>{"order_id": "A').calls
    assert call.arguments == {}
    assert call.problem == (
        "order_status(): the arguments are cut off behind '{\"order_id\": \"A'. "
        'Write {"order_id": "..."}'
    )  # fmt: skip


def test_thoughts_are_what_stands_before_the_calls() -> None:
    assert read(FORMS["Hermes"][0]).thoughts == "I look."
    assert read(FORMS["in a block"][0]).thoughts == "I look."


def test_reading_takes_time_by_the_length_of_the_text() -> None:
    for piece in (
        "<tool_call>",
        "[TOOL_CALLS]x",
        '{"name": ',
        "<function=f>{",
        "Action: f\nAction Input: ",
        "call:f{",
        "call:f{}<tool_call|>",
        "<|tool_call_start|>",
        "<function_calls>order_status(",
        "```python\n",
        "<name>f</name><arguments>{",
        "<tool_call> ",
        "<tool_call>f <arg_key>",
        "<tool_call>f <arg_key>a</arg_key><arg_value>",
        '<｜DSML｜invoke name="f">',
        "[",
    ):
        assert read(piece * 20_000).calls is not None  # it ends


@pytest.mark.parametrize(
    ("whole", "kept"),
    [
        ("I look.\n```json\n" + JSON + "\n```\n```json\n" + SECOND + "\n```\n", "I look.\n```json\n" + JSON + "\n```"),
        (f"{OPENED}\n{JSON}\n{CLOSED}\n{OPENED}\n{SECOND}\n{CLOSED}", f"{OPENED}\n{JSON}\n{CLOSED}"),
        (f"{JSON}\nObservation: sent\nSo.", JSON),
        ("Observation is hard.\n```\nx\n```\n", None),
    ],
)  # fmt: skip
def test_a_small_model_is_stopped_behind_its_first_call(whole: str, kept: str | None) -> None:
    ends = [FUNCTIONS.complete(whole[:at], first_block_only=True) for at in range(len(whole) + 1)]
    end = next((end for end in ends if end is not None), None)
    assert (None if end is None else whole[:end].rstrip()) == kept
    assert FUNCTIONS.complete(whole, first_block_only=False) is None


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = order_status('A')\nprint(x['state'])\n```",
        "Let me look.\n```python\nimport tools\nx = tools.order_status('A')\nprint(x)\n```",
        'So:\n```python\nx = 1\norder_status(order_id="A-1")\n```',
        "```python\ntotal = 5\nfinal_answer(total)\n```",
        "Thought: I look it up.\nAction: order_status\nAction Input: A-1",
        "**Action 1:** order_status\n\n**Action Input:** A-1",
    ],
)
def test_who_tried_to_act_where_no_code_is_run_has_not_answered(text: str) -> None:
    reading = read(text)
    assert (reading.calls, reading.problem) == ((), HOW_WRITTEN)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(sorted(names))\n```",
        "The next action: call them.\nAction input is what they need.",
    ],
)
def test_code_that_calls_none_of_the_functions_is_an_answer(text: str) -> None:
    reading = read(text)
    assert (reading.calls, reading.problem, reading.thoughts) == ((), None, text)
