"""Calls of tools as they come out of a sandbox, and results as they go in: values on this side, JSON and buffers between."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from codeact.errors import ToolError
from codeact.inside import values
from codeact.tools import large
from codeact.tools.execution import Waiting
from codeact.tools.large import Store
from sandbox.errors import HostCallRefused, SandboxError
from sandbox.guest.payloads import Outgoing, TooLarge
from sandbox.held import scratch_folder
from sandbox.hostcalls import Answer, HostCall, WithCall

FUNCTION = "tool"
MAX_RECORDED = 8 * 1024 * 1024
"""Bytes of buffers that a record of a result keeps."""

MAX_FILES = 16
"""Files of the workspace that one call may name."""

Fetch = Callable[[str, Path], object]
"""Copies a file of the workspace to a path of the host. Raises SandboxError."""
Call = Callable[[str, Mapping[str, Any], Waiting], Any]
"""Answers a call of a tool by its path and arguments: with what an Encoder made, or an iterator of such. The third
is cancelled when the code waits for it no more."""


class Encoder:
    """Results as what crosses. What is too large for that lands as a file in the workspace, to which `store` copies it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, value: Any, name: str) -> Answer:
        """`name` is one that no other result has. Raises ToolError for what cannot cross."""
        if large.is_long(value):
            return Answer(large.stored(value, name, self._store, _named))
        try:
            made, buffers = values.encode(value, "the result of the tool", path=_named)
        except values.CannotCross as error:
            raise ToolError(str(error)) from None
        text = json.dumps(made).encode()
        try:
            Outgoing(text, buffers)
        except TooLarge:
            del made, buffers, text
            return Answer(large.stored(value, name, self._store, _named))
        return Answer(made, buffers, text)


def _named(path: PurePath) -> str:
    """A path of the host is told by its name alone, below the workspace."""
    if path.is_absolute():
        raise ValueError(f"is a path of the host ({path.name})")
    return path.as_posix()


class WorkspaceFile(type(Path())):  # type: ignore[misc]
    """The path of a copy on the host, for the time of one call; `inside` is where the file lies in the workspace."""

    inside = ""


def function(call: Call, fetch: Fetch | None = None) -> WithCall:
    """The host's function through which code in a sandbox calls tools. `fetch` copies a file of the workspace, for which
    code gave a path; without it, tools get the path as it is."""

    def answer(asked: HostCall) -> Answer | Iterator[Answer]:
        folder = contextlib.ExitStack()
        try:
            path, arguments = _read(asked, _Files(fetch, folder))
            waiting = Waiting()
            asked.when_cancelled(waiting.cancel)
            result = call(path, arguments, waiting)
        except BaseException:
            folder.close()
            raise
        if isinstance(result, Iterator):
            return _items(result, folder)
        folder.close()
        return answer_of(result)

    return WithCall(answer)


def _items(result: Iterator[Any], folder: contextlib.ExitStack) -> Iterator[Answer]:
    with folder:
        try:
            yield from map(answer_of, result)
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()


class _Files:
    """Copies of the files that one call names, in a folder that goes with `life`."""

    def __init__(self, fetch: Fetch | None, life: contextlib.ExitStack) -> None:
        self._fetch, self._life = fetch, life
        self._folder: Path | None = None
        self._count = 0

    def __call__(self, inside: str) -> Path:
        if self._fetch is None:
            return Path(inside)
        if self._folder is None:
            self._folder = Path(self._life.enter_context(scratch_folder()))
        self._count += 1
        if self._count > MAX_FILES:
            raise values.BadValue(f"more than {MAX_FILES} paths in one call")
        place = self._folder / str(self._count)
        place.mkdir()
        target = WorkspaceFile(place / Path(inside).name)
        target.inside = inside
        try:
            self._fetch(inside, target)
        except SandboxError as error:
            raise values.BadValue(str(error)) from None
        return target


def _read(asked: HostCall, file: _Files) -> tuple[str, dict[str, Any]]:
    match asked.value:
        case {"tool": str(path), "arguments": dict(arguments)}:
            given = {}
            for name, made in arguments.items():
                try:
                    given[name] = values.decode(made, asked.buffers, path=file)
                except values.BadValue as error:
                    said = f"{path[:200]}(): {name[:200]} cannot be taken: {error}"
                    raise HostCallRefused(said, name="ArgumentError") from None
            return path, given
    raise HostCallRefused("a call is {'tool': ..., 'arguments': {...}}", name="ArgumentError")


def recorded(result: Any) -> Any:
    """What an Encoder made as a JSON value for a record; buffers that are too large for one are told by their size."""
    if not isinstance(result, Answer):
        return result
    if not result.buffers:
        return result.value
    size = sum(memoryview(buffer).nbytes for buffer in result.buffers)
    if size > MAX_RECORDED:
        return {values.TAG: "unrecorded", "v": f"{size:,} bytes"}
    kept = [base64.b64encode(buffer).decode() for buffer in result.buffers]
    return {values.TAG: "answer", "v": result.value, "buffers": kept}


def left_out(items: int) -> list[Any]:
    """What stands in a record for the items of a stream for which it has no room."""
    return [{values.TAG: "unrecorded", "v": f"{items:,} more items"}] if items else []


def answer_of(made: Any) -> Answer:
    """What crosses, from what an Encoder made or a record kept."""
    match made:
        case Answer():
            return made
        case {"$": "answer", "v": value, "buffers": list(buffers)}:
            try:
                return Answer(value, [base64.b64decode(buffer) for buffer in buffers])
            except (TypeError, binascii.Error):
                raise ToolError("the record of this call's result is damaged") from None
        case {"$": "unrecorded", "v": size}:
            raise ToolError(
                f"this call was made before the run was cut off, and its result ({size}) was too large for the record"
            )
    return Answer(made)
