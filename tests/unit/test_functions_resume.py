"""Runs without code that were cut off at any event, and go on: no call is made twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from codeact import Agent, ScriptedModel, events, journal, tool
from codeact.run.resume import standing
from codeact.types import Reply
from tests.unit.test_functions import ANSWER, calls

ORDERS = [f"A-{number}" for number in range(5)]
REPLIES = [
    calls(("look", {"order_id": "A-0"}), text="I look."),
    calls(*[("pay", {"order_id": order}) for order in ORDERS], ("look", {"order_id": "A-1"})),
    calls(("pay", {"order_id": "A-0"}), text="Once more."),
    calls(ANSWER),
]


def play(runs: Path, done: list[str], run: Path | None = None, **settings: Any) -> Any:
    @tool(effects="read")
    def look(order_id: str) -> str:
        """Where it is."""
        return "sent"

    @tool(effects="write")
    def pay(order_id: str) -> str:
        """Pays."""
        done.append(order_id)
        return f"paid {order_id}"

    had = sum(isinstance(event, events.Replied) for event in journal.load(run)) if run else 0
    model = ScriptedModel(REPLIES[had:])
    settings = {"actions": "functions", "approve": "never", **settings}
    agent = Agent(model, tools=[look, pay], runs=runs, **settings)
    result = agent.resume(run) if run else agent.run("Pay all.")
    return result, model


def test_wherever_a_run_is_cut_off_no_call_is_made_twice(tmp_path: Path) -> None:
    made: list[str] = []
    whole, _ = play(tmp_path, made)
    assert Counter(made) == Counter([*ORDERS, "A-0"])
    lines = (tmp_path / whole.run / journal.FILE).read_text().splitlines(keepends=True)
    unsure = 0
    for cut in range(1, len(lines)):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        (folder / journal.FILE).write_text("".join(lines[:cut]))
        before = [json.loads(line) for line in lines[:cut]]
        begun = Counter(
            e["arguments"]["order_id"] for e in before if e["type"] == "tool_called" and e["tool"] == "pay"
        )
        since: list[str] = []
        result, model = play(tmp_path, since, folder, actions="fenced")  # it goes on as it began
        assert result.status == "answered", (cut, result.error)
        assert result.answer == "done"
        assert not begun - Counter([*ORDERS, "A-0"])
        assert Counter(since) + begun == Counter([*ORDERS, "A-0"]), cut
        log = journal.load(folder)
        refused = [e for e in log if isinstance(e, events.ToolReturned) and e.error]
        unsure += len(refused)
        for event in refused:
            assert "whether it was carried out is not known" in (event.error or {})["message"]
        for request in model.requests:
            assert_answered(request.messages)
    assert unsure >= len(ORDERS)


def assert_answered(messages: Any) -> None:
    """Each call has its result right behind it, and no result is without its call."""
    open_: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.call_id == open_.pop(0)
        else:
            assert open_ == []
            open_ = [call.id for call in message.calls]
    assert open_ == []


def test_a_run_without_code_is_replayed_without_a_sandbox(tmp_path: Path) -> None:
    whole, _ = play(tmp_path, [])
    agent = Agent(ScriptedModel([]), runs=tmp_path, backend="docker", runtime="no-such-runtime")
    again = agent.replay(whole.run)
    assert (again.same, again.cells, again.total) == (True, 0, 0)


def test_its_replies_can_be_played_again(tmp_path: Path) -> None:
    made: list[str] = []
    whole, _ = play(tmp_path, made)
    from codeact.models import ReplayModel

    model = ReplayModel(str(tmp_path / whole.run))

    @tool
    def look(order_id: str) -> str:
        return "sent"

    @tool
    def pay(order_id: str) -> str:
        return "paid"

    again = Agent(
        model, actions="functions", tools=[look, pay], runs=tmp_path / "again", approve="never"
    ).run("Pay.")
    first, second = ([e.reading for e in r.events if isinstance(e, events.Replied)] for r in (whole, again))
    assert first == second


PROGRAM = """
import os, sys
from pathlib import Path
from codeact import Agent, Reply, ScriptedModel, tool

@tool(effects="write")
def pay(order_id: str) -> str:
    with open(sys.argv[2], "a") as file:
        file.write(order_id)
    if sys.argv[3:]:
        return "paid"
    os.kill(os.getpid(), 9)

def call(name, given):
    return Reply("", "tool_calls", tool_calls=[{"id": "a", "function": {"name": name, "arguments": given}}])

pay_it, end = call("pay", '{"order_id": "A"}'), call("final_answer", '{"value": "done"}')
runs = Path(sys.argv[1])
known = sys.argv[3:]
agent = Agent(ScriptedModel([end] if known else [pay_it, end]), actions="functions", tools=[pay], runs=runs, approve="never")
print((agent.resume(known[0]) if known else agent.run("Pay.")).answer)
"""


def test_a_call_during_which_the_process_is_killed_is_not_made_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(tmp_path / "effects")]
    assert subprocess.run(command, check=False).returncode == -9
    [run] = tmp_path.glob("*/run.jsonl")
    done = subprocess.run([*command, run.parent.name], capture_output=True, text=True, check=False)
    assert (done.stdout, (tmp_path / "effects").read_text()) == ("done\n", "A")
    [observed, _] = [event for event in journal.load(run) if isinstance(event, events.Observed)]
    assert "whether it was carried out is not known" in observed.results[0].text


def test_a_further_task_comes_behind_the_results_of_calls_that_were_pending(tmp_path: Path) -> None:
    whole, _ = play(tmp_path, [])
    lines = (tmp_path / whole.run / journal.FILE).read_text().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines) if '"type": "replied"' in line) + 1
    folder = tmp_path / "cut"
    folder.mkdir()
    (folder / journal.FILE).write_text("".join(lines[:cut]))
    assert standing(folder).pending is not None
    model = ScriptedModel([calls(ANSWER)])

    @tool(effects="read")
    def look(order_id: str) -> str:
        return "sent"

    Agent(model, tools=[look], runs=tmp_path).resume(folder, "Only look.")
    told = model.requests[0].messages
    assert_answered(told)
    assert [message.role for message in told[-3:]] == ["assistant", "tool", "user"]
    assert told[-1].content.endswith("Task: Only look.")


def test_a_scripted_reply_may_be_shorter_than_the_wire_has_it(tmp_path: Path) -> None:
    model = ScriptedModel([Reply("", tool_calls=({"name": "final_answer", "arguments": {"value": 1}},))])
    assert Agent(model, actions="functions", runs=tmp_path).run("One.").answer == 1


def test_the_way_of_acting_is_recorded(tmp_path: Path) -> None:
    whole, _ = play(tmp_path, [], parallel_calls=False)
    started = next(event for event in whole.events if isinstance(event, events.RunStarted))
    assert started.settings["actions"] == "functions"
    assert (started.settings["parallel_calls"], started.settings["run_python"]) == (False, False)
