"""What is published of measured runs follows from what was recorded of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
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


def test_the_page_has_the_figures_of_the_runs() -> None:
    """Solved of all tasks, by arm: each row of its tables."""
    page = (RESULTS / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| (\S+) \| (\d+) of (\d+) \|", page, re.MULTILINE)
    assert {name for name, *_ in rows} == {run.name for run in RUNS}
    for name, arm, solved, of in rows:
        summary = attempts(RESULTS / name)
        arms = {each["arm"] for each in summary}
        places = [(each["task"], each["repeat"]) for each in summary if each["success"] is not None]
        whole = {place for place in places if places.count(place) == len(arms)}
        own = [
            each["success"]
            for each in summary
            if each["arm"] == arm and (each["task"], each["repeat"]) in whole
        ]
        assert (sum(own), len(own)) == (int(solved), int(of))
    assert len(rows) == sum(len({each["arm"] for each in attempts(run)}) for run in RUNS)
