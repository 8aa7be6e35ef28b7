"""The command line where no run comes about: what it says, on which stream, with which exit code."""

from __future__ import annotations

import io
import json
import math
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codeact import events, journal, tidying
from codeact.commands import invocation
from codeact.commands.runs import summaries
from codeact.commands.solve import printed, read_task
from codeact.errors import CodeActError, ModelAuthError, ModelUnreachable, UsageError
from codeact.events import Error
from codeact.types import Result, Usage
from sandbox.errors import EnginePermission, ImageNotFound, StartError
from tests.command import COMMAND, ORDINARY, ROOT, codeact, environment

NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with data, a script for the model, a schema, and things that are none."""
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.csv").write_text("x\n2\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "dangling.csv").symlink_to("gone.csv")
    (tmp_path / "s.jsonl").write_text('{"content": "done"}\n')
    (tmp_path / "schema.json").write_text('{"type": "number"}')
    (tmp_path / "rows.json").write_text('[{"a": 1}]')
    (tmp_path / "object.json").write_text('{"a": 1}')
    (tmp_path / "wrong.json").write_text('{"type": "nummer"}')
    (tmp_path / "torn.json").write_text('{"type": ')
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "blank.txt").write_text(" \n\t\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "a command is missing; known are chat, doctor, "),
        (["image"], "a command is missing; known are build, list, verify; see `codeact image --help`"),
        (["solv"], "'solv': no such command; did you mean solve?"),
        (["xyzzy"], "'xyzzy': no such command; known are chat, doctor, export, gc, image, model, replay, resume, runs, show, solve"),
        (["--verson"], "--verson: no such option; did you mean --version?"),
        (["solve", "t", "--max-turn", "3"], "--max-turn: no such option; did you mean --max-turns?"),
        (["solve", "t", "--xyzzy"], "--xyzzy: no such option; known are "),
        (["solve"], "TASK: is missing; see `codeact solve --help`"),
        (["replay", "a.csv"], "a.csv: the run ended before it began; start it again"),
        (["solve", "two", "tasks"], "Got unexpected extra argument (tasks); put the task in quotes, or see `codeact solve --help`"),
        (["solve", "t", "--max-turns"], "--max-turns: "),
        (["solve", "t", "--max-turns", "x"], "--max-turns: 'x' is not a whole number of at least 1; write for example 20"),
        (["solve", "t", "--memory", "lots"], "--memory: 'lots' is not a size: write a number of bytes"),
        (["solve", "t", "--sandbox", "vm"], "--sandbox: 'vm' is not known; write docker or bubblewrap or auto"),
        (["solve", "t", "--network", "*.org"], "--network: '*.org' is too wide"),
        (["solve", "t", "--data", "none.csv"], "none.csv: no such file or folder; check the path"),
        (["solve", "t", "--data", "https://me:pw@example.com/a.csv?key=b"], "--data https://example.com/a.csv: is an address, and data are files; download it, and give the file"),
        (["solve", "t", "--data", "*.parquet"], "--data *.parquet: no file matches; check the pattern"),
        (["solve", "t", "--data", "empty.csv"], "empty.csv: is empty; give a file with data in it"),
        (["solve", "t", "--data", ""], "--data: is empty; leave it out"),
        (["solve", "t", "--data", "dangling.csv"], "dangling.csv: is a link to gone.csv, which is not there; mend"),
        (["solve", "t", "--data", "a.csv", "--data", "more/a.csv"], "--data: a.csv and more/a.csv have the same name; "),
        (["solve", "t", "--data", "-"], "--data -: standard input is empty; pipe a file"),
        (["solve", "-", "--data", "-"], "--data -: the task is read from standard input already; "),
        (["solve", ""], "TASK: is empty; write what is to be found out or done"),
        (["solve", "  \n "], "TASK: is empty; "),
        (["solve", "-"], "TASK: is empty; "),
        (["solve", "@blank.txt"], "TASK: is empty; "),
        (["solve", "@none.txt"], "none.txt: the task file cannot be read: no such file or directory; check"),
        (["solve", "@more"], "more: the task file cannot be read: is a directory; "),
        (["solve", "@latin.txt"], "@latin.txt: is not UTF-8 text; "),
        (["solve", "t", "--output-schema", "none.json"], "none.json: the output schema cannot be read: no such file"),
        (["solve", "t", "--output-schema", "torn.json"], "torn.json: is not JSON: "),
        (["solve", "t", "--output-schema", "rows.json"], "rows.json: is not a JSON Schema; write one such as"),
        (["solve", "t", "--output-schema", "object.json"], "object.json: is not a JSON Schema; "),
        (["solve", "t", "--model", "scripted:s.jsonl", "--output-schema", "wrong.json"], "the output schema is not a JSON Schema"),
        (["solve", "t", "--out", "a.csv"], "--out a.csv: is not a folder; name another"),
        (["solve", "t", "--out", "a.csv/o"], "--out a.csv/o: cannot be written: not a directory; name another folder"),
        (["solve", "t", "--out", ""], "--out: is empty; leave it out, or give a value"),
        (["solve", "t", "--max-turns", "9" * 5000], f"--max-turns: '{'9' * 60}' is not a whole number"),
        (["solve", "t", "--model", "m", "--base-url", "http://[::1/v1"], "'http://[::1/v1' is not the address of an endpoint"),
        (["solve", "t", "--model", "m", "--base-url", "http://h:99999/v1"], "'http://h:99999/v1' is not the address of an"),
        (["solve", "t", "--model", "m", "--base-url", "http://me:pass/word@h/v1"], "'h/v1' is not the address of an endpoint"),
        (["show", "x" * 300], "x" * 300 + ": no such run"),
        (["solve", "t", "--out", "/proc/o"], "--out /proc/o: cannot be written: "),
        (["solve", "t", "--model", "scripted:none.jsonl"], "cannot read the script none.jsonl: "),
        (["solve", "t", "--model", "a", "--model", "b"], "--model: is given more than once"),
        (["show", "nothing"], "nothing: no such run: neither an id in "),
        (["image", "bild"], "'bild': no such command; did you mean build?"),
        (["model", "serve", "--port", "http"], "--port: 'http' is not a valid integer"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(here: Path, arguments: list[str], line: str) -> None:
    ended = codeact(*arguments, folder=here)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"codeact: error: {line}"), ended.err
    assert ended.err.count("\n") == 1


def test_a_home_that_is_no_folder_is_not_one_without_runs(here: Path) -> None:
    ended = codeact("runs", folder=here, env=environment(here, CODEACT_HOME=str(here / "a.csv")))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"codeact: error: {here}/a.csv/runs: cannot be listed: not a directory; mend that, or set CODEACT_HOME\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["--model", "anthropic:claude"],
            5,
            "anthropic:claude: Anthropic's own interface is not supported yet",
        ),
        (["--model", "local:gpt-9"], 5, "no local model 'gpt-9': choose one of "),
        (
            ["--model", "scripted:s.jsonl"],
            4,
            "no container engine answers at DOCKER_HOST=unix:///nowhere/docker.sock",
        ),
    ],
)
def test_no_model_and_no_sandbox(here: Path, arguments: list[str], code: int, line: str) -> None:
    ended = codeact("solve", "t", *arguments, folder=here, env=environment(here, **NO_ENGINE))
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(f"codeact: error: {line}"), ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["solve", "t", "--data", "none.csv", "--json"], 2),
        (["solve", "--json", "t", "--no-such-flag"], 2),
        (["solve", "--json"], 2),
        (["solve", "t", "--json", "--model", "anthropic:x"], 5),
        (["solve", "t", "--json", "--model", "scripted:s.jsonl"], 4),
    ],
)
def test_failures_as_json_are_one_object(here: Path, arguments: list[str], code: int) -> None:
    ended = codeact(*arguments, folder=here, env=environment(here, **NO_ENGINE))
    said = json.loads(ended.out)
    assert ended.code == code
    assert said == {
        "answer": None,
        "status": "failed",
        "run": None,
        "usage": {
            "calls": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cached_tokens": 0,
            "reasoning_tokens": 0,
            "estimated": False,
            "tool_calls": 0,
            "tool_seconds": 0.0,
        },
        "artifacts": [],
        "error": said["error"],
    }
    assert ended.errors == [f"codeact: error: {said['error']}"]


def test_failures_as_json_when_the_environment_asks_for_it(here: Path) -> None:
    ended = codeact("solve", "t", "--no-such-flag", folder=here, env=environment(here, CODEACT_JSON="yes"))
    assert json.loads(ended.out)["status"] == "failed"


def test_settings_come_from_file_and_environment(here: Path) -> None:
    (here / "codeact.toml").write_text('max_turns = "x"\n')
    ended = codeact("solve", "t", folder=here)
    assert (ended.code, ended.err) == (
        2,
        "codeact: error: codeact.toml: max_turns: 'x' is of the wrong type; write max_turns = 20\n",
    )
    (here / "codeact.toml").write_text("json = true\n")
    ended = codeact("solve", "t", folder=here, env=environment(here, CODEACT_DATA="none.csv"))
    assert ended.code == 2
    assert json.loads(ended.out)["error"].startswith("none.csv: no such file or folder")


@pytest.mark.parametrize(
    ("locked", "flags", "line"),
    [
        (
            "a.csv",
            ["--data", "a.csv"],
            "a.csv: cannot be read: permission denied; check its name and permissions",
        ),
        (
            "more",
            ["--data", "more"],
            "more: cannot be read: permission denied; check its name and permissions",
        ),
        (
            "more",
            ["--out", "more/o"],
            "--out more/o: cannot be written: permission denied; name another folder",
        ),
        ("codeact.toml", [], "codeact.toml: cannot be read: Permission denied; mend or remove it"),
        (
            "schema.json",
            ["--output-schema", "schema.json"],
            "schema.json: the output schema cannot be read: permission",
        ),
    ],
)
def test_what_may_not_be_used(here: Path, locked: str, flags: list[str], line: str) -> None:
    path = here / locked
    if not path.exists():
        path.touch()
    path.chmod(0)
    ended = codeact("solve", "t", *flags, folder=here, before=ORDINARY)
    path.chmod(0o700)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"codeact: error: {line}"), ended.err


def test_nothing_is_made_by_what_fails_before_a_run(here: Path) -> None:
    before = sorted(here.rglob("*"))
    codeact("solve", "t", "--data", "none.csv", "--out", "o", folder=here)
    assert sorted(here.rglob("*")) == before


def test_only_debug_shows_a_traceback(here: Path) -> None:
    ended = codeact("solve", "t", "--debug", "--data", "none.csv", folder=here)
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.splitlines()[-1].startswith("codeact: error: none.csv: ")


def test_version_and_help_are_on_standard_output(here: Path) -> None:
    ended = codeact("--version", folder=here)
    assert (ended.code, ended.out, ended.err) == (0, "codeact 0.1.0\n", "")
    ended = codeact("--help", folder=here)
    assert (ended.code, ended.err) == (0, "")
    assert "solve" in ended.out
    ended = codeact("solve", "--help", folder=here)
    assert (ended.code, ended.err) == (0, "")
    assert "--output-schema FILE.json" in ended.out


@pytest.mark.parametrize("group", [[], ["image"], ["model"], ["runs"]])
def test_what_is_said_of_a_command_in_a_list_is_not_cut(here: Path, group: list[str]) -> None:
    _, listed = codeact(*group, "--help", folder=here).out.split("Commands:\n")
    assert listed.strip()
    assert "..." not in listed


def test_the_version_is_said_without_loading_what_is_heavy() -> None:
    code = "import sys, codeact.cli; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"docker", "openai", "rich", "requests", "pydantic", "jsonschema"} & set(loaded.stdout.split())


@pytest.mark.parametrize(
    "changes", [{"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_a_terminal_that_knows_only_ascii(here: Path, changes: dict[str, str]) -> None:
    ended = codeact("solve", "t", "--data", "größe.csv", folder=here, env=environment(here, **changes))
    assert ended.code == 2
    assert len(ended.errors) == 1
    assert "gr" in ended.errors[0]


def closed(descriptor: int) -> Callable[[], None]:
    return lambda: os.close(descriptor)


@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_closed_stream_is_no_trouble(here: Path, descriptor: int) -> None:
    done = subprocess.run(
        [*COMMAND, "solve", "t", "--json", "--data", "none.csv"],
        cwd=here,
        env=environment(here),
        capture_output=True,
        text=True,
        preexec_fn=closed(descriptor),
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert bool(done.stdout) == (descriptor == 2)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["solve", "-"], "TASK: is empty; "),
        (["solve", "t", "--data", "-"], "--data -: standard input is empty; "),
    ],
)
def test_closed_standard_input_is_empty(here: Path, arguments: list[str], line: str) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=here,
        env=environment(here),
        capture_output=True,
        text=True,
        preexec_fn=closed(0),
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"codeact: error: {line}")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["solve", "t", "--json", "--data", "none.csv"], 2), (["--help"], 1), (["runs", "--json"], 0)],
)
def test_a_reader_that_has_gone_is_no_trouble(here: Path, arguments: list[str], code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=here,
        env=environment(here),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.returncode == code
    assert [line for line in done.stderr.splitlines() if "none.csv: no such" not in line] == []


def test_a_full_disk_is_said(here: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "runs", "--json"], cwd=here, env=environment(here), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )  # fmt: skip
    assert done.returncode == 1
    assert (
        done.stderr == "codeact: error: standard output: no space left on device; write it somewhere else\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_run_begins(here: Path, number: signal.Signals) -> None:
    """The command waits for its task on a terminal, and says so by reading what was typed before."""
    main, side = pty.openpty()
    process = subprocess.Popen([*COMMAND, "solve", "-"], cwd=here, env=environment(here), stdin=side, stderr=subprocess.PIPE, text=True)  # fmt: skip
    os.close(side)
    while b"stdin" not in _waiting_in(process.pid):
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    os.close(main)
    assert (process.returncode, err) == (
        130,
        "codeact: error: interrupted: the command was ended; start it again\n",
    )


def _waiting_in(pid: int) -> bytes:
    """`stdin` once the process waits in a read of its standard input, whose number is 0."""
    try:
        call = Path(f"/proc/{pid}/syscall").read_text().split()
    except OSError:
        return b""
    return b"stdin" if call[:2] == ["0", "0x0"] else b""


def test_a_signal_while_the_sandbox_starts(here: Path) -> None:
    """The engine takes the connection, and says nothing."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as engine:
        engine.bind(f"{folder}/s")
        engine.listen()
        env = environment(here, DOCKER_HOST=f"unix://{folder}/s")
        command = [*COMMAND, "solve", "t", "--model", "scripted:s.jsonl"]
        with subprocess.Popen(command, cwd=here, env=env, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = engine.accept()
            with connection:
                connection.recv(16)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (
        130,
        "codeact: error: interrupted: the command was ended; start it again\n",
    )


def test_local_models_are_listed(here: Path) -> None:
    ended = codeact("model", "list", folder=here)
    assert (ended.code, ended.err) == (0, "")
    (first, _) = ended.out.splitlines()
    assert first.startswith("qwen2.5-coder-1.5b  1117 MB  Apache-2.0  ")
    assert first.endswith("not fetched; run `codeact model fetch qwen2.5-coder-1.5b`")


def test_a_local_model_that_is_not_served_is_not_stopped(here: Path) -> None:
    ended = codeact("model", "stop", folder=here)
    assert (ended.code, ended.out, ended.err) == (0, "", "no local model is served\n")
    ended = codeact("model", "stop", "gpt-9", folder=here)
    assert (ended.code, ended.err.count("\n")) == (5, 1)


JOURNALS: dict[str, list[dict[str, Any]]] = {
    "20260101-000000-aaaaaa": [
        {
            "type": "run_started",
            "run": "20260101-000000-aaaaaa",
            "time": 1767225600.0,
            "task": "old\none",
            "model": "m",
        },
        {"type": "replied", "text": "x"},
        {"type": "run_ended", "status": "answered", "answer": 6},
    ],
    "20260102-000000-bbbbbb": [
        {
            "type": "run_started",
            "run": "20260102-000000-bbbbbb",
            "time": 1767312000.0,
            "task": "new one",
            "model": "n",
        },
        {"type": "replied", "text": "y" * 100_000},
    ],
}


@pytest.fixture
def kept(here: Path) -> Path:
    """Two runs, the later one torn, and a folder that is none."""
    for name, lines in JOURNALS.items():
        folder = here / "codeact-home" / "runs" / name
        folder.mkdir(parents=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "run.jsonl").write_text(text if name.endswith("a") else text + '{"type": "run_en')
    (here / "codeact-home" / "runs" / "other").mkdir()
    return here


def test_a_run_that_ended_before_it_began_is_listed(kept: Path) -> None:
    empty = kept / "codeact-home" / "runs" / "20260103-000000-cccccc" / "run.jsonl"
    empty.parent.mkdir()
    empty.touch()
    os.utime(empty, (1767398400, 1767398400))
    first = json.loads(codeact("runs", "--json", folder=kept).out)[0]
    assert first == {"run": "20260103-000000-cccccc", "task": "", "status": "unfinished",
                     "started": "2026-01-03T00:00:00Z", "model": "", "size": 0}  # fmt: skip
    assert codeact("runs", "delete", first["run"], folder=kept).code == 0
    assert not empty.exists()


@pytest.mark.parametrize("time", ["x", None, [1], math.inf, math.nan, 1e20, -1e300, "9" * 400])
def test_a_run_with_a_damaged_time_hides_no_other(tmp_path: Path, time: object) -> None:
    for name, began in (("20260101-000000-aaaaaa", time), ("20260102-000000-bbbbbb", 1767312000.0)):
        journal_of_it = tmp_path / name / "run.jsonl"
        journal_of_it.parent.mkdir()
        journal_of_it.write_text(json.dumps({"type": "run_started", "run": name, "time": began}) + "\n")
        os.utime(journal_of_it, (1767398400, 1767398400))
    found = {each["run"]: each["started"] for each in summaries(tmp_path)}
    assert found == {
        "20260101-000000-aaaaaa": "2026-01-03T00:00:00Z",
        "20260102-000000-bbbbbb": "2026-01-02T00:00:00Z",
    }


def test_runs_are_listed_newest_first(kept: Path) -> None:
    ended = codeact("runs", "--json", folder=kept)
    assert ended.code == 0
    found = json.loads(ended.out)
    for run in found:
        assert run.pop("size") == (kept / "codeact-home" / "runs" / run["run"] / "run.jsonl").stat().st_size
    assert found == [
        {"run": "20260102-000000-bbbbbb", "task": "new one", "status": "unfinished", "started": "2026-01-02T00:00:00Z", "model": "n"},
        {"run": "20260101-000000-aaaaaa", "task": "old\none", "status": "answered", "started": "2026-01-01T00:00:00Z", "model": "m"},
    ]  # fmt: skip
    ended = codeact("runs", folder=kept)
    assert ended.out.splitlines() == [
        "20260102-000000-bbbbbb  2026-01-02T00:00:00Z  unfinished   n  new one",
        "20260101-000000-aaaaaa  2026-01-01T00:00:00Z  answered     m  old one",
    ]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--status", "answered"], "a"),
        (["--status", "unfinished"], "b"),
        (["--status", "live"], ""),
        (["--model", "N"], "b"),
        (["--text", "ONE"], "ba"),
        (["--text", "old"], "a"),
        (["--since", "2026-01-01T12:00"], "b"),
        (["--since", "2026-01-01"], "ba"),
        (["--since", "1m"], ""),
    ],
)
def test_runs_are_filtered(kept: Path, flags: list[str], names: str) -> None:
    ended = codeact("runs", *flags, folder=kept)
    assert ended.code == 0, ended.err
    assert [line.split()[0][-1] for line in ended.out.splitlines()] == list(names)


def test_a_moment_that_is_none_is_refused(kept: Path) -> None:
    ended = codeact("runs", "--since", "yesterday", folder=kept)
    assert (ended.code, ended.out) == (2, "")
    assert ended.errors == [
        "codeact: error: --since: 'yesterday' is neither a date nor a length of time; write for example 2026-01-31 or 7d"
    ]


def test_runs_are_deleted_and_a_live_one_is_not(kept: Path) -> None:
    runs = kept / "codeact-home" / "runs"
    live = journal.Journal(runs / "20260103-000000-cccccc")
    live.append(events.RunStarted(run="c", time=2e9, task="t", model="m", settings={}, system="", first=""))
    assert [run["status"] for run in json.loads(codeact("runs", "--json", folder=kept).out)] == [
        "live",
        "unfinished",
        "answered",
    ]
    ended = codeact("runs", "delete", "20260103-000000-cccccc", "20260101-000000-aaaaaa", folder=kept)
    assert ended.code == 1
    assert ended.errors == [
        "codeact: error: 20260103-000000-cccccc: is live, and was not deleted; end it first"
    ]
    live.close()
    for wrong in ("other", "nope", "../runs/20260102-000000-bbbbbb", ""):
        refused = codeact("runs", "delete", "20260102-000000-bbbbbb", wrong, folder=kept)
        assert refused.code == 2
        assert "no such run" in refused.err
    assert sorted(path.name for path in runs.iterdir()) == [
        "20260102-000000-bbbbbb",
        "20260103-000000-cccccc",
        "other",
    ]


def test_the_oldest_runs_go_when_they_hold_too_much_and_neither_a_live_nor_the_latest_one(
    tmp_path: Path,
) -> None:
    for number in range(6):
        folder = tmp_path / f"r{number}"
        folder.mkdir()
        (folder / "run.jsonl").write_text("x" * 1000)
        (folder / "blobs").mkdir()
        (folder / "blobs" / "b").write_text("x" * 9000)
        os.utime(folder / "run.jsonl", (1000 + number, 1000 + number))
    live = journal.Journal(tmp_path / "r1", again=True)
    os.utime(tmp_path / "r1" / "run.jsonl", (1001, 1001))
    assert tidying.tidy(tmp_path, 60_000) == []
    assert [path.name for path in tidying.tidy(tmp_path, 35_000)] == ["r0", "r2", "r3"]
    assert [path.name for path in tidying.tidy(tmp_path, 1)] == ["r4"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r1", "r5"]
    live.close()


def test_no_runs_are_an_empty_list(here: Path) -> None:
    assert json.loads(codeact("runs", "--json", folder=here).out) == []
    assert codeact("runs", folder=here).out == ""


def test_a_folder_of_runs_that_may_not_be_read(kept: Path) -> None:
    folder = kept / "codeact-home" / "runs"
    folder.parent.chmod(0)
    ended = codeact("runs", folder=kept, before=ORDINARY)
    folder.parent.chmod(0o700)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"codeact: error: {folder}: cannot be listed: permission denied; mend that")


def test_a_run_without_an_end_is_shown_as_such(kept: Path) -> None:
    said = "no end is recorded: the run goes on, or was cut off"
    assert codeact("show", "20260102-000000-bbbbbb", folder=kept).out.splitlines()[-1] == said
    assert said not in codeact("show", "20260101-000000-aaaaaa", folder=kept).out


def test_an_answer_is_printed_as_it_is_but_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "a\tb\x1b]52;c;aGk=\x07\x1b[31m c"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert printed(answer) == answer
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert printed(answer) == "a\tb c"
    assert printed(["\x1b[31m"]) == '["\\u001b[31m"]'


def test_a_run_is_shown_by_id_folder_and_file(kept: Path) -> None:
    folder = kept / "codeact-home" / "runs" / "20260101-000000-aaaaaa"
    shown = [
        codeact("show", run, "--json", folder=kept)
        for run in (folder.name, str(folder), f"{folder}/run.jsonl")
    ]
    for ended in shown:
        assert (ended.code, json.loads(ended.out)) == (0, JOURNALS[folder.name])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 2),
        (ModelAuthError, 5),
        (ModelUnreachable, 5),
        (EnginePermission, 4),
        (ImageNotFound, 4),
        (StartError, 4),
        (CodeActError, 1),
        (ZeroDivisionError, 1),
    ],
)
def test_exit_codes_of_errors(kind: type[Exception], code: int) -> None:
    assert invocation.exit_code(kind.__name__) == code
    failed = Result(None, "failed", "r", error="why", events=(Error(kind=kind.__name__, message="why"),))
    assert invocation.result_code(failed) == code


@pytest.mark.parametrize(
    ("status", "code"), [("answered", 0), ("no_answer", 1), ("limit", 3), ("interrupted", 130)]
)
def test_exit_codes_of_results(status: Any, code: int) -> None:
    assert invocation.result_code(Result(None, status, "r")) == code


def test_the_json_of_a_result() -> None:
    result = Result({"a": [1, float("nan")]}, "answered", "r", Usage(2, 10, 5), error=None)
    assert json.loads(invocation.as_json(invocation.outcome(result))) == {
        "answer": {"a": [1, None]},
        "status": "answered",
        "run": "r",
        "usage": {
            "calls": 2,
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "cached_tokens": 0,
            "reasoning_tokens": 0,
            "estimated": False,
            "tool_calls": 0,
            "tool_seconds": 0.0,
        },
        "artifacts": [],
        "error": None,
    }


def test_a_task_in_a_locale_that_knows_only_ascii(here: Path) -> None:
    """The task is UTF-8 whatever the locale; standard error shows what it cannot encode by its number."""
    env = environment(here, LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", **NO_ENGINE)
    code = (
        "import sys; from codeact.commands.solve import read_task; print(ascii(read_task(sys.argv[1], ())))"
    )
    command = [sys.executable, "-c", code, "größe"]
    assert subprocess.run(command, env=env, capture_output=True, check=True).stdout == b"'gr\\xf6\\xdfe'\n"


def test_a_task_with_bytes_that_are_no_text() -> None:
    assert read_task("caf\udce9", ()) == "caf\N{REPLACEMENT CHARACTER}"


def test_a_task_file_that_is_data(tmp_path: Path) -> None:
    file = tmp_path / "big.csv"
    file.write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(UsageError, match="too long for a task; pass it with --data"):
        read_task(f"@{file}", ())


def test_a_task_file_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "task.txt"
    file.write_bytes(b"\xef\xbb\xbfHow many?\n")
    assert read_task(f"@{file}", ()) == "How many?\n"
