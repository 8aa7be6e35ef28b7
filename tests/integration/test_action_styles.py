"""Ways of acting that run code: code as the argument of a function, and code beside functions; in real sandboxes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from codeact import Agent, ScriptedModel, events, journal, tool
from codeact.types import Reply, Result
from tests.command import codeact, environment
from tests.gateway import malformed

pytestmark = pytest.mark.docker

Asked = tuple[str, object]


def calls(*asked: Asked, text: str = "") -> Reply:
    made = [{"function": {"name": name, "arguments": given}} for name, given in asked]
    return Reply(text, "tool_calls", tool_calls=tuple(made))


def code(source: str) -> Asked:
    return "run_python", {"code": source}


ANSWER: Asked = ("final_answer", {"value": "done"})
DIE = "import os; os._exit(7)"


class Shop:
    def __init__(self) -> None:
        self.paid: list[str] = []

    def tools(self) -> list[Any]:
        @tool(effects="write")
        def pay(order_id: str) -> str:
            """Pays."""
            self.paid.append(order_id)
            return f"paid {order_id}"

        @tool(effects="read")
        def look(order_id: str) -> str:
            """Where it is."""
            if order_id == "lost":
                raise LookupError("there is no such order; see the invoice")
            return "sent"

        return [pay, look]


def play(
    tmp_path: Path, *replies: Reply | str, shop: Shop | None = None, **settings: Any
) -> tuple[Result, ScriptedModel]:
    from codeact.models import wire

    settings = {
        "actions": "functions",
        "image": "minimal",
        "runs": tmp_path / "runs",
        "approve": "never",
        **settings,
    }
    data, run = settings.pop("data", None), settings.pop("run", None)
    model = ScriptedModel(replies)
    agent = Agent(model, tools=(shop or Shop()).tools(), **settings)
    result = agent.resume(run) if run else agent.run("Do it.", data)
    for request in model.requests:
        assert malformed(wire.body("m", request, sees=False)) is None
    return result, model


def texts(result: Result, turn: int = 0) -> list[str]:
    observed = [event for event in result.events if isinstance(event, events.Observed)]
    return [each.text for each in observed[turn].results]


# -- code as the argument of a function --------------------------------------------------------------------------


def test_code_is_an_argument_and_calls_tools(tmp_path: Path) -> None:
    fenced = "```python\nfrom tools import look\nx = look('A')\n```"
    result, model = play(
        tmp_path,
        calls(("python", {"code": fenced}), text="I look."),
        calls(("python", "print(x)\nmissing")),
        calls(("functions.python", '{"code": "y = 1'), ("python", {"code": ""}), ("look", {"order_id": "A"})),
        "Now the answer.\n```python\nfinal_answer([x, 'y' in globals()])\n```",
        actions="python-tool",
    )
    assert (result.status, result.answer) == ("answered", ["sent", False])
    first, second, third = (texts(result, turn) for turn in range(3))
    assert first == [
        "Output:\n(the code printed nothing)\n\n"
        + "Nothing was printed. Print what you need to see, or call final_answer(value) in the code."
    ]
    assert "Output:\nsent\n" in second[0]
    assert "NameError" in second[0]
    assert "Variables that exist now: x (str of 4)." in second[0]
    assert [
        "are cut off" in third[0],
        "code is missing" in third[1],
        "There is no function 'look'" in third[2],
    ] == [True] * 3
    assert [each["function"]["name"] for each in model.requests[0].tools] == ["python"]


def test_a_run_in_which_code_is_an_argument_goes_on(tmp_path: Path) -> None:
    from codeact import RunLimits

    first, _ = play(
        tmp_path, calls(("python", {"code": "x = 40"})), actions="python-tool", limits=RunLimits(turns=1)
    )
    result, model = play(tmp_path, calls(("python", {"code": "final_answer(x + 2)"})), run=first.run)
    assert (result.status, result.answer) == ("answered", 42)
    assert [message.role for message in model.requests[0].messages[-2:]] == ["assistant", "tool"]


def test_errors_have_the_same_words_in_code_and_in_calls(tmp_path: Path) -> None:
    wrong: list[dict[str, object]] = [{"order_id": 5}, {"order_id": "lost"}]
    source = f"""
import tools
said = []
for given in {wrong!r}:
    try:
        tools.look(**given)
    except Exception as error:
        said.append([type(error).__name__, str(error)])
final_answer(said)
"""
    in_code, _ = play(tmp_path, calls(("python", {"code": source})), actions="python-tool")
    in_calls, _ = play(tmp_path, calls(*[("look", given) for given in wrong]), calls(ANSWER))
    errors = [json.loads(text.split("\n")[0])["error"] for text in texts(in_calls)]
    assert [[error["type"], error["message"]] for error in errors] == in_code.answer
    assert [error["type"] for error in errors] == ["ArgumentError", "LookupError"]


@pytest.mark.parametrize("actions", ["fenced", "python-tool"])
def test_code_that_is_written_again_and_again_ends_the_run(tmp_path: Path, actions: str) -> None:
    source = "print(5)"
    reply = f"```python\n{source}\n```" if actions == "fenced" else calls(("python", {"code": source}))
    result, model = play(tmp_path, *[reply] * 9, actions=actions)
    assert (result.status, result.usage.calls) == ("no_answer", 6)
    assert "the same 5 times more" in str(result.error)
    assert [request.temperature for request in model.requests] == [None, None, 0.8, 0.8, 0.8, 0.8]


# -- code beside functions ---------------------------------------------------------------------------------------


def test_code_beside_functions_reads_the_data_and_has_no_tools(tmp_path: Path) -> None:
    data = tmp_path / "a.txt"
    data.write_text("forty-two")
    result, model = play(
        tmp_path,
        calls(
            code("print(open('data/a.txt').read())"),
            ("look", {"order_id": "A"}),
            code("import tools"),
            code("print(1)"),
        ),
        calls(ANSWER),
        data={"a.txt": data},
    )
    assert (result.status, result.answer) == ("answered", "done")
    read, looked, imported, behind = texts(result)
    assert (read, looked) == ("Output:\nforty-two", "sent")
    assert "No module named 'tools'" in imported
    assert "not run, since the code before it failed" in behind
    names = [each["function"]["name"] for each in model.requests[0].tools]
    assert names == ["pay", "look", "run_python", "final_answer"]
    [observed, _] = [event for event in result.events if isinstance(event, events.Observed)]
    assert observed.cell is not None
    assert (observed.cell.status, [cell.status for cell in observed.earlier]) == ("error", ["ok"])


def test_a_kernel_that_dies_beside_functions_comes_back_and_no_call_is_made_again(tmp_path: Path) -> None:
    shop = Shop()
    result, _ = play(
        tmp_path,
        calls(code("x = 5"), ("pay", {"order_id": "A"})),
        calls(("pay", {"order_id": "B"}), code(DIE), ("pay", {"order_id": "C"})),
        calls(code("print(x)")),
        calls(ANSWER),
        shop=shop,
        run_python=True,
    )
    assert (result.status, shop.paid) == ("answered", ["A", "B", "C"])
    assert "the code of cell 1 was run again" in texts(result, 1)[2]
    assert texts(result, 2)[0].startswith("Output:\n5")


def test_a_turn_of_calls_and_code_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    replies = [
        calls(code("x = 5"), ("pay", {"order_id": "A"}), code("x += 1"), ("pay", {"order_id": "B"})),
        calls(("final_answer", {"value": 6})),
    ]
    shop = Shop()
    whole, _ = play(tmp_path, *replies, shop=shop, run_python=True)
    lines = (tmp_path / "runs" / whole.run / journal.FILE).read_text().splitlines(keepends=True)
    kinds = [json.loads(line)["type"] for line in lines]
    returned = [number for number, kind in enumerate(kinds) if kind == "tool_returned"]
    for cut in (returned[0] + 1, returned[1] + 1):
        folder = tmp_path / "runs" / f"cut-{cut}"
        folder.mkdir()
        (folder / journal.FILE).write_text("".join(lines[:cut]))
        begun = Counter(
            json.loads(line)["arguments"]["order_id"] for line in lines[:cut] if '"tool_called"' in line
        )
        since = Shop()
        result, _ = play(tmp_path, *replies[1:], shop=since, run=folder)
        assert (result.status, result.answer) == ("answered", 6)
        assert Counter(since.paid) + begun == Counter("AB")


# -- without a sandbox -------------------------------------------------------------------------------------------


def test_the_command_needs_no_engine_where_no_code_is_run(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from codeact import tool\n\n@tool(effects='read')\ndef look(order_id: str) -> str:\n    return 'sent'\n"
    )
    lines = [
        {
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"order_id": "A"}'},
                }
            ]
        },
        {
            "tool_calls": [
                {
                    "id": "b",
                    "type": "function",
                    "function": {"name": "final_answer", "arguments": '{"value": "sent"}'},
                }
            ]
        },
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    env = environment(tmp_path, DOCKER_HOST="unix:///nowhere.sock")
    flags = ["--tools", "shop.py", "--actions", "functions", "--model", "scripted:r.jsonl"]
    ended = codeact("solve", "Where is A?", *flags, folder=tmp_path, env=env)
    assert (ended.code, ended.out) == (0, "sent\n"), ended.err
    assert "look(order_id='A') → 'sent'" in ended.err
    run = codeact("runs", "--json", folder=tmp_path, env=env).out
    replayed = codeact("replay", json.loads(run)[0]["run"], folder=tmp_path, env=env)
    assert (replayed.code, replayed.out) == (0, "the same: 0 of 0 cells\n")
