"""Runs that are carried on in another process: after kill -9 at any point, after a limit, with a further task."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from codeact import events, journal, tool
from codeact.agent import Agent
from codeact.errors import UsageError
from codeact.models import ScriptedModel
from codeact.run.resume import standing
from codeact.types import Result, RunLimits
from sandbox.engine import find_engine
from tests.killed import NAMES

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
POINTS = int(os.environ.get("KILL_POINTS", "12"))
"""How often the process is killed, all told; `make kill` sets more."""
LIVES = 4
"""How often one run is killed."""
SECONDS = 120


def block(code: str) -> str:
    return f"I do it.\n```python\n{code}\n```"


def agent(tmp_path: Path, cells: Sequence[str], **settings: Any) -> Agent:
    model = ScriptedModel([block(cell) for cell in cells])
    return Agent(model, **{"image": "minimal", "runs": tmp_path / "runs", **settings})


def resumed(result: Result) -> list[events.RunResumed]:
    return [event for event in result.events if isinstance(event, events.RunResumed)]


def restarts(result: Result) -> list[events.SandboxRestarted]:
    return [event for event in result.events if isinstance(event, events.SandboxRestarted)]


# -- killed ------------------------------------------------------------------------------------------------------


class Killed:
    """One run of `tests/killed.py`, in a folder of its own."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.runs, self.effects, self.chance = folder / "runs", folder / "effects", chance
        self.points: list[str] = []

    @property
    def run(self) -> Path | None:
        found = [path for path in self.runs.glob("*/run.jsonl") if path.stat().st_size]
        return found[0].parent if found else None

    def size(self) -> int:
        """Of all that the run has written."""
        run = self.run
        journal_size = (run / "run.jsonl").stat().st_size if run else 0
        return journal_size + (self.effects.stat().st_size * 20 if self.effects.exists() else 0)

    def start(self) -> subprocess.Popen[bytes]:
        run = [self.run.name] if self.run and standing_or_none(self.run) else []
        if not run and self.runs.exists():
            for left in self.runs.iterdir():  # killed before its first event
                left.rename(self.runs.parent / f"never-begun-{left.name}-{self.chance.random()}")
        command = [sys.executable, "-m", "tests.killed", str(self.runs), str(self.effects), *run]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)

    def live(self, whole: int) -> None:
        """One life: killed when it has written some more, or a moment after; at times while state is restored."""
        process = self.start()
        before = self.size()
        grown = self.chance.randint(1, max(2, (whole - before) // 3))
        moment = self.chance.uniform(0, 0.02)
        early = self.chance.uniform(0.5, 2.5) if self.chance.random() < 0.2 else SECONDS
        began = time.monotonic()
        while process.poll() is None and self.size() < before + grown and time.monotonic() - began < early:
            time.sleep(0.001)
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), said.decode()
        last = list(journal.read(self.run))[-1]["type"] if self.run else "nothing"
        self.points.append(f"{last} at {self.size()}")

    def end(self) -> events.RunEnded:
        """Carries the run on to its end."""
        process = self.start()
        _, said = process.communicate(timeout=SECONDS)
        assert self.run is not None
        last = journal.load(self.run)[-1]
        assert isinstance(last, events.RunEnded), said.decode()
        return last


def standing_or_none(run: Path) -> object:
    try:
        return standing(run)
    except UsageError:
        return None


@pytest.fixture
def no_containers(tmp_path: Path) -> Iterator[None]:
    """Removes what the killed processes left, by the names of their runs."""
    yield
    client = find_engine().client()
    for run in tmp_path.glob("**/run.jsonl"):
        for left in client.containers.list(all=True, filters={"label": f"codeact.run={run.parent.name}"}):
            left.remove(force=True)
    client.close()


def test_wherever_a_process_is_killed_nothing_is_lost_and_nothing_done_twice(
    tmp_path: Path, no_containers: None
) -> None:
    seed = int(os.environ.get("KILL_SEED", "1"))
    whole = 36_000
    done = 0
    while done < POINTS:
        chance = random.Random(f"{seed}.{done}")
        killed = Killed(tmp_path / f"{done}", chance)
        killed.runs.mkdir(parents=True)
        for _ in range(min(LIVES, POINTS - done)):
            if killed.run is None or (at := standing_or_none(killed.run)) is None or at.ended is None:  # type: ignore[attr-defined]
                killed.live(whole)
            done += 1
        assert killed.run is None or not journal.is_live(killed.run)
        ended = standing_or_none(killed.run) if killed.run else None
        last = ended.ended if ended is not None and ended.ended else killed.end()  # type: ignore[attr-defined]
        assert last.status == "answered", (killed.points, last)
        answer = last.answer
        paid = Counter(killed.effects.read_text().split())
        assert list(answer["got"]) == list(NAMES), killed.points
        for name, said in answer["got"].items():
            called = name if not name.startswith("same") else "same"
            most = 3 if called == "same" else 1
            assert said in (f"paid {called}", "unknown"), (killed.points, answer)
            assert paid[called] <= most, (killed.points, paid)
        receipts = Counter(said.removeprefix("paid ") for said in answer["got"].values() if said != "unknown")
        assert all(paid[name] >= count for name, count in receipts.items()), (killed.points, paid, answer)
        assert sum(paid.values()) <= len(NAMES)
        assert (answer["log"], answer["deep"]) == ("one two ", str(len(NAMES))), killed.points
        assert killed.run is not None
        assert (killed.run / "artifacts/deep/n.txt").read_text() == str(len(NAMES))
        print(f"{done}: {killed.points}; unknown: {list(answer['got'].values()).count('unknown')}")


# -- carried on --------------------------------------------------------------------------------------------------


def test_a_finished_run_goes_on_with_a_further_task(tmp_path: Path) -> None:
    first = agent(tmp_path, ["x = 40\nopen('kept.txt', 'w').write('k')", "final_answer(x)"]).run("First.")
    model = ScriptedModel([block("final_answer([x + 2, open('kept.txt').read()])")])
    second = Agent(model, image="minimal", runs=tmp_path / "runs").resume(first.run, "And two more?")
    assert (second.run, second.answer, second.usage.calls) == (first.run, [42, "k"], 3)
    last = model.requests[0].messages[-1]
    assert (last.role, last.content.endswith("\n\nTask: And two more?")) == ("user", True)
    third = agent(tmp_path, ["final_answer(x)"]).resume(tmp_path / "runs" / first.run, "Once more?")
    assert (third.answer, restarts(third)[0].restored) == (40, (1, 2, 3))
    lines = list(journal.read(tmp_path / "runs" / first.run))
    assert [line["seq"] for line in lines] == sorted({line["seq"] for line in lines})
    assert [line["task"] for line in lines if line["type"] == "run_resumed"] == [
        "And two more?",
        "Once more?",
    ]


def test_a_run_that_reached_a_limit_goes_on_with_as_much_again(tmp_path: Path) -> None:
    limits = RunLimits(turns=2)
    first = agent(tmp_path, ["x = 1", "x += 1"], limits=limits).run("Count.")
    assert first.status == "limit"
    second = agent(tmp_path, ["x += 1", "final_answer(x)"], limits=limits).resume(first.run)
    assert (second.status, second.answer) == ("answered", 3)


def test_what_is_not_as_it_was_is_said_to_the_model(tmp_path: Path) -> None:
    first = agent(
        tmp_path, ["import uuid\nname = uuid.uuid4().hex\nprint(name)"], limits=RunLimits(turns=1)
    ).run("Go.")
    model = ScriptedModel([block("final_answer(name)")])
    second = Agent(model, image="minimal", runs=tmp_path / "runs").resume(first.run)
    assert (
        f"cell 1 now shows '{second.answer}' where it first showed" in model.requests[0].messages[-1].content
    )
    assert resumed(second)[0].text.startswith("Not as before: cell 1 now shows")


def test_an_answer_in_words_can_be_followed_up(tmp_path: Path) -> None:
    words = Agent(ScriptedModel(["Paris."]), image="minimal", runs=tmp_path / "runs").run("Capital?")
    model = ScriptedModel(["Lyon."])
    again = Agent(model, image="minimal", runs=tmp_path / "runs").resume(words.run, "And the second city?")
    assert again.answer == "Lyon."
    assert [message.role for message in model.requests[0].messages][-2:] == ["assistant", "user"]


def test_figures_are_shown_again_to_a_model_that_sees(tmp_path: Path) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    first = agent(tmp_path, [code], image="data", limits=RunLimits(turns=1)).run("Draw.")
    model = ScriptedModel([block("final_answer(1)")], sees=True)
    second = Agent(model, runs=tmp_path / "runs").resume(first.run)
    assert [image.mime for m in model.requests[0].messages for image in m.images] == ["image/png"]
    assert [artifact.name for artifact in second.artifacts] == ["figure-1.png"]


def test_data_that_is_not_what_it_was_is_refused_and_can_be_allowed(tmp_path: Path) -> None:
    data = tmp_path / "a.txt"
    data.write_text("one")
    first = agent(tmp_path, ["text = open('data/a.txt').read()\nprint(text)"], limits=RunLimits(turns=1)).run(
        "Read.", {"a.txt": data}
    )
    data.write_text("two")
    on = agent(tmp_path, ["final_answer(text)"])
    with pytest.raises(
        UsageError, match=r"a\.txt: has changed since the run began; put it back, or give --changed-data"
    ):
        on.resume(first.run)
    data.unlink()
    with pytest.raises(UsageError, match=r"a\.txt: is not there any more; put it back$"):
        on.resume(first.run, changed_data=True)
    data.write_text("two")
    assert on.resume(first.run, changed_data=True).answer == "two"
    data.write_text("one")


def test_a_live_run_an_answered_one_and_an_unknown_one_are_refused(tmp_path: Path) -> None:
    on = agent(tmp_path, ["final_answer(1)"])
    run = ""
    for event in on.stream("Go."):
        run = event.run
        if isinstance(event, events.CodeStarted):
            with pytest.raises(UsageError, match="the run goes on in another process"):
                agent(tmp_path, []).resume(run)
    with pytest.raises(UsageError, match="has ended with its answer; give a task"):
        on.resume(run)
    with pytest.raises(UsageError, match="no run 'nope'"):
        on.resume("nope")
    (tmp_path / "runs" / run / journal.FILE).write_text("")
    with pytest.raises(UsageError, match="the run ended before it began"):
        on.resume(run)


def test_a_replay_says_whether_all_came_out_the_same(tmp_path: Path) -> None:
    made: list[int] = []

    @tool(effects="write")
    def pay(n: int) -> int:
        made.append(n)
        return len(made)

    cells = ["from tools import pay\nx = pay(5)\nprint(x)", "missing", "final_answer(x)"]
    same = agent(tmp_path, cells, tools=[pay], approve="never").run("Go.")
    again = agent(tmp_path, [], tools=[pay]).replay(same.run)
    assert (again.same, again.cells, again.total, made) == (True, 3, 3, [5])
    varying = agent(tmp_path, ["import uuid\nx = uuid.uuid4().hex", "final_answer(x)"]).run("Go.")
    again = agent(tmp_path, []).replay(varying.run)
    assert len(again.differences) == 1
    assert re.fullmatch(
        f"cell 2 now answers '[0-9a-f]{{32}}' where it first answered '{varying.answer}'",
        again.differences[0],
    )
    assert len(list(journal.read(tmp_path / "runs" / varying.run))) == len(
        [e for e in varying.events if not e.live_only]
    )
