"""A person at a terminal is asked about calls."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.command import ROOT, codeact
from tests.terminal import Terminal

pytestmark = pytest.mark.docker

QUESTION = "allow it? y / n / always for shop.refund / edit:"
SOLVE = (
    "solve",
    "Pay back what got lost.",
    "--tools",
    "shop.py",
    "--image",
    "minimal",
    "--model",
    "scripted:shop.jsonl",
)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name in ("shop.py", "shop.jsonl"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path


def made(folder: Path) -> list[tuple[str, bool, str]]:
    """Tool, whether it was allowed, and the reason, of each question."""
    log = next((folder / "codeact-home").rglob("run.jsonl"))
    given = [
        event
        for line in log.read_text().splitlines()
        if (event := json.loads(line))["type"] == "approval_given"
    ]
    return [(event["by"], event["allowed"], event["reason"]) for event in given]


@pytest.mark.parametrize(
    ("keys", "answer", "decisions"),
    [
        (["y", "y"], {"paid": 2, "refused": []}, [(True, ""), (True, "")]),
        (["what?", "always"], {"paid": 2, "refused": []}, [(True, "")]),
        (
            ["n\nnot without a form\n", "y"],
            {"paid": 1, "refused": ["shop.refund was refused: not without a form"]},
            [(False, "not without a form"), (True, "")],
        ),
        (["edit\namount=oops(\namount='1.50'", "a"], {"paid": 2, "refused": []}, [(True, ""), (True, "")]),
        (
            ["\x04", "y"],
            {"paid": 1, "refused": ["shop.refund was refused: there was no answer"]},
            [(False, "there was no answer"), (True, "")],
        ),
    ],
)
def test_what_a_person_may_say(
    here: Path, keys: list[str], answer: object, decisions: list[tuple[bool, str]]
) -> None:
    with Terminal(SOLVE, here) as terminal:
        for count, key in enumerate(keys, 1):
            terminal.wait_for(QUESTION, count)
            terminal.type(key if key == "\x04" else f"{key}\n")
        code, out = terminal.end()
    assert (code, json.loads(out)) == (0, answer)
    assert made(here) == [("person", allowed, reason) for allowed, reason in decisions]
    changed = "edit" in keys[0]
    amount = "'1.50') (changed from amount='35.00')" if changed else "'35.00')"
    assert f"shop.refund(number='A-2', amount={amount} → " in terminal.shown
    assert "shop.order(number='A-2') → " in terminal.shown
    assert "Traceback" not in terminal.shown


MANY = (
    "```python\nfrom tools.shop import refund\n"
    "done = refund.map(['A-1', 'A-2', 'A-3', 'A-1'], amount='1.00', concurrency=4, errors='return')\n"
    "final_answer([str(each) if isinstance(each, Exception) else 'paid' for each in done])\n```"
)


def test_calls_that_are_made_at_once_are_asked_about_one_by_one(here: Path) -> None:
    (here / "many.jsonl").write_text(json.dumps({"content": MANY}))
    arguments = [*SOLVE[:-1], "scripted:many.jsonl"]
    with Terminal(arguments, here) as terminal:
        for count, key in enumerate(["y\n", "n\nnot this one\n", "y\n", "y\n"], 1):
            terminal.wait_for(QUESTION, count)
            assert terminal.shown.count(QUESTION) == count
            terminal.type(key)
        code, out = terminal.end()
    assert code == 0
    assert sorted(json.loads(out)) == ["paid", "paid", "paid", "shop.refund was refused: not this one"]
    assert len(set(re.findall(r"shop\.refund\(number='A-\d', amount='1\.00'\)\s", terminal.shown))) == 3
    assert [allowed for _, allowed, _ in made(here)] == [True, False, True, True]


def test_always_answers_those_that_wait_too(here: Path) -> None:
    (here / "many.jsonl").write_text(json.dumps({"content": MANY}))
    with Terminal([*SOLVE[:-1], "scripted:many.jsonl"], here) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("always\n")
        code, out = terminal.end()
    assert (code, json.loads(out)) == (0, ["paid"] * 4)
    assert terminal.shown.count(QUESTION) == 1


def test_ctrl_c_ends_the_questions_of_all_that_wait(here: Path) -> None:
    replies = [MANY, "```python\nfinal_answer('went on')\n```"]
    (here / "many.jsonl").write_text("\n".join(json.dumps({"content": each}) for each in replies))
    with Terminal([*SOLVE[:-1], "scripted:many.jsonl"], here) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("\x03")
        code, out = terminal.end()
    assert (code, out) == (0, "went on\n")
    assert terminal.shown.count(QUESTION) == 1
    assert not any(allowed for _, allowed, _ in made(here))


def test_ctrl_c_at_the_question_interrupts_the_turn(here: Path) -> None:
    with Terminal(SOLVE, here) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("\x03")
        code, out = terminal.end()
    assert "interrupting this turn" in terminal.shown
    assert made(here)[0][:2] == ("person", False)
    assert code == 0  # the model goes on: `paid` is there, and empty
    assert json.loads(out)["paid"] == 0


@pytest.mark.parametrize(
    ("flags", "paid", "by"),
    [((), 0, []), (("--yes",), 2, ["policy", "policy"]), (("--approve", "never"), 2, [])],
)
def test_without_a_terminal(here: Path, flags: tuple[str, ...], paid: int, by: list[str]) -> None:
    ended = codeact(*SOLVE, *flags, folder=here)
    answer = json.loads(ended.out)
    assert (ended.code, answer["paid"]) == (0, paid)
    assert [who for who, _, _ in made(here)] == by
    assert all("--approve never" in reason for reason in answer["refused"])
    assert len(answer["refused"]) == 2 - paid


def test_the_table_of_calls(here: Path) -> None:
    codeact(*SOLVE, "--yes", folder=here)
    run = next((here / "codeact-home").rglob("run.jsonl")).parent.name
    table = codeact("show", run, "--tools", folder=here)
    lines = table.out.splitlines()
    assert table.code == 0
    assert lines[0].split() == [
        "call",
        "cell",
        "seconds",
        "waited",
        "tries",
        "what",
        "was",
        "called",
        "what",
        "came",
        "of",
        "it",
    ]
    assert [line.split()[0] for line in lines[1:-1]] == ["c1", "c2", "c3", "c4", "c5"]
    assert "shop.find_orders(state='lost')" in lines[1]
    assert lines[1].endswith("['A-2', 'A-3']")
    assert lines[-1].startswith("5 calls, 0 failed, ")
    listed = json.loads(codeact("show", run, "--tools", "--json", folder=here).out)
    assert [call["tool"] for call in listed] == ["shop.find_orders", *["shop.order", "shop.refund"] * 2]
    assert codeact(*SOLVE, "--tools-off", "shop.refund", folder=here).code != 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--tools", "none.py"), "none.py is not there"),
        (("--mcp", "none.json"), "none.json"),
        (("--approve", "maybe"), "--approve: 'maybe' is not known"),
    ],
)
def test_bad_flags_are_one_line(here: Path, flags: tuple[str, ...], said: str) -> None:
    ended = codeact("solve", "x", *flags, "--model", "scripted:shop.jsonl", folder=here)
    assert ended.code == 2
    assert len(ended.errors) == 1
    assert said in ended.errors[0]


def test_standard_output_has_the_answer_alone_whatever_tools_print(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import os, subprocess\nfrom codeact import tool\nprint('imported')\n\n\n@tool(effects='read')\n"
        "def loud() -> str:\n    print('printed')\n    os.write(1, b'written\\n')\n"
        "    subprocess.run(['echo', 'from a child'], check=True)\n    return 'done'\n"
    )
    code = "```python\nimport tools\nfinal_answer(tools.loud())\n```"
    (tmp_path / "model.jsonl").write_text(json.dumps({"content": code}))
    model = ("--image", "minimal", "--model", "scripted:model.jsonl")
    ended = codeact("solve", "Do it.", "--tools", "loud.py", *model, folder=tmp_path)
    assert (ended.code, ended.out) == (0, "done\n")
    assert {"imported", "printed", "written", "from a child"} <= set(ended.err.splitlines())
    ended = codeact("solve", "Do it.", "--tools", "loud.py", *model, "--json", folder=tmp_path)
    assert json.loads(ended.out)["answer"] == "done"
