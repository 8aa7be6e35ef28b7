"""Results that are too large for one call land as files of the workspace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from codeact import events, workspace
from codeact.tools import crossing, stubs
from codeact.tools.approval import Approval
from codeact.tools.functions import tool
from codeact.tools.load import tools_from
from codeact.tools.runner import Setup, ToolRunner
from codeact.types import Result
from sandbox import CellResult, Limits, Sandbox
from sandbox.guest import frames
from tests.integration.test_tools import of, solve

pytestmark = pytest.mark.docker

EVENTS: list[events.Event] = []


@dataclass
class Order:
    number: int
    note: str


@tool(effects="read")
def text(characters: int) -> str:
    """Lines of ten characters."""
    return "123456789\n" * (characters // 10)


@tool(effects="read")
def raw(size: int) -> bytes:
    """As many bytes, all 7."""
    return b"\7" * size


@tool(effects="read")
def orders(count: int) -> list[Order]:
    """Orders with long notes."""
    return [Order(number, "n" * 4000) for number in range(count)]


@tool(effects="read")
def by_name(count: int) -> dict[str, str]:
    """Long texts by name."""
    return {f"name {number}": "t" * 100_000 for number in range(count)}


@tool(effects="read")
def frame(rows: int) -> pd.DataFrame:
    """Numbers."""
    return pd.DataFrame({name: np.arange(rows) * 1.0 for name in "abcdefgh"})


@tool(effects="read")
def texts(characters: int) -> Iterator[str]:
    """One short text and one long one."""
    yield "short"
    yield "x" * characters


@tool(effects="read")
def mixed() -> list[Any]:
    """What is too large and holds a table."""
    return [*["x" * 200_000] * 100, frame(3)]


@tool(effects="read")
def length(value: str) -> int:
    """How long a text is."""
    return len(value)


TOOLS = [text, raw, orders, by_name, frame, texts, mixed, length]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    tools = tuple(tools_from(TOOLS))
    encoder = crossing.Encoder(lambda file, inside: made.put(file, inside))
    runner = ToolRunner(Setup(tools, Approval("never")), run="test", emit=EVENTS.append, encode=encoder)
    runner.begin(1)
    limits = Limits(memory="2g", disk="700m")
    with Sandbox(functions={crossing.FUNCTION: crossing.function(runner.call)}, limits=limits) as made:
        workspace.prepare(made, [], stubs.modules(tools))
        yield made
    runner.close()


def lines(cell: CellResult) -> list[Any]:
    assert cell.status == "ok", cell
    return [json.loads(line) for line in cell.stdout.splitlines()]


def shown(*expressions: str) -> str:
    return "\n".join(f"print(json.dumps({each}))" for each in expressions)


def test_a_hundred_megabytes_of_text_are_a_file_that_reads_like_the_text(box: Sandbox) -> None:
    code = "import json, tools\nmade = tools.text(100_000_000)\n" + shown(
        "[type(made).__name__, len(made), made[:9], made[-10:], made.count('9')]",
        "[made.path.stat().st_size, str(made.path.parent), open(made).readline()]",
        "[tools.length(made), made == '123456789\\n' * 10_000_000, 'hello' in made, hasattr(made, 'keys')]",
    )
    cell = box.run(f"{code}\nmade.path.unlink()")
    assert lines(cell) == [
        ["LargeResult", 100_000_000, "123456789", "123456789\n", 10_000_000],
        [100_000_000, "/workspace/.results", "123456789\n"],
        [100_000_000, True, False, False],
    ]
    said = "text() returned a LargeResult, which is read when it is used: str of 100,000,000 characters, 100.0 MB in /workspace/.results/c"
    assert cell.stderr.startswith(said)
    returned = next(each for each in EVENTS if isinstance(each, events.ToolReturned))
    assert (returned.ok, returned.value["kind"], returned.value["count"]) == (True, "text", 100_000_000)
    assert len(json.dumps(returned.value)) < 2000


def test_a_hundred_megabytes_of_objects_are_read_one_by_one(box: Sandbox) -> None:
    code = "import json, tools\nmade = tools.orders(25_000)\n" + shown(
        "[len(made), type(made[0]).__name__, made[2].number, len(made[:8])]",
        "[sum(order.number for order in made), 'loaded' if '_value' in vars(made) else 'not loaded']",
        "[pd.DataFrame(made).shape, made[-1].number, len(made[5:8]), type(made.load()).__name__]",
        "[pd.read_json(made.path, lines=True, nrows=2).columns.tolist(), repr(made).count('\\n')]",
    )
    cell = box.run(f"import pandas as pd\n{code}\nmade.path.unlink()")
    assert lines(cell) == [
        [25_000, "Order", 2, 8],
        [24_999 * 12_500, "not loaded"],
        [[25_000, 2], 24_999, 3, "list"],
        [["$", "class", "v"], 4],
    ]


def test_other_kinds(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_PAYLOAD", 64 * 1024 * 1024)
    code = "import json, tools\nblob, named, table = tools.raw(40_000_000), tools.by_name(200), tools.frame(1_200_000)\n"
    code += shown(
        "[len(blob), blob[3], bytes(blob) == blob.load(), blob.path.suffix]",
        "[len(named), len(named['name 7']), sorted(named)[0], named.path.suffix]",
        "[len(table), table['h'].max(), table.shape, list(table.columns), table.path.suffix]",
        "[repr(table).split('\\n')[1].split()]",
    )
    cell = box.run(f"{code}\nfor each in (blob, named, table): each.path.unlink()")
    assert lines(cell) == [
        [40_000_000, 7, True, ".bin"],
        [200, 100_000, "name 0", ".json"],
        [1_200_000, 1_199_999.0, [1_200_000, 8], list("abcdefgh"), ".arrows"],
        [list("abcdefgh")],
    ]


def test_a_large_item_of_a_stream(box: Sandbox) -> None:
    code = "import json, tools\nmade = list(tools.texts(33_600_000))\n" + shown(
        "[made[0], type(made[1]).__name__, len(made[1]), made[1][:3]]"
    )
    assert lines(box.run(f"{code}\nmade[1].path.unlink()")) == [["short", "LargeResult", 33_600_000, "xxx"]]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("mixed()", "the result is too large for one call, and the result of the tool[100] is a table in a value"),
        ("text(100_000_000)", "the result is too large for one call (100 MB), and could not be written to the workspace"),
    ],
)  # fmt: skip
def test_what_cannot_land_is_an_error(box: Sandbox, call: str, said: str) -> None:
    cell = box.run(
        "import tools, os\nfile = os.open('filler', os.O_CREAT | os.O_RDWR); os.posix_fallocate(file, 0, 650 << 20); os.close(file)\n"
        f"try: tools.{call}\nexcept tools.ToolError as error: print(error)\n"
        "print(sum(len(files) for _, _, files in os.walk('/workspace/.results')))\nos.remove('filler')"
    )
    assert cell.status == "ok", cell
    assert said in cell.stdout
    assert cell.stdout.splitlines()[-1] == "0"


def test_in_a_run_it_survives_its_kernel_and_is_not_kept_on_the_host(tmp_path: Path) -> None:
    kill = "import os, signal\nprint(len(made))\nos.kill(os.getpid(), signal.SIGKILL)"
    cells = ["import tools\nmade = tools.text(40_000_000)", kill, "final_answer([len(made), made[:3]])"]
    result: Result = solve(tmp_path, cells, [text])
    assert result.answer == [40_000_000, "123"]
    assert [event.replayed for event in of(result, events.ToolReturned)] == [False]
    assert sum(file.stat().st_size for file in (tmp_path / "runs").rglob("*") if file.is_file()) < 200_000
