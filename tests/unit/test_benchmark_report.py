"""What a report says of runs of all kinds: never more than they show, and nothing that is no number."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.analysis import analyse
from benchmarks.attempts import Attempt
from benchmarks.report import write_report
from benchmarks.report.plot import percent
from benchmarks.store import Store

Outcome = Sequence[bool | None]
FROZEN = {"suite": "toolworld", "split": "test", "model": "m", "prompts": {}}
ABOUT = {"run": "r", "started": "2026-01-01T00:00:00Z", "frozen": FROZEN, "prompt_texts": {}}


def attempt(task: str, arm: str, success: bool | None, **changes: object) -> Attempt:
    known: dict[str, object] = {"template": task, "category": "A", "model": "m", "repeat": 1, "llm_calls": 3, "prompt_tokens": 900, "wall_s": 2.0}  # fmt: skip
    known["stop_reason"] = "infra_error" if success is None else "submitted"
    known |= changes
    return Attempt(key=f"{task}{arm}{known['repeat']}{known['model']}", task=task, arm=arm, success=success, **known)  # type: ignore[arg-type] # fmt: skip


def pairs(
    outcomes: Iterable[Outcome], arms: Sequence[str] = ("code", "json"), **changes: object
) -> list[Attempt]:
    """An attempt of each arm at each task, with these outcomes."""
    return [
        attempt(f"t{number}", arm, success, **changes)
        for number, outcome in enumerate(outcomes)
        for arm, success in zip(arms, outcome, strict=True)
    ]


def report(folder: Path, attempts: Sequence[Attempt]) -> str:
    store = Store(folder)
    store.begin({**ABOUT, "plan": {"arms": list(dict.fromkeys(made.arm for made in attempts)) or ["code"]}})
    text = "".join(f"{json.dumps(dataclasses.asdict(made))}\n" for made in attempts)
    (folder / "attempts.jsonl").write_text(text)
    return write_report(store)


RANDOM = random.Random(1)
SIZES = [
    attempt(f"C{size}-{n}", arm, True, template=f"c{n}", category="C", size=size, prompt_tokens=100 * size**power)
    for arm, power in (("code", 1), ("json", 2))
    for size in (3, 10, 30, 100)
    for n in range(4)
]  # fmt: skip
CATEGORIES = [
    attempt(f"{each}{n}", arm, RANDOM.random() < 0.6, template=each, category=each)
    for each in "ABCDEFGH"
    for n in range(2)
    for arm in ("code", "json")
]
REPEATS = [
    attempt(f"t{n}", arm, (n + repeat) % 3 > 0, repeat=repeat)
    for n in range(12)
    for arm in ("code", "json")
    for repeat in range(1, 2 + n % 3)
]
KINDS: dict[str, tuple[list[Attempt], str]] = {
    "nothing": ([], "No attempt has a verdict in every arm yet."),
    "infrastructure alone": (pairs([(None, None)] * 3), "Without any verdict, and so left out: code, json."),
    "one task": (pairs([(True, False)]), "Too few templates of tasks to tell by success whether code or json is better"),
    "five tasks that one arm solves": (pairs([(True, False)] * 5), "Too few templates of tasks"),
    "six tasks that one arm solves": (pairs([(True, False)] * 6), "code solves more than json, by 100 points"),
    "one arm solves nothing": (pairs([(n % 2 == 0, False) for n in range(12)]), "code solves more than json, by 50 points"),
    "no arm solves anything": (pairs([(False, False)] * 12), "Neither code nor json solves a task"),
    "all the same": (pairs([(True, True)] * 12), "code and json solve the same tasks"),
    "one more": (pairs([(True, n > 0) for n in range(12)]), "code solves 8 points more than json, which could be chance"),
    "as many, but others": (pairs([(n < 6, n > 5) for n in range(12)]), "code and json solve as many tasks, within −50 to +50 points"),
    "hardly a difference": (pairs([(n > 0, n > 1) for n in range(300)]), "Solved of 300 tasks: code > 99 %, json 99 %."),
    "one template a category": (CATEGORIES, "over 16 tasks of 8 templates"),
    "few templates": (SIZES, "Intervals of fewer than 6 templates (all tasks: 4) are too narrow"),
    "missing pairs": (pairs([(True, None if n % 2 else True) for n in range(12)]), "Left out of every arm, since one of them has no verdict there: t1 (repeat 1), t11"),
    "an arm that never came about": ([*pairs([(True, True)] * 12), *(attempt(f"t{n}", "smolagents", None) for n in range(12))], "Solved of 12 tasks: code 100 %, json 100 %."),
    "repeats of different number": (REPEATS, "n = 12 tasks, k = 1 to 3,"),
    "three repeats": ([made for made in REPEATS if made.task in ("t2", "t5")], "k = 3: a published claim needs 5 repeats"),
    "no calls": (pairs([(True, False)] * 12, llm_calls=0, prompt_tokens=0), "code against json: no task is solved by both, so H2 has nothing to go by"),
    "huge figures": (pairs([(True, True)] * 12, llm_calls=10**9, prompt_tokens=10**15), "1,000,000,000,000,000"),
    "one arm": (pairs([(True,)] * 12, ("code",)), "Solved of 12 tasks: code 100 %.\n"),
    "two arms without code": (pairs([(True, False)] * 12, ("json", "json-serial")), "json solves more than json-serial"),
    "another model too": ([*pairs([(True, True)] * 12), *pairs([(False, True)] * 12, model="m2")], "Attempts with m2 lie in this folder too, and do not count."),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_says_what_is_so(tmp_path: Path, kind: str) -> None:
    attempts, words = KINDS[kind]
    text = report(tmp_path, attempts)
    assert words in text
    page = (tmp_path / "report" / "report.html").read_text()
    table = re.sub(
        r"\| (?:seed|prices) \| None|codeact None", "", text
    )  # of a configuration that says nothing
    assert not re.search(r"\b(?:nan|inf|None)\b", table)
    assert not re.search(r"\b(?:nan|inf)\b", page)


@pytest.mark.parametrize(
    ("outcomes", "holds"),
    [
        ([(True, True)] * 12, False),  # of 100 such runs with a deficit of 5 points, 54 would look like this
        ([(True, True)] * 58, False),  # 0.95 ** 58 = 0.051
        ([(True, True)] * 59, True),  # 0.95 ** 59 = 0.049
        ([(True, n > 0) for n in range(12)], False),
        ([(True, n > 5) for n in range(12)], True),
        ([(n > 0, True) for n in range(300)], True),
        ([(n > 14, True) for n in range(300)], False),
    ],
)
def test_as_good_as_another_is_not_shown_by_few_tasks(outcomes: list[Outcome], holds: bool) -> None:
    (pair,) = analyse(pairs(outcomes)).pairings
    (first, *_) = pair.hypotheses
    assert first.name == "H1"
    assert (first.raw < 0.05) is holds


def test_a_line_that_is_no_attempt_is_counted_and_said(tmp_path: Path) -> None:
    made = pairs([(True, True)] * 6)
    report(tmp_path, made)
    lines = (tmp_path / "attempts.jsonl").read_text().splitlines()
    wrong = [lines[0].replace('"llm_calls": 3', said) for said in ('"llm_calls": null', '"llm_calls": "3"')]
    wrong += [lines[0].replace('"wall_s": 2.0', f'"wall_s": {said}') for said in ("NaN", "Infinity", "[]")]
    wrong += [lines[0][:40], "[" * 100_000]
    assert len({*wrong, lines[0]}) == 8
    (tmp_path / "attempts.jsonl").write_text("\n".join([*wrong, *lines]) + "\n")
    text = write_report(Store(tmp_path))
    assert "Solved of 6 tasks: code 100 %, json 100 %." in text
    assert "7 lines of attempts.jsonl cannot be read and did not count; a crash leaves one." in text


def test_what_an_endpoint_calls_itself_is_text_in_markdown_too(tmp_path: Path) -> None:
    served = ("<img src=http://127.0.0.1:9/x>", "</td>")
    text = report(tmp_path, [attempt("t", "code", True, served=served)])
    assert "\\<img src=http://127.0.0.1:9/x> (1), \\</td> (1)" in text
    assert text.count("<") == text.count("\\<")


def test_two_reports_at_once_leave_one_that_is_whole(tmp_path: Path) -> None:
    made = pairs([(True, True)] * 6)
    text = report(tmp_path, made)
    with ThreadPoolExecutor(4) as pool:
        said = set(pool.map(lambda _: write_report(Store(tmp_path)), range(8)))
    assert said == {text}
    assert (tmp_path / "report" / "summary.md").read_text() == text
    assert sorted(each.name for each in tmp_path.iterdir()) == ["attempts.jsonl", "report", "run.json"]


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0 %"), (0.001, "< 1 %"), (0.006, "1 %"), (0.994, "99 %"), (0.999, "> 99 %"), (1.0, "100 %")],
)
def test_a_share_is_all_or_none_only_where_it_is(share: float, words: str) -> None:
    assert percent(share) == words


def test_what_older_lines_do_not_tell_is_left_open(tmp_path: Path) -> None:
    text = report(tmp_path, pairs([(True, True)] * 6))
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if "| answer right |" in line)
    assert [cell.strip() for cell in lines[at + 2].split("|")][1:4] == ["code", "–", "–"]
