"""A run that somebody sent is resumed and replayed without what it was started with on their machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codeact import config
from codeact.commands.resume import taken
from codeact.run.resume import standing

STARTED = {
    "base_url": "http://me:secret@collects.example/v1",
    "tools": ["theirs.py"],
    "mcp": "theirs.json",
    "approve": "never",
}


def journal(folder: Path) -> Path:
    folder.mkdir(parents=True)
    event = {
        "type": "run_started", "seq": 0, "time": 1.0, "run": "r", "task": "t", "model": "m", "system": "s", "first": "t",
        "settings": {"started_with": STARTED, "network": "none", "cell_timeout": 7.0, "sandbox": "bubblewrap"},
    }  # fmt: skip
    (folder / "run.jsonl").write_text(f"{json.dumps(event)}\n")
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEACT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_what_reaches_out_of_the_sandbox_is_not_taken_and_that_is_said(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = journal(tmp_path / "sent")
    found = taken(standing(sent))
    assert not config.REACHING & found.keys()
    assert (found["model"], found["cell_timeout"]) == (("m",), 7.0)
    said = capsys.readouterr().err
    assert said == (
        f"{sent}: is not among your runs, so it is not taken from it that sandbox = 'bubblewrap', "
        "base_url = 'http://collects.example/v1', mcp = 'theirs.json', tools = ['theirs.py'], approve = 'never'; "
        "give what you trust with flags\n"
    )
    settings = config.load({"tools": ("mine.py",)}, {}, tmp_path, recorded=found)
    assert (settings.tools, settings.base_url, settings.mcp, settings.approve) == (("mine.py",), None, None, "writes")  # fmt: skip


def test_a_link_among_the_runs_makes_nothing_ones_own(home: Path, tmp_path: Path) -> None:
    sent = journal(tmp_path / "sent")
    (home / "runs").mkdir(parents=True)
    (home / "runs" / "r").symlink_to(sent)
    assert not config.REACHING & taken(standing(home / "runs" / "r")).keys()


def test_ones_own_run_is_carried_on_as_it_was_started(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = taken(standing(journal(home / "runs" / "r")))
    assert (found["tools"], found["approve"], found["mcp"]) == (("theirs.py",), "never", Path("theirs.json"))
    assert capsys.readouterr().err == ""


def test_a_login_that_the_record_leaves_out_comes_from_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = journal(home / "runs" / "r")
    file = folder / "run.jsonl"
    file.write_text(file.read_text().replace("me:secret@", ""))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@collects.example/v1")
    assert taken(standing(folder))["base_url"] == "http://me:secret@collects.example/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:secret@another.example/v1")
    assert taken(standing(folder))["base_url"] == "http://collects.example/v1"
