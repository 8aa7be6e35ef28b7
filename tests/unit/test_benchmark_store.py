"""The store of a benchmark run: what survives a crash, what may not change, what is never written."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
from pathlib import Path

import pytest

from benchmarks.attempts import Attempt, attempt_key
from benchmarks.store import Drifted, Store, secrets
from codeact.errors import UsageError

ABOUT = {"run": "r1", "started": "2026-01-01T00:00:00Z", "frozen": {"suite": "s", "split": "test", "model": "m", "limits": {"turns": 5}}, "plan": {"arms": ["code"]}}  # fmt: skip


def made(task: str = "t1", *, arm: str = "code", repeat: int = 1, success: bool | None = True) -> Attempt:
    return Attempt(key=f"{task}-{arm}-{repeat}", task=task, arm=arm, repeat=repeat, success=success)


def test_a_line_that_a_crash_cut_off_is_passed_over_and_the_next_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(made("t1"))
    whole = (tmp_path / "attempts.jsonl").read_bytes()
    for cut in (len(whole) - 1, len(whole) // 2, 1):
        (tmp_path / "attempts.jsonl").write_bytes(whole + whole[:cut])
        assert [each.task for each in store.attempts()] == ["t1"]
        store.append(made("t2"))
        assert [each.task for each in store.attempts()] == ["t1", "t2"]


def test_a_verdict_beats_failures_before_and_after_it_and_they_are_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for success in (None, True, None):
        store.append(made(success=success))
    store.append(made("t2", success=None))
    first, second = store.attempts()
    assert (first.success, first.infra_failures) == (True, 2)
    assert (second.success, second.infra_failures) == (None, 1)


def test_the_last_of_two_verdicts_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(made(success=False))
    store.append(made(success=True))
    assert [each.success for each in store.attempts()] == [True]


def test_another_configuration_is_refused_and_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(ABOUT)
    assert store.begin(ABOUT)["drift"] == []
    other = {
        **ABOUT,
        "started": "2026-01-02T00:00:00Z",
        "frozen": {"suite": "s", "split": "test", "model": "m2", "limits": {"turns": 6}},
    }
    with pytest.raises(Drifted, match=r"limits\.turns: 5 → 6; model: \"m\" → \"m2\".*--allow-drift"):
        store.begin(other)
    assert store.about()["frozen"] == ABOUT["frozen"]
    changes = ["limits.turns: 5 → 6", 'model: "m" → "m2"']
    assert store.begin(other, allow_drift=True)["drift"] == [{"at": other["started"], "changes": changes}]
    assert store.begin(other)["frozen"] == other["frozen"]


def test_what_was_asked_for_may_grow(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(ABOUT)
    grown = store.begin({**ABOUT, "plan": {"arms": ["code", "json"]}})
    assert grown["plan"] == {"arms": ["code", "json"]}
    assert grown["run"] == "r1"


def test_secrets_reach_neither_lines_nor_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = 'sk-"quoted"-0123'
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setenv("SHORT_TOKEN", "abc")
    store = Store(tmp_path)
    store.append(
        dataclasses.replace(made(), answer=f"the key is {secret}", error="abc"), [{"text": ["x", secret]}]
    )
    written = (tmp_path / "attempts.jsonl").read_text() + json.dumps(store.read_trace("t1-code-1"))
    assert "0123" not in written
    assert written.count("[redacted]") == 2
    assert '"error": "abc"' in written


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (float("nan"), None),
        ({"a": [float("inf"), 1.5]}, {"a": [None, 1.5]}),
        ("lone \ud800 half", "lone ? half"),
        ({1: "x"}, {"1": "x"}),
    ],
)
def test_whatever_was_answered_is_written_as_json_that_all_can_read(
    tmp_path: Path, answer: object, kept: object
) -> None:
    store = Store(tmp_path)
    store.append(dataclasses.replace(made(), answer=answer), [{"answer": answer}])

    def refuse(name: str) -> None:
        raise AssertionError(name)

    line = json.loads((tmp_path / "attempts.jsonl").read_bytes(), parse_constant=refuse)
    assert line["answer"] == kept
    assert store.read_trace("t1-code-1") == [{"answer": kept}]


def test_which_variables_are_secret() -> None:
    environment = {
        "A_KEY": "longer-one-1",
        "B_PASSWORD": "long-one",
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/you",
    }
    assert secrets(environment) == ["longer-one-1", "long-one"]


def test_lines_of_the_first_version_are_read(tmp_path: Path) -> None:
    old = {"suite": "small-tasks", "task": "small-01", "arm": "code", "model": "local", "repeat": 1, "success": True, "answer": 3, "stop_reason": "limit",
           "llm_calls": 2, "tool_calls": 0, "code_cells": 2, "prompt_tokens": 10, "completion_tokens": 5, "wall_s": 1.5, "run": "r", "error": None, "schema_version": 1}  # fmt: skip
    (tmp_path / "attempts.jsonl").write_text(f'{json.dumps(old)}\n[]\n{{"task": "no attempt"}}\n')
    (found,) = Store(tmp_path).attempts()
    assert (found.task, found.total_tokens, found.stop_reason) == ("small-01", 15, "turn_limit")


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"frozen": 3}'])
def test_a_folder_without_a_run_is_said(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match=str(tmp_path)):
        Store(tmp_path).about()


def test_a_missing_or_damaged_trace_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        store.read_trace("k")
    store.append(made(), [{"a": 1}])
    path = store.trace("t1-code-1")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UsageError, match="cannot be read"):
        store.read_trace("t1-code-1")


def _hold(
    folder: Path, held: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event
) -> None:
    with Store(folder).held():
        held.set()
        done.wait(60)


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, done))
    other.start()
    assert held.wait(60)
    with pytest.raises(UsageError, match="another process"), Store(tmp_path).held():
        pass
    done.set()
    other.join()
    with Store(tmp_path).held():
        pass


def test_the_key_of_an_attempt_depends_on_each_of_its_parts() -> None:
    parts = {"suite": "s", "task": "t", "arm": "a", "repeat": 1, "params": {"x": 1}}
    keys = {attempt_key(**parts)} | {attempt_key(**parts | {name: "other"}) for name in parts}
    assert len(keys) == 6
    assert attempt_key(**parts) == attempt_key(**dict(reversed(parts.items())))
