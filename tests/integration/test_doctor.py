"""`codeact doctor` on a machine where all holds, and where parts do not."""

from __future__ import annotations

import json
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from codeact.commands.doctor import table
from sandbox.checks import Check
from sandbox.probes import PROBES, Probe
from sandbox.types import CellResult, Stream
from tests.command import ORDINARY, codeact, environment
from tests.gateway import Answer, Gateway, fails, says

SANDBOX = [
    *("starts", "privileges", "system calls", "users", "root", "network", "engine", "environment", "pids"),
    *("open files", "disk", "file size", "files", "cpus", "output", "time", "memory", "close"),
]


@pytest.mark.docker
def test_all_holds(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"content": "ok"}\n')
    flags = ["--image", "minimal", "--model", "scripted:s.jsonl"]
    ended = codeact("doctor", "--json", *flags, folder=tmp_path)
    found = json.loads(ended.out)
    assert (ended.code, [check for check in found if not check["ok"]]) == (0, [])
    assert [check["name"] for check in found if check["area"] == "sandbox"] == SANDBOX
    assert {check["area"] for check in found} == {"python", "engine", "image", "sandbox", "model"}


@pytest.mark.parametrize(
    ("change", "state"),
    [((True, True), " ok "), ((False, True), " FAIL "), ((True, False), " weak ")],
)
def test_a_promise_is_a_row_that_says_what_came_of_it(change: tuple[bool, bool], state: str) -> None:
    check = Check("sandbox", "pids", True, "EAGAIN after 3 more", "mend it", "4 processes", "forks 8")
    row = table([replace(check, ok=change[0], enforced=change[1])]).splitlines()[-1]
    assert row.startswith(state)
    assert row.split()[1:] == ["pids", "4", "processes", "forks", "8", "EAGAIN", "after", "3", "more"]


@pytest.mark.docker
@pytest.mark.parametrize("probe", [probe for probe in PROBES if probe.name not in ("memory", "time")])
def test_a_probe_that_tells_nothing_does_not_hold(probe: Probe) -> None:
    """What a sandbox did not say, or said wrongly, is no proof."""
    for output in ("", "{}", "[1]", "null", "true", '{"a": "done"}', "x" * 100_000):
        holds, _ = probe.judge(CellResult("ok", (Stream("stdout", output),)))
        assert not holds, output[:20]


@pytest.mark.docker
def test_images_are_listed_and_verified(tmp_path: Path) -> None:
    ended = codeact("image", "list", folder=tmp_path)
    assert ended.code == 0
    assert [line.split()[0] for line in ended.out.splitlines()] == ["data", "minimal"]
    ended = codeact("image", "verify", "minimal", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert all(line.startswith("ok    minimal: ") for line in ended.out.splitlines())
    ended = codeact("image", "verify", "none", folder=tmp_path)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == "codeact: error: unknown image 'none': known are data, minimal\n"


def test_each_failing_line_says_how_to_mend_it(tmp_path: Path) -> None:
    env = environment(tmp_path, DOCKER_HOST="unix:///nowhere/docker.sock")
    ended = codeact("doctor", "--model", "anthropic:x", folder=tmp_path, env=env)
    lines = ended.out.splitlines()
    failing = [number for number, line in enumerate(lines) if line.startswith("FAIL")]
    assert ended.code == 4
    assert [lines[number].split(": ")[0] for number in failing] == ["FAIL  engine", "FAIL  model"]
    assert all(lines[number + 1].startswith("      mend ") for number in failing)


@pytest.mark.docker
def test_an_image_that_there_is_not(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"content": "ok"}\n')
    ended = codeact("doctor", "--image", "none", "--model", "scripted:s.jsonl", folder=tmp_path)
    assert ended.code == 4
    assert "      mend none: name one of data, minimal\n" in ended.out


@pytest.mark.docker
@pytest.mark.parametrize(
    ("answer", "code"),
    [(says("ok"), 0), (fails(401, "Incorrect API key provided: sk-secret"), 5), (fails(503, "busy"), 5)],
)
def test_the_model_is_asked_once(tmp_path: Path, answer: Answer, code: int) -> None:
    env = environment(tmp_path, OPENAI_API_KEY="sk-secret")
    with Gateway(answer) as gateway:
        flags = ["--image", "minimal", "--model", "m", "--base-url", gateway.url]
        ended = codeact("doctor", "--json", *flags, folder=tmp_path, env=env)
        assert len(gateway.requests) == 1
    (check,) = [check for check in json.loads(ended.out) if check["area"] == "model"]
    assert (ended.code, check["ok"]) == (code, code == 0)
    assert "sk-secret" not in ended.out + ended.err


def test_an_engine_that_refuses_this_user(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"content": "ok"}\n')
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as engine:
        path = Path(folder, "docker.sock")
        engine.bind(str(path))
        engine.listen()
        path.chmod(0o000)
        env = environment(tmp_path, DOCKER_HOST=f"unix://{path}")
        flags = ["--model", "scripted:s.jsonl"]
        ended = codeact("solve", "t", *flags, folder=tmp_path, env=env, before=ORDINARY)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.startswith(f"codeact: error: the container engine at {path} refuses this user: ")
    assert ended.err.count("\n") == 1
