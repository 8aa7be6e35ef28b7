"""Tools of the host, called by a scripted model's code in a real sandbox."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codeact import events, journal
from codeact.agent import Agent
from codeact.models import ScriptedModel
from codeact.tools.approval import CallRequest, Decision
from codeact.tools.context import RunContext, current_call
from codeact.tools.functions import tool
from codeact.tools.load import tools_from
from codeact.tools.tool import Tool
from codeact.types import Result
from tests.integration.test_agent import block, observations

pytestmark = pytest.mark.docker


def solve(
    tmp_path: Path,
    cells: Sequence[str],
    tools: Sequence[Callable[..., Any] | Tool],
    data: dict[str, Path] | None = None,
    **how: Any,
) -> Result:
    model = ScriptedModel([block(cell) for cell in cells])
    agent = Agent(model, image="minimal", runs=tmp_path / "runs", tools=tools, **how)
    return agent.run("Do it.", data=data)


def of(result: Result, kind: type[Any]) -> list[Any]:
    return [event for event in result.events if isinstance(event, kind)]


STATES = {"A-1": "sent", "A-2": "paid"}


@tool(effects="read", namespace="shop")
def order_status(order_id: str, *, details: bool = False) -> dict[str, Any]:
    """Where an order is."""
    return {"id": order_id, "state": STATES[order_id], "details": details}


@tool(effects="dangerous", namespace="shop")
def refund(order_id: str, amount: float) -> str:
    """Pays money back."""
    return f"{order_id}: {amount:g} paid back by {current_call().context.user}"


def test_code_loops_over_tools_and_composes_them(tmp_path: Path) -> None:
    result = solve(
        tmp_path,
        [
            "from tools.shop import order_status\nfrom tools import add\n"
            "states = {i: order_status(i)['state'] for i in ('A-1', 'A-2')}\n"
            "try: order_status('A-3')\nexcept KeyError as error: missing = str(error)\n"
            "try: add('x')\nexcept Exception as error: wrong = f'{type(error).__name__}: {error}'\n"
            "final_answer([states, missing, wrong, add(2, b=3)])"
        ],
        [order_status, tool(effects="read", name="add")(lambda a, b: a + b)],
    )
    states, missing, wrong, total = result.answer
    assert (states, missing, total) == (STATES, "A-3", 5)
    assert wrong == "ArgumentError: add() missing 1 required positional argument: 'b'; write add(a, b)"
    lines = list(journal.read(tmp_path / "runs" / result.run))
    calls = [line for line in lines if line["type"].startswith("tool_")]
    assert [line["type"] for line in calls] == ["tool_called", "tool_returned"] * 4
    assert calls[0]["arguments"] == {"order_id": "A-1"}
    assert calls[0]["cell"] == 1
    assert calls[5]["error"] == {"class": "KeyError", "message": "A-3"}
    assert "\n  Imported already, from tools.shop:\n  order_status(order_id: str" in lines[0]["system"]


def test_tools_need_no_import_and_names_of_the_code_go_first(tmp_path: Path) -> None:
    codes = [
        "state = order_status('A-1')['state']\ndef add(a, b): return 'mine'",
        "import os; os._exit(1)",
        "final_answer([state, add(1, 2), order_status('A-2')['state'], tools.shop.refund is refund])",
    ]
    plus = tool(effects="read", name="add")(lambda a, b: a + b)
    assert solve(tmp_path, codes, [order_status, refund, plus]).answer == [
        STATES["A-1"],
        "mine",
        STATES["A-2"],
        True,
    ]


def test_a_tool_that_cannot_be_imported_there_is_a_fault_of_code_that_calls_it(tmp_path: Path) -> None:
    @tool(where="sandbox")
    def newer(n: int) -> int:
        return n

    [made] = tools_from([newer])
    broken = dataclasses.replace(made, source="def newer(n=1 / 0):\n    return n")
    first, second, _ = observations(
        solve(tmp_path, ["print('begun')", "from tools import newer", "final_answer(1)"], [broken])
    )
    assert first.startswith("Output:\nbegun\n")
    assert "ZeroDivisionError" in second


def test_tools_whose_names_are_not_alone_are_named_with_their_import(tmp_path: Path) -> None:
    ours = tool(effects="read", name="order_status")(lambda order_id: "ours")
    first, _, last = observations(
        result := solve(
            tmp_path,
            [
                "state = order_status('A-1')",
                "nothing",
                "from tools import order_status\nfinal_answer(order_status('A-1'))",
            ],
            [order_status, ours],
        )
    )
    assert (
        "order_status is a tool: write from tools.shop import order_status; from tools import order_status"
        in first
    )
    assert "is a tool" not in last
    assert result.answer == "ours"


def test_what_the_last_call_gave_is_told_in_its_shape_when_code_fails(tmp_path: Path) -> None:
    @tool(effects="read")
    def orders(user: str) -> dict[str, Any]:
        return {
            "orders": [{"id": 1, "lines": [{"product": "P-1"}]}, {"id": 2, "lines": []}],
            "pages": 1,
            "by": {},
        }

    codes = [
        "one = orders('a')\norders('a')[0]",
        "[order['id'] for order in one]",
        "one['id']",
        "orders('b')['product']",
        "[o['none'] for o in one['orders']]",
        "final_answer(one['pages'])",
    ]
    first, keys, second, third, fourth, _ = observations(solve(tmp_path, codes, [orders]))
    shape = "dict with 'orders' (list of 2, the first a dict with 'id', 'lines' (list of 1)), 'pages', 'by'"
    assert f"one ({shape})" in first
    assert f"The last call, of orders, gave a {shape}." in first
    assert (
        "\norder is a key, for a loop over a dict goes through its keys: loop over one['orders'].\n" in keys
    )
    assert "last call" not in second
    assert f"one ({shape})" in second
    assert "\n'id' is here: one['orders'][0]['id'].\n" in second
    assert "\n'product' is here: orders(...)['orders'][0]['lines'][0]['product'].\n" in third
    assert "is here" not in fourth


def test_code_that_takes_for_given_what_is_not_there_is_told_what_there_is(tmp_path: Path) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("a\n1\n")
    codes = [
        "open('data/waits.csv')",
        "while True:\n    return 1",
        "def of(o: Any): ...",
        "add(a=1, b=2, b=3)",
        "add(a=1, b=2, b=3)",
        "def final_answer(value): return value\nfinal_answer(add(1, 2))",
    ]
    plus = tool(effects="read", name="add")(lambda a, b: a + b)
    with_file = solve(tmp_path, codes, [plus], {"sales.csv": file})
    missing, returned, typed, twice, again, _ = observations(with_file)
    assert "\nThe files in `data/` are: data/sales.csv.\n" in missing
    assert "\nCode of a block stands in no function, so nothing can be returned" in returned
    assert "\nAny is not there: write from typing import Any before it is used.\n" in typed
    value = "\nb takes one value in a call: leave it out, or call once for each value.\n"
    assert f"{value}The code failed at the line shown. " in twice
    assert f"{value}This is the same code as before, and it fails in the same way. " in again
    assert with_file.answer == 3  # the definition would have had nobody hear of it
    only_tools = observations(solve(tmp_path, codes, [plus]))[0]
    assert (
        "\nThere are no files in `data/`. What the task is about comes from these tools: add.\n" in only_tools
    )


def test_tools_that_there_are_not_are_answered_with_those_that_there_are(tmp_path: Path) -> None:
    codes = [
        "order_state('A-1')",
        "from tools.shop import zzz",
        "tools.order_state('A-1')",
        "x = order_state",
        "x = yyy",
        "final_answer(1)",
    ]
    called, imported, attribute, variable, other, _ = observations(
        solve(tmp_path, codes, [order_status, refund])
    )
    signature = "order_status(order_id: str, *, details: bool = False) -> dict[str, Any]"
    near = f"\nThere is no order_state. There are these tools: shop.{signature}.\n"
    assert [near in text for text in (called, attribute, variable)] == [True, True, True]
    assert "\nThere is no zzz. There are these tools: shop.order_status; shop.refund.\n" in imported
    assert "There are these tools" not in other
    many = [tool(effects="read", name=f"number_{n}")(lambda: 1) for n in range(41)]
    like, unlike, _ = observations(
        solve(tmp_path, ["order_state()", "zzz()", "final_answer(1)"], [order_status, *many])
    )
    assert near in like
    assert "\nThere is no zzz. Look for one: tools.search(" in unlike


def test_a_refusal_is_an_exception_with_the_reason(tmp_path: Path) -> None:
    def approve(request: CallRequest) -> Decision | str:
        if request.arguments["amount"] > 100:
            return "too much"
        return Decision(True, arguments={"amount": 5})

    code = (
        "import tools\nfrom tools.shop import refund\ndone = [refund('A-1', 20)]\n"
        "try: refund('A-2', 2000)\nexcept tools.CallRefused as refusal: done.append(str(refusal))\nfinal_answer(done)"
    )
    result = solve(tmp_path, [code], [refund], approve=approve, context=RunContext(user="Mia"))
    assert result.answer == ["A-1: 5 paid back by Mia", "shop.refund was refused: too much"]
    assert [(e.allowed, e.by, e.reason) for e in of(result, events.ApprovalGiven)] == [
        (True, "callback", ""),
        (False, "callback", "too much"),
    ]
    assert result.usage.tool_calls == 2


def test_nobody_asked_is_a_refusal_and_waiting_costs_the_cell_no_time(tmp_path: Path) -> None:
    code = "from tools.shop import refund\ntry: final_answer(refund('A-1', 2))\nexcept Exception as error: final_answer(str(error))"
    assert "--approve never" in solve(tmp_path, [code], [refund]).answer
    assert solve(tmp_path, [code], [refund], approve="never").answer == "A-1: 2 paid back by "

    def slowly(request: CallRequest) -> bool:
        request.cancelled.wait(2.5)
        return True

    slow = solve(tmp_path, [code], [refund], approve=slowly, cell_timeout=1.0)
    assert slow.answer == "A-1: 2 paid back by "
    assert of(slow, events.ToolReturned)[0].waited >= 2.5


def test_thirty_two_at_once_from_threads_and_items_that_stream(tmp_path: Path) -> None:
    together = threading.Barrier(32)

    def meet(n: int) -> int:
        together.wait(20)
        return n

    async def count(n: int) -> Any:
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    code = (
        "from tools import meet, count\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(32) as pool: met = sorted(pool.map(meet, range(32)))\n"
        "final_answer([met == list(range(32)), list(count(3)), next(count(9))])"
    )
    result = solve(tmp_path, [code], [meet, count], approve="never")
    assert result.answer == [True, [0, 1, 2], 0]


def test_an_interrupt_cancels_a_running_tool_and_the_kernel_lives(tmp_path: Path) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    code = (
        "kept = 1\nfrom tools import wait\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool: list(pool.map(lambda _: wait(), range(2)))"
    )
    model = ScriptedModel([block(code), block("final_answer(kept)")])
    agent = Agent(model, image="minimal", runs=tmp_path / "runs", tools=[wait], approve="never")

    def interrupt() -> None:
        assert begun.wait(30)
        agent.interrupt()

    threading.Thread(target=interrupt).start()
    result = agent.run("Do it.")
    assert result.answer == 1
    assert cancelled.wait(5)
    assert {event.error["class"] for event in of(result, events.ToolReturned)} == {"CallCancelled"}
    assert "interrupted" in observations(result)[0]


def test_calls_are_seen_while_their_cell_runs(tmp_path: Path) -> None:
    go_on = threading.Event()

    def hold() -> None:
        go_on.wait(20)

    model = ScriptedModel([block("from tools import hold\nhold()\nfinal_answer(1)")])
    agent = Agent(model, image="minimal", runs=tmp_path / "runs", tools=[hold], approve="never")
    seen = []
    for event in agent.stream("Do it."):
        seen.append(event.type)
        if event.type == "tool_called":
            go_on.set()
    assert seen.index("tool_called") < seen.index("tool_returned") < seen.index("observed")


def test_secrets_are_nowhere_in_the_runs_folder(tmp_path: Path) -> None:
    secret = "".join(chr(ord(letter) + 1) for letter in "gtmsdq1,`mc,lnqd")

    @tool(secret=["password"])
    def login(user: str, password: str) -> str:
        if user == "bad":
            raise PermissionError(f"{password} is wrong")
        return f"token for {password}"

    code = (
        "from tools import login\npassword = ''.join(chr(ord(c) + 1) for c in 'gtmsdq1,`mc,lnqd')\n"
        "length = len(login('ann', password))\n"
        "for user, word in (('bad', password), ('ann', [password])):\n"
        "    try: login(user, word)\n    except Exception as error: print(type(error).__name__, error)\n"
        "final_answer(length)"
    )
    result = solve(tmp_path, [code], [login], approve="never")
    assert result.answer == len(f"token for {secret}")
    assert "PermissionError (secret) is wrong" in observations(result)[0]
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert len(files) >= 1
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_resumed_run_has_the_calls_that_it_has_left(tmp_path: Path) -> None:
    @tool(effects="read", calls=2)
    def look(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n

    again = (
        "import tools\nfound = []\nfor n in (1, 2):\n"
        "    try: found.append(tools.look(n))\n    except tools.CallRefused as error: found.append(str(error))\n"
        "final_answer(found)"
    )
    first = "import tools\ntry: tools.look('x')\nexcept TypeError: pass\ntry: tools.look(-1)\nexcept ValueError: final_answer(0)"
    model = ScriptedModel([block(first), block(again)])
    agent = Agent(model, image="minimal", runs=tmp_path / "runs", tools=[look])
    run = agent.run("Look once.")
    assert run.answer == 0
    assert agent.resume(run.run, "Look twice.").answer == [
        1,
        "look may be called 2 times in one run, and has been",
    ]
