"""Front ends without subshells, as a client of the kernel's own: questions are answered on a line, outputs stay bounded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from bs4 import BeautifulSoup
from jupyter_client.manager import KernelManager

from tests.command import ROOT, environment

pytestmark = [pytest.mark.docker, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SECONDS = 90
PAY = "Agent('scripted:shop.jsonl', tools='shop.py', image='minimal').run('Pay back what got lost.')"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("typed")
    for name in ("shop.py", "shop.jsonl"):
        shutil.copy(ROOT / "examples" / name, folder)
    manager = KernelManager()
    manager.start_kernel(cwd=str(folder), env=environment(folder))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def answered(client: Any, source: str, lines: list[str]) -> list[dict[str, Any]]:
    """Executes a cell, types a line at each question, and gives what it put out."""
    typed = iter(lines)
    shown: list[dict[str, Any]] = []

    def stdin(message: dict[str, Any]) -> None:
        assert message["content"]["prompt"].startswith("Allow it? y / n WHY / always (for shop.refund)")
        client.input(next(typed))

    reply = client.execute_interactive(
        source, allow_stdin=True, timeout=SECONDS, stdin_hook=stdin, output_hook=shown.append
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    assert list(typed) == []
    return shown


@pytest.mark.parametrize(
    ("lines", "paid"),
    [
        (["what?", "", "amount='1.50'", "n ask Cleo first"],
         "1.50 paid back for A-2, key ...c3\nshop.refund was refused: ask Cleo first\n"),
        (["always"], "35.00 paid back for A-2, key ...c3\n810.00 paid back for A-3, key ...c5\n"),
    ],
)  # fmt: skip
def test_what_may_be_typed(client: Any, lines: list[str], paid: str) -> None:
    shown = answered(client, f"from codeact import Agent\nresult = {PAY}", lines)
    drawings = [each for each in shown if each["msg_type"].endswith("display_data")]
    assert [each["msg_type"] for each in drawings] == [
        "display_data",
        *["update_display_data"] * (len(drawings) - 1),
    ]
    assert len({each["content"]["transient"]["display_id"] for each in drawings}) == 1
    last = BeautifulSoup(drawings[-1]["content"]["data"]["text/html"], "html.parser")
    assert last.select("pre.output")[0].get_text() == paid


def test_a_result_is_not_shown_twice_by_the_cell_that_drew_it(client: Any) -> None:
    shown = answered(client, PAY, ["always"])
    assert "execute_result" not in [each["msg_type"] for each in shown]
    shown = answered(client, "result", [])
    assert [each["msg_type"] for each in shown if each["msg_type"] != "status"][1:] == ["display_data"]


def test_a_run_that_is_not_to_be_shown_draws_nothing(client: Any) -> None:
    source = f"print({PAY.replace('image=', 'show=False, approve=lambda call: True, image=')}.status)"
    shown = answered(client, source, [])
    assert [each["content"].get("text") for each in shown if each["msg_type"] != "status"][1:] == [
        "answered\n"
    ]


def test_a_run_on_another_thread_draws_nothing(client: Any) -> None:
    source = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool:\n"
        "    runs = [pool.submit(Agent('scripted:shop.jsonl', tools='shop.py', image='minimal', approve='never').run,"
        " 'x') for _ in range(2)]\n"
        "print([run.result().status for run in runs])"
    )
    shown = answered(client, source, [])
    assert [each["content"].get("text") for each in shown if each["msg_type"] != "status"][1:] == [
        "['answered', 'answered']\n"
    ]
