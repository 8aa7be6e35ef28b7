"""Models that play what was written: scripts, and the journals of earlier runs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from codeact.errors import ModelNotFound, UsageError
from codeact.models import ReplayModel, ScriptedModel
from codeact.types import Delta, Finish, Message, Model, Reply, Request, Usage

ASK = Request([Message("user", "12345678")])


def ask(model: Model) -> Reply:
    *_, reply = model(ASK)
    assert isinstance(reply, Reply)
    return reply


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text", ["", "one", "two words", "  lead and trail \n\n", "```python\nx = 1\n```\n", "\n"]
)
def test_pieces_make_the_text(text: str) -> None:
    *deltas, reply = ScriptedModel([text])(ASK)
    assert isinstance(reply, Reply)
    assert "".join(d.text for d in deltas if isinstance(d, Delta)) == reply.text == text


def test_replies_come_in_order_and_requests_are_kept() -> None:
    model = ScriptedModel(["a", Reply("b", "length", Usage(1, 5, 6))])
    assert ask(model) == Reply("a", "stop", Usage(1, 2, 1, estimated=True), "scripted")
    assert ask(model) == Reply("b", "length", Usage(1, 5, 6), "scripted")
    assert model.requests == [ASK, ASK]


def test_a_script_that_is_over_says_so() -> None:
    model = ScriptedModel(["a"])
    ask(model)
    with pytest.raises(ModelNotFound, match="scripted has no reply left: it holds 1"):
        ask(model)


def test_threads_share_a_script() -> None:
    model = ScriptedModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        said = [reply.text for reply in pool.map(lambda _: ask(model), range(200))]
    assert sorted(said, key=int) == [str(number) for number in range(200)]


def test_a_script_file(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    lines = [
        {"content": "first\u2028line"},
        {"content": None, "tool_calls": [call]},
        {"content": "cut", "finish_reason": "length", "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
    ]
    file = script(tmp_path / "s.jsonl", *(json.dumps(line, ensure_ascii=False) for line in lines), "")
    model = ScriptedModel.from_file(file)
    assert model.name == f"scripted:{file}"
    assert ask(model).text == "first\u2028line"
    called = ask(model)
    assert (called.finish, called.tool_calls) == ("tool_calls", (call,))
    assert ask(model) == Reply("cut", "length", Usage(1, 3, 4), model.name)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{oops", "not JSON"),
        ("[]", "not a reply"),
        ('"text"', "not a reply"),
        ("{}", "needs content or tool_calls"),
        ('{"content": 5}', "not a reply"),
        ('{"content": "a", "finish_reason": "maybe"}', "'maybe' is none of stop, length"),
        ('{"content": "a", "usage": {"prompt_tokens": "many"}}', "not a count"),
        ('{"content": "a", "usage": 3}', "not an object"),
        ('{"content": "a", "tool_calls": {"id": 1}}', "not a list"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    file = script(tmp_path / "s.jsonl", '{"content": "fine"}', "", line)
    with pytest.raises(UsageError) as caught:
        ScriptedModel.from_file(file)
    assert str(caught.value).startswith(f"{file}:3: ")
    assert words in str(caught.value)


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the script .*none\.jsonl: No such file"):
        ScriptedModel.from_file(tmp_path / "none.jsonl")


def replied(text: str, finish: Finish = "stop", **usage: Any) -> str:
    counts = {
        "calls": 1,
        "prompt_tokens": 9,
        "completion_tokens": 8,
        "cached_tokens": 7,
        "estimated": False,
        **usage,
    }
    event = {"v": 1, "run": "r", "seq": 3, "type": "replied", "turn": 1, "text": text, "finish": finish}
    return json.dumps({**event, "usage": counts, "model": "gpt-x", "reading": {}, "seconds": 1.0})


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEACT_HOME", str(tmp_path))
    folder = tmp_path / "runs" / "r-1"
    folder.mkdir(parents=True)
    return script(
        folder / "run.jsonl",
        '{"type": "run_started", "task": "t"}',
        replied("first"),
        '{"type": "observed", "text": "o"}',
        replied("second", "length", calls=2, estimated=True),
    )


@pytest.mark.parametrize("how", ["id", "folder", "file"])
def test_a_run_is_replayed(journal: Path, how: str) -> None:
    run = {"id": "r-1", "folder": str(journal.parent), "file": str(journal)}[how]
    model = ReplayModel(run)
    assert ask(model) == Reply("first", "stop", Usage(1, 9, 8, 7), "gpt-x")
    assert ask(model) == Reply("second", "length", Usage(2, 9, 8, 7, estimated=True), "gpt-x")
    with pytest.raises(ModelNotFound, match=r"replay:.* has no reply left"):
        ask(model)


@pytest.mark.parametrize(
    ("model", "small"), [("local:qwen2.5-coder-1.5b", True), ("gpt-5-mini", False), (None, False), (3, False)]
)
def test_a_replay_is_as_small_as_the_model_was(journal: Path, model: object, small: bool) -> None:
    began = json.dumps({"type": "run_started", "task": "t", "model": model})
    script(journal, began, *journal.read_text().splitlines()[1:])
    assert ReplayModel("r-1").small is small


def test_a_torn_last_line_is_passed_over(journal: Path) -> None:
    with journal.open("a") as file:
        file.write(replied("third")[:40])
    model = ReplayModel("r-1")
    assert [ask(model).text, ask(model).text] == ["first", "second"]
    with pytest.raises(ModelNotFound):
        ask(model)


@pytest.mark.parametrize(
    "line", ["{torn", "3", '{"type": "replied", "text": 5}', '{"type": "replied", "text": "a"}']
)
def test_damage_in_the_middle_is_named(journal: Path, line: str) -> None:
    lines = journal.read_text().splitlines()
    script(journal, *lines[:2], line, *lines[2:])
    with pytest.raises(UsageError, match=rf"{journal}:3: "):
        ReplayModel("r-1")


def test_runs_that_cannot_be_replayed(journal: Path) -> None:
    with pytest.raises(UsageError, match=r"no run 'nope': .*codeact runs"):
        ReplayModel("nope")
    script(journal, '{"type": "run_started"}')
    with pytest.raises(UsageError, match="holds no reply"):
        ReplayModel("r-1")


def test_a_script_may_have_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_bytes('\ufeff{"content": "a"}\r\n\r\n{"content": "b"}\r\n'.encode())
    assert [reply.text for reply in ScriptedModel.from_file(path)._replies] == ["a", "b"]


def test_calls_count_in_what_is_estimated() -> None:
    called = Reply("", "tool_calls", usage=Usage(calls=0), tool_calls=({"name": "f", "arguments": {}},))
    *_, reply = ScriptedModel([called])(Request([Message("user", "x")]))
    assert isinstance(reply, Reply)
    assert (reply.usage.completion_tokens > 5, reply.usage.estimated) == (True, True)
