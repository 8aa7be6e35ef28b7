"""The replies of an earlier run, played again: the same text, finish and usage, and nobody is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codeact.blobs import Blobs
from codeact.errors import UsageError
from codeact.home import runs_dir
from codeact.models.named import small_by_name
from codeact.models.scripted import ScriptedModel, finish_from, usage_from
from codeact.paths import is_file
from codeact.types import Reply


class ReplayModel(ScriptedModel):
    """Plays the `replied` events of `run`: a run's id, its folder, or its `run.jsonl`.

    It is `small` where the run's model was: what that one was sent is sent again. A torn last line, as a crash leaves it, is passed over. Raises UsageError for a run that is not there, that cannot
    be read, or that holds no reply.
    """

    def __init__(self, run: str) -> None:
        path = find_journal(run)
        replies, names = [], []
        for event, where in _events(path):
            names.append(event.get("model"))
            if event.get("type") == "replied":
                replies.append(_reply(event, where))
        if not replies:
            raise UsageError(f"{path} holds no reply to replay: the run ended before the model answered")
        super().__init__(replies, f"replay:{run}")
        self.small = any(small_by_name(name) for name in names if isinstance(name, str))


def find_journal(run: str) -> Path:
    """The `run.jsonl` of a run given by id, folder or file. Raises UsageError where there is none."""
    for path in (Path(run), Path(run) / "run.jsonl", runs_dir() / run / "run.jsonl"):
        if is_file(path):  # a name may be too long to be one
            return path
    raise UsageError(
        f"no run {run!r}: neither a folder, nor a file, nor an id in {runs_dir()}; see `codeact runs`"
    )


def _events(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    blobs = Blobs(path.parent)
    lines = path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                return
            raise UsageError(
                f"{path}:{number}: not an event ({error}): the journal is damaged there"
            ) from error
        if not isinstance(event, dict):
            raise UsageError(f"{path}:{number}: not an event: the journal is damaged there")
        yield blobs.inside(event, pictures=False), f"{path}:{number}"


def _calls(reading: object) -> Iterator[dict[str, Any]]:
    """The calls of a reply as it held them, where they were none of its text."""
    match reading:
        case {"native": True, "calls": [*calls]}:
            for call in filter(lambda each: isinstance(each, dict), calls):
                function = {"name": call.get("name"), "arguments": _written(call)}
                yield {"id": call.get("id"), "type": "function", "function": function}


def _written(call: dict[str, Any]) -> str:
    """Arguments that could not be read are so again."""
    return "(unreadable)" if call.get("problem") else json.dumps(call.get("arguments") or {})


def _reply(event: dict[str, Any], where: str) -> Reply:
    text = event.get("text")
    if not isinstance(text, str):
        raise UsageError(f"{where}: the event has no text")
    try:
        return Reply(
            text,
            finish_from(event.get("finish")),
            usage_from(event.get("usage")),
            str(event.get("model", "")),
            tuple(_calls(event.get("reading"))),
            str(event.get("fingerprint") or ""),
        )
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
