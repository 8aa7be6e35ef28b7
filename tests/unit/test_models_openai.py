"""The OpenAI-compatible client against a real HTTP server: what is sent, what is made of answers, and of nonsense."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codeact.errors import (
    ModelAuthError,
    ModelBadReply,
    ModelError,
    ModelNotFound,
    ModelRefused,
    ModelUnreachable,
    UsageError,
)
from codeact.models import sse
from codeact.models.named import sees_by_name
from codeact.models.openai import OpenAIModel
from codeact.models.retry import Transient
from codeact.types import Delta, Message, Reply, Request, Usage
from sandbox.types import Image
from tests.gateway import Answer, Gateway, events, fails, page, plain, recorded, says

KEY = "of.no.form.that.is.known.0123"
ASK = Request([Message("system", "be brief"), Message("user", "hi")])
STREAMS = sorted((Path(__file__).parents[1] / "recordings" / "streams").glob("*.sse"))


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def says_usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def model(gateway: Gateway, **options: Any) -> OpenAIModel:
    return OpenAIModel("some-model", base_url=gateway.url, api_key=KEY, **options)


def ask(asked: OpenAIModel, request: Request = ASK) -> Reply:
    *deltas, reply = asked(request)
    assert isinstance(reply, Reply)
    assert "".join(d.text for d in deltas if isinstance(d, Delta) and d.kind == "text") == reply.text
    return reply


def test_what_is_sent(gateway: Gateway) -> None:
    gateway.add(says("ok"))
    ask(model(gateway), replace(ASK, stop=("\nObservation:",), max_tokens=50, temperature=0.2, seed=7))
    [asked] = gateway.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "some-model",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "stop": ["\nObservation:"],
        "max_tokens": 50,
        "temperature": 0.2,
        "seed": 7,
    }


def test_what_is_left_open_is_not_sent(gateway: Gateway) -> None:
    gateway.add(says("ok"))
    ask(model(gateway))
    assert set(gateway.requests[0].body) == {"model", "messages", "stream", "stream_options"}


@pytest.mark.parametrize("sees", [True, False])
def test_images_go_to_models_that_see(gateway: Gateway, sees: bool) -> None:
    gateway.add(says("ok"))
    ask(model(gateway, sees=sees), Request([Message("user", "look", (Image("image/png", "AAAA"),))]))
    seen = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    assert gateway.requests[0].body["messages"][0]["content"] == (seen if sees else "look")


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("gpt-4o-mini", True),
        ("openai/gpt-4.1", True),
        ("gpt-5-mini", True),
        ("o3", True),
        ("o3-mini", False),
        ("o4-mini", True),
        ("qwen2.5vl:7b", True),
        ("Qwen3-VL-8B-Instruct", True),
        ("llava:13b", True),
        ("pixtral-12b", True),
        ("gemini-2.5-flash", True),
        ("gemma3:4b", True),
        ("gemma-3-27b-it", True),
        ("gemma3:1b", False),
        ("gemma-3-270m-it", False),
        ("gemma3n:e4b", False),
        ("gpt-3.5-turbo", False),
        ("qwen2.5-coder:1.5b", False),
        ("llama3.1:8b", False),
        ("deepseek-chat", False),
    ],
)
def test_which_models_see(name: str, sees: bool) -> None:
    assert sees_by_name(name) is sees


def test_a_reply_streams_and_is_whole(gateway: Gateway) -> None:
    gateway.add(
        says("two  words\n", usage={**says_usage(5, 2), "prompt_tokens_details": {"cached_tokens": 4}})
    )
    items = list(model(gateway)(ASK))
    assert items == [
        Delta("two"),
        Delta("  words"),
        Delta("\n"),
        Reply("two  words\n", "stop", Usage(1, 5, 2, 4), "gateway"),
    ]


@pytest.mark.parametrize(
    ("sent", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
    ],
)
def test_how_a_reply_ended(gateway: Gateway, sent: str, finish: str) -> None:
    gateway.add(says("text", finish=sent))
    assert ask(model(gateway)).finish == finish


def test_reasoning_is_apart_from_the_text(gateway: Gateway) -> None:
    gateway.add(
        says("4", reasoning="2 plus"), events(chunk({"reasoning": "hm"}), chunk({"content": "5"}, "stop"))
    )
    assert list(model(gateway)(ASK))[:3] == [Delta("2", "reasoning"), Delta(" plus", "reasoning"), Delta("4")]
    *deltas, reply = model(gateway)(ASK)
    assert deltas == [Delta("hm", "reasoning"), Delta("5")]
    assert isinstance(reply, Reply)
    assert reply.text == "5"


def test_tool_calls_are_put_together_by_index(gateway: Gateway) -> None:
    first = {"index": 1, "id": "b", "type": "function", "function": {"name": "late", "arguments": "{}"}}
    gateway.add(
        events(
            chunk({"tool_calls": [first]}),
            chunk(
                {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"x"'}}]}
            ),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
            chunk({}, "tool_calls"),
        )
    )
    reply = ask(model(gateway))
    assert reply.finish == "tool_calls"
    assert reply.tool_calls == (
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "late", "arguments": "{}"}},
    )


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": None}, {"prompt_tokens": -1, "completion_tokens": 1}]
)
def test_usage_that_nobody_counted_is_estimated(gateway: Gateway, usage: dict[str, Any] | None) -> None:
    gateway.add(says("12345", usage=usage))
    # "be brief" and "hi" are 10 characters: 3 tokens of 4, rounded up; "12345" is 2
    assert ask(model(gateway)).usage == Usage(1, 3, 2, estimated=True)


@pytest.mark.parametrize(
    ("details", "counted"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 8}}, Usage(1, 10, 5, 8)),
        ({"prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2}, Usage(1, 10, 5, 8)),
        ({"completion_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 15}, Usage(1, 10, 5, 0, 3)),
        ({"completion_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 45}, Usage(1, 10, 35, 0, 30)),
        ({"completion_tokens_details": {"reasoning_tokens": 30}}, Usage(1, 10, 5, 0, 5)),
        ({"prompt_tokens_details": {"cached_tokens": 99}}, Usage(1, 10, 5, 10)),
        ({"prompt_tokens_details": None, "completion_tokens_details": "none"}, Usage(1, 10, 5)),
        ({"prompt_tokens_details": {"cached_tokens": "many"}, "completion_tokens_details": {"reasoning_tokens": -1}}, Usage(1, 10, 5)),
    ],
)  # fmt: skip
def test_tokens_from_a_cache_and_of_thinking_are_told(
    gateway: Gateway, details: dict[str, Any], counted: Usage
) -> None:
    gateway.add(says("12345", usage=says_usage(10, 5) | details))
    assert ask(model(gateway)).usage == counted


def test_what_the_endpoint_runs_is_told(gateway: Gateway) -> None:
    said = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    gateway.add(events(said | {"system_fingerprint": "fp_1"}, said | {"system_fingerprint": None}))
    assert ask(model(gateway)).fingerprint == "fp_1"


def test_an_endpoint_that_does_not_stream(gateway: Gateway) -> None:
    message = {"role": "assistant", "content": "all at once"}
    gateway.add(
        plain({"choices": [{"message": message, "finish_reason": "stop"}], "usage": says_usage(3, 4)})
    )
    assert ask(model(gateway)) == Reply("all at once", "stop", Usage(1, 3, 4), "some-model")


def test_empty_and_null_content_is_an_empty_reply(gateway: Gateway) -> None:
    gateway.add(
        events({"choices": []}, {"choices": None}, chunk({"content": None}), chunk({"content": ""}, "stop"))
    )
    assert ask(model(gateway)).text == ""


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_recorded_streams_give_the_text_in_them(gateway: Gateway, path: Path) -> None:
    lines = [json.loads(line[6:]) for line in path.read_text().splitlines() if line.startswith("data: {")]
    choices = [choice for line in lines for choice in line["choices"]]
    gateway.add(recorded(path))
    reply = ask(model(gateway))
    assert reply.text == "".join(choice["delta"].get("content") or "" for choice in choices) != ""
    assert reply.finish == choices[-1]["finish_reason"]
    counted = lines[-1]["usage"]
    assert reply.usage.prompt_tokens == counted["prompt_tokens"]
    assert reply.usage.completion_tokens == counted["completion_tokens"]
    assert reply.usage.cached_tokens == counted["prompt_tokens_details"]["cached_tokens"]


def test_there_are_recorded_streams() -> None:
    assert len(STREAMS) == 6


CUT = [
    pytest.param(says("half a", finish=None), id="ends-without-finish-reason"),
    pytest.param(says("half a", finish=None, usage=None, cut=True), id="connection-drops"),
    pytest.param(Answer(), id="nothing-at-all"),
    pytest.param(
        events({"error": {"message": "overloaded", "type": "server_error"}}), id="error-in-the-stream"
    ),
    pytest.param(
        events(chunk({"content": "a"}), {"error": {"message": "x", "code": 502}}), id="error-after-text"
    ),
    pytest.param(says("half a", finish="error"), id="error-as-finish-reason"),
]


@pytest.mark.parametrize("answer", CUT)
def test_a_cut_reply_is_never_a_reply(gateway: Gateway, answer: Answer) -> None:
    gateway.add(answer)
    items: list[Delta | Reply] = []
    with pytest.raises(Transient):
        items.extend(model(gateway)(ASK))
    assert not any(isinstance(item, Reply) for item in items)


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ("end", "stop"),
        ("because", "stop"),
        ("STOP", "stop"),
        ("model_length", "length"),
        ("MAX_TOKENS", "length"),
    ],
)
@pytest.mark.parametrize("content", ["all of it", None])
def test_words_of_their_own_for_the_end(
    gateway: Gateway, said: str, finish: str, content: str | None
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    gateway.add(says(content, finish=said, tool_calls=() if content else [call]))
    reply = ask(model(gateway))
    assert (reply.finish, reply.text, len(reply.tool_calls)) == (finish, content or "", 0 if content else 1)


NONSENSE = [
    pytest.param(page(), id="web-page"),
    pytest.param(
        Answer([b"<html>hello</html>"], headers={"Content-Type": "text/plain"}), id="web-page-as-text"
    ),
    pytest.param(plain({"hello": "world"}), id="json-without-choices"),
    pytest.param(plain({"choices": []}), id="no-choice"),
    pytest.param(plain(["choices"]), id="json-list"),
    pytest.param(Answer([b"{'no': json"], headers={"Content-Type": "application/json"}), id="not-json"),
    pytest.param(Answer([b"data: {oops\n\n"]), id="event-not-json"),
    pytest.param(Answer([b"data: \xff\xfe\n\n"]), id="event-not-utf8"),
    pytest.param(Answer([b"data: " + b"[" * 200_000 + b"\n\n"]), id="event-nested-deep"),
    pytest.param(events("text"), id="event-a-string"),
    pytest.param(events([1, 2]), id="event-a-list"),
    pytest.param(events({"foo": 1}), id="event-without-choices"),
    pytest.param(events({"choices": {"delta": 1}}), id="choices-an-object"),
    pytest.param(events({"choices": ["x"]}), id="choice-a-string"),
    pytest.param(events({"choices": [{"delta": "x"}]}), id="delta-a-string"),
    pytest.param(events({"choices": [{"delta": {"content": 5}}]}), id="content-a-number"),
    pytest.param(events({"choices": [{"delta": {"tool_calls": [{"index": "one"}]}}]}), id="tool-call-index"),
    pytest.param(
        events({"choices": [{"delta": {}, "finish_reason": "because"}]}), id="unknown-finish-reason"
    ),
]


@pytest.mark.parametrize("answer", NONSENSE)
def test_nonsense_is_named_as_such(gateway: Gateway, answer: Answer) -> None:
    gateway.add(answer)
    with pytest.raises(
        ModelBadReply, match=r"^127\.0\.0\.1:\d+ does not answer with a chat completion: .*--base-url"
    ):
        list(model(gateway)(ASK))


ERRORS = [
    pytest.param(
        fails(401, f"Incorrect API key provided: {KEY}"), ModelAuthError, "check OPENAI_API_KEY", id="401"
    ),
    pytest.param(fails(403, "not for you"), ModelAuthError, "check OPENAI_API_KEY", id="403"),
    pytest.param(fails(404, "no such model"), ModelNotFound, "no model 'some-model'", id="404"),
    pytest.param(page(404), ModelNotFound, "--base-url", id="404-page"),
    pytest.param(
        fails(400, f"bad {KEY}, sk-other-0123 and Bearer abc.def"),
        ModelRefused,
        "bad [secret], [secret] and [secret]",
        id="400",
    ),
    pytest.param(fails(400, "x" * 5000), ModelRefused, "xxx…", id="400-long"),
    pytest.param(plain({"detail": "stop it"}, status=422), ModelRefused, "stop it", id="422-detail"),
    pytest.param(plain({"error": "just text"}, status=400), ModelRefused, "just text", id="400-text"),
    pytest.param(
        fails(400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded"),
        ModelRefused,
        "longer than the context",
        id="context-openai",
    ),
    pytest.param(
        fails(
            400, "request (20030 tokens) exceeds the available context size", type="exceed_context_size_error"
        ),
        ModelRefused,
        "longer than the context",
        id="context-llama.cpp",
    ),
    pytest.param(
        fails(429, "buy more", code="insufficient_quota"), ModelRefused, "quota is used up", id="quota"
    ),
    pytest.param(fails(429, "slow down"), Transient, "429 (Too Many Requests): slow down", id="429"),
    pytest.param(fails(500, "oh"), Transient, "500", id="500"),
    pytest.param(page(502), Transient, "502 (Bad Gateway)", id="502-page"),
    pytest.param(fails(529, "overloaded"), Transient, "529", id="529"),
    pytest.param(fails(408), Transient, "408", id="408"),
    pytest.param(fails(409), Transient, "409", id="409"),
    pytest.param(
        fails(429, headers={"Retry-After": "3600"}),
        ModelUnreachable,
        "a wait of 3600 s: try again later",
        id="long-wait",
    ),
]


@pytest.mark.parametrize(("answer", "kind", "words"), ERRORS)
def test_errors_name_the_host_the_reason_and_the_mend(
    gateway: Gateway, answer: Answer, kind: type[ModelError], words: str
) -> None:
    gateway.add(answer)
    with pytest.raises(ModelError) as caught:
        list(model(gateway)(ASK))
    message = str(caught.value)
    assert type(caught.value) is kind
    assert words in message
    assert "127.0.0.1" in message
    assert KEY not in message
    assert "\n" not in message
    assert len(message) < 500
    assert len(gateway.requests) == 1


def test_a_refused_connection_names_the_host() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with pytest.raises(Transient, match=rf"no connection to 127\.0\.0\.1:{port}: .*refused"):
        list(OpenAIModel("m", base_url=f"http://user:password@127.0.0.1:{port}/v1")(ASK))


def test_an_endpoint_that_never_answers(gateway: Gateway) -> None:
    gateway.add(Answer(stall="before"))
    with pytest.raises(Transient, match="did not answer in time"):
        list(model(gateway, read_timeout=0.1)(ASK))


def test_a_stream_that_falls_silent(gateway: Gateway) -> None:
    gateway.add(says("half", finish=None, usage=None, stall="after"))
    with pytest.raises(Transient, match="did not answer in time"):
        list(model(gateway, read_timeout=0.1)(ASK))


def test_closing_early_closes_the_connection(gateway: Gateway) -> None:
    gateway.add(says("first word", stall="after"))
    items = model(gateway)(ASK)
    assert next(items) == Delta("first")
    items.close()  # type: ignore[attr-defined]
    assert gateway.client_left.wait(10)


def test_a_reply_that_is_a_call_can_be_ended_early_too(gateway: Gateway) -> None:
    """What gives no text gives its reader a moment to leave all the same."""
    begun = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
    gateway.add(events(chunk({"tool_calls": [begun]}), stall="after"))
    items = model(gateway)(ASK)
    assert next(items) == Delta("")
    items.close()  # type: ignore[attr-defined]
    assert gateway.client_left.wait(10)


@pytest.mark.parametrize(
    ("refused", "gone", "kept"),
    [
        (
            {"stream_options"},
            {"stream_options"},
            {"max_tokens": 9, "temperature": 0.5, "seed": 1, "stop": ["x"]},
        ),
        (
            {"max_tokens", "temperature", "stop"},
            {"max_tokens", "temperature", "stop"},
            {"max_completion_tokens": 9, "seed": 1},
        ),
        (
            {"max_tokens", "max_completion_tokens"},
            {"max_tokens", "max_completion_tokens"},
            {"temperature": 0.5},
        ),
    ],
)
def test_unsupported_parameters_are_dropped_once(
    refused: set[str], gone: set[str], kept: dict[str, Any]
) -> None:
    request = replace(ASK, max_tokens=9, temperature=0.5, seed=1, stop=("x",))
    with Gateway(says("a"), says("b"), refuses=refused) as gateway:
        asked = model(gateway)
        assert ask(asked, request).text == "a"
        assert len(gateway.requests) == 1 + len(refused)
        assert ask(asked, request).text == "b"
        assert len(gateway.requests) == 2 + len(refused)
    sent = gateway.requests[-1].body
    assert not gone & set(sent)
    assert kept.items() <= sent.items()


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (fails(400, "Unrecognized request argument supplied: seed"), "seed"),
        (
            plain(
                {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]},
                status=422,
            ),
            "stream_options",
        ),
        (fails(400, "Unsupported value", param="temperature", code="unsupported_value"), "temperature"),
    ],
)
def test_a_parameter_may_be_named_in_other_words(gateway: Gateway, answer: Answer, name: str) -> None:
    gateway.add(answer, says("ok"))
    assert ask(model(gateway), replace(ASK, seed=1, temperature=1)).text == "ok"
    assert set(gateway.requests[0].body) - set(gateway.requests[1].body) == {name}


def test_a_bad_value_of_a_supported_parameter_is_not_dropped(gateway: Gateway) -> None:
    gateway.add(fails(400, "max_tokens is too large: 10", param="max_tokens"), says("ok"))
    with pytest.raises(ModelRefused, match="too large"):
        list(model(gateway)(replace(ASK, max_tokens=10)))


@pytest.mark.parametrize("address", ["localhost:8000/v1", "ftp://x/v1", "http://", "v1"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UsageError, match="write for example"):
        OpenAIModel("m", base_url=address)


def test_openai_itself_is_not_asked_without_a_key() -> None:
    with pytest.raises(ModelAuthError, match=r"api\.openai\.com: set OPENAI_API_KEY"):
        list(OpenAIModel("gpt-5-mini")(ASK))


@pytest.mark.parametrize("key", ["two words", "sk-ключ", "sk-a\nb"])
def test_a_key_that_is_none_is_not_sent(gateway: Gateway, key: str) -> None:
    with pytest.raises(ModelAuthError, match="check OPENAI_API_KEY") as caught:
        list(OpenAIModel("m", base_url=gateway.url, api_key=key)(ASK))
    assert key not in str(caught.value)
    assert gateway.requests == []


def test_space_around_a_key_is_not_part_of_it(gateway: Gateway) -> None:
    gateway.add(says("ok"))
    list(OpenAIModel("m", base_url=gateway.url, api_key=f" {KEY}\n")(ASK))
    assert gateway.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_proxy_of_the_environment(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", gateway.url.removesuffix("/v1"))
    gateway.add(says("through the proxy"))
    assert ask(OpenAIModel("m", base_url="http://model.invalid/v1")).text == "through the proxy"
    with pytest.raises(Transient, match=r"no connection to model\.invalid"):
        list(OpenAIModel("m", base_url="http://model.invalid/v1", proxies=False)(ASK))


CHUNK = b'{"choices": [{"delta": {"content": "hi"}}]}'
LAST = b'{"choices": [{"delta": {}, "finish_reason": "stop"}]}'
WHOLE = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
PARTS = b'{"choices": [{"delta": {"content": [{"type": "thinking"}, {"type": "text", "text": "hi"}]}}]}'


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("text/event-stream", b"data:" + CHUNK + b"\n\ndata:" + LAST + b"\n\ndata:[DONE]\n\n"),
        ("text/event-stream", b": ping\n\ndata: " + CHUNK + b"\n\n:\n\ndata: " + LAST + b"\n\n"),
        ("text/event-stream", b"data: " + CHUNK + b"\r\n\r\ndata: " + LAST + b"\r\n\r\ndata: [DONE]\r\n\r\n"),
        ("text/event-stream", b"data: " + CHUNK + b"\r\rdata: " + LAST + b"\r\rdata: [DONE]\r\r"),
        ("text/event-stream", b"event: message\nid: 1\nretry: 9\ndata: " + CHUNK + b"\n\ndata: " + LAST),
        ("text/event-stream", b"data: " + CHUNK + b"\ndata: " + LAST + b"\ndata: [DONE]\n"),
        ("text/event-stream", b"data: " + CHUNK + b"\n\ndata: [DONE]\n\n"),
        ("text/event-stream", b"data: " + PARTS + b"\n\ndata: " + LAST + b"\n\n"),
        ("text/event-stream", CHUNK + b"\n" + LAST + b"\n"),
        ("text/event-stream", WHOLE),
        ("text/plain", WHOLE),
        ("", WHOLE.replace(b", ", b",\n").replace(b"}]}", b"}]\n}")),
        ("application/json", b"data: " + CHUNK + b"\n\ndata: " + LAST + b"\n\n"),
        ("text/html", b"data: " + CHUNK + b"\n\ndata: " + LAST + b"\n\n"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_streams_as_endpoints_write_them(gateway: Gateway, kind: str, sent: bytes, size: int) -> None:
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    gateway.add(Answer(pieces, headers={"Content-Type": kind}))
    reply = ask(model(gateway))
    assert (reply.text, reply.finish) == ("hi", "stop")


@pytest.mark.parametrize(
    ("said", "finish"), [("STOP", "stop"), ("eos_token", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "content_filter")]
)  # fmt: skip
def test_reasons_to_end_under_other_names(gateway: Gateway, said: str, finish: str) -> None:
    gateway.add(events({"choices": [{"delta": {"content": "hi"}, "finish_reason": said}]}))
    assert ask(model(gateway)).finish == finish


def test_only_the_first_choice_counts(gateway: Gateway) -> None:
    one, other = {"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}
    gateway.add(events({"choices": [one, other]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    assert ask(model(gateway)).text == "a"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b'event: error\ndata: {"message": "boom"}\n\n', "boom"),
        (b'data: {"error": "out of memory"}\n\n', "out of memory"),
    ],
)
def test_errors_in_a_stream_are_told(gateway: Gateway, sent: bytes, words: str) -> None:
    gateway.add(Answer([b"data: " + CHUNK + b"\n\n", sent]))
    with pytest.raises(ModelRefused, match=words):
        list(model(gateway)(ASK))


def test_a_json_answer_that_breaks_off_is_asked_for_again(gateway: Gateway) -> None:
    gateway.add(Answer([WHOLE[:20]], headers={"Content-Type": "application/json"}, cut=True))
    with pytest.raises(Transient):
        list(model(gateway)(ASK))


def test_passwords_in_addresses_are_not_shown(gateway: Gateway) -> None:
    gateway.add(fails(400, "no route to http://bob:hunter2@inner/v1"))
    with pytest.raises(ModelRefused) as caught:
        list(model(gateway)(ASK))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("end", ["", "/", "/chat/completions", "/chat/completions/"])
def test_the_address_may_have_its_path_or_not(gateway: Gateway, end: str) -> None:
    gateway.add(says("ok"))
    list(OpenAIModel("some-model", base_url=gateway.url + end)(ASK))
    assert gateway.requests[0].path == "/v1/chat/completions"


def test_an_end_within_an_event_is_a_broken_connection_and_not_nonsense() -> None:
    whole = b'data: {"a": 1}\n\ndata: {"b": 2}\n\n'
    assert [value for _, value in sse.read([whole])] == [{"a": 1}, {"b": 2}]
    for end in range(16, len(whole) - 4):
        assert next(iter(sse.read([whole[:end]])))[1] == {"a": 1}
        assert [value for _, value in sse.read([whole[:end]])] == [{"a": 1}]
    with pytest.raises(ValueError, match="nonsense"):
        list(sse.read([b"nonsense"]))


def test_an_event_of_many_lines_has_an_end() -> None:
    with pytest.raises(ValueError, match="an event is larger than 8 MiB"):
        list(sse.read([b"data: {\n", *[b'data: "' + b"x" * 2**20 + b'":1,\n'] * 9]))
    assert len(list(sse.read([b'data: {"x": "' + b"x" * 2**20 + b'"}\n\n'] * 9))) == 9
