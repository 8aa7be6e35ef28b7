"""The page of a report in a real browser: what it shows, at which widths, and that nothing in it does anything."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from benchmarks.attempts import Attempt
from benchmarks.report import write_report
from benchmarks.store import Store
from tests.browser import open_browser

ARMS = ("code", "json", "json-serial", "json+python")
HOSTILE = '<script>document.title="taken"</script><img src="http://127.0.0.1:9/x">'
RUN = "20260101-000000"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as running:
        yield running


def store(folder: Path, *, tasks: int = 6, arms: tuple[str, ...] = ARMS) -> Store:
    """A run with outcomes of all kinds."""
    chance = random.Random(3)
    made = Store(folder)
    made.begin({
        "run": RUN, "started": "2026-01-01T00:00:00Z", "plan": {"arms": list(arms)},
        "frozen": {"suite": "toolworld", "split": "dev", "model": f"m {HOSTILE}", "prompts": dict.fromkeys(arms, "d" * 64)},
        "prompt_texts": dict.fromkeys(arms, f"You are careful. {HOSTILE}"),
    })  # fmt: skip
    for number in range(tasks):
        for arm in arms:
            for repeat in (1, 2):
                success = chance.random() < 0.6
                made.append(
                    Attempt(
                        key=f"{number}{arm}{repeat}", task=f"task-{number}", template=f"t{number % 3}", category="ABC"[number % 3],
                        size=(3, 10)[number % 2] if number % 3 == 2 else None, arm=arm, repeat=repeat, success=success,
                        reason="" if success else f"the answer is {HOSTILE}", stop_reason="submitted" if success else "turn_limit",
                        llm_calls=chance.randint(1, 9), prompt_tokens=chance.randint(500, 9000), cost_usd=chance.random() / 100,
                        served=(f"m-{repeat}",), fingerprints=("fp_1",), completion_tokens=400, reasoning_tokens=100,
                        wall_s=2.0, llm_s=1.2, tool_s=0.3, sandbox_s=0.5, errors={"schema": 1} if chance.random() < 0.5 else {},
                    )
                )  # fmt: skip
    return made


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, False), (1280, True)])
def test_the_page_is_whole_at_every_width_and_asks_nobody(
    browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    write_report(store(tmp_path))
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "report" / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert (said, len(asked)) == ([], 1)
    assert page.title() == f"toolworld with m {HOSTILE}"
    assert page.locator("script, img").count() == 0
    figures = page.locator("figure")
    assert figures.count() == 8
    assert page.locator("figure svg").count() == 8
    for caption in page.locator("figcaption").all_inner_texts():
        assert "n = 6 tasks, k = 2, toolworld (dev)" in caption
        assert f"2026-01-01, run {RUN}" in caption
    for drawn in page.locator("figure svg").all():
        box, own = drawn.bounding_box(), drawn.evaluate("e => e.getBBox().width / e.viewBox.baseVal.width")
        assert box is not None
        assert box["width"] >= 300
        assert own <= 1.001, "what is drawn reaches beyond its frame"
    for summary in page.locator("figure summary").all():
        summary.click()
    assert page.locator("figure table:visible").count() == 8
    smallest = page.locator("figure svg").first.evaluate(
        "e => Math.min(...[...e.querySelectorAll('text')].map(t => t.getBoundingClientRect().height))"
    )
    assert smallest >= 9
    assert page.evaluate("document.documentElement.scrollWidth") == width
    context.close()


@pytest.mark.parametrize("arms", [("code",), ("code", "json")])
@pytest.mark.parametrize("tasks", [0, 1])
def test_little_is_shown_as_little(
    browser: Browser, tmp_path: Path, tasks: int, arms: tuple[str, ...]
) -> None:
    write_report(store(tmp_path, tasks=tasks, arms=arms))
    page = browser.new_page()
    page.goto((tmp_path / "report" / "report.html").as_uri())
    assert page.locator("figure").count() == 8
    missing = page.locator(".missing").count()
    assert missing + page.locator("figure svg").count() == 8
    assert missing >= 1
    if tasks == 0:
        assert "No attempt has a verdict in every arm yet" in page.inner_text("header")
    page.close()


def test_each_plot_has_its_table_and_names_its_run(tmp_path: Path) -> None:
    write_report(store(tmp_path))
    plots = {path.stem for path in (tmp_path / "report" / "plots").glob("*.svg")}
    tables = {path.stem for path in (tmp_path / "report" / "tables").glob("*.csv")}
    assert plots == tables
    assert len(plots) == 8
    for path in (tmp_path / "report" / "plots").glob("*.svg"):
        assert f"run {RUN}</text>" in path.read_text()
    rows = (tmp_path / "report" / "tables" / "calls.csv").read_text().splitlines()
    assert rows[0] == "task,arm,model calls,solved"
    assert len(rows) == 1 + 6 * 4


def test_what_has_answered_is_said_and_how_much_it_thought(tmp_path: Path) -> None:
    text = write_report(store(tmp_path))
    assert "| answered by | m-1 (24), m-2 (24); fp_1 (48) |" in text
    assert "named 2 models, so what has answered was not the same throughout: m-1 (24), m-2 (24)" in text
    assert "system fingerprints" not in text
    lines = text.split("\n")
    at = next(number for number, line in enumerate(lines) if "thinking in completion" in line)
    cells = dict(zip(lines[at].split(" | "), lines[at + 2].split(" | "), strict=True))
    assert cells["thinking in completion"] == "25 %"


def test_a_report_is_whole_or_the_one_before(tmp_path: Path) -> None:
    made = store(tmp_path)
    first = write_report(made)
    (tmp_path / "report" / "stray").touch()
    assert write_report(made) == first
    assert not (tmp_path / "report" / "stray").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "attempts.jsonl", "report"}
