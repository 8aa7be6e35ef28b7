"""Values through generated modules, a real sandbox and the host's checks: there, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeact import tool, workspace
from codeact.tools import crossing, stubs
from codeact.tools.approval import Approval
from codeact.tools.load import tools_from
from codeact.tools.runner import Setup, ToolRunner
from sandbox import CellResult, Sandbox
from tests.unit.test_values import VALUES, same
from tests.unit.test_values_tables import FRAME

pytestmark = pytest.mark.docker


@dataclass
class Item:
    sku: str
    price: Decimal


class Order(pydantic.BaseModel):
    id: str
    items: list[Item]
    at: datetime


GIVEN: list[Any] = [None]
"""What `give` gives."""
TAKEN: list[Any] = []
FILES: list[Path] = []


def give() -> Any:
    """The value of the test."""
    return GIVEN[0]


def take(value: Any) -> None:
    """Takes a value."""
    TAKEN.append(value)


@tool(namespace="shop")
def order(order_id: str) -> Order:
    """An order."""
    at = datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    return Order(id=order_id, items=[Item("a", Decimal("1.10"))], at=at)


@tool(namespace="shop")
def total(order: Order) -> Decimal:
    """What an order costs."""
    assert isinstance(order, Order)
    return sum((item.price for item in order.items), Decimal())


@tool(namespace="shop")
async def lines(count: int) -> AsyncIterator[str]:
    """Lines, one by one."""
    for number in range(count):
        yield f"line {number}"


@tool(namespace="shop", raises=["OutOfStock"])
def reserve(sku: str) -> str:
    """Reserves."""
    if sku == "none":
        raise type("OutOfStock", (Exception,), {})("none is left")
    return sku.upper()


def describe_frame(frame: pd.DataFrame) -> list[str]:
    """The types of the columns."""
    assert isinstance(frame, pd.DataFrame)
    return [str(each) for each in frame.dtypes]


def size(file: Path) -> str:
    """What is in a file."""
    FILES.append(file)
    return f"{file.name}: {file.read_text()}"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    tools = tuple(tools_from([give, take, order, total, lines, reserve, describe_frame, size]))
    encoder = crossing.Encoder(lambda file, inside: made.put(file, inside))
    runner = ToolRunner(Setup(tools, Approval("never")), run="test", emit=lambda event: event, encode=encoder)
    runner.begin(1)
    functions = {crossing.FUNCTION: crossing.function(runner.call, lambda inside, to: made.get(inside, to))}
    with Sandbox(functions=functions, timeout=60) as made:
        workspace.prepare(made, [], stubs.modules(tools))
        yield made
    runner.close()


def fine(cell: CellResult) -> str:
    assert cell.status == "ok", cell
    return cell.stdout


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, max_size=5))
def test_what_the_host_gives_is_what_it_gets_back(box: Sandbox, given_values: list[Any]) -> None:
    GIVEN[0] = given_values
    TAKEN.clear()
    fine(box.run("from tools import give, take\ntake(give())"))
    assert same(TAKEN[0], given_values)


@pytest.mark.parametrize(
    ("value", "check"),
    [
        (FRAME, lambda found: pd.testing.assert_frame_equal(found, FRAME, check_freq=False)),
        (FRAME["kind"], lambda found: pd.testing.assert_series_equal(found, FRAME["kind"])),
        (np.arange(12.0).reshape(3, 4).T, lambda found: np.testing.assert_array_equal(found, np.arange(12.0).reshape(3, 4).T)),
        (pl.DataFrame({"a": [1, None]}), lambda found: found.equals(pl.DataFrame({"a": [1, None]}))),
        ({"t": [pl.DataFrame({"a": [1]}).to_arrow()]}, lambda found: found["t"][0].num_rows == 1),
        ("x" * 5_000_000, lambda found: found == "x" * 5_000_000),
        (b"\x00\xff" * 5_000_000, lambda found: found == b"\x00\xff" * 5_000_000),
    ],
    ids=["frame", "series", "array", "polars", "arrow", "text", "bytes"],
)  # fmt: skip
def test_tables_and_large_values(box: Sandbox, value: Any, check: Any) -> None:
    GIVEN[0] = value
    TAKEN.clear()
    kind = fine(
        box.run("from tools import give, take\nvalue = give()\ntake(value)\nprint(type(value).__name__)")
    )
    assert kind.strip() == type(value).__name__
    assert check(TAKEN[0]) is not False


def test_objects_have_attributes_inside_and_are_models_outside(box: Sandbox) -> None:
    code = (
        "from tools.shop import Item, Order, order, total\nfound = order('A-1')\n"
        "print(found.items[0].price, found['id'], found.at.utcoffset(), type(found.items[0]) is Item)\n"
        "found.items.append(Item(sku='b', price='0.90'))\nprint(total(found))\n"
        "print(total({'id': '1', 'items': [], 'at': '2020-01-01'}))"
    )
    assert fine(box.run(code)) == "1.10 A-1 1:00:00 True\n2.00\n0\n"


def test_a_frame_from_inside_is_one_on_the_host(box: Sandbox) -> None:
    code = "from tools import describe_frame\nprint(describe_frame(pd.DataFrame({'a': [1], 'b': ['x']})))"
    assert fine(box.run(code)) == "['int64', 'str']\n"


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("take(lambda: 1)", "ArgumentError", "take(): value is the function <lambda>; pass its result instead"),
        ("take(pd.DataFrame({'a': [1j]}))", "ArgumentError", "take(): value has a column that Arrow has no type for"),
        ("size('/etc/passwd', 1)", "ArgumentError", "size() takes 1 positional argument but 2 were given; write size(file: Path) -> str"),
        ("reserve('none')", "OutOfStock", "none is left"),
        ("total({'id': '1'})", "ArgumentError", "total(): order.items: is missing; order.at: is missing."),
        ("take(pd.DataFrame({'a': pd.cut([1, 2], 2)}))", "ArgumentError", "take(): value has a column or a label of a type that cannot be read back"),
        ("take(['x' * 1000] * 20_000)", "TooLarge", "take(): value is too large: 20,0"),
    ],
)  # fmt: skip
def test_errors_are_of_their_own_classes(box: Sandbox, code: str, error: str, message: str) -> None:
    cell = box.run(f"from tools import size, take\nfrom tools.shop import reserve, total\n{code}")
    assert cell.error is not None
    assert cell.error.name.rpartition(".")[2] == error
    assert cell.error.message.startswith(message)


def test_a_path_is_that_of_a_file_of_the_workspace(box: Sandbox) -> None:
    """The tool reads a copy, which goes with the call."""
    code = (
        "from pathlib import Path\nfrom tools import size\nPath('out').mkdir(exist_ok=True)\n"
        "Path('out/x.csv').write_text('a,b')\nprint(size(Path('/workspace/out/x.csv')), size(Path('out/x.csv')))"
    )
    assert fine(box.run(code)) == "x.csv: a,b x.csv: a,b\n"
    other = (
        "import os\nos.chdir('out')\nprint(size(Path('x.csv')), size(Path('../out/x.csv')), size(Path('/workspace/../workspace/out/x.csv')))\n"
        "os.chdir('/')\nprint(size(Path('out/x.csv')))\nos.chdir('/workspace')"
    )
    assert fine(box.run(other)) == "x.csv: a,b x.csv: a,b x.csv: a,b\nx.csv: a,b\n"
    assert [file.exists() for file in FILES] == [False] * 6
    for path in ("'nothing.csv'", "'/etc/passwd'", "'../etc/passwd'", "'out'"):
        error = box.run(f"size(Path({path}))").error
        assert error is not None
        assert error.name.endswith("ArgumentError"), error


def test_twins_for_coroutines(box: Sandbox) -> None:
    code = (
        "import asyncio\nfrom tools.shop import lines, reserve\n"
        "print(await asyncio.gather(*(reserve.aio(c) for c in 'abc')))\n"
        "print([line async for line in lines.aio(3)], list(lines(2)))\n"
        "task = asyncio.ensure_future(reserve.aio('d'))\nawait asyncio.sleep(0)\ntask.cancel()\n"
        "try: await task\nexcept asyncio.CancelledError: print('cancelled')\nprint(reserve('e'))"
    )
    assert fine(box.run(code)) == (
        "['A', 'B', 'C']\n['line 0', 'line 1', 'line 2'] ['line 0', 'line 1']\ncancelled\nE\n"
    )


def test_maps_from_worker_processes(box: Sandbox) -> None:
    code = (
        "import multiprocessing\nfrom tools.shop import reserve, OutOfStock\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(reserve, 'abc'))\n"
        "with multiprocessing.get_context('spawn').Pool(2) as pool: print(pool.map(reserve, 'abc'))\n"
        "print(reserve.map('abcd', concurrency=2))\n"
        "print([type(each).__name__ for each in reserve.map(['a', 'none'], errors='return')])"
    )
    assert fine(box.run(code)) == (
        "['A', 'B', 'C']\n['A', 'B', 'C']\n['A', 'B', 'C', 'D']\n['str', 'OutOfStock']\n"
    )


def test_help_signature_source_and_completion(box: Sandbox) -> None:
    code = (
        "import inspect, tools, tools.shop\nfrom tools.shop import reserve as f\nhelp(f)\n"
        "print(inspect.signature(f))\nprint(tools.search('reserve')[0].source.splitlines()[1])\n"
        "from IPython.core.completer import provisionalcompleter\n"
        "with provisionalcompleter():\n"
        "    found = [c.text for c in get_ipython().Completer.completions('tools.shop.res', 14)]\n"
        "print(found)"
    )
    said = fine(box.run(code))
    assert said.startswith("Help on function reserve in module tools.shop:")
    assert "\nreserve(sku: str) -> str\n" in said
    assert said.endswith("(sku: str) -> str\ndef reserve(sku: str) -> str:\n['reserve']\n")


def test_an_edited_module_fools_nobody(box: Sandbox) -> None:
    """The modules are files of the supervisor's; what is checked and allowed is decided on the host."""
    cell = box.run("open('/workspace/.codeact/tools/shop.py', 'w').write('x')")
    assert cell.error is not None
    assert cell.error.name == "PermissionError"
    code = "from codeact_inside import calling\ncalling.call('shop.total', order={'id': 1})"
    assert "order.items: is missing" in str(box.run(code).error)
