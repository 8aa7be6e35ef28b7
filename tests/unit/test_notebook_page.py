"""What a notebook is given of a run: static, inert, bounded, the same however often it is drawn."""

from __future__ import annotations

import base64
import dataclasses
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bs4 import BeautifulSoup

from codeact import events
from codeact.types import Code, Reading, Result, Usage
from codeact.views import story as stories
from codeact.views.markup import prose
from codeact.views.notebook import page as pages
from codeact.views.notebook.page import Page, State, shown_answer
from sandbox.types import CellResult, Output, Rich, Stream

HOSTILE = "</pre></details></style><script>alert(1)</script><img src=http://192.0.2.1/x onerror=alert(2)>"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def cell(*outputs: Output) -> CellResult:
    return CellResult("ok", outputs, 0.5)


def run(*outputs: Output, text: str = "a", answer: Any = "b") -> list[events.Event]:
    """The events of a run of one turn."""
    return [
        events.RunStarted(
            task=text, model=text, settings={}, system="", first="", run="r1", problems=(text,)
        ),
        events.TurnStarted(turn=1),
        events.Replied(
            turn=1,
            text=text,
            reading=Reading(text, (Code(text),)),
            finish="stop",
            usage=Usage(1, 10, 5),
            model=text,
            seconds=0.25,
        ),
        events.CodeStarted(turn=1, source=text, cell=1),
        events.ToolCalled(call="c1", cell=1, tool=text, arguments={text: text}, digest="", key=""),
        events.ToolReturned(call="c1", tool=text, ok=True, value=text),
        events.Observed(turn=1, text=text, cell=cell(*outputs)),
        events.RunEnded(status="answered", answer=answer, usage=Usage(1, 10, 5), seconds=1.0),
    ]


def result(log: list[events.Event], answer: Any) -> Result:
    return Result(answer, "answered", "r1", events=tuple(log))


def soup(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def words(found: BeautifulSoup, selector: str) -> str:
    (tag,) = found.select(selector)
    return tag.get_text(" ", strip=True)


def test_a_run_without_scripts_links_or_places_elsewhere() -> None:
    outputs = (
        Stream("stdout", HOSTILE),
        Rich("display", {"text/html": f"<table><tr><td onclick=alert(3)>{HOSTILE}</td></tr></table>"}),
        Rich("display", {"text/html": HOSTILE, "text/plain": HOSTILE}),
        Rich("display", {"image/png": base64.b64encode(HOSTILE.encode()).decode()}),
        Rich("display", {"image/svg+xml": "<svg onload=alert(4)>", "application/javascript": "alert(5)"}),
    )
    log = run(*outputs, text=HOSTILE, answer={"a": [HOSTILE]})
    live = Page().render(stories.tell(log), State("answered", "Answered"))
    for html in (live, result(log, {"a": [HOSTILE]})._repr_html_()):
        found = soup(html)
        assert not found.find_all(["script", "img", "a", "iframe", "form", "link", "svg", "object"])
        assert len(found.find_all("style")) == 1
        assert not [name for tag in found.find_all(True) for name in tag.attrs if name.startswith("on")]
        assert "alert(1)" in found.get_text()


def test_what_is_over_is_shown_whole() -> None:
    log = run(Stream("stdout", "one\n"), Stream("stdout", "two\n"), Rich("display", {"image/png": PIXEL}))
    found = soup(Page().render(stories.tell(log), pages.ended(stories.tell(log))))
    assert [pre.get_text() for pre in found.select("section pre.output")] == ["one\ntwo\n"]
    assert [img["src"] for img in found.find_all("img")] == [f"data:image/png;base64,{PIXEL}"]
    assert [summary.get_text() for summary in found.find_all("summary")] == [
        "Code, 1 line, 0.5 s",
        "1 tool call",
    ]
    assert not found.select("details[open]")
    assert words(found, ".state") == "Answered 1 turn · 1.0 s · 15 tokens · a · run r1"
    assert found.select_one(".clock") is None


def test_headings_and_tables_of_a_model_are_drawn_and_nothing_else_is() -> None:
    found = BeautifulSoup(prose("## So <b>far\n\n|a|b|\n|--:|-|\n|1|[x](http://y)|\n"), "html.parser")
    assert [each.name for each in found.find_all(recursive=False)] == ["p", "table"]
    assert words(found, "p > strong") == "So <b>far"
    assert [cell.text for cell in found.select("th, td")] == ["a", "b", "1", "[x](http://y)"]
    assert not any(each.attrs for each in found.find_all())


def test_what_goes_on_is_shown_as_far_as_it_is_known() -> None:
    log = run()
    page = Page()
    teller = stories.Teller()
    for event in (*log[:2], events.TextDelta(text="I look.\n```python\nx = 1\n")):
        teller.add(event)
    found = soup(page.render(teller.story, State("working", "The model writes", 3.0)))
    assert words(found, ".thoughts") == "I look."
    assert "animation-delay: -3.0s" in str(found.select_one(".clock"))
    output = events.OutputDelta(output=Stream("stdout", "step 1\n"))
    for event in (*log[2:4], output, output):
        teller.add(event)
    found = soup(page.render(teller.story, State("working", "Running code", 4.0)))
    assert found.select_one("details[open] pre.source") is not None
    assert words(found, "pre.output") == "step 1\nstep 1"


def test_a_flood_of_output_leaves_a_page_small() -> None:
    teller = stories.Teller()
    for event in run()[:4]:
        teller.add(event)
    page, state = Page(), State("working", "Running code", 0.0)
    empty = len(page.render(teller.story, state))
    for number in range(20_000):
        teller.add(events.OutputDelta(output=Stream(("stdout", "stderr")[number % 2], "x" * 1000)))
    assert len(page.render(teller.story, state)) - empty < 400_000


def test_many_large_turns_leave_a_page_that_a_server_lets_through() -> None:
    outputs = [Rich("display", {"text/plain": f"{number} " + "x" * 10_000}) for number in range(60)]
    log = run()
    teller = stories.Teller()
    teller.add(log[0])
    for number in range(1, 21):
        teller.add(events.TurnStarted(turn=number))
        teller.add(log[3])
        teller.add(events.Observed(turn=number, text="", cell=cell(*outputs)))
    html = Page().render(teller.story, State("working", "Running code", 0.0))
    found = soup(html)
    assert len(html) < 2_100_000
    assert "14 turns before these are left out" in found.get_text()
    assert len(found.select("section.turn")) == 6
    assert found.get_text().count("20 more outputs are not shown here.") == 6


def test_a_flood_of_calls_is_counted_and_bounded() -> None:
    log = run()
    calls = [
        events.ToolCalled(call=f"x{number}", cell=1, tool="t", arguments={}, digest="", key="")
        for number in range(2_000)
    ]
    found = soup(Page().render(stories.tell([*log[:5], *calls, *log[5:]]), State("answered", "Answered")))
    assert "2001 tool calls" in found.get_text()
    assert "1961 more calls are not shown." in found.get_text()
    assert len(found.find_all("tr")) == 1 + 40


def test_figures_beyond_the_room_of_a_page_are_named() -> None:
    large = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(500_000)).decode()
    log = run(*[Rich("display", {"image/png": large})] * 3)
    html = Page().render(stories.tell(log), State("answered", "Answered"))
    assert len(soup(html).find_all("img")) == 1
    assert soup(html).get_text().count("left out") == 2
    assert len(html) < 1_000_000


@dataclasses.dataclass
class City:
    name: str
    people: int


class Odd:
    def __repr__(self) -> str:
        return "odd"


ROUND: list[Any] = []
ROUND.append(ROUND)
ROWS = [["Ghent", "9"], ["Lyon", "10"]]
FRAME = pd.DataFrame({"city": ["Ghent", "Lyon"], "money": [9, 10]})


@pytest.mark.parametrize(
    ("answer", "header", "rows"),
    [
        ([{"city": "Ghent", "money": 9}, {"city": "Lyon", "money": 10}], ["city", "money"], ROWS),
        ([{"city": "Ghent", "money": 9}, {"money": 10, "city": "Lyon"}], ["city", "money"], ROWS),
        ({"Ghent": 9, "Lyon": 10}, [], ROWS),
        ([City("Ghent", 9), City("Lyon", 10)], ["name", "people"], ROWS),
        (City("Ghent", 9), [], [["name", "Ghent"], ["people", "9"]]),
        (FRAME["money"], ["", "money"], [["0", "9"], ["1", "10"]]),
        (FRAME, ["", "city", "money"], [["0", "Ghent", "9"], ["1", "Lyon", "10"]]),
        (pl.from_pandas(FRAME), ["city", "money"], ROWS),
        (pa.Table.from_pandas(FRAME), ["", "city", "money"], [["0", "Ghent", "9"], ["1", "Lyon", "10"]]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_tables_of_answers(answer: Any, header: list[str], rows: list[list[str]]) -> None:
    shown = shown_answer(answer)
    assert shown is not None
    table = shown["table"]
    assert list(table.header) == header
    assert [list(row) for row in table.rows] == rows


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ("Standing desk", "words", "Standing desk"),
        (41, "value", "41"),
        ([1, 2], "value", "[\n  1,\n  2\n]"),
        ({"a": {"b": 1}}, "value", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ([date(2026, 5, 1), Decimal("1.50")], "value", '[\n  "2026-05-01",\n  "1.50"\n]'),
        ([b"\xff\x00"], "value", '[\n  "_wA="\n]'),
        ([np.float32(0.5), np.int64(2)], "value", "[\n  0.5,\n  2\n]"),
        (
            [{1: {"a": City("Ghent", 9)}}],
            "value",
            '[\n  {\n    "1": {\n      "a": {\n        "name": "Ghent",\n        "people": 9\n      }\n    }\n  }\n]',
        ),
        ([complex(1, 2), Odd()], "value", '[\n  "1+2j",\n  "odd"\n]'),
        (ROUND, "value", "[[...]]"),
        (Odd(), "value", "odd"),
    ],
)
def test_other_answers(answer: Any, kind: str, text: str) -> None:
    assert shown_answer(answer) == {"kind": kind, "text": text}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_large_table_is_shown_as_far_as_a_page_holds_whatever_its_library_would_show(make: Any) -> None:
    with pd.option_context("display.max_rows", 10, "display.max_columns", 5):
        shown = shown_answer(make({f"c{column}": ["x" * 60] * 203 for column in range(54)}))
    assert shown is not None
    table = shown["table"]
    assert (len(table.rows), table.left_out, table.columns_left_out) == (200, 3, 4)
    assert [name for name in table.header if name] == [f"c{column}" for column in range(50)]
    assert table.rows[199][-1] == "x" * 60


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (Result([1, 2], "answered", "r1"), "[\n  1,\n  2\n]"),
        (Result("x" * 2_010, "answered", "r1"), "x" * 2_000 + "\n... 10 characters are not shown here ..."),
        (Result(None, "limit", "r1", error="4 turns"), "limit: 4 turns"),
    ],
)
def test_a_result_where_no_html_is_drawn(ended: Result, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: put.append(data["text/plain"]))
    ended._ipython_display_()
    assert put == [text]
