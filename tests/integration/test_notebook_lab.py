"""Runs in a real JupyterLab, looked at through a real browser: drawn while they go, asked about, stopped, kept in the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from sandbox.engine import find_engine
from tests.browser import open_browser
from tests.command import ROOT
from tests.lab import Lab, Notebook, notebook, opened, started

pytest.importorskip("jupyterlab")
pytestmark = pytest.mark.docker

TOOLS = '''
import time
from pathlib import Path
from codeact import tool

@tool(effects="read", timeout=60)
def wait_for(name: str) -> str:
    """Waits for a file."""
    while not Path(name).exists():
        time.sleep(0.02)
    return name
'''
WAITS = (
    "I **count**, and wait.\n```python\nfrom tools import wait_for\nprint('one of two')\nwait_for('go')\n"
    "import matplotlib.pyplot as plt\nplt.bar(['Ghent', 'Lyon'], [9, 10])\nplt.show()\n```",
    "```python\nfinal_answer([{'city': 'Ghent', 'money': 9}, {'city': 'Lyon', 'money': 10}])\n```",
)
LOOPS = ("For ever.\n```python\nprint('it begins')\nwhile True:\n    pass\n```",)
CELLS = (
    "from codeact import Agent\nresult = Agent('scripted:waits.jsonl', tools='wait.py').run('Which city?')",
    "result",
    "paid = Agent('scripted:shop.jsonl', tools='shop.py', image='minimal').run('Pay back what got lost.')",
    "stopped = Agent('scripted:loops.jsonl', image='minimal').run('For ever')\nafter = True",
    "print('after' in globals())\n"
    "await Agent('scripted:loops.jsonl', image='minimal').arun('For ever')\nafter = True",
    "asked = await Agent('scripted:shop.jsonl', tools='shop.py', image='minimal').arun('Pay back what got lost.')",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "wait.py").write_text(TOOLS)
    for name, replies in (("waits", WAITS), ("loops", LOOPS)):
        lines = [json.dumps({"content": reply}) for reply in replies]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    for name in ("shop.py", "shop.jsonl"):
        shutil.copy(ROOT / "examples" / name, folder)
    notebook(folder / "runs.ipynb", CELLS)
    with started(folder, folder / "home") as lab:
        yield lab


@pytest.fixture(scope="module")
def book(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    with opened(lab, browser, "runs.ipynb") as book:
        yield book


def test_a_run_is_one_output_that_changes(lab: Lab, book: Notebook) -> None:
    book.run(0)
    output = book.cell(0).locator(".jp-OutputArea-output")
    expect(output.locator(".state strong")).to_have_text("Calling wait_for", timeout=60_000)
    expect(output.locator(".thoughts strong")).to_have_text("count")
    expect(output.locator("pre.output")).to_have_text("one of two\n")
    expect(output.locator("details").first).to_have_attribute("open", "")
    first = output.locator(".clock").evaluate("node => getComputedStyle(node, '::after').content")
    assert first.startswith("counter(")
    assert output.count() == 1
    (lab.folder / "go").touch()
    book.wait_done(0)
    assert output.count() == 1
    expect(output.locator(".state strong")).to_have_text("Answered")
    expect(output.locator("details[open]")).to_have_count(0)
    assert output.locator("img").evaluate("node => node.complete && node.naturalWidth > 100")
    expect(output.locator(".answer td")).to_have_text(["Ghent", "9", "Lyon", "10"])
    assert output.locator("script").count() == 0


def test_a_result_shows_its_answer_first(book: Notebook) -> None:
    book.run(1)
    book.wait_done(1)
    output = book.cell(1).locator(".jp-OutputArea-output")
    expect(output.locator(".answer th")).to_have_text(["city", "money"])
    expect(output.locator("details").first).to_contain_text("How it was found: 2 turns")
    assert output.locator("section.turn").first.is_hidden()


def answer_questions(book: Notebook, number: int) -> None:
    """Allows the first refund with another amount, at the second try, and refuses the other."""
    cell = book.cell(number)
    expect(cell.locator(".question pre")).to_have_text(
        "shop.refund(number='A-2', amount='35.00')", timeout=60_000
    )
    words = cell.get_by_placeholder("why not")
    words.fill("amount=oops(")
    cell.get_by_role("button", name="Allow").click()
    expect(cell.locator(".question .remark")).to_contain_text("write names and values as in a call")
    words.fill("amount='1.50'")
    cell.get_by_role("button", name="Allow").click()
    expect(cell.locator(".question pre")).to_have_text("shop.refund(number='A-3', amount='810.00')")
    cell.get_by_placeholder("why not").fill("ask Cleo first")
    cell.get_by_role("button", name="Refuse").click()
    book.wait_done(number)
    expect(cell.locator("pre.output").first).to_have_text(
        "1.50 paid back for A-2, key ...c3\nshop.refund was refused: ask Cleo first\n"
    )
    assert cell.get_by_role("button", name="Allow").count() == 0
    assert cell.locator(".jp-OutputArea-output").count() == 1


def test_buttons_answer_while_the_cell_runs(book: Notebook) -> None:
    book.run(2)
    answer_questions(book, 2)


def test_the_stop_button_ends_the_run_and_what_it_held(book: Notebook) -> None:
    book.run(3)
    output = book.cell(3).locator(".jp-OutputArea-output")
    expect(output.locator("pre.output")).to_have_text("it begins\n", timeout=60_000)
    book.stop()
    book.wait_done(3)
    expect(output.first.locator(".state strong")).to_have_text("Stopped")
    run = output.first.locator(".facts").inner_text().rpartition("run ")[2]
    expect(output.last).to_have_text(
        f"codeact: the run was stopped; go on with agent.resume('{run}')\n", use_inner_text=True
    )
    assert not containers(run)


def test_the_stop_button_ends_a_run_that_is_awaited(book: Notebook) -> None:
    book.run(4)
    cell = book.cell(4)
    expect(cell.locator("pre.output")).to_have_text("it begins\n", timeout=60_000)
    book.stop()
    book.wait_done(4)
    expect(cell.locator(".state strong")).to_have_text("Stopped")
    run = cell.locator(".facts").inner_text().rpartition("run ")[2]
    assert not containers(run)
    assert "False" in cell.inner_text()  # the cell that was stopped before went no further


def test_buttons_answer_a_run_that_is_awaited(book: Notebook) -> None:
    book.run(5)
    answer_questions(book, 5)


def containers(run: str) -> list[object]:
    with closing(find_engine().client()) as client:
        return list(client.containers.list(all=True, filters={"label": f"codeact.run={run}"}))


def test_the_file_holds_static_html_that_is_read_without_trust(
    lab: Lab, book: Notebook, browser: Browser
) -> None:
    book.page.keyboard.press("Control+s")
    book.page.wait_for_function("() => !document.querySelector('.jp-mod-dirty')")
    made = nbformat.read(lab.folder / "runs.ipynb", as_version=4)
    nbformat.validate(made)
    kinds = [[sorted(output.get("data", {})) for output in cell.outputs] for cell in made.cells[:3]]
    assert kinds == [[["text/html", "text/plain"]]] * 3
    made.cells.append(nbformat.v4.new_markdown_cell("Another file, which this server has not signed."))
    nbformat.write(made, lab.folder / "copy.ipynb")
    with opened(lab, browser, "copy.ipynb") as copy:
        output = copy.cell(0).locator(".jp-OutputArea-output")
        expect(output.locator(".answer td")).to_have_text(["Ghent", "9", "Lyon", "10"])
        expect(output.locator("img")).to_have_count(1)
        assert output.locator("style").count() == 0
        assert "Code, 6 lines" in output.inner_text()
