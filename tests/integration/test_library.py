"""The library: data as variables, answers of Python types, sessions, many runs at once, and the same without blocking a loop."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from codeact import Agent, Figure, Reply, Request, ScriptedModel, Session, UsageError, events
from codeact.types import Delta
from sandbox import Pool
from sandbox.engine import find_engine

pytestmark = pytest.mark.docker


def containers(run: str) -> list[Any]:
    with closing(find_engine().client()) as client:
        return list(client.containers.list(all=True, filters={"label": f"codeact.run={run}"}))


def block(code: str) -> str:
    return f"I do it.\n```python\n{code}\n```"


def agent(tmp_path: Path, *cells: str, **options: Any) -> Agent[Any]:
    options = {"image": "data", "runs": tmp_path / "runs", **options}
    return Agent(ScriptedModel([block(cell) for cell in cells]), **options)


SALES = pd.DataFrame(
    {
        "city": ["Oslo", "Lima", None],
        "n": [1, 2, 3],
        "at": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]),
    }
)


def test_data_are_variables_of_their_own_kind(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a;b\n1;2\n3;4\n")
    data = {
        "sales": SALES,
        "fast": pl.DataFrame({"x": [1, 2]}),
        "table": pa.table({"y": [0.5]}),
        "series": pd.Series([5, 6], name="s"),
        "array": np.arange(6).reshape(2, 3),
        "raw": Path(tmp_path / "x.csv"),
        "note": "two\nlines",
        "blob": b"\x00\x01" * 5000,
        "settings": {
            "when": datetime(2026, 1, 31, 12, tzinfo=UTC),
            "rate": Decimal("0.10"),
            "list": [1, None],
        },
    }
    code = (
        "array[0, 0] = 9\nsales.loc[0, 'n'] = 10\n"
        "final_answer([type(v).__module__.split('.')[0] + '.' + type(v).__name__ for v in\n"
        "    (sales, fast, table, series, array, note, blob, settings)] + [\n"
        "    int(sales.n.sum()), fast['x'].sum(), table.num_rows, int(series.sum()), int(array.sum()), len(blob), note,\n"
        "    repr(settings['rate']), settings['when'].isoformat(), int(raw.b.sum())])"
    )
    model = ScriptedModel([block(code)])
    result = Agent(model, image="data", runs=tmp_path / "runs").run("Do it.", data)
    assert result.answer == [
        "pandas.DataFrame", "polars.DataFrame", "pyarrow.Table", "pandas.Series", "numpy.ndarray", "builtins.str",
        "builtins.bytes", "builtins.dict",
        15, 3, 1, 11, 24, 10_000, "two\nlines", "Decimal('0.10')", "2026-01-31T12:00:00+00:00", 6,
    ]  # fmt: skip
    first = model.requests[0].messages[-1].content
    assert "sales — pandas DataFrame, 3 rows" in first
    assert re.search(r"city \(text.*1 missing", first)


class Line(BaseModel):
    city: str
    n: int = Field(ge=0)


class Report(BaseModel):
    made: datetime
    total: Decimal
    lines: list[Line]
    kind: Literal["full", "short"] = "full"


@dataclass
class Point:
    x: int
    y: float


class Pair(TypedDict):
    left: int
    right: str


@pytest.mark.parametrize(
    ("output_type", "code", "expected"),
    [
        (
            Report,
            "import datetime, decimal\nfinal_answer({'made': datetime.datetime(2026, 1, 31), 'total': decimal.Decimal('1.10'),\n"
            "  'lines': pd.DataFrame({'city': ['Oslo'], 'n': [3]}).to_dict('records')})",
            Report(made=datetime(2026, 1, 31), total=Decimal("1.10"), lines=[Line(city="Oslo", n=3)]),
        ),
        (list[Line], "final_answer(pd.DataFrame({'city': ['Oslo'], 'n': [3]}))", [Line(city="Oslo", n=3)]),
        (Point, "final_answer({'x': 1, 'y': np.float64(2.5)})", Point(1, 2.5)),
        (Pair, "final_answer({'left': 1, 'right': 'r'})", {"left": 1, "right": "r"}),
        (int | None, "final_answer(None)", None),
        (int, "final_answer(pd.Series([7]))", 7),
        (Literal["a", "b"], "final_answer('b')", "b"),
        (dict[str, list[float]], "final_answer({'a': np.array([1, 2])})", {"a": [1.0, 2.0]}),
        (set[int], "final_answer({1, 2})", {1, 2}),
    ],
    ids=str,
)
def test_answers_are_of_the_type_that_is_asked_for(
    tmp_path: Path, output_type: Any, code: str, expected: Any
) -> None:
    result = agent(tmp_path, code, output_type=output_type).run("Do it.")
    assert (result.status, result.error) == ("answered", None)
    assert result.answer == expected
    assert type(result.answer) is type(expected)


@pytest.mark.parametrize(
    ("output_type", "code"),
    [
        (
            pd.DataFrame,
            "final_answer(pd.DataFrame({'a': [1, 2], 't': pd.to_datetime(['2026-01-01', None])}))",
        ),
        (pl.DataFrame, "final_answer(pd.DataFrame({'a': [1, 2]}))"),
        (pa.Table, "import polars as pl\nfinal_answer(pl.DataFrame({'a': [1, 2]}))"),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_tables_are_answers_as_what_they_are(tmp_path: Path, output_type: type[Any], code: str) -> None:
    result = agent(tmp_path, code, output_type=output_type).run("Do it.")
    assert isinstance(result.answer, output_type), result.error
    assert list(result.answer["a"].to_numpy()) == [1, 2]
    given = [event for event in result.events if isinstance(event, events.AnswerGiven)]
    assert given[-1].answer[0]["a"] == 1
    again = agent(tmp_path, output_type=output_type)
    journal = tmp_path / "runs" / result.run / "run.jsonl"
    kept = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    journal.write_text("".join(kept[:-1]), encoding="utf-8")  # as if killed before the end was written
    assert list(again.resume(result.run).answer["a"].to_numpy()) == [1, 2]


def test_a_wrong_type_is_raised_in_the_cell_with_the_path_and_mended(tmp_path: Path) -> None:
    wrong = "final_answer({'made': 'today', 'total': 1, 'lines': [{'city': 'Oslo', 'n': -1}]})"
    right = "final_answer({'made': '2026-01-31T00:00:00', 'total': '2', 'lines': []})"
    model = ScriptedModel([block(wrong), block(right)])
    result = Agent(model, output_type=Report, image="minimal", runs=tmp_path / "runs").run("Do it.")
    told = model.requests[1].messages[-1].content
    assert (
        "TypeError: the answer is not of the type that is asked for: $.made: Input should be a valid datetime"
        in told
    )
    assert "$.lines[0].n: Input should be greater than or equal to 0 (got -1)" in told
    assert result.answer == Report(made=datetime(2026, 1, 31), total=Decimal(2), lines=[])
    assert '"greater' not in model.requests[0].messages[-1].content
    assert '"minimum": 0' in model.requests[0].messages[-1].content


def test_a_session_keeps_its_kernel_and_gives_and_takes(tmp_path: Path) -> None:
    cells = ["df = sales[sales.n > 1]\nfinal_answer(len(df))", "final_answer(int(df.n.sum()) + more['x'].sum())",
             "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfinal_answer('drawn')"]  # fmt: skip
    one = agent(tmp_path, *cells)
    with one.session({"sales": SALES}) as session:
        first = session.run("How many?")
        assert first.answer == 2
        assert session.get("df")["n"].tolist() == [2, 3]
        session.put(more=pl.DataFrame({"x": [100]}))
        second = session.run("And the sum?")
        assert second.answer == 105
        assert second.run == first.run == session.id
        assert isinstance(session.get("more"), pl.DataFrame)
        session.run("Draw.")
        picture = session.get("fig")
        assert isinstance(picture, Figure)
        assert picture.png.startswith(b"\x89PNG")
        session.put(there={"a": (1, Decimal("2.5"))})
        assert session.get("there") == {"a": (1, Decimal("2.5"))}
        with pytest.raises(UsageError, match=r"nope: there is no such variable; there are .*df"):
            session.get("nope")
        with pytest.raises(UsageError, match=r"plt is a module"):
            session.get("plt")
    with pytest.raises(UsageError, match="the session is closed"):
        session.run("More?")


@pytest.mark.parametrize(
    ("value", "packages"),
    [
        (SALES, "pandas and pyarrow"),
        (SALES["n"], "pandas and pyarrow"),
        (pl.DataFrame({"x": [1]}), "polars and pyarrow"),
        (pa.table({"y": [0.5]}), "pyarrow"),
        (pa.array([1]), "pyarrow"),
        (np.arange(3), "numpy"),
        ({"deep": [np.arange(3)]}, "numpy"),
    ],
)
def test_what_an_image_has_no_package_for_is_named(minimal: Session[Any], value: Any, packages: str) -> None:
    with pytest.raises(UsageError) as raised:
        minimal.put(given=value)
    assert str(raised.value) == (
        f"data 'given': is of a kind that needs {packages}, which the image 'minimal' does not have; "
        f'take image="data", or packages={packages.split(" and ")}, or give it as lists and dicts'
    )
    minimal.put(given=[1])
    assert minimal.get("given") == [1]


def test_data_that_an_image_has_no_package_for_keep_a_run_from_beginning(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"data 'sales': .* needs pandas and pyarrow"):
        agent(tmp_path, "final_answer(1)", image="minimal").run("Go.", {"sales": SALES})
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.fixture(scope="module")
def minimal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session[Any]]:
    with agent(tmp_path_factory.mktemp("minimal"), image="minimal").session() as session:
        yield session


def test_a_session_without_a_block_begins_with_its_first_use_and_ends_with_the_process(
    tmp_path: Path,
) -> None:
    session = agent(tmp_path, "x = given + 1\nfinal_answer(x)", "final_answer(x + 1)").session({"given": 1})
    assert session.run("One?").answer == 2
    with session as same:
        assert same.run("Two?").answer == 3
    assert not containers(session.id)
    unused = agent(tmp_path).session()
    unused.close()
    with pytest.raises(UsageError, match="the session is closed"):
        unused.put(a=1)
    script = (
        "import pathlib, sys; from codeact import Agent, ScriptedModel; "
        "s = Agent(ScriptedModel(['```python\\nfinal_answer(1)\\n```']), image='minimal', runs=pathlib.Path(sys.argv[1])).session(); "
        "print(s.run('One?').answer, s.id)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "runs")], capture_output=True, text=True, check=True
    )
    answer, run = told.stdout.split()
    assert (answer, told.stderr) == ("1", "")
    assert not containers(run)


def test_a_session_outlives_its_kernel_and_its_process(tmp_path: Path) -> None:
    cells = [
        "total = int(sales.n.sum())\nfinal_answer(total)",
        "import os; os._exit(1)",
        "final_answer(total + extra['n'])",
    ]
    one = agent(tmp_path, *cells)
    with one.session() as session:
        session.put(sales=SALES)
        assert session.run("Sum?").answer == 6
        session.put(extra={"n": 4})
        second = session.run("And?")
        assert second.answer == 10
        assert [event.names for event in second.events if isinstance(event, events.SandboxRestarted)] == [
            ("os",)
        ]
        assert session.get("extra") == {"n": 4}
    last = agent(tmp_path, "final_answer([total, extra['n'], len(sales)])").resume(session.id, "All?")
    assert last.answer == [6, 4, 3]


class Echo:
    """A model that does what its task says, so that any number of runs may ask it at once."""

    name, sees, small = "echo", False, False

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        number = re.findall(r"Task: (\d+)", request.messages[-1].content)[-1]
        yield Reply(
            block(
                f"import time\nseen = globals().get('seen', []) + [{number}]\ntime.sleep(0.05)\nfinal_answer(seen)"
            )
        )


def test_one_agent_is_used_by_many_threads_at_once(tmp_path: Path) -> None:
    with Pool("minimal", size=3) as pool:
        one = Agent(Echo(), runs=tmp_path / "runs", pool=pool, output_type=list[int])

        def work(thread: int) -> list[list[int]]:
            return [one.run(f"{10 * thread + number}").answer for number in range(3)]

        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(work, range(6)))
    assert answers == [[[10 * thread + number] for number in range(3)] for thread in range(6)]
    assert len(list((tmp_path / "runs").glob("*/run.jsonl"))) == 18


def test_runs_go_on_beside_a_loop_and_end_with_their_task(tmp_path: Path) -> None:
    one = Agent(Echo(), image="minimal", runs=tmp_path / "runs")
    endless = agent(tmp_path, "print('on', flush=True)\nwhile True: pass", "final_answer(1)", image="minimal")

    async def main() -> None:
        async with one.session() as session:
            assert (await session.arun("1")).answer == [1]
            kinds = [event.type async for event in session.astream("2")]
            assert kinds[-1] == "run_ended"
            assert await session.aget("seen") == [1, 2]
        on = asyncio.Event()

        async def cut() -> None:
            async for event in endless.astream("Do it."):
                if isinstance(event, events.OutputDelta):
                    on.set()

        task = asyncio.create_task(cut())
        await on.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    ended = [
        path.read_text(encoding="utf-8").splitlines()[-1] for path in (tmp_path / "runs").glob("*/run.jsonl")
    ]
    assert sum('"status": "interrupted"' in line and "cancelled" in line for line in ended) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "run"]
