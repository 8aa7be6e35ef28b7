"""`view`: what is served of a run, to whom, and that what models wrote stays text."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.attempts import Attempt
from benchmarks.store import Store
from benchmarks.view import Viewer
from codeact.errors import UsageError
from tests.browser import open_browser
from tests.command import environment

HOSTILE = '<script>document.title="taken"</script><img src="http://127.0.0.1:9/x" onerror="document.title=1">'
STARTED = {"v": 1, "type": "run_started", "run": "r", "seq": 0, "time": 1.0, "task": f"look {HOSTILE}", "model": "m", "settings": {}, "system": HOSTILE, "first": HOSTILE}  # fmt: skip
REPLIED = {"v": 1, "type": "replied", "run": "r", "seq": 1, "time": 2.0, "turn": 1, "text": HOSTILE, "reading": {"thoughts": HOSTILE}, "finish": "stop", "usage": {}, "model": HOSTILE, "seconds": 1.0}  # fmt: skip
CALL = {"tool": HOSTILE, "arguments": {"x": HOSTILE}, "changed": True, "error": HOSTILE, "seconds": 0.0}
OUTCOME = {"type": "outcome", "answer": HOSTILE, "changes": [HOSTILE, 3], "calls": [CALL, None], "state": {}}


def store(folder: Path) -> Store:
    made = Store(folder)
    made.begin({
        "run": "r", "started": "2026-01-01T00:00:00Z", "plan": {"arms": ["code"]}, "prompt_texts": {"code": HOSTILE},
        "frozen": {"suite": "toolworld", "split": "dev", "model": f"m {HOSTILE}", "prompts": {}},
    })  # fmt: skip
    traces: dict[str, list[dict[str, Any]] | None] = {
        "key-0": [{"type": "attempt", "question": HOSTILE}, STARTED, REPLIED, OUTCOME],
        "key-1": [{"type": "step", "code": HOSTILE}, {"type": "outcome", "changes": None, "calls": None}],
        "key-2": [STARTED, {**REPLIED, "reading": [3], "usage": "x"}, {"type": ["run_started"]}],
        "../../outside": None,
        "key-4": None,
    }
    for number, (key, trace) in enumerate(traces.items()):
        attempt = Attempt(key=key, task=f"task-{number} {HOSTILE}", arm=f"code{HOSTILE}", success=number % 2 == 0, error=HOSTILE, answer=[HOSTILE])  # fmt: skip
        made.append(attempt, trace)
    return made


@contextmanager
def served(made: Store) -> Iterator[Viewer]:
    with Viewer(made, 0) as viewer:
        thread = threading.Thread(target=viewer.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield viewer
        finally:
            viewer.shutdown()
            thread.join()


def get(viewer: Viewer, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.server_port, timeout=60)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    status, text = answer.status, answer.read().decode()
    connection.close()
    return status, text


def test_all_pages_are_there_and_nothing_else_is(tmp_path: Path) -> None:
    with served(store(tmp_path)) as viewer:
        for path in ("/", "/?x=1", "/report", "/attempt/0", "/attempt/0/run", "/attempt/1", "/attempt/2", "/attempt/2/run", "/attempt/3", "/attempt/4"):  # fmt: skip
            status, text = get(viewer, path)
            assert (path, status) == (path, 200)
            assert "<script>document" not in text
        for path in ("/attempt/5", "/attempt/-1", "/attempt/1/run", "/attempt/3/run", "/attempt/4/run", "/run.json", "/../run.json", "/attempt/" + "9" * 40):  # fmt: skip
            assert (path, get(viewer, path)[0]) == (path, 404)


def test_only_this_machine_is_answered_and_only_by_its_name(tmp_path: Path) -> None:
    with served(store(tmp_path)) as viewer:
        port = viewer.server_port
        assert viewer.server_address[0] == "127.0.0.1"
        assert get(viewer, "/", f"localhost:{port}")[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1"):
            assert get(viewer, "/", host) == (403, "This address is not for you.")


def test_what_models_wrote_is_text_in_a_browser(tmp_path: Path) -> None:
    with served(store(tmp_path)) as viewer, open_browser() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(viewer.url)
        assert page.title() == f"toolworld with m {HOSTILE}"
        page.get_by_role("link", name="task-0").click()
        assert page.inner_text("h1") == f"task-0 {HOSTILE}, code{HOSTILE}, repeat 1"
        shown = page.inner_text("main")
        assert f"{HOSTILE}({{" in shown
        assert "changed the state" in shown
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.get_by_role("link", name="turn by turn").click()
        assert HOSTILE in page.inner_text("body")
        assert page.title() != "taken"
        assert [url for url in asked if not url.startswith(viewer.url)] == []
        assert said == []


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    made = store(tmp_path)
    with served(made) as viewer, pytest.raises(UsageError, match=r"--port \d+: cannot be used: .*another"):
        Viewer(made, viewer.server_port)


def test_the_command_says_where_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    store(tmp_path / "made")
    command = [sys.executable, "-m", "benchmarks", "view", "made", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"http://127.0.0.1:")
        os.kill(running.pid, 2)
        assert (running.wait(60), running.stderr.read()) == (0, b"")
