"""`codeact solve` in a process of its own, with real containers and models that play scripts."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sandbox.engine import find_engine
from tests.command import COMMAND, Ended, codeact, environment
from tests.gateway import Gateway, fails, page, says

pytestmark = pytest.mark.docker

SLEEP = "import time\nprint('{word}', flush=True)\ntime.sleep(1000)"
SUM = "import csv\nrows = list(csv.DictReader(open('data/a.csv')))\ntotal = sum(int(row['b']) for row in rows)\nprint(total)"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "number.json").write_text('{"type": "number"}')
    return tmp_path


def code(source: str) -> str:
    return f"I run this.\n\n```python\n{source}\n```\n"


def script(folder: Path, *replies: str, **more: Any) -> list[str]:
    """Flags for a model that gives these replies, in the small image."""
    lines = [json.dumps({"content": reply, **more}) for reply in replies]
    (folder / "script.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return ["--model", "scripted:script.jsonl", "--image", "minimal"]


def containers(run: str) -> list[str]:
    """What the engine still has of a run."""
    with closing(find_engine().client()) as client:
        found = client.containers.list(all=True, filters={"label": f"codeact.run={run}"})
        return [container.name for container in found]


def run_of(text: str) -> str:
    """The run's id, from the view's second line."""
    return text.splitlines()[1].rpartition("run ")[2]


def test_an_answer_goes_to_standard_output_and_all_else_to_standard_error(here: Path) -> None:
    flags = script(here, code(SUM), code("final_answer(total)"))
    ended = codeact("solve", "Sum of b", "--data", "a.csv", *flags, folder=here)
    assert (ended.code, ended.out) == (0, "6\n")
    lines = ended.err.splitlines()
    assert lines[:2] == ["Sum of b", f"scripted:script.jsonl · run {run_of(ended.err)}"]
    assert ">>> import csv" in lines
    assert lines[lines.index("... print(total)") + 1] == "6"
    assert lines[-1] == f"run: {run_of(ended.err)}"
    assert "\x1b" not in ended.err
    assert containers(run_of(ended.err)) == []


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("'größe\\nzwei'", "größe\nzwei\n"),
        ("{'a': [1, 2.5, None, 'ü']}", '{"a": [1, 2.5, null, "ü"]}\n'),
        ("True", "true\n"),
        ("'\\ud800'", "?\n"),
    ],
)
def test_answers_of_any_type(here: Path, value: str, printed: str) -> None:
    ended = codeact("solve", "t", *script(here, code(f"final_answer({value})")), folder=here)
    assert (ended.code, ended.out) == (0, printed), ended.err


def test_json_and_quiet(here: Path) -> None:
    flags = script(here, code("open('out/r.txt', 'w').write('hi')\nfinal_answer(6)"))
    ended = codeact("solve", "t", *flags, "--json", "--quiet", "--out", "o", folder=here)
    said = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert (said["answer"], said["status"], said["error"]) == (6, "answered", None)
    assert said["artifacts"] == [{"name": "r.txt", "path": str(here / "o" / "r.txt"), "size": 2}]
    assert (here / "o" / "r.txt").read_text() == "hi"
    assert said["usage"]["calls"] == 1
    listed = json.loads(codeact("runs", "--json", folder=here).out)
    assert [(run["run"], run["status"], run["task"]) for run in listed] == [(said["run"], "answered", "t")]


def test_artifacts_stay_with_the_run_and_are_named(here: Path) -> None:
    flags = script(here, code("open('out/r.txt', 'w').write('hi')\nfinal_answer(6)"))
    ended = codeact("solve", "t", *flags, folder=here)
    (line,) = [line for line in ended.err.splitlines() if line.startswith("artifact: ")]
    path = Path(line.removeprefix("artifact: ").removesuffix(" (2 bytes)"))
    assert path.is_relative_to(here / "codeact-home" / "runs" / run_of(ended.err))
    assert path.read_text() == "hi"
    shown = codeact("show", run_of(ended.err), folder=here)
    assert shown.code == 0
    assert {"answer: 6", line, ">>> open('out/r.txt', 'w').write('hi')"} <= set(shown.out.splitlines())


def test_an_artifact_that_the_disk_does_not_take(here: Path) -> None:
    flags = script(here, code("open('out/big', 'wb').write(bytes(2_000_000))\nfinal_answer(6)"))

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    done = subprocess.run(
        [*COMMAND, "solve", "t", *flags, "--out", "o"],
        cwd=here,
        env=environment(here),
        capture_output=True,
        text=True,
        preexec_fn=small_files,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "6\n")
    assert list((here / "o").iterdir()) == []
    assert len(Ended(done.returncode, done.stdout, done.stderr).errors) == 1, done.stderr


def test_a_disk_that_fills_up_under_the_journal_ends_the_run_with_its_name(here: Path) -> None:
    flags = script(here, *[code(f"print({n}, 'x' * 7000)") for n in range(8)], code("final_answer(6)"))
    done = subprocess.run(
        [*COMMAND, "solve", "t", *flags, "--json"],
        cwd=here,
        env=environment(here),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
        check=False,
    )
    said = json.loads(done.stdout)
    assert (done.returncode, said["status"], said["answer"]) == (1, "failed", None), done.stderr
    assert "run.jsonl: cannot be written: File too large; free some space" in said["error"]
    assert codeact("resume", said["run"], "--quiet", folder=here).out == "6\n"


def test_a_run_that_was_killed_goes_on_with_what_it_was_started_with(here: Path) -> None:
    (here / "mine.py").write_text(
        "from codeact import tool\n\n@tool(effects='write')\ndef note(text: str) -> int:\n"
        "    with open('notes.txt', 'a') as file:\n        return file.write(text)\n"
    )
    flags = script(
        here,
        code("from tools import note\nx = note('one')"),
        code("print('on', flush=True)\nimport time\nnote('two')\ntime.sleep(60)"),
        code("final_answer(x)"),
    )
    more = ["--tools", "mine.py", "--approve", "never", "--data", "a.csv", "--output-schema", "number.json"]
    process = subprocess.Popen(
        [*COMMAND, "solve", "t", *flags, *more],
        cwd=here,
        env=environment(here),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any(line.strip() == "on" for line in process.stderr)
    while not (here / "notes.txt").exists() or (here / "notes.txt").read_text() != "onetwo":
        pass
    process.kill()
    process.communicate()
    (run,) = json.loads(codeact("runs", "--json", folder=here).out)
    assert run["status"] == "unfinished"
    ended = codeact("resume", run["run"], "--cell-timeout", "2", "--quiet", folder=here)
    assert (ended.code, ended.out) == (0, "3\n"), ended.err
    assert (here / "notes.txt").read_text() == "onetwo"
    again = codeact("resume", run["run"], folder=here)
    assert (again.code, again.out) == (2, "")
    assert "has ended with its answer; give a task" in again.err
    (here / "a.csv").write_text("other")
    assert "a.csv: has changed since the run began" in codeact("resume", run["run"], "More?", folder=here).err


def test_an_answer_of_the_wrong_type_is_refused_and_mended(here: Path) -> None:
    flags = script(here, code("final_answer('six')"), code("final_answer(6)"))
    ended = codeact("solve", "t", *flags, "--output-schema", "number.json", folder=here)
    assert (ended.code, ended.out) == (0, "6\n")
    assert any(line.startswith("answer refused: ") and "'six'" in line for line in ended.err.splitlines())


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--max-turns", "2"], "the limit of 2 turns was reached"),
        (["--max-tokens", "10"], "the limit of 10 tokens was reached"),
        (["--max-seconds", "0.001"], "the limit of 0.001 seconds was reached"),
    ],
)
def test_limits(here: Path, flags: list[str], reason: str) -> None:
    ended = codeact("solve", "t", *script(here, *[code("print(1)")] * 9), *flags, "--json", folder=here)
    said = json.loads(ended.out)
    assert ended.code == 3
    assert (said["answer"], said["status"], said["error"]) == (None, "limit", reason)
    run = said["run"]
    assert ended.errors == [
        f"codeact: error: run {run}: {reason}; go on with `codeact resume {run}`, or see `codeact show {run}`"
    ]


def test_a_run_without_an_answer(here: Path) -> None:
    flags = script(here, *["```python\nprint("] * 9, finish_reason="length")
    ended = codeact("solve", "t", *flags, folder=here)
    assert (ended.code, ended.out, len(ended.errors)) == (1, "", 1)


def test_a_script_that_ends_is_a_model_that_fails(here: Path) -> None:
    ended = codeact("solve", "t", *script(here, code("print(1)")), "--json", folder=here)
    said = json.loads(ended.out)
    assert (ended.code, said["status"], len(ended.errors)) == (5, "failed", 1)
    assert said["error"].startswith("scripted:script.jsonl has no reply left: it holds 1")
    assert containers(said["run"]) == []


# -- signals ---------------------------------------------------------------------------------------------------------


class Running:
    """A command whose standard error is read line by line."""

    def __init__(self, here: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "solve", "t", *arguments],
            cwd=here,
            env=environment(here),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.seen: list[str] = []

    def wait_for(self, start: str) -> None:
        """Reads on until a line that starts so."""
        assert self.process.stderr is not None
        for read in self.process.stderr:
            self.seen.append(read.rstrip("\n"))
            if self.seen[-1].startswith(start):
                return
        raise AssertionError(f"{start!r} never came: {self.seen}")

    def send(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def end(self) -> Ended:
        out, err = self.process.communicate(timeout=60)
        return Ended(self.process.returncode, out, "\n".join([*self.seen, err]))


@pytest.fixture
def running(here: Path) -> Iterator[list[Running]]:
    """Commands to be ended, whatever the test does."""
    started: list[Running] = []
    yield started
    for each in started:
        with each.process as process:
            process.kill()


PRESS_AGAIN = "interrupting this turn; press Ctrl-C again to end the run"


def test_ctrl_c_once_ends_the_turn(here: Path, running: list[Running]) -> None:
    each = Running(here, *script(here, code(SLEEP.format(word="begun")), code("final_answer(6)")))
    running.append(each)
    each.wait_for("begun")
    each.send(signal.SIGINT)
    ended = each.end()
    assert (ended.code, ended.out) == (0, "6\n"), ended.err
    assert PRESS_AGAIN in ended.err.splitlines()
    assert containers(run_of(ended.err)) == []


def test_ctrl_c_twice_ends_the_run(here: Path, running: list[Running]) -> None:
    flags = script(
        here, code(SLEEP.format(word="one")), code(SLEEP.format(word="two")), code("final_answer(6)")
    )
    each = Running(here, *flags)
    running.append(each)
    each.wait_for("one")
    each.send(signal.SIGINT)
    each.wait_for("two")
    each.send(signal.SIGINT)
    ended = each.end()
    assert (ended.code, ended.out) == (130, ""), ended.err
    assert "Traceback (most recent call last):\n  File" not in ended.err
    assert len(ended.errors) == 1
    assert containers(run_of(ended.err)) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_the_run(here: Path, running: list[Running], number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(
            f"{number.name} is ignored by whoever started these tests, such as nohup, and so by what they start"
        )
    each = Running(here, *script(here, code(SLEEP.format(word="begun")), code("final_answer(6)")), "--json")
    running.append(each)
    each.wait_for("begun")
    each.send(number)
    ended = each.end()
    said = json.loads(ended.out)
    assert (ended.code, said["status"], said["answer"]) == (130, "interrupted", None), ended.err
    assert said["error"] == f"ended by {number.name}"
    assert containers(said["run"]) == []


def test_a_signal_ends_a_reply_that_does_not(here: Path, running: list[Running]) -> None:
    with Gateway(says("begun\nmore", finish=None, stall="after")) as gateway:
        each = Running(here, "--model", "m", "--base-url", gateway.url, "--image", "minimal")
        running.append(each)
        each.wait_for("begun")
        each.send(signal.SIGTERM)
        assert each.end().code == 130


# -- data ------------------------------------------------------------------------------------------------------------

LIST = "import os, pathlib\nfinal_answer(sorted(os.listdir('data')))"


def test_names_of_data(here: Path) -> None:
    for name in ("two words.csv", "größe.csv", "$(x);'.csv", "new\nline.csv", "a,b:c=d.csv"):
        (here / name).write_text("x\n1\n")
    (here / "folder").mkdir()
    (here / "folder" / "inner.csv").write_text("x\n1\n")
    flags = script(here, code(LIST))
    ended = codeact(
        "solve", "t", "--data", "*.csv", "--data", "folder", "--data", "other=a.csv", *flags, folder=here
    )
    names = [
        "$(x);'.csv",
        "a,b:c=d.csv",
        "a.csv",
        "folder",
        "größe.csv",
        "new_line.csv",
        "other",
        "two words.csv",
    ]
    assert (ended.code, json.loads(ended.out)) == (0, names), ended.err


def test_standard_input_as_data(here: Path) -> None:
    flags = script(here, code("final_answer(open('data/sales.csv').read())"))
    ended = codeact("solve", "t", "--data", "sales.csv=-", *flags, folder=here, stdin="a,b\n1,2")
    assert (ended.code, ended.out) == (0, "a,b\n1,2\n"), ended.err


def test_ten_thousand_files(here: Path) -> None:
    many = here / "many"
    many.mkdir()
    for number in range(10_000):
        (many / f"{number}.csv").write_text("x\n1\n")
    flags = script(here, code("import os\nfinal_answer(len(os.listdir('data/many')))"))
    ended = codeact("solve", "t", "--data", "many", *flags, folder=here)
    assert (ended.code, ended.out) == (0, "10000\n"), ended.err


def test_a_broken_workbook_is_the_agents_to_find_out(here: Path) -> None:
    (here / "broken.xlsx").write_bytes(b"PK\x03\x04 not really")
    flags = script(
        here, code("print(open('data/broken.xlsx', 'rb').read(2))"), code("final_answer('broken')")
    )
    ended = codeact("solve", "t", "--data", "broken.xlsx", *flags, folder=here)
    assert (ended.code, ended.out) == (0, "broken\n"), ended.err
    assert "\nproblem: data/broken.xlsx: broken or cut-off file: " in ended.err
    page_of_it = codeact("export", run_of(ended.err), "-o", "-", folder=here).out
    assert "Problem with the data: data/broken.xlsx: broken" in page_of_it


# -- what keeps a run from going on ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fails(401, "Incorrect API key provided: sk-s...ret."), "OPENAI_API_KEY"),
        (page(), "a web page came back; check --base-url"),
        (fails(404, "no such model"), "knows no model 'm'"),
    ],
)
def test_an_endpoint_that_fails(here: Path, answer: Any, words: str) -> None:
    env = environment(here, OPENAI_API_KEY="sk-secret-secret")
    with Gateway(answer) as gateway:
        ended = codeact("solve", "t", "--model", "m", "--base-url", gateway.url, "--image", "minimal", folder=here, env=env)  # fmt: skip
    assert (ended.code, ended.out) == (5, ""), ended.err
    (line,) = ended.errors
    assert words in line
    assert "sk-secret" not in ended.err


def test_an_endpoint_that_is_not_there(here: Path) -> None:
    flags = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--image", "minimal"]
    ended = codeact("solve", "t", *flags, folder=here)
    assert (ended.code, ended.out, len(ended.errors)) == (5, "", 1), ended.err
    assert "127.0.0.1:9" in ended.errors[0]


def test_an_endpoint_that_answers(here: Path) -> None:
    with Gateway(says(code("print(6)")), says(code("final_answer(6)"))) as gateway:
        flags = ["--model", "m", "--base-url", gateway.url, "--image", "minimal", "--json"]
        ended = codeact("solve", "t", *flags, folder=here)
    said = json.loads(ended.out)
    assert (ended.code, said["answer"]) == (0, 6), ended.err
    assert said["usage"]["calls"] == 2


def test_an_endpoint_of_a_found_file_gets_no_key_of_the_environment(here: Path) -> None:
    env = environment(here, OPENAI_API_KEY="sk-secret-secret")
    replies = [says(code(f"final_answer({number})")) for number in (6, 7, 8)]
    with Gateway(*replies) as gateway:
        (here / "codeact.toml").write_text(
            f'model = "m"\nbase_url = "{gateway.url}"\nimage = "minimal"\nyes = true\n'
        )
        first = codeact("solve", "t", "--json", folder=here, env=env)
        run = json.loads(first.out)["run"]
        codeact("resume", run, "Once more", folder=here, env=env)
        codeact("resume", run, "And again", "--base-url", gateway.url, folder=here, env=env)
    assert first.err.splitlines()[0] == (
        f"codeact.toml sets base_url = '{gateway.url}', yes = true; "
        "that endpoint gets no OPENAI_API_KEY unless you name it with --base-url"
    )
    sent = [asked.headers["authorization"] for asked in gateway.requests]
    assert sent == ["Bearer none", "Bearer none", "Bearer sk-secret-secret"]


def test_an_image_that_is_not_known(here: Path) -> None:
    ended = codeact("solve", "t", *script(here, "x"), "--image", "none", folder=here)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.startswith("codeact: error: unknown image 'none': known are data, minimal")


def test_a_reader_that_has_gone(here: Path) -> None:
    flags = script(here, code("final_answer('x' * 200_000)"))
    command = " ".join([*COMMAND, "solve", "t", *flags, "--quiet"])
    done = subprocess.run(["bash", "-c", f"{command} | head -c 1; echo ${{PIPESTATUS[0]}}"], cwd=here, env=environment(here), capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.stdout, done.stderr) == ("x0\n", "")


def test_gc_removes_what_a_killed_run_left(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(
        json.dumps({"content": "```python\nprint('on', flush=True)\nwhile True: pass\n```"})
    )
    command = [*COMMAND, "solve", "t", "--model", "scripted:s.jsonl", "--image", "minimal"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert any(line.strip() == "on" for line in process.stderr)
    process.kill()
    process.communicate()
    removed = codeact("gc", folder=tmp_path)
    assert (removed.code, removed.err) == (0, "")
    assert int(removed.out) >= 1
    assert codeact("gc", folder=tmp_path).out == "0\n"
