"""A real run with all that can happen in one, as notebook and as page: executed by nbclient, opened in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from playwright.sync_api import Browser, Page

from codeact import exports
from codeact.agent import Agent
from codeact.errors import UsageError
from codeact.models import ScriptedModel
from codeact.types import Result
from tests.browser import open_browser

pytestmark = pytest.mark.docker

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CELLS = (
    "rows = [line.split(',') for line in open('/workspace/data/sums.csv')]\nprint(len(rows), 'rows')\nlen(rows)",
    "rows['nothing']",
    "from IPython.display import HTML, Image, display\nimport base64\n"
    f"display(Image(base64.b64decode({PIXEL!r})))\n"
    "display(HTML('<table><thead><tr><th>city</th><th>money</th></tr></thead><tbody>"
    "<tr><td>Ghent</td><td>9</td></tr><tr><td>Lyon</td><td>10</td></tr>"
    '<tr><td onclick="document.title=1">Turin<script>document.title=2</script></td><td>2</td></tr></tbody></table>\'))\n'
    'display(HTML(\'<img src="http://192.0.2.1/x" onerror="document.title=3"><script>document.title=4</script>\'))\n'
    "display({'text/html': '<b>x</b>', 'application/javascript': 'document.title=5'}, raw=True)\n"
    "print('</pre></details><script>document.title=6</script><!--')",
    "while True: pass",
    "import os\nos._exit(3)",
    "open('out/made.txt', 'w').write('done')\nfinal_answer({'total': 21, 'best': '<script>document.title=7</script>'})",
)
THOUGHTS = "See [this](javascript:document.title=8), ![that](http://192.0.2.1/y) and <img src=x onerror=document.title=9>."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def result(place: Path) -> Result:
    data = place / "in" / "sums.csv"
    data.parent.mkdir()
    data.write_text("Ghent,9\nLyon,10\nTurin,2\n")
    model = ScriptedModel([f"{THOUGHTS}\n```python\n{code}\n```" for code in CELLS])
    agent = Agent(model, image="minimal", runs=place / "runs", cell_timeout=2)
    task = "Which city? </title><script>document.title=10</script>"
    result = agent.run(task, {"sums.csv": data})
    assert result.status == "answered", result
    return result


@pytest.fixture(scope="module")
def folder(place: Path, result: Result) -> Path:
    return place / "runs" / result.run


# -- notebook ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def notebook(place: Path, folder: Path) -> Any:
    exports.write(folder, "ipynb", place / "run.ipynb")
    return nbformat.read(place / "run.ipynb", as_version=4)


def test_a_notebook_is_valid_and_holds_the_run(notebook: Any) -> None:
    nbformat.validate(notebook)
    kinds = [(cell.cell_type, tuple(cell.metadata.get("tags", ()))) for cell in notebook.cells]
    assert kinds == [
        ("markdown", ()),  # the task
        ("code", ("setup",)),
        ("markdown", ()),
        ("code", ()),
        ("markdown", ()),
        ("code", ("raises-exception",)),
        ("markdown", ()),
        ("code", ()),
        ("markdown", ()),
        ("markdown", ()),  # what was stopped is not run again
        ("markdown", ()),
        ("markdown", ()),  # nor what ended its kernel
        ("markdown", ()),
        ("code", ()),
        ("markdown", ()),  # the answer
    ]
    first = notebook.cells[3]
    assert "'data/sums.csv'" in first.source
    assert [(output.output_type, output.get("text")) for output in first.outputs] == [
        ("stream", "3 rows\n"),
        ("execute_result", None),
    ]
    assert first.outputs[1].data == {"text/plain": "3"}
    shown = [
        dict(output.data) for output in notebook.cells[7].outputs if output.output_type == "display_data"
    ]
    assert shown[0]["image/png"] == PIXEL
    assert not any("application/javascript" in data for data in shown)
    assert "while True" in notebook.cells[9].source


def test_a_notebook_names_its_data_from_where_it_lies(notebook: Any) -> None:
    assert "data_files({'sums.csv': 'in/sums.csv'})" in notebook.cells[1].source


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_runs_from_top_to_bottom_without_us(place: Path, notebook: Any) -> None:
    copy = nbformat.from_dict(json.loads(json.dumps(notebook)))
    nbclient.NotebookClient(copy, timeout=60, resources={"metadata": {"path": str(place)}}).execute()
    outputs = [output for cell in copy.cells for output in cell.get("outputs", ())]
    streams = "".join(
        output.text for output in outputs if output.output_type == "stream" and output.name == "stdout"
    )
    assert streams.startswith("3 rows\n")
    assert "answer: {'total': 21" in streams
    assert [output.ename for output in outputs if output.output_type == "error"] == ["TypeError"]
    assert (place / "out" / "made.txt").read_text() == "done"


# -- page --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page_file(place: Path, folder: Path) -> Path:
    exports.write(folder, "html", place / "run.html")
    return place / "run.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(params=[(390, 844), (1280, 900)], ids=["phone", "desktop"])
def page(request: pytest.FixtureRequest, browser: Browser, page_file: Path) -> Iterator[Page]:
    width, height = request.param
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="dark")
    page.add_init_script("window.asked = []")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(page_file.as_uri())
    yield page
    assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    assert said == []
    page.close()


def test_a_page_is_inert_fits_and_asks_for_nothing(page: Page) -> None:
    assert page.title() == "Which city? </title><script>document.title=10</script>"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 1
    assert page.evaluate("document.querySelector('img').naturalWidth") == 1
    assert page.locator(".turn").count() == 6
    assert page.locator(".answer pre").inner_text() == (
        '{\n  "total": 21,\n  "best": "<script>document.title=7</script>"\n}'
    )
    assert page.locator(".turn a").count() == 0
    assert "KeyboardInterrupt" in page.locator("#turn-4").inner_text()
    assert "os._exit" not in page.locator("#turn-6").inner_text()


def test_tables_sort_by_number_and_by_word(page: Page) -> None:
    table = page.locator("#turn-3 table")
    cells = table.locator("tbody td:nth-child(1)")
    assert cells.all_inner_texts() == ["Ghent", "Lyon", "Turindocument.title=2"]
    money = table.get_by_role("button", name="money")
    money.click()
    assert cells.all_inner_texts() == ["Turindocument.title=2", "Ghent", "Lyon"]
    money.click()
    assert cells.all_inner_texts() == ["Lyon", "Ghent", "Turindocument.title=2"]
    table.get_by_role("button", name="city").click()
    assert cells.all_inner_texts() == ["Ghent", "Lyon", "Turindocument.title=2"]


def test_search_shows_the_turns_that_hold_the_words(page: Page) -> None:
    page.get_by_role("searchbox").fill("made.txt")
    assert [turn.get_attribute("id") for turn in page.locator(".turn:visible").all()] == ["turn-6"]
    assert page.locator("#count").inner_text() == "1 turn"
    assert page.locator("mark").all_inner_texts() == ["made.txt"]
    page.get_by_role("searchbox").fill("")
    assert page.locator(".turn:visible").count() == 6
    assert page.locator("mark").count() == 0


def test_dark_and_light(page: Page) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert background() == "rgb(21, 24, 27)"
    page.get_by_role("button", name="Dark / light").click()
    assert background() == "rgb(251, 251, 250)"


# -- files -------------------------------------------------------------------------------------------------------


def test_events_are_exported_as_they_were_recorded(folder: Path) -> None:
    """With what lies beside the journal put back, but for pictures."""
    lines = exports.text(folder, "jsonl", folder).splitlines()
    recorded = (folder / "run.jsonl").read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [json.loads(line)["seq"] for line in recorded]
    assert "$blob" in "".join(recorded)
    assert "$blob" not in "".join(lines)
    assert [line for line in recorded if "$blob" not in line] == [
        line for line, there in zip(lines, recorded, strict=True) if "$blob" not in there
    ]


def test_a_file_that_cannot_be_written_is_said_and_nothing_is_left(place: Path, folder: Path) -> None:
    with pytest.raises(UsageError, match=r"missing/run\.html: cannot be written: no such file or directory"):
        exports.write(folder, "html", place / "missing" / "run.html")
    assert not list(place.glob(".run*"))
