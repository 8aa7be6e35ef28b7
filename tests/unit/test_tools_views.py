"""Calls of tools as people see them: live lines, the table, the question."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codeact import events
from codeact.tools import record
from codeact.tools.functions import from_function
from codeact.views import calls
from codeact.views.console import View
from codeact.views.plain import PlainScreen
from codeact.views.prompt import keywords
from sandbox.types import CellResult


def call(number: int, tool: str = "shop.order", **how: Any) -> list[events.Event]:
    called = events.ToolCalled(
        call=f"c{number}", cell=1, tool=tool, arguments=how.pop("arguments", {"n": number}), digest="", key=""
    )
    how = {"ok": True, "value": {"state": "sent"}, "seconds": 0.25, **how}
    return [called, events.ToolReturned(call=f"c{number}", tool=tool, **how)]


def drawn(*happened: events.Event) -> list[str]:
    stream = io.StringIO()
    view = View(PlainScreen(stream))
    for event in [
        *happened,
        events.Observed(turn=1, text="", cell=CellResult("ok", ())),
    ]:
        view(event)
    view.close()
    return stream.getvalue().splitlines()


FAILED: dict[str, Any] = {
    "ok": False,
    "value": None,
    "error": {"class": "KeyError", "message": "A-7\nno such\x1b[2J"},
}


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({}, "shop.order(n=1) -> {'state': 'sent'} | 0.2 s"),
        (FAILED, "shop.order(n=1) -> KeyError: A-7 no such | 0.2 s"),
        ({"waited": 3.0, "attempts": 2}, "shop.order(n=1) -> {'state': 'sent'} | 0.2 s | waited 3.0 s | 2 attempts"),
        ({"replayed": True}, "shop.order(n=1) -> {'state': 'sent'} | 0.2 s | from the journal"),
        (
            {"arguments": {"word": "x" * 999, "key": "(secret)"}},
            f"shop.order(word='{'x' * 27}...{'x' * 28}', key=(secret)) -> {{'state': 'sent'}} | 0.2 s",
        ),
        ({"value": {"$": "float", "v": "nan"}}, "shop.order(n=1) -> nan | 0.2 s"),
        ({"value": [{"$": "decimal", "v": "1.50"}]}, "shop.order(n=1) -> [Decimal('1.50')] | 0.2 s"),
        (
            {"value": {"$": "object", "class": "Order", "v": {"id": "A", "when": {"$": "date", "v": "2026-11-30"}}}},
            "shop.order(n=1) -> Order(id='A', when=datetime.date(2026, 11, 30)) | 0.2 s",
        ),
        ({"value": {"$": "answer", "v": {"$": "pandas", "buffer": 0}, "buffers": ["eA=="]}}, "shop.order(n=1) -> (pandas) | 0.2 s"),
        (
            {"value": {"$": "large", "kind": "text", "what": "str", "path": ".results/c1.txt"}},
            "shop.order(n=1) -> str in /workspace/.results/c1.txt | 0.2 s",
        ),
        ({"value": {"$": "unheard of"}}, "shop.order(n=1) -> {'$': 'unheard of'} | 0.2 s"),
    ],
)  # fmt: skip
def test_a_call_is_one_line(how: dict[str, Any], line: str) -> None:
    assert drawn(*call(1, **how)) == [line]


SAID: dict[str, Any] = {"tool": "shop.order", "allowed": True, "by": "person"}


@pytest.mark.parametrize(
    ("given", "written", "shown"),
    [
        ({"n": 5, "to": "Ann"}, {"n": 1}, "shop.order(n=1, to='Ann') (changed from n=5)"),
        ({"n": 5, "to": "Ann"}, {"n": 1, "to": "Ann"}, "shop.order(n=1, to='Ann') (changed from n=5)"),
        ({"n": 5}, {"note": "x"}, "shop.order(n=5, note='x') (changed from note=(not given))"),
        ({"n": None}, {"n": 0}, "shop.order(n=0) (changed from n=None)"),
        ({"pin": "(secret)"}, {"pin": "(secret)"}, "shop.order(pin=(secret)) (changed from pin=(secret))"),
        ({"n": 5}, None, "shop.order(n=5)"),
        ({"n": "\x1b[1m"}, {"n": "\x1b[2J"}, r"shop.order(n='\x1b[2J') (changed from n='\x1b[1m')"),
    ],
)  # fmt: skip
def test_a_call_that_a_person_changed_is_shown_as_it_was_made(
    given: dict[str, Any], written: dict[str, Any] | None, shown: str
) -> None:
    called, returned = call(1, arguments=given)
    log = [called, events.ApprovalGiven(call="c1", arguments=written, **SAID), returned]
    assert drawn(*log) == [f"{shown} -> {{'state': 'sent'}} | 0.2 s"]
    assert shown in calls.table(calls.of(log))[1]


def test_a_change_of_a_call_that_was_refused_is_none() -> None:
    called, returned = call(1, **FAILED)
    said = events.ApprovalGiven(call="c1", arguments={"n": 9}, **{**SAID, "allowed": False})
    assert drawn(called, said, returned)[0].startswith("shop.order(n=1) -> KeyError")


def test_a_replayed_call_is_shown_with_the_arguments_of_the_record() -> None:
    known = events.ToolReturned(
        call="c1", tool="pay", ok=True, value="sent", arguments={"n": 7}, replayed=True
    )
    assert drawn(known) == ["pay(n=7) -> 'sent' | 0.0 s | from the journal"]


def test_many_calls_are_told_in_sum() -> None:
    many = [event for n in range(1, 101) for event in call(n, **(FAILED if n % 10 == 0 else {}))]
    lines = drawn(*many, *call(101, "crm.find"))
    assert len(lines) == 7
    assert lines[-1] == "shop.order: 95 more calls, 10 failed, 23.8 s"


def test_the_table_holds_all_calls_and_those_without_an_end() -> None:
    log = [
        *call(1),
        *call(2, **FAILED),
        call(3)[0],
        events.ToolReturned(call="c1", tool="t", ok=True, replayed=True),
    ]
    lines = calls.table(calls.of(log))
    assert lines[0].split("  ")[0] == "call"
    assert [line.split()[0] for line in lines[1:-1]] == ["c1", "c2", "c3"]
    assert lines[1].endswith("shop.order(n=1)   {'state': 'sent'}".replace("   ", "  "))
    assert lines[3].endswith("no end is recorded")
    assert lines[-1] == "3 calls, 1 failed, 0.50 s"
    assert calls.table([])[-1] == "0 calls, 0 failed, 0.00 s"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("amount=10, reason='x y'", {"amount": 10, "reason": "x y"}),
        ("a=[1, {'b': None}], c=-1.5", {"a": [1, {"b": None}], "c": -1.5}),
        ("10", None),
        ("a=b", None),
        ("a=__import__('os').system('x')", None),
        ("**{'a': 1}", None),
        ("a=1) + f(", None),
        ("a=(", None),
        ("a=1, a=2", None),
        ("\x00", None),
        ("a=" + "(" * 10_000, None),
    ],
)
def test_arguments_that_a_person_types_are_literals(text: str, values: object) -> None:
    if values is not None:
        assert keywords(text) == values
        return
    with pytest.raises(ValueError, match="with literals only"):
        keywords(text)


def test_a_question_shows_hostile_and_long_values_harmless() -> None:
    def pay(to: str, note: str, rows: list[int]) -> None: ...

    made = from_function(pay)
    shown = record.as_python(
        made, {"to": "Ann\x1b]0;x\x07\x1b[2J\u202e", "note": "n\ny'); refund(", "rows": list(range(9999))}
    )
    assert shown.startswith("pay(\n    to='Ann")
    assert 'note="n\\ny\'); refund("' in shown
    assert all(character.isprintable() or character == "\n" for character in shown)
    # of 9,999 numbers, ", " between them and two brackets
    assert "...(38,884 characters are not shown)..." in shown
    assert shown.rstrip(",\n)").endswith("9997, 9998]")
    assert len(shown) < 21_000


class Wordless:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"pay Mallory 1000", "b'pay Mallory 1000'"),
        ({1: "evil", "1": "fine"}, "{1: 'evil', '1': 'fine'}"),
        ({(1, 2): [{"a": (3,)}], None: ()}, "{(1, 2): [{'a': (3,)}], None: ()}"),
        ([{7}, frozenset({8}), set(), frozenset()], "[{7}, frozenset({8}), set(), frozenset()]"),
        ([date(2020, 1, 2), Decimal("1.50"), 1 + 2j], "[datetime.date(2020, 1, 2), Decimal('1.50'), (1+2j)]"),
        ("(secret)", "'(secret)'"),
        (Path("data/a.csv"), "Path('data/a.csv')"),
        (np.zeros((2, 3)), "<ndarray 2×3>"),
        ("<ndarray 2×3>", "'<ndarray 2×3>'"),
        ([10**5000], "[an integer of about 5,001 digits]"),
        ([float("nan"), float("-inf"), True], "[nan, -inf, True]"),
        (b"a" * 30_000, "b'" + 'a' * 9_900),
    ],
)  # fmt: skip
def test_a_question_shows_each_value_as_what_it_is(value: Any, shown: str) -> None:
    def put(value: Any) -> None: ...

    found = record.as_python(from_function(put), {"value": value})
    assert found.startswith(f"put(value={shown}")
    if len(found) < 1000:
        assert found == f"put(value={shown})"
        return
    assert "are not shown)..." in found
    assert len(found) < 21_000


def test_a_question_about_a_value_that_says_nothing_and_a_deep_one() -> None:
    def put(value: Any) -> None: ...

    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    made = from_function(put)
    assert "Wordless" in record.as_python(made, {"value": [Wordless()]})
    assert record.as_python(made, {"value": deep}).startswith("put(value=[[[[")


def test_a_record_loses_no_entry_whose_key_json_cannot_tell_from_another() -> None:
    def put(value: Any) -> None: ...

    made = from_function(put)
    assert record.recorded(made, {"value": {1: "evil", "1": "fine"}}) == {"value": "{1: 'evil', '1': 'fine'}"}
    assert record.recorded(made, {"value": {1: "a", 2: "b"}}) == {"value": {"1": "a", "2": "b"}}


def test_a_question_hides_nothing_that_a_person_could_read() -> None:
    def sql(query: str) -> None: ...

    query = f"SELECT {', '.join(f'column_{n}' for n in range(1000))} FROM customers; DROP TABLE customers"
    assert record.as_python(from_function(sql), {"query": query}) == f"sql(query={query!r})"
