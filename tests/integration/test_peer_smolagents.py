"""smolagents as an arm: what it is asked, what it may do, and how its attempts are told. Its own environment is needed for the
tests with the package itself; those with a stand-in for it need nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.models import Sampling
from benchmarks.peers import smolagents
from benchmarks.peers.smolagents import Endpoint, Smolagents
from benchmarks.performing import Made, Unusable
from benchmarks.plan import Job, Limits, Plan
from benchmarks.suites import suite
from benchmarks.suites.base import Task
from codeact.errors import UsageError
from codeact.home import home
from tests.gateway import Answer, Gateway, fails, plain

TASK = next(task for task in suite("toolworld", "dev") if task.world_name == "shop" and task.category == "A")
FILES = suite("small-tasks")[0]
INSTALLED = home() / "peers" / "smolagents-1.26.0" / ".made"
needs_package = pytest.mark.skipif(
    not INSTALLED.exists(), reason="no environment: run `python -m benchmarks.peers.smolagents`"
)
STAND_IN = """
import json, sys
asked = json.loads(sys.stdin.readline())
def call(tool, **arguments):
    print(json.dumps({"call": 1, "tool": tool, "arguments": arguments}), flush=True)
    return json.loads(sys.stdin.readline())
"""


def play(
    command: list[str], folder: Path, task: Task = TASK, url: str = "http://127.0.0.1:9/v1", **plan: Any
) -> Made:
    asked = Plan("toolworld", "dev", "m", ("smolagents",), **plan)
    perform = Smolagents(asked, Endpoint("m", url, "sk-of-the-endpoint", False), "m", None, command, folder)
    return perform(Job(task, "smolagents", 1, "key"))


def stand_in(folder: Path, script: str) -> list[str]:
    path = folder / "stand_in.py"
    path.write_text(STAND_IN + script)
    return [sys.executable, str(path)]


def test_it_is_asked_what_every_arm_is_asked(tmp_path: Path) -> None:
    script = 'print(json.dumps({"end": {"status": "answered", "answer": asked}}))'
    made = play(stand_in(tmp_path, script), tmp_path, limits=Limits(7, 60.0, 900), sampling=Sampling(0.5, 40))
    asked = made.attempt.answer
    assert asked["limits"] == {"turns": 7, "seconds": 60.0, "tokens": 900}
    assert asked["sampling"] == {"temperature": 0.5, "seed": 41}
    assert asked["budget"] == 8000
    assert TASK.question.strip() in asked["text"]
    assert json.dumps(dict(TASK.schema)) in asked["text"]
    names = [tool["function"]["name"] for tool in asked["tools"]]
    assert names == [tool.name for tool in TASK.start(0.0).tools()]
    assert "sk-of-the-endpoint" not in json.dumps(asked)


def test_its_calls_are_checked_and_made_here(tmp_path: Path) -> None:
    script = """
answers = [call("get_product", product_id="P-0"), call("get_product"), call("no_such_tool")]
print(json.dumps({"end": {"status": "answered", "answer": [each["error"]["type"] for each in answers]}}))
"""
    made = play(stand_in(tmp_path, script), tmp_path)
    assert made.attempt.answer == ["NotFound", "ArgumentError", "UnknownTool"]
    assert (made.attempt.tool_calls, made.attempt.errors) == (
        1,
        {"ToolError": 1, "schema": 1, "unknown tool": 1},
    )
    assert made.trace[-1]["calls"][0]["error"] == "NotFound"


def test_it_has_the_key_of_the_endpoint_and_no_other_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "a-secret-of-ours")
    script = 'import os\nprint(json.dumps({"end": {"status": "answered", "answer": dict(os.environ)}}))'
    found = play(stand_in(tmp_path, script), tmp_path).attempt.answer
    assert found["PEER_API_KEY"] == "sk-of-the-endpoint"
    assert "a-secret-of-ours" not in found.values()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("raise SystemExit('no such thing')", "no such thing"),
        ("print('not JSON', flush=True)", "without a result"),
        ("print(json.dumps({'call': 1}), flush=True)", "without a result"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "it was ended"),
    ],
)
def test_an_end_without_a_result_is_a_failure_of_the_infrastructure(
    tmp_path: Path, script: str, words: str
) -> None:
    made = play(stand_in(tmp_path, script), tmp_path).attempt
    assert (made.success, made.stop_reason) == (None, "infra_error")
    assert made.error is not None
    assert words in made.error
    assert [path.name for path in tmp_path.iterdir()] == ["stand_in.py"]


def test_what_it_has_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold the pipe open that the end of the process is told by."""
    monkeypatch.setattr(smolagents, "PATIENCE", 0.0)
    script = "import os, signal\nif os.fork():\n    os.kill(os.getpid(), signal.SIGKILL)\nsignal.pause()"
    made = play(stand_in(tmp_path, script), tmp_path, limits=Limits(seconds=1.0)).attempt
    assert (made.success, made.stop_reason) == (None, "infra_error")


@pytest.mark.parametrize(
    ("status", "stop"),
    [
        ("turns", "turn_limit"),
        ("tokens", "token_limit"),
        ("seconds", "time_limit"),
        ("refused", "refused"),
        ("failed", "infra_error"),
    ],
)
def test_how_it_ended(tmp_path: Path, status: str, stop: str) -> None:
    script = f'print(json.dumps({{"end": {{"status": "{status}", "answer": None}}}}))'
    assert play(stand_in(tmp_path, script), tmp_path).attempt.stop_reason == stop


def test_one_that_does_not_end_has_met_the_limit_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smolagents, "PATIENCE", 0.5)
    made = play(stand_in(tmp_path, "sys.stdin.read()"), tmp_path, limits=Limits(seconds=0.5)).attempt
    assert (made.success, made.stop_reason, made.wall_s) == (False, "time_limit", 1.0)
    assert made.error == "smolagents did not end within 1 seconds"


@needs_package
@pytest.mark.parametrize("answer", [Answer(stall="before"), None])
def test_the_limit_of_time_holds_within_a_request_and_within_code(
    tmp_path: Path, gateway: Gateway, answer: Answer | None
) -> None:
    gateway.add(
        reply("x = 1"),
        answer
        or reply(
            "import time\nwhile True:\n    try:\n        time.sleep(0.01)\n    except Exception:\n        pass"
        ),
    )
    made = play(package(), tmp_path, url=gateway.url, limits=Limits(seconds=4.0)).attempt
    assert (made.success, made.stop_reason, made.error) == (False, "time_limit", None)
    assert (made.llm_calls, made.prompt_tokens) == ((1, 100) if answer else (2, 200))
    assert made.wall_s >= 4.0


def test_a_key_that_is_refused_ends_the_run(tmp_path: Path) -> None:
    script = 'print(json.dumps({"end": {"status": "unusable", "error": "401"}}))'
    with pytest.raises(Unusable, match="401"):
        play(stand_in(tmp_path, script), tmp_path)


def test_scripted_models_have_no_endpoint() -> None:
    with pytest.raises(UsageError, match="scripted:oracle has none"):
        smolagents.endpoint("scripted:oracle", None, False, print)


def reply(text: str) -> Answer:
    return plain({
        "id": "x", "object": "chat.completion", "created": 1, "model": "served",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"Thought: so.\n<code>\n{text}\n</code>"}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    })  # fmt: skip


def package() -> list[str]:
    return smolagents.command(print)


@needs_package
def test_the_package_reads_files_and_answers(tmp_path: Path, gateway: Gateway) -> None:
    name = next(iter(FILES.data))
    gateway.add(
        reply(f"import pandas as pd\nprint(len(pd.read_csv('data/{name}')), open('data/{name}').readline())"),
        reply(f"final_answer({FILES.gold_answer!r})"),
    )
    made = play(package(), tmp_path, FILES, gateway.url).attempt
    assert (made.success, made.stop_reason, made.llm_calls, made.turns) == (True, "submitted", 2, 2), made
    assert (made.prompt_tokens, made.completion_tokens, made.served) == (200, 40, ("served",))
    head = FILES.data[name].read_text().splitlines()[0]
    assert head in json.dumps(gateway.requests[1].body["messages"][-1])


@needs_package
def test_the_package_calls_tools_and_sees_their_faults(tmp_path: Path, gateway: Gateway) -> None:
    gateway.add(
        reply("try:\n    get_product('P-0')\nexcept Exception as fault:\n    print('fault:', fault)"),
        reply("get_product(product_id='P-0')"),
        reply("final_answer(None)"),
    )
    made = play(package(), tmp_path, url=gateway.url)
    assert made.attempt.tool_calls == 2
    assert made.attempt.errors == {"ToolError": 2}
    assert "fault: there is no product 'P-0'" in json.dumps(gateway.requests[1].body["messages"][-1])
    assert made.attempt.stop_reason == "submitted"


@needs_package
@pytest.mark.parametrize(
    ("limits", "stop", "calls"),
    [(Limits(turns=2), "turn_limit", 3), (Limits(tokens=200), "token_limit", 2)],
)
def test_the_package_is_held_to_the_limits(
    tmp_path: Path, gateway: Gateway, limits: Limits, stop: str, calls: int
) -> None:
    gateway.add(*(reply(f"print({number})") for number in range(6)))
    made = play(package(), tmp_path, url=gateway.url, limits=limits).attempt
    # at the limit of turns it asks for an answer in words, once more
    assert (made.stop_reason, made.llm_calls, made.success) == (stop, calls, False)


@needs_package
def test_an_endpoint_that_fails_is_the_infrastructure_and_one_that_refuses_is_not(
    tmp_path: Path, gateway: Gateway
) -> None:
    gateway.add(fails(500, "down"))
    assert play(package(), tmp_path, url=gateway.url, max_retries=1).attempt.stop_reason == "infra_error"
    gateway.add(fails(400, "too long"))
    made = play(package(), tmp_path, url=gateway.url, max_retries=1).attempt
    assert (made.stop_reason, made.success) == ("refused", False)
    gateway.add(fails(401, "no such key"))
    with pytest.raises(Unusable):
        play(package(), tmp_path, url=gateway.url, max_retries=1)
