"""What an agent is given by mistake: one line that names the argument, what it got and what it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from codeact import Agent, RunLimits, ScriptedModel, UsageError, checks
from codeact.errors import ToolSourceError
from codeact.given import Inputs
from codeact.models import ReplayModel
from codeact.options import Options
from codeact.tools.context import RunContext
from codeact.tools.load import load
from codeact.types import Usage

agent: Callable[..., Agent[Any]] = Agent  # whatever a caller without a type checker gives


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (None, "is of type NoneType"),
        (5, "is of type int"),
        (lambda request: iter(()), "is of type function"),
        ("", "is empty"),
    ],
)
def test_what_is_no_model(given: Any, got: str) -> None:
    with pytest.raises(UsageError, match=rf"^model: {got}; give a name such as .*$"):
        agent(given)


@pytest.mark.parametrize("task", [None, 5, b"Count."])
def test_what_is_no_task(tmp_path: Path, task: Any) -> None:
    with pytest.raises(UsageError, match=rf"^task: is of type {type(task).__name__}; give a text"):
        agent(ScriptedModel([]), runs=tmp_path).run(task)


@pytest.mark.parametrize("data", [[1], (), "sales.csv", pd.DataFrame({"a": [1]})])
def test_what_is_no_data(tmp_path: Path, data: Any) -> None:
    made = agent(ScriptedModel([]), runs=tmp_path)
    for use in (lambda: made.run("Count.", data), lambda: made.session(data)):
        with pytest.raises(UsageError, match=rf"^data: is of type {type(data).__name__}; give .* by name"):
            use()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("none.csv", "none.csv: no such file or folder; check the path"),
        (
            "https://example.com/a.csv",
            "https:/example.com/a.csv: is an address, and data are files; download it",
        ),
        ("/dev/zero", "/dev/zero: is a device, not a file or folder; save it as a file"),
        (
            "/dev/null/a.csv",
            "/dev/null/a.csv: cannot be read: not a directory; check its name and permissions",
        ),
    ],
)
def test_what_is_no_file_of_data(tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        agent(ScriptedModel([]), runs=tmp_path).run("Count.", {"a.csv": Path(path)})
    assert str(raised.value).startswith(said)


def refund(number: str) -> None: ...


@pytest.mark.parametrize(
    ("name", "meant"),
    [("refnd", "did you mean refund?"), ("crm", "there are refund"), ("refund.x", "did you mean refund?")],
)
def test_what_is_turned_off_and_is_not_there(name: str, meant: str) -> None:
    with pytest.raises(UsageError) as raised:
        agent(ScriptedModel([]), tools=[refund], tools_off=["refund", name])
    assert str(raised.value) == f"tools_off has {name!r}, which is no tool and no namespace; {meant}"


def test_roles_as_one_text() -> None:
    with pytest.raises(UsageError, match=r"^roles: is of type str; give a set"):
        RunContext(roles="admin")  # type: ignore[arg-type]


def test_a_session_that_was_not_used_has_used_nothing(tmp_path: Path) -> None:
    assert agent(ScriptedModel([]), runs=tmp_path).session().usage == Usage()


WRONG: dict[str, list[tuple[Any, str]]] = {
    "limits": [(5, "is of type int"), ({"turns": 5}, "is of type dict")],
    "output_schema": [("{}", "is of type str"), ([], "is of type list")],
    "image": [(None, "is of type NoneType"), (" ", "is empty")],
    "sandbox_limits": [("2g", "is of type str"), (RunLimits(), "is of type RunLimits")],
    "cell_timeout": [
        ("60", "is of type str"),
        (0, "is 0"),
        (True, "is of type bool"),
        (float("nan"), "is nan"),
    ],
    "backend": [("podman", "'podman' is not known"), (None, "is of type NoneType")],
    "runtime": [(5, "is of type int")],
    "network": [
        (5, "is of type int"),
        (["a.example.com", 5], "has 5 in it, which is no text"),
        ("*", "'*' is too wide"),
    ],
    "packages": [("numpy", "is a text"), ([5], "has 5 in it, which is no text"), (5, "is of type int")],
    "pool": [("pool", "is of type str")],
    "actions": [(5, "is of type int"), (None, "is of type NoneType")],
    "parallel_calls": [(1, "is of type int")],
    "run_python": [("no", "is of type str")],
    "tools_off": [("shop", "is a text"), ([None], "has None in it, which is no text")],
    "approve": [
        ("sometimes", "'sometimes' is not known"),
        (5, "is of type int"),
        (None, "is of type NoneType"),
    ],
    "permit": [("yes", "is of type str"), (asyncio.sleep, "is a coroutine function")],
    "context": [("ada", "is of type str")],
    "on_death": [("again", "'again' is not known")],
    "started_with": [([], "is of type list")],
    "on_progress": [(None, "is of type NoneType")],
    "out": [("out", "is of type str")],
    "runs": [("runs", "is of type str"), (5, "is of type int")],
    "runs_size": [("much", "'much' is no size"), ([], "is of type list"), (True, "is of type bool")],
    "show": [("no", "is of type str")],
}


@pytest.mark.parametrize(
    ("name", "value", "got"), [(name, *each) for name, found in WRONG.items() for each in found]
)
def test_what_is_no_option(name: str, value: Any, got: str) -> None:
    with pytest.raises(UsageError) as raised:
        agent(ScriptedModel([]), **{name: value})
    assert str(raised.value).startswith(f"{name}: {got}")
    assert "; give " in str(raised.value)
    assert "\n" not in str(raised.value)


def test_each_option_is_checked() -> None:
    assert {*WRONG, "tools"} == {*checks.OPTIONS, "tools"} == set(Options.__annotations__)
    with pytest.raises(UsageError, match="is no tool"):
        agent(ScriptedModel([]), tools=5)
    with pytest.raises(TypeError, match="Agent got imge, which it does not know"):
        agent(ScriptedModel([]), imge="data")


@pytest.mark.parametrize("field", ["turns", "seconds", "tokens"])
@pytest.mark.parametrize("value", ["5", -1, True, float("nan")])
def test_what_is_no_limit(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"^limits: {field} is {value!r}; give a number, or None"):
        RunLimits(**{field: value})


def uses(made: Any, session: Any) -> dict[str, tuple[Callable[[], Any], str]]:
    """Ways to call with what is wrong, and what is said of it."""
    return {
        "observer alone": (lambda: made.run("Go.", observers=print), "observers: is of type builtin"),
        "no observers": (lambda: made.run("Go.", observers=None), "observers: is of type NoneType"),
        "texts observe": (lambda: session.run("Go.", observers=["a"]), "observers: has 'a' in it"),
        "context": (lambda: made.run("Go.", context="ada"), "context: is of type str"),
        "streamed": (lambda: made.stream("Go.", context={}), "context: is of type dict"),
        "of a session": (lambda: made.session(context=5), "context: is of type int"),
        "resumed": (lambda: made.resume(5), "run: is of type int"),
        "replayed": (lambda: made.replay(None), "run: is of type NoneType"),
        "changed": (lambda: made.resume("nope", changed_data="yes"), "changed_data: is of type str"),
        "another model": (lambda: session.use(5), "model: is of type int"),
        "variable": (lambda: session.get(5), "name: is of type int"),
        "files": (lambda: session.add(["a.csv"]), "files: is of type list"),
        "file": (lambda: session.save(5), "path: is of type int"),
    }


@pytest.mark.parametrize("way", uses(None, None))
def test_what_runs_and_sessions_are_called_with(tmp_path: Path, way: str) -> None:
    made = agent(ScriptedModel([]), actions="functions", runs=tmp_path)
    session = made.session()
    use, said = uses(made, session)[way]
    with pytest.raises(UsageError) as raised:
        use()
    session.close()
    assert str(raised.value).startswith(said)


LONG = "A text. " * 60  # 480 characters: no system has a file name of so many


def test_a_long_text_is_a_value_and_no_path() -> None:
    assert Inputs.of({"letter": LONG}).values == {"letter": LONG}


def test_an_id_that_is_too_long_to_be_one(tmp_path: Path) -> None:
    made = agent(ScriptedModel([]), runs=tmp_path)
    for use in (lambda: made.resume(LONG), lambda: made.replay(LONG), lambda: ReplayModel(LONG)):
        with pytest.raises(UsageError, match=r"^no run 'A text\. A"):
            use()


def test_a_file_of_tools_with_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ToolSourceError, match=r"is not there: --tools takes a Python file"):
        load(f"{tmp_path}/{'x' * 300}.py")


def test_runs_and_files_go_where_they_would_have_gone_when_the_agent_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "then").mkdir()
    monkeypatch.chdir(tmp_path / "then")
    made = agent(ScriptedModel([]), runs=Path("runs"), out=Path("out"))
    monkeypatch.chdir(tmp_path)
    assert (made._setup.runs, made._setup.out) == (tmp_path / "then" / "runs", tmp_path / "then" / "out")
