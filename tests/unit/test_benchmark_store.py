"""The store of a benchmark run: what survives a crash, what may not change, what is never written."""

from __future__ import annotations

import dataclasses
import gzip
import json
import multiprocessing
import resource
from pathlib import Path
from typing import Any

import pytest

from benchmarks.attempts import Attempt, attempt_key
from benchmarks.store import Drifted, Store, secrets, write
from codeact.errors import UsageError

FROZEN = {"suite": "s", "split": "test", "model": "m", "limits": {"turns": 5}}
ABOUT = {"run": "r1", "started": "2026-01-01T00:00:00Z", "frozen": FROZEN, "plan": {"arms": ["code"]}}


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


def test_what_the_machine_and_the_files_were_when_it_went_on_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin({**ABOUT, "uncommitted": False, "machine": {"processors": 2}})
    gone_on = store.begin({**ABOUT, "uncommitted": True, "machine": {"processors": 64}})
    assert gone_on["uncommitted"] is True
    assert gone_on["drift"] == [{"at": ABOUT["started"], "changes": ["machine.processors: 2 → 64"]}]
    assert store.begin({**ABOUT, "uncommitted": False, "machine": {"processors": 2}})["uncommitted"] is True


def test_what_was_asked_for_may_grow(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.begin(ABOUT)
    grown = store.begin({**ABOUT, "plan": {"arms": ["code", "json"]}, "providers": ["a.example"]})
    assert (grown["plan"], grown["providers"]) == ({"arms": ["code", "json"]}, ["a.example"])
    assert store.begin({**ABOUT, "providers": ["b.example"]})["providers"] == ["a.example", "b.example"]
    assert grown["run"] == "r1"


def test_arms_come_and_go_and_what_was_asked_for_last_is_kept(tmp_path: Path) -> None:
    def asked(**prompts: str) -> dict[str, Any]:
        return {
            **ABOUT,
            "frozen": {**FROZEN, "prompts": prompts},
            "plan": {"arms": list(prompts)},
            "asked": {"suite": "s", "arms": ",".join(prompts)},
            "arms": {name: {"parallel": True} for name in prompts},
            "prompt_texts": {name: f"text of {text}" for name, text in prompts.items()},
        }

    store = Store(tmp_path)
    store.begin(asked(code="1"))
    store.begin(asked(code="1", json="2"))
    store.begin(asked(json="2"))
    found = store.about()
    assert found["drift"] == []
    assert found["frozen"]["prompts"] == {"code": "1", "json": "2"}
    assert found["prompt_texts"] == {"code": "text of 1", "json": "text of 2"}
    assert list(found["arms"]) == ["code", "json"]
    assert (found["plan"], found["asked"]["arms"]) == ({"arms": ["json"]}, "json")
    with pytest.raises(Drifted, match=r'prompts\.code: "1" → "3"'):
        store.begin(asked(code="3", json="2"))


def test_attempts_without_a_configuration_are_not_taken_for_those_of_a_run_that_begins(
    tmp_path: Path,
) -> None:
    Store(tmp_path).append(made())
    with pytest.raises(UsageError, match=r"holds attempts, and no run\.json"):
        Store(tmp_path).begin(ABOUT)


def test_what_was_judged_again_is_paid_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = dataclasses.replace(made(success=True), run="r1", cost_usd=0.25)
    again = dataclasses.replace(made(success=None), run="r2", cost_usd=0.5)
    for each in (first, again, dataclasses.replace(first, success=False), made("t2")):
        store.append(each)
    assert store.spent() == 0.75


def test_a_key_from_elsewhere_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    for key in ("../secret", str(tmp_path / "secret"), "", "a\0"):
        with pytest.raises(UsageError, match="holds no trace of"):
            Store(tmp_path).read_trace(key)


@pytest.mark.parametrize(
    "change",
    [
        {"repeat": 0}, {"repeat": 10**30}, {"llm_calls": -1}, {"prompt_tokens": 10**400}, {"prompt_tokens": 1.5}, {"wall_s": -5},
        {"wall_s": 1e308}, {"cost_usd": -1}, {"cost_usd": 1e300}, {"size": 10**30}, {"success": "yes"}, {"errors": [1]}, {"key": 5},
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    whole = dataclasses.asdict(made())
    (tmp_path / "attempts.jsonl").write_text(f"{json.dumps(whole)}\n{json.dumps({**whole, **change})}\n")
    store = Store(tmp_path)
    assert len(list(store.lines())) == 1
    assert store.unread == 1
    (tmp_path / "attempts.jsonl").write_text(f"{json.dumps({**whole, 'answer': -(10**30)})}\n")
    assert [each.answer for each in store.lines()] == [-(10**30)]  # what a model answers may be any number


def test_half_a_character_is_replaced_where_it_is_read(tmp_path: Path) -> None:
    line = {**dataclasses.asdict(made()), "answer": {"a": "\ud800x", "b": "\U0001f332"}}
    (tmp_path / "attempts.jsonl").write_text(json.dumps(line) + "\n")
    (found,) = Store(tmp_path).attempts()
    assert found.answer == {"a": "?x", "b": "\U0001f332"}


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"frozen": 3}, "frozen"),
        ({"frozen": {**FROZEN, "split": "x"}}, r"frozen\.split"),
        ({"frozen": {**FROZEN, "limits": {"turns": "x"}}}, r"frozen\.limits\.turns"),
        ({"frozen": {**FROZEN, "sampling": {"temperature": "hot"}}}, r"frozen\.sampling\.temperature"),
        ({"frozen": {**FROZEN, "prompts": [1]}}, r"frozen\.prompts"),
        ({"frozen": {**FROZEN, "suite_versions": 5}}, r"frozen\.suite_versions"),
        ({"frozen": {**FROZEN, "commit": 5}}, r"frozen\.commit"),
        ({"plan": {}}, "plan"),
        ({"plan": {"arms": [], "path": 5}}, r"plan\.path"),
        ({"drift": [1]}, r"drift\[0\]"),
        ({"machine": 5}, "machine"),
        ({"prompt_texts": {"code": 5}}, r"prompt_texts\.code"),
        ({"last": {}}, "last"),
    ],
)
def test_a_configuration_of_another_form_is_said(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps({**ABOUT, **change}))
    with pytest.raises(UsageError, match=rf"not the configuration of a run of this version: {words}: "):
        Store(tmp_path).about()


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


def test_a_file_that_does_not_fit_is_named_and_nothing_of_it_stays(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large") as said:
            write(tmp_path / "made" / "x", b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert said.value.filename == str(tmp_path / "made" / "x")
    assert list((tmp_path / "made").iterdir()) == []


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
