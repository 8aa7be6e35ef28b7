"""What is published of measured runs follows from what was recorded of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
RUNS = sorted(file.parent for file in RESULTS.glob("*/run.json"))


def command(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        check=True,
        capture_output=True,
        timeout=300,
        cwd=RESULTS.parents[1],
    )


def attempts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_verdicts_and_report_come_out_again(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    command("score", str(copy))
    judged = [(each["key"], each["success"], each["answer_ok"], each["state_ok"]) for each in attempts(run)]
    again = [(each["key"], each["success"], each["answer_ok"], each["state_ok"]) for each in attempts(copy)]
    assert again == judged
    shutil.rmtree(copy / "report")
    command("report", str(copy))
    for name in ("summary.md", "summary.json"):
        assert (copy / "report" / name).read_text("utf-8") == (run / "report" / name).read_text("utf-8")


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def row(name: str, arm: str) -> str:
    """What the page says of an arm: of the tasks and repeats that all arms of the run have a verdict on."""
    judged = [each for each in attempts(RESULTS / name) if each["success"] is not None]
    arms = {each["arm"] for each in judged}
    places = Counter((each["task"], each["repeat"]) for each in judged)
    own = [
        each for each in judged if each["arm"] == arm and places[each["task"], each["repeat"]] == len(arms)
    ]
    limited = sum(each["stop_reason"].endswith("_limit") for each in own)
    refused = sum(each["stop_reason"] == "refused" for each in own)
    return (
        f"| [{name}]({name}/report/summary.md) | {arm} | {sum(each['success'] for each in own)} of {len(own)} "
        f"| {mean(each['llm_calls'] for each in own):.1f} "
        f"| {mean(each['prompt_tokens'] + each['completion_tokens'] for each in own):,.0f} "
        f"| {mean(each['wall_s'] for each in own):.0f} | {limited} | {refused} |"
    )


def test_the_page_has_the_figures_of_the_runs() -> None:
    """Each row of its table, and one for each arm of each run."""
    page = (RESULTS / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| (\S+) \|.*$", page, re.MULTILINE)
    assert sorted(rows) == sorted(
        (run.name, arm) for run in RUNS for arm in {each["arm"] for each in attempts(run)}
    )
    for name, arm in rows:
        assert row(name, arm) in page
