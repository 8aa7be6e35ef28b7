"""`%%codeact` in a real kernel, executed as a whole notebook is: variables in, results out, errors of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.command import ROOT, environment

pytestmark = [pytest.mark.docker, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

REPLIES = {
    "sum.jsonl": "```python\nfinal_answer(df.groupby('city')['money'].sum().reset_index().to_dict('records'))\n```",
    "lines.jsonl": "```python\nfinal_answer([len(other), len(open('data/lines.txt').readlines())])\n```",
    "pay.jsonl": "```python\nfrom tools.shop import refund\nrefund('A-2', '35.00')\n```",
}
CELLS: tuple[tuple[str, str, list[str]], ...] = (
    ("setup", "%load_ext codeact\nimport pandas as pd\n"
     "df = pd.DataFrame({'city': ['Ghent', 'Lyon', 'Ghent'], 'money': [4, 10, 5]})", []),
    ("frame", "%%codeact --data df --model scripted:sum.jsonl --out sums\nMoney by city?", []),
    ("named", "sums.answer == [{'city': 'Ghent', 'money': 9}, {'city': 'Lyon', 'money': 10}]", ["True"]),
    ("files", "%%codeact --data other=df --data lines.txt --model scripted:lines.jsonl\nHow many?", []),
    ("default", "result.answer", ["[3, 2]"]),
    ("unknown", "%%codeact --data nothing\nx",
     ["codeact: error: --data nothing: is neither a variable of this notebook nor a file; check the name"]),
    ("flag", "%%codeact --modell x\nx", ["codeact: error: --modell: no such option; did you mean --model?"]),
    ("value", "%%codeact --max-turns zero\nx",
     ["codeact: error: --max-turns: 'zero' is not a whole number of at least 1; write for example 20"]),
    ("quote", "%%codeact --data 'x\nx", ["codeact: error: %%codeact --data 'x: no closing quotation; close the quotation"]),
    ("words", "%%codeact extra\nx", ["codeact: error: Got unexpected extra argument (extra); see `%%codeact --help`"]),
    ("name", "%%codeact --out 1x\nx",
     ["codeact: error: --out 1x: is not the name of a variable; write for example --out totals"]),
    ("stdin", "%%codeact --data -\nx",
     ["codeact: error: --data -: a notebook has no standard input; name a variable or a file"]),
    ("model", "%%codeact --model scripted:none.jsonl\nx",
     ["codeact: error: cannot read the script none.jsonl: No such file or directory; check the path"]),
    ("nobody", "%%codeact --model scripted:pay.jsonl --tools shop.py --image minimal --max-turns 1\nPay", []),
    ("kept", "[e.reason for e in result.events if e.type == 'approval_given']",
     ["['nobody can be asked here: the notebook is run without a person']"]),
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cells, executed."""
    folder = tmp_path_factory.mktemp("magic")
    for name, reply in REPLIES.items():
        (folder / name).write_text(json.dumps({"content": reply}))
    (folder / "lines.txt").write_text("one\ntwo\n")
    (folder / "shop.py").write_bytes((ROOT / "examples" / "shop.py").read_bytes())
    book = new_notebook(cells=[new_code_cell(source) for _, source, _ in CELLS])
    client = nbclient.NotebookClient(book, timeout=120, allow_errors=True, resources=_in(folder))
    client.execute(env=environment(folder))
    nbformat.validate(book)
    return {name: cell for (name, _, _), cell in zip(CELLS, book.cells, strict=True)}


def _in(folder: Path) -> dict[str, Any]:
    return {"metadata": {"path": str(folder)}}


@pytest.mark.parametrize(("name", "said"), [(name, said) for name, _, said in CELLS if said])
def test_what_a_cell_says(made: dict[str, Any], name: str, said: list[str]) -> None:
    shown = [
        "\n".join(output.traceback) if output.output_type == "error" else output.data["text/plain"]
        for output in made[name].outputs
    ]
    assert shown == said


@pytest.mark.parametrize("name", ["frame", "files"])
def test_a_run_leaves_one_static_output(made: dict[str, Any], name: str) -> None:
    (output,) = made[name].outputs
    assert output.output_type == "display_data"
    assert "Answered" in output.data["text/html"]
    assert sorted(output.data) == ["text/html", "text/plain"]
