"""The world of a suite whose code is somebody else's: it runs in a process of its own, with its own packages."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from benchmarks.suites.base import Called, ToolFault, digest
from codeact.errors import ArgumentError, UsageError
from codeact.tools.definitions import from_definition
from codeact.tools.tool import Effects, Policy, Tool

START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from inside.run import main; main()"
MAX_SECONDS = 60.0
"""For one reply; listing the tasks, for which all gold states are made, has ten times that."""
_KEPT = ("HOME", "LANG", "LC_ALL", "PATH", "SYSTEMROOT", "TMPDIR")
"""What the process gets of the environment: no keys."""


class Failed(ToolFault):
    """What the other's code raised; the message begins with the name of its class."""


class Process:
    """Asks the child one thing at a time. Raises UsageError where it does not answer at all."""

    def __init__(self, kind: str, path: Path) -> None:
        self._name = f"{kind} at {path}"
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self._process = subprocess.Popen(
            [python(path), "-B", "-c", START, str(Path(__file__).parent), kind, str(path.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"},
            encoding="utf-8",
        )
        self._replies: queue.SimpleQueue[str] = queue.SimpleQueue()
        reader = threading.Thread(target=_read, args=(self._process.stdout, self._replies), daemon=True)
        reader.start()
        self.close = weakref.finalize(self, _end, self._process, reader)
        """Ends the process; done at the latest when nobody has this object any more, or the program ends."""

    def ask(self, seconds: float = MAX_SECONDS, **request: Any) -> Any:
        """Raises Failed with what the other's code raised."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._replies.get(timeout=seconds)
        except (OSError, ValueError, queue.Empty):  # ValueError: it was closed
            line = ""
        if not line:
            self.close()
            raise UsageError(
                f"{self._name}: its process has ended or did not answer within {seconds:g} seconds"
            )
        reply = json.loads(line)
        if "error" in reply:
            raise Failed(f"{reply['error']['type']}: {reply['error']['message']}")
        return reply["value"]

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


def _read(replies: IO[str], into: queue.SimpleQueue[str]) -> None:
    for line in replies:
        into.put(line)
    into.put("")


def _end(process: subprocess.Popen[str], reader: threading.Thread) -> None:
    process.kill()
    process.wait()
    reader.join()  # it has met the end: until then the stream cannot be closed
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # what was not written any more
                pass


def python(path: Path) -> str:
    """The interpreter of the other's environment, where there is one in its folder; ours otherwise."""
    for folder in (path, path / ".venv", path / "venv"):
        if (folder / "bin" / "python").exists():
            return str(folder / "bin" / "python")
    return sys.executable


def listed(kind: str, path: Path) -> list[dict[str, Any]]:
    """The tasks of a suite. Raises UsageError for a path that is no copy of it."""
    if not path.is_dir():
        raise UsageError(f"{path}: there is no such folder; give the one of your copy of {kind}")
    process = Process(kind, path)
    try:
        found: list[dict[str, Any]] = process.ask(10 * MAX_SECONDS, do="tasks")
    except Failed as error:
        words = " ".join(str(error).split()).removeprefix("NotACopy: ")
        raise UsageError(f"{path}: this cannot be read as {kind}: {words}") from error
    finally:
        process.close()
    return found


class Foreign:
    """A state in a process of its own, which starts with the first call and ends with this object. `wanted` are results
    that calls must have had, in any order; `definitions` are function definitions, some with `writes`."""

    def __init__(
        self,
        kind: str,
        path: Path,
        task: str,
        definitions: Sequence[Mapping[str, Any]],
        latency: float,
        wanted: Sequence[Any] = (),
    ) -> None:
        self._kind, self._path, self._task = kind, path, task
        self._definitions, self._latency = definitions, latency
        self._wanted = [digest(each) for each in wanted]
        self._process: Process | None = None
        self._state = ""
        self.log: list[Called] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def tools(self) -> list[Tool]:
        return [self._tool(definition) for definition in self._definitions]

    def _tool(self, definition: Mapping[str, Any]) -> Tool:
        name, made = definition["name"], blank(json.dumps(definition))
        names = {each.name: each.sent or each.name for each in made.parameters}

        def call(**arguments: Any) -> Any:
            return self._call(name, {names.get(key, key): value for key, value in arguments.items()})

        return dataclasses.replace(made, call=call)

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        began = time.monotonic()
        time.sleep(self._latency)
        with self._lock:
            process, before, error = self._started(), self._state, None
            try:
                value = process.ask(do="call", tool=name, arguments=arguments)
                if digest(value) in self._wanted:
                    self._wanted.remove(digest(value))
                return value
            except Failed as failed:
                error = str(failed).partition(":")[0]
                raise
            finally:
                if process.alive:
                    self._state = process.ask(do="state")
                self.log.append(
                    Called(name, arguments, self._state != before, error, time.monotonic() - began)
                )

    def _started(self) -> Process:
        if self._process is None:
            self._process = Process(self._kind, self._path)
            self._process.ask(do="start", task=self._task)
            self._state = self._process.ask(do="state")
        return self._process

    def state(self) -> Any:
        with self._lock:
            return outcome(self._started().ask(do="state"), missing=len(self._wanted))

    def score(self, answer: Any) -> bool:
        """By the suite's own scorer."""
        with self._lock:
            return bool(self._started().ask(do="score", answer=answer))


@functools.cache
def blank(definition: str) -> Tool:
    """The tool of a function definition (as JSON), which checks arguments and does nothing."""
    told = json.loads(definition)
    effects: Effects = "write" if told.get("writes", True) else "read"
    return from_definition(told, lambda **arguments: None, policy=Policy(effects=effects))


def fits(definitions: Sequence[Mapping[str, Any]], calls: Sequence[Sequence[Any]]) -> bool:
    """Whether calls, each a name and arguments, are such as the definitions allow."""
    tools = {definition["name"]: blank(json.dumps(definition)) for definition in definitions}
    try:
        for name, arguments in calls:
            tools[name].check(arguments)
    except (KeyError, ArgumentError):
        return False
    return True


def outcome(state: str, missing: int = 0) -> Any:
    """What counts: the digest of a state, and how many of the results that were wanted did not come."""
    return {"state": state, "missing": missing}
