"""A real JupyterLab in a real browser, for tests; they are skipped where the machine has no browser."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Locator, Page

START_SECONDS = 60


class Lab:
    """A server of notebooks below `folder`."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], runtime: Path) -> None:
        self.folder = folder
        self._process, self._runtime = process, runtime
        self._server = self._started()

    def _started(self) -> dict[str, Any]:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            for file in self._runtime.glob("jpserver-*.json"):
                try:
                    server: dict[str, Any] = json.loads(file.read_text())
                    self._ask(server, "api/status")
                except (ValueError, OSError):
                    continue
                return server
            time.sleep(0.05)
        raise AssertionError((self.folder / "lab.log").read_text()[-2000:])

    @staticmethod
    def _ask(server: dict[str, Any], path: str) -> Any:
        url = f"{server['url']}{path}?token={server['token']}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)

    def sessions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask(self._server, "api/sessions")
        return found

    def url(self, name: str) -> str:
        return f"{self._server['url']}lab/tree/{name}?token={self._server['token']}&reset"


@contextmanager
def started(folder: Path, home: Path) -> Iterator[Lab]:
    """JupyterLab with settings of its own: nothing of the user's, nothing asked of the network."""
    runtime = folder / ".runtime"
    settings = {
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
        "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    }
    overrides = folder / ".app" / "lab" / "settings"
    overrides.mkdir(parents=True)
    (overrides / "overrides.json").write_text(json.dumps(settings))
    environment = {
        **os.environ,
        "CODEACT_HOME": str(home),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_CONFIG_DIR": str(folder / ".config"),
        "JUPYTER_DATA_DIR": str(folder / ".data"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / ".settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / ".workspaces"),
        "IPYTHONDIR": str(folder / ".ipython"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--port=0", "--ServerApp.ip=127.0.0.1"]
    command += ["--allow-root", f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={secrets.token_hex(16)}"]  # fmt: skip
    command += [f"--LabServerApp.app_settings_dir={overrides}", "--LabApp.news_url="]
    with (folder / "lab.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield Lab(folder, process, runtime)
    finally:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def notebook(path: Path, sources: Sequence[str]) -> None:
    made = new_notebook(cells=[new_code_cell(source) for source in sources])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, path)


class Notebook:
    """A notebook that is open in a browser."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def cell(self, number: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def run(self, number: int) -> None:
        """Sets a cell going, without waiting for it."""
        self.cell(number).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def wait_done(self, number: int, timeout: float = 60) -> None:
        prompt = self.cell(number).locator(".jp-InputPrompt")
        self.page.wait_for_function(
            "node => /^\\[\\d+\\]:$/.test(node.textContent.trim())",
            arg=prompt.element_handle(),
            timeout=timeout * 1000,
        )

    def stop(self) -> None:
        self.page.locator(
            '[data-command="notebook:interrupt-kernel"], jp-button[data-command="notebook:interrupt-kernel"]'
        ).first.click()


@contextmanager
def opened(
    lab: Lab, browser: Browser, name: str, *, width: int = 1200, height: int = 900
) -> Iterator[Notebook]:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(lab.url(name))
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)
    page.get_by_role("button", name="Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    yield Notebook(page)
    page.close()
