"""What a run leaves: its configuration, a line for each attempt, and the trace of each.

run.json           what may not change within a run, what was asked for last, and what it ran on
attempts.jsonl     one line an attempt, appended and on the disk before the next; the truth of the run
traces/KEY.jsonl.gz    the task, each event of the attempt, and the state of the world at its end
report/            made from these; may be deleted
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.attempts import Attempt, from_json
from benchmarks.run_json import damage
from codeact import journal
from codeact.errors import UsageError

RUN, ATTEMPTS, TRACES, REPORT, LOCK = "run.json", "attempts.jsonl", "traces", "report", ".lock"
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
SHORTEST_SECRET = 8
REDACTED = "[redacted]"
KEY = re.compile(r"[\w+-]+")
"""What the key of an attempt is made of, and so the name of its trace."""


class Drifted(UsageError):
    """What may not change within a run has changed."""


class Store:
    """The folder of a run. Written by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._secrets = secrets(os.environ)
        self.unread = 0
        """Lines of `attempts.jsonl` that could not be read, when they were last."""

    @property
    def exists(self) -> bool:
        return (self.folder / RUN).is_file()

    def about(self) -> dict[str, Any]:
        """`run.json`. Raises UsageError where there is none."""
        try:
            found = json.loads((self.folder / RUN).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{self.folder}: holds no run of benchmarks: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"{self.folder / RUN}: is damaged: {error}") from error
        if (said := damage(found)) is not None:
            raise UsageError(
                f"{self.folder / RUN}: is not the configuration of a run of this version: {said}"
            )
        return found  # type: ignore[no-any-return]

    def begin(self, about: Mapping[str, Any], *, allow_drift: bool = False) -> dict[str, Any]:
        """Writes the configuration of a run that begins, or that goes on. Raises Drifted where what may not change differs
        from what the run began with; with `allow_drift`, each such change is recorded instead."""
        if not self.exists:
            if (self.folder / ATTEMPTS).exists():
                raise UsageError(
                    f"{self.folder}: holds attempts, and no {RUN} that says of what; name another folder with -o"
                )
            made = {**about, "drift": []}
        else:
            made = self._gone_on(about, allow_drift=allow_drift)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(made)
        return made

    def _gone_on(self, about: Mapping[str, Any], *, allow_drift: bool) -> dict[str, Any]:
        """The configuration of a run that goes on, perhaps with arms that it did not have."""
        known = self.about()
        before, after = known["frozen"], about["frozen"]
        old, new = before.get("prompts", {}), after.get("prompts", {})
        if old or new:  # arms that come, or are left out for now, change nothing of the others
            before, after = (
                {**each, "prompts": of} for each, of in ((before, new | old), (after, old | new))
            )
        changed = differences(before, after)
        if changed and not allow_drift:
            raise Drifted(
                f"{self.folder}: was begun with another configuration ({'; '.join(changed)}); begin a new run with -o, or go on with --allow-drift"
            )
        changed += differences(
            {"machine": known.get("machine")}, {"machine": about.get("machine", known.get("machine"))}
        )
        drift = [{"at": about["started"], "changes": changed}] if changed else []
        of_arms = {
            name: {**known.get(name, {}), **about[name]} for name in ("arms", "prompt_texts") if name in about
        }
        last = {name: about[name] for name in ("plan", "asked") if name in about}
        hosts = dict.fromkeys([*known.get("providers", []), *about.get("providers", [])])
        return {
            **known,
            **of_arms,
            **last,
            "frozen": after,
            "uncommitted": bool(known.get("uncommitted") or about.get("uncommitted")),
            "providers": list(hosts),
            "drift": [*known.get("drift", []), *drift],
            "went_on": about["started"],
        }

    def update(self, **changes: Any) -> None:
        self._write(self.about() | changes)

    def _write(self, about: Mapping[str, Any]) -> None:
        write(self.folder / RUN, json.dumps(about, indent=1) + "\n")

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process writes this run meanwhile. Raises UsageError where one does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{self.folder}: another process runs it; wait for its end") from None
            yield

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """No other process writes the report meanwhile: waits for one that does. Attempts may be made."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    # -- attempts --------------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[Attempt]:
        """Every line of `attempts.jsonl`, in order; what is torn or no attempt is passed over, and counted in `unread`."""
        path = self.folder / ATTEMPTS
        self.unread = 0
        if not path.exists():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    yield from_json(_told(line))
                except (ValueError, TypeError, AttributeError, RecursionError):
                    self.unread += 1

    def attempts(self, model: str | None = None) -> list[Attempt]:
        """The attempts of a run, those with `model` alone where one is named. Of several for the same task, arm and repeat the last
        counts, and what failed before is counted in it."""
        latest: dict[tuple[str, str, int], Attempt] = {}
        failures: dict[tuple[str, str, int], int] = {}
        for made in self.lines():
            if model is not None and made.model not in (model, ""):
                continue
            place = (made.task, made.arm, made.repeat)
            failures[place] = failures.get(place, 0) + (not made.scored)
            if made.scored or place not in latest or not latest[place].scored:
                latest[place] = made
        return [dataclasses.replace(made, infra_failures=failures[place]) for place, made in latest.items()]

    def spent(self) -> float:
        """USD that all attempts cost, failed ones too; one that was judged again, which makes another line of it, once."""
        costs = {
            (made.key, made.run, made.started, made.wall_s): made.cost_usd or 0.0 for made in self.lines()
        }
        return sum(costs.values())

    def append(self, made: Attempt, trace: Iterable[Mapping[str, Any]] | None = None) -> None:
        """Writes an attempt, its trace first. When this returns, both are on the disk. Raises OSError where they cannot be; nothing
        of the attempt is left then."""
        if trace is not None:
            path = self.trace(made.key)
            path.parent.mkdir(exist_ok=True)
            content = "".join(f"{self._line(line)}\n" for line in trace)
            write(path, gzip.compress(content.encode("utf-8", "replace"), mtime=0))
        line = f"{self._line(dataclasses.asdict(made))}\n".encode("utf-8", "replace")
        with (self.folder / ATTEMPTS).open("ab+", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            torn = end and os.pread(file.fileno(), 1, end - 1) != b"\n"  # by a crash: it ends where it is
            try:
                _write_whole(file, b"\n" + line if torn else line)
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(end)
                raise

    def _line(self, value: Any) -> str:
        """As JSON that every reader takes: what it has no number for becomes null."""
        return redacted(json.dumps(journal.plain(value), ensure_ascii=False, allow_nan=False), self._secrets)

    def trace(self, key: str) -> Path:
        return self.folder / TRACES / f"{key}.jsonl.gz"

    def read_trace(self, key: str) -> list[dict[str, Any]]:
        """The lines of a trace. Raises UsageError where there is none, where it is damaged, and for a key that is not the name
        of a file of ours."""
        path = self.trace(key)
        if not KEY.fullmatch(key):
            raise UsageError(f"{self.folder / TRACES}: holds no trace of {key[:60]!r}")
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
            raise UsageError(
                f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
            ) from error
        return [line for line in lines if isinstance(line, dict)]


def _told(line: str) -> Any:
    """A line of JSON; what it escapes and no file can hold, half a character, is replaced."""
    found = json.loads(line)
    if "\\ud" not in line.lower():
        return found
    return json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))


def _write_whole(file: io.FileIO, content: bytes) -> None:
    written = 0
    while written < len(content):
        written += file.write(content[written:])
    os.fsync(file.fileno())


def write(path: Path, content: str | bytes) -> None:
    """A whole file or none. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb", buffering=0) as file:
            _write_whole(file, content.encode("utf-8", "replace") if isinstance(content, str) else content)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> list[str]:
    """How two configurations differ, in words."""
    found = []
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += differences(one, other, f"{prefix}{name}.")
        elif one != other:
            found.append(f"{prefix}{name}: {_short(one)} → {_short(other)}")
    return found


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"


def secrets(environment: Mapping[str, str]) -> Sequence[str]:
    """Values of variables whose names say that they are secret, the longest first."""
    found = {
        value for name, value in environment.items() if SECRET.search(name) and len(value) >= SHORTEST_SECRET
    }
    return sorted(found, key=len, reverse=True)


def redacted(text: str, known: Sequence[str]) -> str:
    for secret in known:
        for form in (secret, json.dumps(secret, ensure_ascii=False)[1:-1]):
            text = text.replace(form, REDACTED)
    return text


def address(url: str, known: Sequence[str]) -> str:
    """An address without what may be secret in it: who asks, what its query says, and `known` secrets."""
    plain = re.sub(r"^([a-z]+://)?[^/]*@", rf"\1{REDACTED}@", url, flags=re.IGNORECASE)
    return redacted(re.sub(r"\?.*", f"?{REDACTED}", plain, flags=re.DOTALL), known)
