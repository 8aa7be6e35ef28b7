"""Functions over the wire: how calls come in streams of all kinds, and what goes back. Against a real HTTP server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codeact import Agent, tool
from codeact.actions.styles import style
from codeact.errors import ModelBadReply, ModelRefused
from codeact.models import retrying
from codeact.models.openai import OpenAIModel
from codeact.types import Message, Reply, Request, Retrying
from tests.gateway import Answer, Gateway, events, fails, from_script, malformed, plain, recorded, says

FUNCTION = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}
ASK = Request([Message("user", "Add.")], tools=[FUNCTION])
A, B = '{"x": 1, "y": "two words"}', '{"x": 2}'


def asked(name: str, arguments: object, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def chunk(*calls: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": finish}]}


def end(finish: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}


def rest(arguments: str, **more: Any) -> dict[str, Any]:
    return {"function": {"arguments": arguments}, **more}


BOTH = [("a", "add", A), ("b", "sub", B)]
WITHOUT_IDS = [("", "add", A), ("", "sub", B)]
message = {
    "role": "assistant",
    "content": None,
    "tool_calls": [asked("add", A, id="a"), asked("sub", B, id="b")],
}
STREAMS: dict[str, tuple[Answer, list[tuple[str, str, str]]]] = {
    "whole": (says(None, finish="tool_calls", tool_calls=[asked("add", A, id="a"), asked("sub", B, id="b")]), BOTH),
    "in pieces, in turn": (
        says(None, finish="tool_calls", tool_calls=[asked("add", A, id="a"), asked("sub", B, id="b")], split=3), BOTH),
    "finish stop": (says("I add.", finish="stop", tool_calls=[asked("add", A, id="a"), asked("sub", B, id="b")]), BOTH),
    "without index": (events(chunk(asked("add", A, id="a")), chunk(asked("sub", B, id="b")), end("tool_calls")), BOTH),
    "without index, in one delta": (events(chunk(asked("add", A, id="a"), asked("sub", B, id="b")), end("stop")), BOTH),
    "without index, in pieces": (
        events(chunk(asked("add", A[:5], id="a")), chunk(rest(A[5:])), chunk(asked("sub", B[:3], id="b")), chunk(rest(B[3:])), end("stop")),
        BOTH),
    "without index and ids": (events(chunk(asked("add", A)), chunk(asked("sub", B)), end("stop")), WITHOUT_IDS),
    "all of index 0": (
        events(chunk(asked("add", A, id="a", index=0)), chunk(asked("sub", B, id="b", index=0)), end("stop")), BOTH),
    "all of index 0, without ids": (
        events(chunk(asked("add", A, index=0)), chunk(asked("sub", B, index=0)), end("stop")), WITHOUT_IDS),
    "id and name with each piece": (
        events(
            chunk(asked("add", A[:5], id="a", index=0)), chunk(asked("add", A[5:], id="a", index=0)),
            chunk(asked("sub", B, id="b", index=1)), end("tool_calls")),
        BOTH),
    "a name in pieces": (
        events(chunk(asked("a", "", id="a", index=0)), chunk(asked("dd", A, index=0)), chunk(asked("sub", B, id="b", index=1)), end("stop")),
        BOTH),
    "arguments as objects": (
        events(chunk(asked("add", json.loads(A), id="a", index=0), asked("sub", json.loads(B), id="b", index=1)), end("stop")), BOTH),
    "null everywhere": (
        events(
            chunk({"index": 0, "id": "a", "type": None, "function": {"name": "add", "arguments": None}}),
            chunk({"index": 0, "id": None, "function": {"name": None, "arguments": A}}),
            chunk(asked("sub", B, id="b", index=1)), end("tool_calls")),
        BOTH),
    "not streamed": (plain({"choices": [{"message": message, "finish_reason": "tool_calls"}]}), BOTH),
    "one function_call": (
        events({"choices": [{"delta": {"function_call": {"name": "add", "arguments": A[:4]}}}]},
               {"choices": [{"delta": {"function_call": {"arguments": A[4:]}}}]}, end("function_call")),
        [("", "add", A)]),
}  # fmt: skip


def ask(model: Any, request: Request = ASK) -> Reply:
    *_, reply = model(request)
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize(("answer", "expected"), STREAMS.values(), ids=STREAMS)
def test_calls_come_whole_however_they_are_sent(
    gateway: Gateway, answer: Answer, expected: list[tuple[str, str, str]]
) -> None:
    gateway.add(answer)
    reply = ask(OpenAIModel("m", base_url=gateway.url))
    found = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in reply.tool_calls]
    assert found == expected
    assert all(set(call) == {"id", "type", "function"} for call in reply.tool_calls)


def test_functions_are_sent_as_they_are(gateway: Gateway) -> None:
    gateway.add(says("no"), says("no"))
    model = OpenAIModel("m", base_url=gateway.url)
    ask(model)
    ask(model, Request(ASK.messages, tools=[FUNCTION], one_call=True))
    first, second = (asked.body for asked in gateway.requests)
    assert (first["tools"], first.get("parallel_tool_calls"), second["parallel_tool_calls"]) == (
        [FUNCTION],
        None,
        False,
    )


def test_parallel_tool_calls_is_left_out_where_it_is_not_known(gateway: Gateway) -> None:
    gateway.refuses = ["parallel_tool_calls"]
    gateway.add(says("no"))
    ask(OpenAIModel("m", base_url=gateway.url), Request(ASK.messages, tools=[FUNCTION], one_call=True))
    assert "tools" in gateway.requests[-1].body


REFUSALS = {
    "OpenAI": fails(400, "Unsupported parameter: 'tools' is not supported with this model.", param="tools"),
    "Ollama": fails(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    "vLLM": fails(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    "llama.cpp": fails(500, "tools param requires --jinja flag"),
    "OpenRouter": fails(404, "No endpoints found that support tool use."),
    "FastAPI": Answer(
        [b'{"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted: tools"}]}'], 422,
        {"Content-Type": "application/json"}),
}  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_an_endpoint_that_takes_no_functions_is_told_of_them_in_words(
    gateway: Gateway, refusal: Answer, tmp_path: Path
) -> None:
    @tool(effects="read")
    def add(x: int, y: int) -> int:
        """The sum."""
        return x + y

    written = '<tool_call>\n{"name": "add", "arguments": {"x": 40, "y": 2}}\n</tool_call>'
    gateway.add(refusal, says(written), says('{"name": "final_answer", "arguments": {"value": 42}}'))
    agent = Agent(OpenAIModel("m", base_url=gateway.url), actions="functions", tools=[add], runs=tmp_path)
    result = agent.run("40 and 2?")
    assert (result.status, result.answer) == ("answered", 42)
    sent = [asked.body for asked in gateway.requests]
    assert ["tools" in body for body in sent] == [True, False, False]
    assert '"name": "add", "description": "The sum."' in sent[1]["messages"][0]["content"]
    assert [message["role"] for message in sent[2]["messages"]] == ["system", "user", "assistant", "user"]
    assert sent[2]["messages"][2]["content"] == written
    assert sent[2]["messages"][3]["content"].startswith("Result of add:\n42")


def test_other_refusals_are_errors(gateway: Gateway) -> None:
    gateway.add(fails(400, "Invalid schema for function 'add'", param="tools[0].function.parameters"))
    with pytest.raises(ModelRefused, match="Invalid schema"):
        ask(OpenAIModel("m", base_url=gateway.url))


def test_a_stream_that_breaks_off_within_a_call_is_asked_for_again(gateway: Gateway, tmp_path: Path) -> None:
    done: list[str] = []

    @tool(effects="write")
    def pay(order_id: str) -> str:
        """Pays."""
        done.append(order_id)
        return "paid"

    whole = [asked("pay", '{"order_id": "A"}', id="a")]
    gateway.add(
        says(None, finish=None, usage=None, tool_calls=whole, cut=True),
        fails(429, "slow down", {"Retry-After": "0"}),
        fails(500, "oops"),
        says("I pay.", finish="tool_calls", tool_calls=whole, split=2, usage=None, wait=0.05),
        says(None, finish="length", tool_calls=whole),
        says(None, finish="stop", tool_calls=[asked("final_answer", '{"value": "paid"}', id="a")]),
    )
    model = retrying(OpenAIModel("m", base_url=gateway.url), sleep=lambda seconds: None)
    result = Agent(model, actions="functions", tools=[pay], runs=tmp_path, approve="never").run("Pay.")
    assert (result.status, result.answer, done) == ("answered", "paid", ["A"])
    assert result.usage.estimated


def test_a_lone_surrogate_ends_no_run(gateway: Gateway, tmp_path: Path) -> None:
    """It can be written in JSON, and not be sent."""
    done: list[str] = []

    @tool(effects="write")
    def note(text: str) -> None:
        done.append(text)

    gateway.add(
        says(
            None, finish="tool_calls", tool_calls=[asked("note", r'{"text": "a\ud800b\ud83d\ude00"}', id="a")]
        ),
        says(None, finish="stop", tool_calls=[asked("final_answer", '{"value": "noted"}', id="b")]),
    )
    model = OpenAIModel("m", base_url=gateway.url)
    result = Agent(model, actions="functions", tools=[note], runs=tmp_path, approve="never").run(
        "Note \udfff."
    )
    assert (result.status, result.answer, done) == ("answered", "noted", ["a?b😀"])
    sent = gateway.requests[-1].body["messages"]
    assert json.loads(sent[-2]["tool_calls"][0]["function"]["arguments"]) == {"text": "a?b😀"}


@pytest.mark.parametrize("actions", ["fenced", "functions"])
def test_usage_counts_the_functions_that_are_sent_where_nobody_counts(gateway: Gateway, actions: str) -> None:
    gateway.add(says("1234", usage=None))
    request = ASK if actions == "functions" else Request(ASK.messages)
    usage = ask(OpenAIModel("m", base_url=gateway.url), request).usage
    characters = len("Add.") + (len(json.dumps([FUNCTION])) if actions == "functions" else 0)
    assert (usage.prompt_tokens, usage.completion_tokens) == (-(-characters // 4), 1)


def test_models_are_listed(gateway: Gateway) -> None:
    assert OpenAIModel("m", base_url=gateway.url).first_listed() is None
    gateway.models = ["first", "second"]
    assert OpenAIModel("m", base_url=gateway.url).first_listed() == "first"


# -- the gateway itself ------------------------------------------------------------------------------------------

USER = {"role": "user", "content": "u"}
CALLS = {"role": "assistant", "content": None, "tool_calls": [asked("add", "{}", id="a")]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "3"}
MALFORMED: dict[str, list[dict[str, Any]]] = {
    "a field too many": [{**USER, "images": []}],
    "no result": [USER, CALLS],
    "no result, and more": [CALLS, USER],
    "a result of no call": [USER, RESULT],
    "two results of one call": [CALLS, RESULT, RESULT],
    "null content": [{"role": "assistant", "content": None}],
    "arguments that are cut": [{**CALLS, "tool_calls": [asked("add", '{"a', id="a")]}, RESULT],
    "arguments as an object": [{**CALLS, "tool_calls": [asked("add", {}, id="a")]}, RESULT],
    "a name that is none": [{**CALLS, "tool_calls": [asked("a b", "{}", id="a")]}, RESULT],
    "a field of the provider's": [{**CALLS, "tool_calls": [asked("add", "{}", id="a", index=0)]}, RESULT],
}  # fmt: skip


@pytest.mark.parametrize("messages", MALFORMED.values(), ids=MALFORMED)
def test_the_gateway_refuses_what_a_strict_endpoint_does(messages: list[dict[str, Any]]) -> None:
    assert malformed({"messages": messages}) is not None
    assert malformed({"messages": [USER, CALLS, RESULT, USER]}) is None


FAULTS = [
    {"status": 429, "message": "slow down", "headers": {"Retry-After": "0"}},
    {"status": 503, "message": "overloaded"},
    {"content": "half of", "finish_reason": "stop", "cut": True, "usage": None},
    {"content": "Hello.", "wait": 0.05, "usage": None},
    {"page": True},
    {"raw": "{'no': json}", "type": "application/json"},
    {"raw": "data: {\"choices\": [{\"delta\": {\"content\": \"as text\"}, \"finish_reason\": \"stop\"}]}\n\n", "type": "text/plain"},
    {"sse": "recorded.sse"},
    {"tool_calls": [asked("add", A, id="a")]},
]  # fmt: skip


def test_a_script_of_answers_and_faults_is_played(tmp_path: Path) -> None:
    (tmp_path / "recorded.sse").write_bytes(b"".join(says("as recorded").pieces))
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in FAULTS))
    with Gateway(*from_script(script)) as gateway:
        model = retrying(OpenAIModel("m", base_url=gateway.url), sleep=lambda seconds: None)
        *items, reply = model(ASK)
        assert isinstance(reply, Reply)
        assert (reply.text, reply.usage.estimated, len(gateway.requests)) == ("Hello.", True, 4)
        waits = [item for item in items if isinstance(item, Retrying)]
        assert len(waits) == 3
        assert "slow down" in waits[0].reason
        assert "overloaded" in waits[1].reason
        for _ in range(2):
            with pytest.raises(ModelBadReply):
                ask(model)
        assert [ask(model).text for _ in range(2)] == ["as text", "as recorded"]
        assert [call["id"] for call in ask(model).tool_calls] == ["a"]


@pytest.mark.parametrize(("choice", "called"), [("auto", ["get_weather"]), ("required", [])])
def test_what_a_server_of_a_small_model_sent_when_it_was_given_functions(
    gateway: Gateway, choice: str, called: list[str]
) -> None:
    """Recorded from llama.cpp with Qwen2.5-Coder-1.5B: a call as text, the second time up to the limit of length."""
    folder = Path(__file__).parents[1] / "recordings" / "streams"
    gateway.add(recorded(folder / f"qwen2.5-coder-1.5b-instruct-tools-{choice}.sse"))
    reply = ask(OpenAIModel("m", base_url=gateway.url))
    reading = style("functions", [], run_python=True).read(reply, 1, ())
    assert '"name": "get_weather"' in reply.text
    assert (reply.tool_calls, [call.name for call in reading.calls]) == ((), called)
    assert (reading.problem is None) == bool(called)
