"""`view DIR`: a run in the browser of this machine: its report, its attempts, and what happened in each.

What is shown was written by models, and by whoever made the folder: it is text in pages that let no script run but the
renderer's own. The server answers this machine alone, under its own name, so that no page of another site can read it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.analysis import analyse
from benchmarks.attempts import Attempt
from benchmarks.report import page_of
from benchmarks.report.page import rendered
from benchmarks.report.words import caption, counted
from benchmarks.store import Store
from codeact import events
from codeact.errors import UsageError
from codeact.views import recorded, report, story

HOST = "127.0.0.1"
MOST_TEXT = 200_000
"""Characters of one text on a page."""
VERDICTS = {True: "right", False: "wrong", None: "no verdict"}


class Viewer(ThreadingHTTPServer):
    """Serves the run of `store` on loopback; `port` 0 takes a free one. Raises UsageError for a port that is taken."""

    daemon_threads = True

    def __init__(self, store: Store, port: int) -> None:
        self.store = store
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"--port {port}: cannot be used: {reason}; name another, or 0 for any"
            ) from error

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    @property
    def names(self) -> tuple[str, ...]:
        """Under which it may be asked: a name of another site that points here is none."""
        return tuple(f"{name}:{self.server_port}" for name in (HOST, "localhost"))


class _Handler(BaseHTTPRequestHandler):
    server: Viewer

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.names:
            self._send(403, "This address is not for you.")
            return
        path = self.path.partition("?")[0]
        for form, shown in PAGES.items():
            if found := re.fullmatch(form, path, re.ASCII):
                try:
                    self._send(200, shown(self.server.store, *map(int, found.groups())))
                except (UsageError, OSError) as error:
                    self._send(404, _plain("Not there", str(error)))
                except Exception as error:  # noqa: BLE001 - a trace may hold anything, and costs its page alone
                    self._send(500, _plain("Cannot be shown", f"{type(error).__name__}: {error}"))
                return
        self._send(404, _plain("Not there", f"There is no page {path}."))

    def _send(self, status: int, text: str) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(content)
        except ConnectionError:
            pass  # the browser has gone on

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass


def _report(store: Store) -> str:
    return page_of(store)


def _attempts(store: Store) -> str:
    about, attempts = store.about(), store.attempts()
    return rendered(
        "attempts.html",
        title=f"{about['frozen']['suite']} with {about['frozen']['model']}",
        caption=caption(about, analyse(store.attempts(about["frozen"]["model"]), about["plan"]["arms"])),
        counted=counted(len(attempts), "attempt"),
        attempts=[(number, attempts[number]) for number in _order(attempts)],
        verdict=_verdict,
        why=_why,
    )


def _order(attempts: Sequence[Attempt]) -> list[int]:
    """The numbers of attempts by their tasks. A number is the place in the file, which stays while a run goes on."""

    def place(number: int) -> tuple[str, str, str, int]:
        made = attempts[number]
        return made.category, made.task, made.arm, made.repeat

    return sorted(range(len(attempts)), key=place)


def _numbered(store: Store, number: int) -> Attempt:
    attempts = store.attempts()
    if number >= len(attempts):
        raise UsageError(f"There is no attempt {number}.")
    return attempts[number]


def _verdict(made: Attempt) -> str:
    how = "" if made.stop_reason == "submitted" else f" ({made.stop_reason.replace('_', ' ')})"
    return f"{VERDICTS[made.success]}{how}"


def _why(made: Attempt) -> str:
    return "; ".join(filter(None, (made.error, made.reason)))


def _attempt(store: Store, number: int) -> str:
    made, order = _numbered(store, number), _order(store.attempts())
    place = order.index(number)
    trace, missing = _trace(store, made)
    began = next((line for line in trace if line.get("type") == "attempt"), {})
    outcome = next((line for line in trace if line.get("type") == "outcome"), {})
    told = [line for line in trace if line.get("type") in ("step", "broken")]
    texts = {
        "The question": began.get("question"),
        "The answer": made.answer,
        "What it changed": "\n".join(map(str, outcome.get("changes") or ())) or None,
        "Its calls of tools": "\n".join(map(_call, outcome.get("calls") or ())) or None,
        "What it did": told or None,
    }
    return rendered(
        "attempt.html",
        title=f"{made.task}, {made.arm}, repeat {made.repeat}",
        verdict=_verdict(made),
        why=_why(made),
        number=number,
        before=order[place - 1] if place else None,
        after=order[place + 1] if place + 1 < len(order) else None,
        has_run=bool(_events(trace)),
        missing=missing,
        texts=[(name, _text(value)) for name, value in texts.items() if value is not None],
        facts=[(name, _text(value)) for name, value in dataclasses.asdict(made).items() if name != "answer"],
    )


def _trace(store: Store, made: Attempt) -> tuple[list[dict[str, Any]], str]:
    """The trace of an attempt, or why there is none."""
    try:
        return store.read_trace(made.key), ""
    except UsageError as error:
        return [], str(error)


def _events(trace: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [line for line in trace if str(line.get("type")) in events.BY_TYPE]


def _call(call: Any) -> str:
    if not isinstance(call, Mapping):
        return str(call)
    given = json.dumps(call.get("arguments"), ensure_ascii=False)
    return f"{call.get('tool')}({given}){' changed the state' if call.get('changed') else ''}{f' -> {error}' if (error := call.get('error')) else ''}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    more = len(text) - MOST_TEXT
    return text if more <= 0 else f"{text[:MOST_TEXT]}\n… and {more:,} characters more"


def _run(store: Store, number: int) -> str:
    trace, missing = _trace(store, _numbered(store, number))
    lines = _events(trace)
    if not lines:
        raise UsageError(missing or "This attempt has no events.")
    return report.render(story.tell(events.standing(recorded.events_of(lines))), store.folder)


def _plain(title: str, words: str) -> str:
    return rendered(
        "attempt.html", title=title, verdict=words, why="", number=0, before=None, after=None, has_run=False,
        missing="", texts=[], facts=[],
    )  # fmt: skip


PAGES: Mapping[str, Callable[..., str]] = {
    r"/": _attempts,
    r"/report": _report,
    r"/attempt/(\d{1,9})": _attempt,
    r"/attempt/(\d{1,9})/run": _run,
}
