"""`codeact chat`: at a terminal, as a person uses it, and in a pipe."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from codeact import journal
from tests.command import Ended, codeact
from tests.terminal import Terminal

pytestmark = pytest.mark.docker
LINE = "\x1b[?2004h"
"""What a terminal is sent when a line can be typed."""
UP, PASTE, PASTED = "\x1b[A", "\x1b[200~", "\x1b[201~"


def script(folder: Path, *cells: str) -> str:
    lines = [json.dumps({"content": f"I do it.\n```python\n{cell}\n```"}) for cell in cells]
    (folder / "replies.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return "scripted:replies.jsonl"


def in_pipe(folder: Path, lines: str, *cells: str, flags: tuple[str, ...] = ()) -> Ended:
    model = script(folder, *cells)
    return codeact("chat", "--model", model, "--image", "minimal", *flags, folder=folder, stdin=lines)


def test_in_a_pipe_a_line_is_a_question_and_its_answer_a_line(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("7\n")
    done = in_pipe(
        tmp_path,
        "How much?\n/model anthropic:claude\n\nAnd twice that?\n/nope\n/vars\n/data n.txt\nWith the file?\n",
        "n = 20\nfinal_answer(n)",
        "final_answer(2 * n)",
        "final_answer(n + int(open('data/n.txt').read()))",
        flags=("--quiet",),
    )
    assert done.out == "20\n40\n27\n"
    assert done.errors == [
        "codeact: error: anthropic:claude: Anthropic's own interface is not supported yet; use an OpenAI-compatible one",
        "codeact: error: /nope: no such command; did you mean /undo?; begin with a space to ask the model",
    ]
    assert "n: int" in done.err
    assert done.code == 2


def test_what_has_no_answer_leaves_an_empty_line(tmp_path: Path) -> None:
    done = in_pipe(
        tmp_path, "One?\nTwo?\n", "x = 1", "final_answer(x)", flags=("--quiet", "--max-turns", "1")
    )
    assert (done.out, done.code) == ("\n1\n", 3)


def test_as_json_each_line_is_an_object(tmp_path: Path) -> None:
    done = in_pipe(
        tmp_path,
        "One?\n/nope\nTwo?\n",
        r"final_answer('1\n2')",
        "final_answer(2)",
        flags=("--quiet", "--json"),
    )
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [each["answer"] for each in found] == ["1\n2", 2]
    assert done.code == 2
    assert found[0]["run"] == found[1]["run"]


def test_a_person_asks_follows_up_undoes_and_saves(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        "total = 20\nopen('kept.txt', 'w').write('one')\nfinal_answer(total)",
        "total += 1\nopen('kept.txt', 'a').write('two')\nfinal_answer([total, open('kept.txt').read()])",
        "final_answer([total, open('kept.txt').read()])",
        "final_answer('pasted')",
    )
    with Terminal(["chat", "--model", model, "--image", "minimal"], tmp_path) as terminal:
        terminal.wait_for("Ctrl-D ends the chat")
        terminal.type("How much?\r")
        terminal.wait_for("answered")
        terminal.type("And one more?\r")
        terminal.wait_for("answered", 2)
        terminal.type("/undo\r")
        terminal.wait_for("undone: the last question; 1 cell run again")
        terminal.type("/vars\r")
        terminal.wait_for("total: int")
        terminal.type("What is it now?\r")
        terminal.wait_for("answered", 3)
        terminal.type(f"{PASTE}first line\nsecond line{PASTED}\r")
        terminal.wait_for("answered", 4)
        terminal.type("/cost\r")
        terminal.wait_for("4 calls of the model")
        terminal.type("/save chat.ipynb\r")
        terminal.wait_for("saved: chat.ipynb")
        terminal.type("/quit\r")
        code, out = terminal.end()
    assert (code, out) == (0, '20\n[21, "onetwo"]\n[20, "one"]\npasted\n')
    assert "Traceback" not in terminal.shown
    (run,) = (tmp_path / "codeact-home" / "runs").iterdir()
    tasks = [line.get("task") for line in journal.read(run) if line["type"] in ("run_started", "run_resumed")]
    assert tasks == ["How much?", "And one more?", "What is it now?", "first line\nsecond line"]
    notebook = nbformat.read(tmp_path / "chat.ipynb", as_version=4)
    assert not any("total += 1" in cell.source for cell in notebook.cells)
    history = tmp_path / "codeact-home" / "chat-history"
    assert "+How much?" in history.read_text(encoding="utf-8")
    assert history.stat().st_mode & 0o077 == 0
    more = codeact(
        "resume",
        run.name,
        "More?",
        "--model",
        script(tmp_path, "final_answer(total)"),
        "--quiet",
        folder=tmp_path,
    )
    assert (more.out, more.code) == ("20\n", 0)


def test_ctrl_c_ends_the_question_and_keeps_the_state(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        "n = 5\nprint('on', flush=True)\nwhile True: pass",
        "final_answer(n)",
        "final_answer('again')",
    )
    with Terminal(["chat", "--model", model, "--image", "minimal"], tmp_path) as terminal:
        terminal.wait_for("Ctrl-D ends the chat")
        terminal.type("Go on for ever.\r")
        terminal.wait_for("on\r\n")
        lines = terminal.shown.count(LINE)
        terminal.type("\x03")
        terminal.wait_for("stopped by the person")
        terminal.wait_for(LINE, lines + 1)
        terminal.type("half a question\x03")
        terminal.wait_for(LINE, lines + 2)
        terminal.type("What is n?\r")
        terminal.wait_for("answered")
        terminal.type(f"{UP}\r")
        terminal.wait_for("answered", 2)
        terminal.type("/quit\r")
        code, out = terminal.end()
    assert (code, out) == (0, "5\nagain\n")
    tasks = [
        line.get("task")
        for run in (tmp_path / "codeact-home" / "runs").iterdir()
        for line in journal.read(run)
        if line["type"] in ("run_started", "run_resumed")
    ]
    assert tasks == ["Go on for ever.", "What is n?", "What is n?"]


def test_ctrl_d_ends_a_chat_in_which_nothing_was_asked(tmp_path: Path) -> None:
    with Terminal(["chat", "--model", script(tmp_path), "--image", "minimal"], tmp_path) as terminal:
        terminal.wait_for(LINE)
        terminal.type("\x04")
        assert terminal.end() == (0, "")
    assert list((tmp_path / "codeact-home" / "runs").iterdir()) == []


def test_standard_input_and_the_endpoint_of_a_run_are_there_when_it_is_resumed(tmp_path: Path) -> None:
    flags = ("--image", "minimal", "--quiet")
    cut = ("solve", "How many?", "--data", "-", "--max-turns", "1", *flags)
    first = codeact(*cut, "--model", script(tmp_path, "x = 1"), folder=tmp_path, stdin="a\n1\n2\n")
    assert first.code == 3
    (run,) = (tmp_path / "codeact-home" / "runs").iterdir()
    model = script(tmp_path, "final_answer(x + len(open('data/stdin').read().split()))")
    second = codeact("resume", run.name, "--model", model, "--quiet", folder=tmp_path)
    assert (second.out, second.code) == ("4\n", 0), second.err
    nowhere = ("--model", "m", "--base-url", "http://me:secret@127.0.0.1:9/v1?key=hidden")
    failed = codeact("solve", "How many?", *nowhere, *flags, folder=tmp_path)
    assert failed.code == 5
    last = max(tmp_path.glob("codeact-home/runs/*"), key=lambda path: path.stat().st_mtime)
    kept = (last / journal.FILE).read_text(encoding="utf-8")
    assert '"base_url": "http://127.0.0.1:9/v1"' in kept
    assert "secret" not in kept
    assert "hidden" not in kept
    assert "127.0.0.1:9" in codeact("resume", last.name, "--quiet", folder=tmp_path).err
