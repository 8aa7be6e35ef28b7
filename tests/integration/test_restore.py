"""Kernels that die in a run: what comes back, what is named as missing, and that no call of a tool is made twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codeact import events, journal, tool
from codeact.agent import Agent
from codeact.errors import UsageError
from codeact.models import ScriptedModel
from codeact.types import Result
from sandbox import Limits
from sandbox.engine import find_engine

pytestmark = pytest.mark.docker

DIE = "import os; os._exit(7)"


def block(code: str) -> str:
    return f"I do it.\n```python\n{code}\n```"


def solve(tmp_path: Path, cells: Sequence[str], **settings: Any) -> Result:
    settings = {"image": "minimal", "runs": tmp_path / "runs", **settings}
    return Agent(ScriptedModel([block(cell) for cell in cells]), **settings).run("Do it.")


def restarts(result: Result) -> list[events.SandboxRestarted]:
    return [event for event in result.events if isinstance(event, events.SandboxRestarted)]


def observations(result: Result) -> list[str]:
    return [event.text for event in result.events if isinstance(event, events.Observed)]


@pytest.mark.parametrize(
    ("death", "reason", "limits"),
    [
        (DIE, "the kernel ended by itself, with exit code 7", Limits()),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV", Limits()),
        (
            "b = bytearray(2**30)\nfor i in range(0, 2**30, 4096): b[i] = 1",
            "the memory limit",
            Limits(memory="256m"),
        ),
    ],
)
def test_variables_files_and_failed_cells_come_back(
    tmp_path: Path, death: str, reason: str, limits: Limits
) -> None:
    result = solve(
        tmp_path,
        [
            "x = [1]\nimport os\nos.mkdir('made')\nopen('log', 'a').write('one')",
            "y = 5\nmissing",
            "x.append(y)\nopen('log', 'a').write('two')",
            death,
            "final_answer([x, y, open('log').read(), os.listdir('made')])",
        ],
        sandbox_limits=limits,
    )
    (restarted,) = restarts(result)
    assert reason in restarted.reason
    assert (restarted.restored, restarted.differences) == (
        (1, 2, 3),
        ("cell 4 was not run again: the kernel ended with it",),
    )
    assert "the code of cells 1-3 was run again" in observations(result)[3]
    assert result.answer == [[1, 5], 5, "onetwo", []]


def test_what_is_written_before_a_death_stays_as_it_is(tmp_path: Path) -> None:
    result = solve(
        tmp_path,
        [
            "open('same', 'w').write('s'); held = open('same'); open('more', 'w').write('1'); open('gone', 'w').close()",
            f"open('more', 'w').write('2'); import os; os.remove('gone'); os.symlink('same', 'link'); {DIE}",
            "final_answer([open('more').read(), sorted(os.listdir('.')) if 'os' in globals() else None, held.read()])",
            "import os; final_answer([open('more').read(), sorted(f for f in os.listdir('.') if f[0] != '.'), held.read()])",
        ],
    )
    assert result.answer in (["2", None, "s"], ["2", ["data", "link", "more", "out", "same"], ""])
    assert restarts(result)[0].restored == (1,)


def test_what_differs_and_what_is_missing_is_named(tmp_path: Path) -> None:
    result = solve(
        tmp_path,
        [
            "import uuid\nname = uuid.uuid4().hex\nprint('it is', name)",
            "partly = 1\nwhile True: pass",
            f"late = 1\n{DIE}",
            "final_answer(name)",
        ],
        cell_timeout=1.0,
    )
    (restarted,) = restarts(result)
    first, now = result.events, result.answer
    shown = next(e.text for e in first if isinstance(e, events.Observed)).split()[3]
    assert restarted.restored == (1,)
    assert restarted.differences == (
        f"cell 1 now shows 'it is {now}' where it first showed 'it is {shown}'",
        "cell 2 was not run again: it took too long, and what it had done until then is missing",
        "cell 3 was not run again: the kernel ended with it",
    )
    assert restarted.names == ("partly", "late", "os")
    assert "These variables are missing: partly, late, os." in observations(result)[2]


def test_an_answer_that_comes_out_differently_is_named_too(tmp_path: Path) -> None:
    """And the files that were handed over are those of the state that there is then."""
    hand_over = "open('out/a', 'w').write({!r}); open('out/{}', 'w').close()\n".format
    cells = [
        f"import uuid\nname = uuid.uuid4().hex\n{hand_over('one', 'b')}final_answer(name)",
        DIE,
        f"{hand_over('two', 'c')}final_answer(name)",
    ]
    model = ScriptedModel([block(cell) for cell in cells])
    with Agent(model, image="minimal", runs=tmp_path / "runs").session() as session:
        first = session.run("A name?").answer
        second = session.run("The same?")
        kept = tmp_path / "runs" / session.id / "artifacts"
        assert sorted(path.name for path in kept.iterdir()) == ["a", "b", "c"]
        undone = session.undo()
        assert {path.name: path.read_text() for path in kept.iterdir()} == {"a": "one", "b": ""}
    (restarted,) = restarts(second)
    assert restarted.differences[0] == (
        f"cell 1 now answers {second.answer!r} where it first answered {first!r}"
    )
    assert restarted.differences[0] in observations(second)[0]
    (line,) = undone.restored.differences
    assert re.fullmatch(f"cell 1 now answers '[0-9a-f]{{32}}' where it first answered {first!r}", line)


def test_a_sandbox_that_is_gone_comes_back_with_its_files(tmp_path: Path) -> None:
    result_of: list[str] = []

    def observer(event: events.Event) -> None:
        if isinstance(event, events.Observed) and event.turn == 1:
            client = find_engine().client()
            (container,) = client.containers.list(filters={"label": f"codeact.run={event.run}"})
            container.kill()
            client.close()
            result_of.append(event.run)

    cells = [
        "open('a.txt', 'w').write('kept')\nfor n in range(5000): print('line', n)",
        "final_answer([open('a.txt').read(), open('.outputs/1.txt').read().splitlines()[2500]])",
        "final_answer([open('a.txt').read(), open('.outputs/1.txt').read().splitlines()[2500]])",
    ]
    agent = Agent(ScriptedModel([block(c) for c in cells]), image="minimal", runs=tmp_path / "runs")
    result = agent.run("Do it.", observers=[observer])
    assert result_of
    assert restarts(result)[0].lost.startswith("everything")
    assert restarts(result)[0].restored == (1,)
    assert result.answer == ["kept", "line 2500"]


def test_the_full_texts_of_a_small_models_outputs_are_there_for_a_large_one(tmp_path: Path) -> None:
    cells = ["for n in range(700): print('line', n)", "print('end\\n' * 5000)", "final_answer('done')"]
    model = ScriptedModel([block(c) for c in cells])
    model.small = True
    first = Agent(model, image="minimal", runs=tmp_path / "runs").run("Do it.")
    assert "the full text is in /workspace/.outputs/1.txt" in observations(first)[0]
    assert "the full text is in /workspace/.outputs/2.txt" in observations(first)[1]
    code = "final_answer([open(f'.outputs/{n}.txt').read().splitlines()[600] for n in (1, 2)])"
    large = Agent(ScriptedModel([block(code)]), image="minimal", runs=tmp_path / "runs")
    assert large.resume(first.run, "What do the texts say?").answer == ["line 600", "end"]


def test_what_cannot_be_undone_is_said_and_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("given")
    cells = ["x = 1\nfinal_answer(x)", "x = 2\nfinal_answer(x)"]
    agent = Agent(ScriptedModel([block(c) for c in cells]), image="minimal", runs=tmp_path / "runs")
    with agent.session(data={"a": tmp_path / "a.txt"}) as session:
        session.run("One?")
        session.run("Two?")
        (tmp_path / "a.txt").rename(tmp_path / "b.txt")
        with pytest.raises(UsageError, match=r"a\.txt: is gone, and without it nothing can be undone"):
            session.undo()
        assert session.get("x") == 2
        (tmp_path / "b.txt").rename(tmp_path / "a.txt")
        session.undo()
        assert session.get("x") == 1


def test_a_kernel_that_dies_between_cells_is_noticed_before_the_next(tmp_path: Path) -> None:
    """Whether it is noticed before the cell is sent or by its being refused, the cell finds the state."""
    cells = [
        "import threading, os\nx = 5\nif not os.path.exists('/tmp/once'):\n    open('/tmp/once', 'w').close()\n    threading.Timer(0.05, os._exit, [3]).start()",
        "final_answer(x)",
    ]
    model = ScriptedModel([block(c) for c in cells])
    small = Agent(model, image="minimal", runs=tmp_path / "runs")

    def observer(event: events.Event) -> None:
        if isinstance(event, events.Observed) and event.turn == 1:
            wait_until_dead(event.run)

    result = small.run("Do it.", observers=[observer])
    assert restarts(result)[0].restored == (1,)
    assert "the code of cell 1 was run again" in observations(result)[1]
    assert result.answer == 5


def wait_until_dead(run: str) -> None:
    client = find_engine().client()
    (container,) = client.containers.list(filters={"label": f"codeact.run={run}"})
    while "sandbox_guest.kernel" in str(container.top(ps_args="-eo pid,args")):
        pass
    client.close()


def test_a_death_while_state_is_restored_ends_in_a_fresh_kernel(tmp_path: Path) -> None:
    result = solve(
        tmp_path,
        [
            "x = 1\nimport os\nif os.path.exists('/tmp/second'): os._exit(3)\nopen('/tmp/second', 'w').close()",
            DIE,
            "final_answer('x' in globals())",
        ],
    )
    (restarted,) = restarts(result)
    assert "could not be restored: the kernel ended again, in cell 1" in restarted.reason
    assert (restarted.restored, restarted.names) == ((), ("x", "os"))
    assert "All variables are gone" in observations(result)[1]
    assert result.answer is False


def test_a_second_death_restores_what_the_first_restoration_did(tmp_path: Path) -> None:
    result = solve(tmp_path, ["x = 1", DIE, "x += 1", DIE, "final_answer(x)"])
    assert [event.restored for event in restarts(result)] == [(1,), (1, 3)]
    assert result.answer == 2


@pytest.mark.parametrize("on_death", ["fresh", "stop"])
def test_restoring_can_be_left(tmp_path: Path, on_death: str) -> None:
    result = solve(tmp_path, ["x = 1", DIE, "final_answer('x' in globals())"], on_death=on_death)
    if on_death == "fresh":
        assert [event.restored for event in restarts(result)] == [()]
        assert result.answer is False
    else:
        assert result.status == "failed"
        assert (
            result.error
            == "the kernel ended by itself, with exit code 7; the run ends with its kernel (--on-death stop)"
        )


def test_calls_of_tools_are_answered_from_the_record(tmp_path: Path) -> None:
    made: list[str] = []

    @tool(effects="write")
    def pay(name: str) -> str:
        made.append(name)
        return f"receipt {len(made)}"

    @tool(effects="read")
    def fail(name: str) -> str:
        made.append(name)
        raise ValueError(f"no {name}")

    result = solve(
        tmp_path,
        [
            "from tools import pay, fail\none = pay('a'); two = pay('a')",
            "three = pay('b')\nfail('c')",
            "import uuid; pay(uuid.uuid4().hex)\nfour = 4",
            DIE,
            "final_answer([one, two, three, 'four' in globals()])",
        ],
        tools=[pay, fail],
        approve="never",
    )
    assert len(made) == 5
    assert result.answer == ["receipt 1", "receipt 2", "receipt 3", False]
    (restarted,) = restarts(result)
    assert "nothing new is executed" in restarted.differences[0]
    assert restarted.names == ("four", "os")
    lines = [line["type"] for line in journal.read(tmp_path / "runs" / result.run)]
    assert (lines.count("tool_called"), lines.count("tool_returned")) == (5, 5)
