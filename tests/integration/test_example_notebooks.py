"""The example notebooks say what they said when their outputs were embedded; with --live, a real model answers them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup

from tests.notebooks import BOOKS, FOLDER, executed

pytestmark = [pytest.mark.docker, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
VARYING = re.compile(r"run \d{8}-\d{6}-[0-9a-f]{6}|\d+\.\d s\b|\(\d+\.\d KiB\)|about [\d,]+ tokens")


def said(book: Any) -> Iterator[str]:
    """The text of each output, and how many figures it has."""
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error", output
            data = output.get("data", {})
            if "text/html" in data:
                found = BeautifulSoup(data["text/html"], "html.parser")
                text = f"{found.get_text(' ', strip=True)} [{len(found.find_all('img'))}]"
            else:
                text = output.get("text") or data["text/plain"]
            yield VARYING.sub("...", text)


def test_there_are_three() -> None:
    assert [path.stem for path in BOOKS] == ["cleaning", "joining", "report"]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_is_embedded(path: Path, tmp_path: Path) -> None:
    embedded = nbformat.read(path, as_version=4)
    nbformat.validate(embedded)
    assert list(said(executed(path, tmp_path))) == list(said(embedded))


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_what_is_embedded_names_no_folder_of_whoever_made_it(path: Path) -> None:
    text = path.read_text()
    assert "Answered" in text
    assert not re.search(r"/(home|root|tmp|Users|work)/", text.replace("/workspace/", ""))
    assert path.stat().st_size < 300_000


@pytest.mark.live
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_with_a_real_model(path: Path, tmp_path: Path) -> None:
    """Whether it answers is the model's affair; that each run ends, and says how, is ours."""
    book = executed(path, tmp_path, model="local", allow_errors=True)
    ended = [text for text in said_of_runs(book) if re.search(r"\b(Answered|No answer|Limit|Failed)\b", text)]
    assert ended, FOLDER


def said_of_runs(book: Any) -> Iterator[str]:
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            yield BeautifulSoup(output.get("data", {}).get("text/html", ""), "html.parser").get_text(" ")
