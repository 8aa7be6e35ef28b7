"""`python -m benchmarks`, in processes of its own: whole runs, ends of all kinds, and what is made of them."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import entry
from benchmarks.store import Store
from benchmarks.suites import suite
from codeact.commands.invocation import ENDING
from tests.command import Ended, environment
from tests.gateway import Answer, Gateway, fails, says

COMMAND = [sys.executable, "-m", "benchmarks"]
SECONDS = 180


Benchmarks = Callable[..., Ended]


@pytest.fixture
def benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Benchmarks:
    """The command line, in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CODEACT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        before = {number: signal.getsignal(number) for number in ENDING}
        try:
            code = entry()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command line in a process of its own, which is ended here if need be."""
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=environment(folder),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        try:
            yield running
        finally:
            running.kill()


def until(running: subprocess.Popen[bytes], beginning: bytes) -> None:
    """Reads what a process says, up to a line."""
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if line.startswith(beginning):
            return
    raise AssertionError(b"".join(said).decode())


def final(value: Any) -> Answer:
    """A reply that answers by a function."""
    function = {"name": "final_answer", "arguments": json.dumps({"value": value})}
    return says(
        None, finish="tool_calls", tool_calls=[{"id": "c1", "type": "function", "function": function}]
    )


def look(number: int) -> Answer:
    """A reply that does not answer yet, and does not repeat itself."""
    function = {"name": "sniff_file", "arguments": json.dumps({"file": f"file-{number}"})}
    return says(None, finish="tool_calls", tool_calls=[{"id": f"c{number}", "type": "function", "function": function}])  # fmt: skip


NUMBERS = [task.id for task in suite("small-tasks") if task.schema == {"type": "number"}]
"""Tasks whose answer is a number."""


def asked(gateway: Gateway, tasks: int, *flags: str) -> tuple[str, ...]:
    """The flags of a run of so many tasks by calls of functions."""
    only = [flag for task in NUMBERS[:tasks] for flag in ("--task", task)]
    return ("run", "-s", "small-tasks", "-m", "m", "--base-url", gateway.url, "--arms", "json", "-o", "made", *only, *flags)  # fmt: skip


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


@pytest.mark.docker
def test_the_reference_solution_solves_every_category(tmp_path: Path, benchmarks: Benchmarks) -> None:
    flags = ("run", "-s", "toolworld", "--split", "dev", "-m", "scripted:oracle", "--arms", "code,json", "--limit", "8", "-j", "3", "-o", "made")  # fmt: skip
    first = benchmarks(*flags)
    assert first.code == 0, first.err
    made = lines(tmp_path / "made")
    assert Counter(each["arm"] for each in made) == {"code": 8, "json": 8}
    assert all(each["success"] for each in made), [each for each in made if not each["success"]]
    assert {each["category"] for each in made} == set("ABCDEFGH")
    for each in made:
        parts = sum(each[name] for name in ("llm_s", "tool_s", "sandbox_s", "overhead_s"))
        assert each["wall_s"] == pytest.approx(parts, abs=0.001)
        assert each["tool_calls"] >= 0
        assert (each["stop_reason"], each["llm_calls"] >= 1, each["prompt_tokens"] > 0) == (
            "submitted",
            True,
            True,
        )
    assert all(each["llm_calls"] == 1 for each in made if each["arm"] == "code")

    again = benchmarks(*flags)
    assert "16 of 16 attempts are done already" in again.err
    assert again.out == first.out
    assert len(lines(tmp_path / "made")) == 16

    judged = benchmarks("score", "made")
    assert judged.out == "16 attempts judged again, 0 verdicts changed\n"
    change_trace(Store(tmp_path / "made"), made[0]["key"])
    judged = benchmarks("score", "made")
    assert judged.out == "16 attempts judged again, 1 verdicts changed\n"
    assert [each.success for each in Store(tmp_path / "made").attempts()].count(False) == 1

    exported = benchmarks("export", "made")
    rows = list(csv.DictReader(exported.out.splitlines()))
    assert len(rows) == 16
    assert {row["task"] for row in rows} == {each["task"] for each in made}
    assert benchmarks("export", "made", "--sqlite").code == 0
    with sqlite3.connect(tmp_path / "made" / "attempts.sqlite") as table:
        assert table.execute("select count(*), sum(success) from attempts").fetchone() == (16, 15)
    assert benchmarks("export", "made", "--parquet").code == 0
    assert (tmp_path / "made" / "attempts.parquet").read_bytes()[:4] == b"PAR1"

    compared = benchmarks("compare", "made", "made")
    assert "The configurations are the same." in compared.out
    assert "| model calls | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] |" in compared.out


def change_trace(store: Store, key: str) -> None:
    """The attempt has answered something else."""
    trace = store.read_trace(key)
    trace[-1]["answer"] = "something else"
    with gzip.open(store.trace(key), "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in trace)


def test_a_killed_run_is_carried_on_and_nothing_is_run_twice(tmp_path: Path, benchmarks: Benchmarks) -> None:
    flags = ("run", "-s", "small-tasks", "-m", "scripted:oracle", "--arms", "json,json-serial", "-k", "3", "-j", "2", "-o", "made")  # fmt: skip
    with process(tmp_path, *flags) as running:
        until(running, b"[3/")
        running.kill()
    made = tmp_path / "made"
    assert 3 <= len(lines(made)) < 72
    with (made / "attempts.jsonl").open("a") as file:
        file.write('{"task": "torn')
    done = benchmarks("resume", "made", "-j", "2")
    assert done.code == 0, done.err
    found = Store(made).attempts()
    whole = [line for line in (made / "attempts.jsonl").read_text().splitlines() if line.endswith("}")]
    assert len(whole) == len(found) == len({each.key for each in found}) == 72
    assert all(each.success for each in found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_what_is_done_and_leaves_nothing_behind(
    tmp_path: Path, gateway: Gateway, number: signal.Signals
) -> None:
    gateway.add(final(1), final(2), Answer(stall="before"))
    with process(tmp_path, *asked(gateway, 4)) as running:
        until(running, b"[2/")
        while len(gateway.requests) < 3:
            time.sleep(0.01)
        running.send_signal(number)
        _, errors = running.communicate(timeout=SECONDS)
    assert running.returncode == 130, errors
    assert b"interrupted with 2 attempts left; the same command carries on" in errors
    assert b"Traceback" not in errors
    assert len(lines(tmp_path / "made")) == 2
    assert gateway.client_left.wait(SECONDS)


@pytest.mark.parametrize(
    ("flags", "stop"),
    [
        (("--max-turns", "2"), "turn_limit"),
        (("--token-limit", "30"), "token_limit"),
        (("--cost-limit-task", "0.00003"), "cost_limit"),
    ],
)
def test_a_limit_is_a_scored_outcome(
    tmp_path: Path, benchmarks: Benchmarks, gateway: Gateway, flags: tuple[str, str], stop: str
) -> None:
    gateway.add(*(look(number) for number in range(20)))
    prices(tmp_path, 1.0)
    done = benchmarks(*asked(gateway, 1, "--prices", "prices.toml", *flags))
    assert done.code == 0, done.err
    (made,) = lines(tmp_path / "made")
    assert (made["success"], made["stop_reason"], made["llm_calls"]) == (False, stop, 2)
    assert made["cost_usd"] == pytest.approx(2 * 18e-6)  # 11 tokens in and 7 out, twice


def prices(folder: Path, each: float) -> None:
    table = f"m = {{prompt = {each}, cached = {each}, completion = {each}}}"
    (folder / "prices.toml").write_text(f'version = "t"\n[models]\n{table}\n')


def test_time_is_a_limit_too(tmp_path: Path, benchmarks: Benchmarks, gateway: Gateway) -> None:
    gateway.add(Answer(stall="before"))
    assert benchmarks(*asked(gateway, 1, "--time-limit", "1")).code == 0
    found = [(each["success"], each["stop_reason"]) for each in lines(tmp_path / "made")]
    assert found == [(False, "time_limit")]


def test_the_cost_limit_ends_a_run_that_can_be_carried_on(
    tmp_path: Path, benchmarks: Benchmarks, gateway: Gateway
) -> None:
    gateway.add(*(final(1) for _ in range(4)))
    prices(tmp_path, 1e4)
    flags = asked(gateway, 4, "--prices", "prices.toml")
    stopped = benchmarks(*flags, "--cost-limit", "0.3")
    assert stopped.code == 3, stopped.err
    assert len(lines(tmp_path / "made")) == 2  # 0.18 each
    assert "with 2 attempts left" in stopped.err
    assert benchmarks("resume", "made", "--cost-limit", "9").code == 0
    assert len(lines(tmp_path / "made")) == 4


def test_what_the_endpoint_failed_is_not_scored_and_is_tried_again(
    tmp_path: Path, benchmarks: Benchmarks, gateway: Gateway
) -> None:
    gateway.add(*(fails(500, "down") for _ in range(3)))
    flags = asked(gateway, 1, "--max-retries", "1")
    failed = benchmarks(*flags)
    assert failed.code == 2, failed.err
    assert "1 attempts have no verdict, since the infrastructure failed" in failed.err
    assert [each["success"] for each in lines(tmp_path / "made")] == [None] * 3
    gateway.add(final(1))
    assert benchmarks(*flags).code == 0
    (made,) = Store(tmp_path / "made").attempts()
    assert (made.scored, made.infra_failures) == (True, 3)


def test_a_script_that_is_at_its_end_has_failed_that_attempt_and_the_run_goes_on(
    tmp_path: Path, benchmarks: Benchmarks
) -> None:
    function = {"name": "final_answer", "arguments": '{"value": 1}'}
    reply = {"content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    (tmp_path / "script.jsonl").write_text(json.dumps(reply) + "\n")
    only = [flag for task in NUMBERS[:3] for flag in ("--task", task)]
    done = benchmarks("run", "-s", "small-tasks", "-m", "scripted:script.jsonl", "--arms", "json", "-o", "made", *only)  # fmt: skip
    assert done.code == 0, done.err
    ends = sorted((each["stop_reason"], each["success"]) for each in lines(tmp_path / "made"))
    assert ends == [("refused", False), ("refused", False), ("submitted", False)]
    page = (tmp_path / "made" / "report" / "report.html").read_text()
    assert page.count("has no reply left: it holds 1") == 2


def test_a_key_that_is_refused_ends_a_run_at_once(
    benchmarks: Benchmarks, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0001")
    gateway.add(fails(401, "no such key"))
    done = benchmarks(*asked(gateway, 3))
    assert (done.code, len(gateway.requests), done.err.count("\n")) == (1, 1, 1), done.err
    assert "the key was refused" in done.err
    assert "sk-secret-0001" not in done.err


def test_a_request_that_is_too_long_is_the_arms_own_fault(
    tmp_path: Path, benchmarks: Benchmarks, gateway: Gateway
) -> None:
    gateway.add(fails(400, "this model's maximum context length is 8192 tokens"))
    assert benchmarks(*asked(gateway, 1)).code == 0
    found = [(each["success"], each["stop_reason"]) for each in lines(tmp_path / "made")]
    assert found == [(False, "refused")]


ORACLE = ("-m", "scripted:oracle", "-o", "x")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "-s", "nothing", *ORACLE), "there is no suite 'nothing'"),
        (("run", "-s", "small-tasks", "-m", "scripted:oracle"), "--out: is missing"),
        (("run", "-s", "small-tasks", *ORACLE, "--arms", "cod"), "there is no arm 'cod'"),
        (("run", "-s", "small-tasks", *ORACLE, "--arms", ","), "--arms: name at least one of"),
        (("run", "-s", "small-tasks", *ORACLE, "--task", "t"), "no task 't'"),
        (("run", "-s", "small-tasks", *ORACLE, "--category", "Z"), "no category 'Z'"),
        (("run", "-s", "small-tasks", "-m", "gpt-x", "--base-url", "http://127.0.0.1:9/v1", "--cost-limit", "1", "-o", "x"), "the price of gpt-x is not known"),
        (("run", "-s", "small-tasks", "-m", "m", "--prices", "no.toml", "-o", "x"), "no.toml: cannot be read"),
        (("run", "-s", "small-tasks", *ORACLE, "--arms", "smolagents"), "scripted:oracle has none"),
        (("run", "-c", "no.toml"), "no.toml: cannot be read as TOML"),
        (("run", "-s", "small-tasks", *ORACLE, "--time-limit", "-1"), "-1.0 is not in the range x>0"),
        (("run", "-s", "small-tasks", *ORACLE, "--cost-limit", "nan"), "nan is not a finite number"),
        (("run", "-s", "small-tasks", "-m", "scripted:oracle", "-o", "/proc/x"), "/proc/x: No such file or directory; check the path"),
        (("run", "-s", "dabench", *ORACLE), "give the path of your copy with --path"),
        ((), "Missing command; see `python -m benchmarks --help`"),
        (("run", "-s", "small-tasks", *ORACLE, "--model", ""), "--model: it is empty"),
        (("report", "nowhere"), "nowhere: holds no run of benchmarks"),
        (("score", "nowhere"), "nowhere: holds no run"),
        (("resume", "nowhere"), "nowhere: holds no run"),
        (("show", "nothing"), "there is no task 'nothing'"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line_and_makes_nothing(
    tmp_path: Path, benchmarks: Benchmarks, arguments: tuple[str, ...], words: str
) -> None:
    done = benchmarks(*arguments)
    assert done.code == 1, done
    assert words in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert done.out == ""
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "nowhere").exists()


def test_a_fault_of_the_harness_is_a_line_too(
    tmp_path: Path, benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(folder: Path) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("benchmarks.afterwards.report", fails)
    done = benchmarks("report", "nowhere")
    assert (done.code, done.out) == (1, "")
    assert done.err == "benchmarks: error: internal: ZeroDivisionError: oops; run it again with CODEACT_DEBUG=1, and report what it shows\n"  # fmt: skip
    monkeypatch.setenv("CODEACT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        benchmarks("report", "nowhere")


def test_what_nobody_reads_is_done_all_the_same(tmp_path: Path, benchmarks: Benchmarks) -> None:
    """As in `python -m benchmarks report made | true`."""
    store = Store(tmp_path / "made")
    store.begin({
        "run": "r", "started": "2026-01-01T00:00:00Z", "plan": {"arms": ["code"]},
        "frozen": {"suite": "small-tasks", "split": "test", "model": "m"},
    })  # fmt: skip
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as nobody:
        done = subprocess.run(
            [*COMMAND, "report", "made"], cwd=tmp_path, env=environment(tmp_path), stdout=nobody, stderr=subprocess.PIPE, check=False
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "made" / "report" / "report.html").exists()


def test_another_model_in_the_same_folder_is_refused(
    tmp_path: Path, benchmarks: Benchmarks, gateway: Gateway
) -> None:
    gateway.add(final(1), final(1))
    assert benchmarks(*asked(gateway, 1), "-m", "m1").code == 0
    refused = benchmarks(*asked(gateway, 1), "-m", "m2")
    assert refused.code == 1
    assert 'model: "m1" → "m2"' in refused.err
    assert len(lines(tmp_path / "made")) == 1
    assert benchmarks(*asked(gateway, 1), "-m", "m2", "--allow-drift").code == 0
    assert "with another configuration" in (tmp_path / "made" / "report" / "summary.md").read_text()


def test_an_arm_and_a_task_are_added_to_a_run_and_resume_knows_of_them(
    tmp_path: Path, benchmarks: Benchmarks, gateway: Gateway
) -> None:
    gateway.add(*(final(1) for _ in range(4)))
    assert benchmarks(*asked(gateway, 1)).code == 0
    grown = benchmarks(*asked(gateway, 2), "--arms", "json,json-serial")
    assert grown.code == 0, grown.err
    made = tmp_path / "made"
    assert len(lines(made)) == 4
    about = json.loads((made / "run.json").read_text())
    host = gateway.url.split("/")[2]
    assert (about["providers"], about["drift"]) == ([host], [])
    summary = (made / "report" / "summary.md").read_text()
    assert f"| asked of | {host} |" in summary
    assert all(f"| prompt of {arm} | hash" in summary for arm in ("json", "json-serial"))
    kept = (made / "attempts.jsonl").read_text().splitlines(keepends=True)
    (made / "attempts.jsonl").write_text("".join(kept[:3]))
    gateway.add(final(1))
    resumed = benchmarks("resume", "made")
    assert (resumed.code, len(lines(made))) == (0, 4), resumed.err


def test_a_dry_run_says_what_there_is_to_do_and_does_nothing(tmp_path: Path, benchmarks: Benchmarks) -> None:
    done = benchmarks("run", "-s", "small-tasks", "-m", "gpt-5-mini", "--arms", "code,json", "-k", "3", "--dry-run", "-o", "x")  # fmt: skip
    assert done.code == 0, done.err
    assert [line.split()[:2] for line in done.out.splitlines()[:2]] == [["code", "36"], ["json", "36"]]
    assert done.out.splitlines()[-1].startswith("12 tasks, 2 arms, 3 repeats: 72 attempts")
    assert done.out.splitlines()[-1].endswith("USD")
    assert not (tmp_path / "x").exists()


def test_settings_come_from_a_file_and_flags_beat_it(tmp_path: Path, benchmarks: Benchmarks) -> None:
    file = tmp_path / "bench.toml"
    file.write_text(
        'suite = "small-tasks"\nmodel = "scripted:oracle"\nrepeats = 4\nout = "x"\ndry-run = true\n'
    )
    done = benchmarks("run", "-c", "bench.toml", "-k", "2")
    assert done.out.splitlines()[-1].startswith("12 tasks, 1 arms, 2 repeats: 24 attempts")
    file.write_text("colour = 1\n")
    assert "there is no setting 'colour'" in benchmarks("run", "-c", "bench.toml").err


def test_tasks_are_listed_and_shown(benchmarks: Benchmarks) -> None:
    listed = benchmarks("list", "-s", "small-tasks")
    assert len(listed.out.splitlines()) == 12
    shown = benchmarks("show", listed.out.split()[0])
    assert shown.code == 0, shown.err
    assert "question: " in shown.out
    assert "right answer: " in shown.out
