"""The journal: on a disk that takes no more, cut off, large, of an earlier version; events on disk and back."""

from __future__ import annotations

import base64
import json
import re
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from codeact import events
from codeact.errors import JournalError, UsageError
from codeact.journal import FILE, Journal, is_live, line_schema, load, read
from codeact.types import Artifact, Code, Reading, Usage
from sandbox.types import CellError, CellResult, Dropped, Image, Notice, Rich, Rung, Stream, Variable

DATA = Path(__file__).parents[1] / "data"

STARTED = events.RunStarted(run="r-1", task="t", model="m", settings={}, system="s", first="f")
TOO_LONG = events.RunStarted(run="r-1", task="t" * 10_000, model="m", settings={}, system="s", first="f")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_event_that_the_disk_does_not_take_is_said_and_closing_is_quiet(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r-1")
    journal.append(STARTED)
    with files_of_at_most(5000):
        with pytest.raises(JournalError, match=r"run\.jsonl: cannot be written: .*; free some space"):
            journal.append(TOO_LONG)
        journal.close()
    assert [event["task"] for event in read(tmp_path / "r-1")] == ["t"]


def test_a_picture_that_the_disk_does_not_take_is_said(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r-1")
    picture = Image("image/png", base64.b64encode(bytes(10_000)).decode())
    with (
        files_of_at_most(5000),
        pytest.raises(JournalError, match=r"figure-1\.png: cannot be written: .*; free some"),
    ):
        journal.keep_picture(picture)
    journal.close()


# -- events on disk and back -------------------------------------------------------------------------------------

PNG = base64.b64encode(b"\x89PNG" + bytes(range(256)) * 8).decode()
OUTPUTS = (
    Stream("stdout", "é\ud800\x00" + "x" * 50_000),
    Rich("display", {"image/png": PNG, "text/plain": "<Figure>"}),
    CellError("ValueError", "no", "trace"),
    Dropped(5, "much"),
    Notice("it was"),
    Rung(1, "interrupt", "an interrupt was sent", 2.5),
)
HISTORY: tuple[events.Event, ...] = (
    STARTED,
    events.Replied(
        turn=1,
        text="t",
        reading=Reading("t", (Code("x = 1"),), None, ("note",), 7),
        finish="stop",
        usage=Usage(1, 2, 3, 4, 2, True),
        model="m",
        seconds=1.5,
    ),
    events.CodeStarted(turn=1, source="x = 1", cell=1),
    events.ToolCalled(call="c1", cell=1, tool="t", arguments={"a": [1, {"b": None}]}, digest="d", key="k"),
    events.ToolReturned(call="c1", tool="t", ok=True, value={"$blob": "mine", "n": list(range(20_000))}),
    events.Observed(
        turn=1,
        text="out",
        cell=CellResult("timeout", OUTPUTS, 1.25, "all variables", (Variable("x", "int", 28),)),
        images=("figure-1.png",),
        earlier=(CellResult("ok"),),
    ),
    events.SandboxRestarted(reason="r", lost="l", restored=(1, 2), differences=("d",), names=("n",)),
    events.RunResumed(model="m", task="more", text="more"),
    events.RunEnded(
        status="answered",
        answer={"deep": [1.5, None]},
        usage=Usage(),
        seconds=2.0,
        artifacts=(Artifact("a", Path("/a"), 3),),
    ),
)


def written(folder: Path, log: Sequence[events.Event] = HISTORY) -> Path:
    journal = Journal(folder)
    for seq, event in enumerate(log, 1):
        journal.append(replace(event, run="r-1", seq=seq, time=float(seq)))
    journal.close()
    return folder


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    loaded = load(written(tmp_path / "r-1"))
    for seq, (event, back) in enumerate(zip(HISTORY, loaded, strict=True), 1):
        expected = replace(event, run="r-1", seq=seq, time=float(seq))
        if isinstance(expected, events.Observed):  # UTF-8 has no lone surrogates
            assert expected.cell is not None
            said = (replace(OUTPUTS[0], text=OUTPUTS[0].text.replace("\ud800", "?")), *OUTPUTS[1:])
            expected = replace(expected, cell=replace(expected.cell, outputs=said))
        assert back == expected


def test_what_is_large_lies_beside_the_journal_once(tmp_path: Path) -> None:
    folder = written(tmp_path / "r-1", HISTORY * 3)
    assert (folder / FILE).stat().st_size < 3 * 5000
    kept = sorted(path.stat().st_size for path in (folder / "blobs").iterdir())
    assert len(kept) == 3  # a picture, an output, the value of a call
    shown = next(line for line in read(folder) if line["type"] == "observed")
    assert shown["cell"]["outputs"][1]["data"]["image/png"] == "(picture)"


@pytest.mark.parametrize("how", ["gone", "changed"])
def test_what_is_lost_is_said_in_its_place(tmp_path: Path, how: str) -> None:
    folder = written(tmp_path / "r-1")
    for path in (folder / "blobs").iterdir():
        path.unlink() if how == "gone" else path.write_bytes(b"else")
    observed = next(event for event in load(folder) if isinstance(event, events.Observed))
    assert observed.cell is not None
    assert re.fullmatch(r"\(lost: \d+ bytes, blobs/[0-9a-f]{64}\)", observed.cell.stdout)


def test_a_marker_that_names_another_file_reads_none(tmp_path: Path) -> None:
    folder = written(tmp_path / "r-1", HISTORY[:1])
    (tmp_path / "secret").write_text("secret")
    for digest, file in (("../../secret", None), ("0" * 64, "../secret"), ("0" * 64, "figures/../../secret")):
        line = {"v": 2, "type": "error", "kind": "k"}
        marker = {"$blob": digest, "form": "text", "bytes": 6, **({"file": file} if file else {})}
        (folder / FILE).write_text(json.dumps({**line, "message": marker}) + "\n")
        assert "secret" not in str(list(read(folder))).replace("../../secret", "")


def test_a_torn_line_is_cut_off_when_the_run_goes_on(tmp_path: Path) -> None:
    folder = written(tmp_path / "r-1", HISTORY[:3])
    whole = (folder / FILE).read_bytes()
    for cut in (1, 20, len(whole) - whole.rstrip(b"\n").rfind(b"\n") - 2):
        (folder / FILE).write_bytes(whole[:-cut])
        assert len(load(folder)) == 2 + (cut == 1)
        journal = Journal(folder, again=True)
        journal.append(HISTORY[2])
        journal.close()
        assert [event.type for event in load(folder)] == ["run_started", "replied", "code_started"]


def test_one_process_writes_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r-1")
    assert is_live(tmp_path / "r-1")
    with pytest.raises(UsageError, match="r-1: the run goes on in another process"):
        Journal(tmp_path / "r-1", again=True)
    journal.close()
    assert not is_live(tmp_path / "r-1")
    Journal(tmp_path / "r-1", again=True).close()


def test_a_journal_of_the_first_schema_loads(tmp_path: Path) -> None:
    loaded = load(DATA / "run-v1")
    assert [event.type for event in loaded].count("observed") == 3
    observed = [event for event in loaded if isinstance(event, events.Observed)]
    assert observed[0].images == ("figure-1.png",)
    assert observed[1].cell is not None
    assert str(observed[1].cell.error) == "NameError: name 'missing' is not defined"
    assert isinstance(loaded[-1], events.RunEnded)
    assert loaded[-1].answer == 42


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"v": 99, "type": "run_started"}\n')
    with pytest.raises(UsageError, match="written by a newer codeact"):
        load(tmp_path)


def test_lines_fit_the_published_schema(tmp_path: Path) -> None:
    check = Draft202012Validator(line_schema())
    for folder in (written(tmp_path / "r-1"), DATA / "run-v1"):
        for line in read(folder, pictures=True):
            check.validate(line)
    wrong = {**next(read(tmp_path / "r-1")), "task": 5}
    assert not check.is_valid(wrong)


def test_what_is_nested_too_deep_for_json_is_left_out_and_said(tmp_path: Path) -> None:
    deep: Any = "the end"
    for _ in range(20_000):
        deep = [deep]
    kept = Journal(tmp_path / "r-1")
    kept.append(events.AnswerGiven(run="r-1", seq=1, time=1.0, answer={"a": deep}, accepted=False))
    kept.close()
    [event] = load(tmp_path / "r-1")
    assert isinstance(event, events.AnswerGiven)
    found, depth = event.answer["a"], 0
    while isinstance(found, list):
        [found] = found
        depth += 1
    assert (found, depth) == ("(nested too deep)", 100)
