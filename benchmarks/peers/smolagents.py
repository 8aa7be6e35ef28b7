"""smolagents' CodeAgent as an arm: the same tasks, tools, weights and limits, in a process and an environment of its own.

Its code is run by its own interpreter of Python, which nothing contains: that is how the package runs it unless told otherwise. The
folder that it works in is thrown away, and its environment holds the key of the endpoint and no other secret.

`python -m benchmarks.peers.smolagents` makes the environment, which a run does by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.attempts import Attempt, ErrorClass, StopReason, of_tool, redundant
from benchmarks.models import Price
from benchmarks.performing import Made, Unusable, outcome_of
from benchmarks.plan import Job, Plan, now
from benchmarks.suites.base import World, check
from codeact import context
from codeact.errors import CodeActError, UsageError
from codeact.home import home
from codeact.observation import BUDGET, SMALL_BUDGET
from codeact.tools.definitions import schema
from codeact.tools.tool import Tool
from codeact.types import Usage

NAME = "smolagents"
ABOUT = "smolagents' CodeAgent, as a peer"
PACKAGES = ("smolagents[openai]==1.26.0", "pandas==3.1.1", "openpyxl==3.1.5")
IMPORTS = ("pandas", "numpy", "openpyxl", "csv", "json", "io", "pathlib", "gzip", "zipfile", "decimal", "sqlite3", "xml.etree.ElementTree")  # fmt: skip
SCRIPT = Path(__file__).with_name("smolagents_script.py")
PATIENCE = 120.0
"""Seconds beyond an attempt's own limit, for a process that starts, and for one that cannot end itself."""
REFUSED = ("UnknownTool", "ArgumentError")
"""Calls that come to no tool."""
STOPS: Mapping[str, StopReason] = {
    "answered": "submitted",
    "turns": "turn_limit",
    "tokens": "token_limit",
    "seconds": "time_limit",
    "refused": "refused",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the weights answer, and under which name."""

    model: str
    base_url: str
    key: str
    small: bool


def endpoint(
    name: str | None, base_url: str | None, small: bool, on_progress: Callable[[str], None]
) -> Endpoint:
    """The endpoint of a model, the embedded one's too. Raises UsageError for what has none."""
    kind, _, rest = (name or "local").partition(":")
    if kind == "local":
        from codeact.models import catalogue, embedded

        weights = catalogue.find(rest or catalogue.DEFAULT)
        url, key = embedded.ensure_server(weights.name, on_progress)
        return Endpoint(weights.name, url, key, small)
    url = base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    if kind in ("scripted", "replay") or name is None:
        raise UsageError(f"--arms {NAME}: asks an endpoint, and {name} has none; name a model that has one")
    return Endpoint(name, url, os.environ.get("OPENAI_API_KEY", "none"), small)


def ensure_environment(on_progress: Callable[[str], None]) -> Path:
    """The Python of an environment with the package, which is made where it is not there. Raises CodeActError."""
    folder = home() / "peers" / PACKAGES[0].replace("[openai]==", "-")
    python = folder / "bin" / "python"
    if not (folder / ".made").exists():
        on_progress(f"making an environment for {PACKAGES[0]} in {folder} (about 300 MB)")
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise CodeActError(f"{PACKAGES[0]} cannot be installed: {''.join(last)}")
        (folder / ".made").touch()
    return python


def command(on_progress: Callable[[str], None]) -> list[str]:
    """What starts the script. Isolated, so that this module is not taken for the package of its name."""
    return [str(ensure_environment(on_progress)), "-I", str(SCRIPT)]


class Smolagents:
    """Attempts of the arm. `command` starts the script; the first line that it reads is the task."""

    def __init__(
        self,
        plan: Plan,
        where: Endpoint,
        name: str,
        price: Price | None,
        command: Sequence[str],
        scratch: Path,
    ) -> None:
        self._plan, self._where, self._name, self._price = plan, where, name, price
        self._command, self._scratch = command, scratch
        self._active: set[subprocess.Popen[str]] = set()
        self._interrupted = False

    def interrupt(self) -> None:
        self._interrupted = True
        for process in list(self._active):
            _kill(process)

    def __call__(self, job: Job) -> Made:
        task = job.task
        world = task.start()
        before = world.state()
        folder = self._scratch / f"{NAME}-{job.key}"
        (folder / "data").mkdir(parents=True, exist_ok=True)
        for name, path in task.data.items():
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / "data" / name)
        started = now()
        try:
            end, failure = self._converse(self._asked(job, world.tools()), world, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if end.get("status") == "unusable":
            raise Unusable(str(end.get("error")))
        return Made(
            self._attempt(job, world, end, failure, started),
            [
                {"type": "attempt", "key": job.key, "suite": self._plan.suite, "task": task.id, "question": task.question, "task_hash": task.hash, "arm": NAME, "repeat": job.repeat},
                *({"type": "step", **step} for step in end.get("steps", [])),
                outcome_of(end.get("answer"), world, before),
            ],
        )  # fmt: skip

    def _asked(self, job: Job, tools: Sequence[Tool]) -> dict[str, Any]:
        task, sampling = job.task, self._plan.sampling.of(job.repeat)
        limits = self._plan.limits.of(task)
        local = self._name.startswith("local")
        files = "".join(f"- data/{name}\n" for name in task.data)
        return {
            "text": context.first_text(task.question, files, json.dumps(dict(task.schema))),
            "tools": [schema(tool) for tool in tools],
            "imports": list(IMPORTS),
            "model": self._where.model,
            "base_url": self._where.base_url,
            "max_retries": self._plan.max_retries,
            "budget": SMALL_BUDGET if self._where.small else BUDGET,
            "limits": {"turns": limits.turns, "seconds": limits.seconds, "tokens": limits.tokens},
            "sampling": {
                "temperature": 0 if local and sampling.temperature is None else sampling.temperature,
                "seed": sampling.seed,
            },
        }

    def _converse(
        self, asked: Mapping[str, Any], world: World, folder: Path
    ) -> tuple[dict[str, Any], str | None]:
        """What the process says at its end, or why it says nothing."""
        environment = {
            "PATH": os.environ.get("PATH", ""), "HOME": str(folder), "LANG": "C.UTF-8", "PEER_API_KEY": self._where.key,
        }  # fmt: skip
        seconds = (asked["limits"]["seconds"] or 3600) + PATIENCE
        with (
            (folder / "stderr").open("w+") as errors,
            subprocess.Popen(
                self._command, cwd=folder, env=environment, text=True, encoding="utf-8",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            ) as process,
        ):  # fmt: skip
            self._active.add(process)
            late = _Late(seconds, process)
            late.start()
            try:
                if self._interrupted:
                    _kill(process)
                end = self._answer(process, asked, {tool.name: tool for tool in world.tools()})
            finally:
                late.cancel()
                _kill(process)
                self._active.discard(process)
            if end is not None:
                return end, None
            if late.was_running:
                return {
                    "status": "seconds",
                    "seconds": seconds,
                }, f"{NAME} did not end within {seconds:g} seconds"
            errors.seek(0)
            last = errors.read().strip().splitlines()[-1:]
        return {}, f"{NAME} ended without a result: {''.join(last)[:300] or 'it was ended'}"

    @staticmethod
    def _answer(
        process: subprocess.Popen[str], asked: Mapping[str, Any], tools: Mapping[str, Tool]
    ) -> dict[str, Any] | None:
        """Makes the calls that the process asks for, until it ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        refused: list[ErrorClass] = []  # these never come to the world, which has a record of the others
        try:
            for line in _lines(process, json.dumps(asked)):
                if "end" in line:
                    return {**line["end"], "refused": refused}
                made = _call(tools, line)
                if made.get("error", {}).get("type") in REFUSED:
                    refused.append(of_tool(made["error"]["type"]))
                process.stdin.write(json.dumps({"call": line["call"], **made}) + "\n")
                process.stdin.flush()
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None

    def _attempt(
        self, job: Job, world: World, end: Mapping[str, Any], failure: str | None, started: str
    ) -> Attempt:
        task, status = job.task, str(end.get("status", "failed"))
        stop = "interrupted" if self._interrupted else STOPS.get(status, "infra_error")
        answer = end.get("answer")
        verdict = check(task, answer, world) if stop not in ("infra_error", "interrupted") else None
        usage = Usage(*(end.get(name, 0) for name in ("calls", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")))  # fmt: skip
        wall, model, tool = (
            float(end.get(name, 0.0)) for name in ("seconds", "model_seconds", "tool_seconds")
        )
        faults = ["ToolError" for call in world.log if call.error]
        faults += end.get("refused", []) + [error for error in end.get("errors", []) if error]
        return Attempt(
            **job.named,
            model=self._name,
            served=(end["served"],) if end.get("served") else (),
            fingerprints=(end["fingerprint"],) if end.get("fingerprint") else (),
            success=verdict.success if verdict else None,
            answer_ok=verdict.answer_ok if verdict else None,
            state_ok=verdict.state_ok if verdict else None,
            side_effect=verdict.side_effect if verdict else None,
            reason=verdict.reason if verdict else "",
            answer=answer,
            stop_reason=stop,
            error=failure or end.get("error"),
            llm_calls=usage.calls,
            turns=end.get("turns", 0),
            tool_calls=len(world.log),
            distinct_tools=len({call.tool for call in world.log}),
            max_parallel=min(1, len(world.log)),
            redundant_calls=redundant(world.log),
            code_cells=end.get("turns", 0),
            prompt_tokens=usage.prompt_tokens,
            cached_prompt_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost_usd=None if self._price is None else self._price.of(usage),
            wall_s=round(wall, 4),
            llm_s=round(model, 4),
            tool_s=round(tool, 4),
            sandbox_s=round(max(0.0, wall - model - tool), 4),
            observation_chars=end.get("observation_chars", 0),
            errors=dict(Counter(faults)),
            recovered=bool(verdict and verdict.success and faults),
            started=started,
        )


class _Late(threading.Timer):
    """Ends a process that takes too long. `was_running`: it did so itself, and did not only hold a pipe open."""

    def __init__(self, seconds: float, process: subprocess.Popen[str]) -> None:
        super().__init__(seconds, self._end)
        self._process, self.was_running = process, False

    def _end(self) -> None:
        self.was_running = self._process.poll() is None
        _kill(self._process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends the process and what it has started, which would hold its pipes open."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _lines(process: subprocess.Popen[str], first: str) -> Iterator[dict[str, Any]]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(first + "\n")
    process.stdin.flush()
    for line in process.stdout:
        made = json.loads(line)
        if isinstance(made, dict):
            yield made


def _call(tools: Mapping[str, Tool], line: Mapping[str, Any]) -> dict[str, Any]:
    """One call of a tool, checked as in every arm."""
    tool = tools.get(line["tool"])
    if tool is None:
        return {"error": {"type": "UnknownTool", "message": f"there is no tool {line['tool']!r}"}}
    try:
        return {"value": tool.call(**tool.check(line["arguments"]))}
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the call's result
        return {"error": {"type": type(error).__name__, "message": str(error)}}


if __name__ == "__main__":
    began = time.monotonic()
    print(
        ensure_environment(lambda line: print(line, file=sys.stderr)), f"({time.monotonic() - began:.0f} s)"
    )
