"""Recorded tool calls, handed out again: each once, by cell and arguments, and nothing executed twice in silence."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from codeact.errors import CallRefused
from codeact.events import ApprovalGiven, Event, RunStarted, ToolCalled, ToolReturned
from codeact.recorded import RecordedCalls, Unknown
from codeact.run.record import Record
from codeact.run.resume import standing


def called(call: str, digest: str, cell: int = 1, tool: str = "pay") -> ToolCalled:
    return ToolCalled(call=call, cell=cell, tool=tool, arguments={}, digest=digest, key=f"key-{call}")


def returned(call: str, value: object, *, replayed: bool = False) -> ToolReturned:
    return ToolReturned(call=call, tool="pay", ok=True, value=value, replayed=replayed)


def values(calls: RecordedCalls, *digests: str) -> list[object]:
    found = [calls.take("pay", digest) for digest in digests]
    return [one.value if isinstance(one, ToolReturned) else one for one in found]


def sequence(*pairs: tuple[str, str]) -> list[Event]:
    """Calls one after the other, `(id, digest)`, whose values are their ids."""
    return [event for call, digest in pairs for event in (called(call, digest), returned(call, call))]


def test_equal_calls_come_in_the_order_in_which_they_were_made_and_each_once() -> None:
    calls = RecordedCalls(sequence(("c1", "a"), ("c2", "b"), ("c3", "a")))
    calls.begin(1, ended=True)
    assert values(calls, "a", "a", "b") == ["c1", "c3", "c2"]
    with pytest.raises(CallRefused, match="nothing new is executed"):
        calls.take("pay", "a")


def test_a_call_that_a_person_changed_comes_with_the_arguments_that_it_was_made_with() -> None:
    first = replace(called("c1", "a"), arguments={"amount": 5000, "to": "Ann"})
    said = ApprovalGiven(call="c1", tool="pay", allowed=True, by="person", arguments={"amount": 1})
    calls = RecordedCalls([first, said, returned("c1", 7), called("c2", "b"), returned("c2", 8)])
    calls.begin(1, ended=True)
    found = [calls.take("pay", digest) for digest in "ab"]
    assert [one.arguments for one in found if isinstance(one, ToolReturned)] == [
        {"amount": 1, "to": "Ann"},
        {},
    ]


def test_calls_belong_to_their_cell() -> None:
    calls = RecordedCalls([called("c1", "a", cell=2), returned("c1", 1)])
    calls.live()
    assert calls.take("pay", "a") is None
    calls.begin(1, ended=False)
    assert calls.take("pay", "a") is None
    calls.begin(2, ended=False)
    assert values(calls, "a", "a") == [1, None]


def test_a_call_without_an_end_is_unknown_and_a_replayed_end_is_none() -> None:
    calls = RecordedCalls([called("c1", "a"), returned("c1", 1, replayed=True)])
    calls.begin(1, ended=False)
    assert calls.take("pay", "a") == Unknown("c1", "key-c1")
    assert calls.take("pay", "a") is None


def test_what_became_of_an_unknown_call_later_stands_for_it() -> None:
    later = replace(called("c2", "a"), key="key-c1")
    calls = RecordedCalls([called("c1", "a"), later, returned("c2", "at last")])
    calls.begin(1, ended=True)
    assert values(calls, "a") == ["at last"]
    assert calls.left() == []


def test_other_arguments_in_a_cell_that_was_cut_off_are_refused_while_the_recorded_call_is_not_made_again() -> (
    None
):
    calls = RecordedCalls(sequence(("c1", "first id")), reads={"look"})
    calls.begin(1, ended=False)
    with pytest.raises(CallRefused, match="would be one more"):
        calls.take("pay", "another id")
    assert calls.take("look", "x") is None
    assert calls.left() == ["pay"]
    assert values(calls, "first id", "another id") == ["c1", None]
    assert calls.left() == []


def test_calls_that_were_under_way_at_once_may_come_in_any_order() -> None:
    log = [called("c1", "a"), called("c2", "b"), returned("c2", "b"), called("c3", "c"), returned("c1", "a")]
    for order in itertools.permutations(["a", "b", "d"]):
        calls = RecordedCalls(log)
        calls.begin(1, ended=False)
        assert dict(zip(order, values(calls, *order), strict=True)) == {"a": "a", "b": "b", "d": None}
        assert calls.take("pay", "c") == Unknown("c3", "key-c3")


def test_threads_get_each_call_once() -> None:
    log = sequence(*((f"c{n}", "same") for n in range(200)))
    calls = RecordedCalls(log)
    calls.begin(1, ended=True)
    got: list[object] = []

    def take() -> None:
        got.extend(values(calls, *["same"] * 25))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, got)) == sorted(f"c{n}" for n in range(200))


def test_the_next_call_has_a_number_that_none_before_had(tmp_path: Path) -> None:
    """Calls that were answered from the record after the kernel died have numbers, too, and are recorded nowhere."""
    record = Record("r", tmp_path / "r")
    record.open()
    record.emit(RunStarted(task="t", model="m", settings={}, system="", first=""))
    record.emit(called("c1", "a"))
    record.emit(called("c5", "b", cell=2))
    record.close()
    assert standing(tmp_path / "r").calls == 5
