"""A real HTTP server that speaks the chat-completions format, and fails in every way that endpoints fail.

    with Gateway(says("hello")) as gateway:
        OpenAIModel("any", base_url=gateway.url)

Answers are played in order, whoever asks; `gateway.requests` holds what was asked. It is as strict as the strictest endpoint:
a request with fields that the format has not, or with calls and results that do not belong together, gets a 400 and uses
up no answer. As a command it serves a script: `python -m tests.gateway --port 8000 --script FILE.jsonl`, where a line is

    {"content": "..."}                                as for the scripted model, with `tool_calls`, `finish_reason`, `usage`, `reasoning`
    {"sse": "FILE"}                                   a stream as it was recorded
    {"status": 429, "message": "...", "headers": {}}  an error
    {"page": true}                                    a web page in place of an answer
    {"raw": "...", "type": "text/plain"}              these bytes, of this content type

each with `"wait": SECONDS` before the first byte, `"cut": true` (the connection drops half-way), or
`"stall": "before"|"after"` where wanted.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

COUNTED = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass(frozen=True)
class Answer:
    """What the gateway sends for one request.

    `cut` drops the connection in the middle of the transfer, after `pieces`. `stall` falls silent, before the first byte
    or after the pieces, until the client leaves. `wait` are seconds before the first byte.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    cut: bool = False
    stall: Literal["no", "before", "after"] = "no"
    wait: float = 0.0


@dataclass(frozen=True)
class Asked:
    """One request that came: `headers` in lower case, `body` decoded from JSON."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


def says(
    content: str | None,
    *,
    finish: str | None = "stop",
    usage: Mapping[str, Any] | None = COUNTED,
    reasoning: str = "",
    tool_calls: Sequence[Mapping[str, Any]] = (),
    split: int = 0,
    **changes: Any,
) -> Answer:
    """A streamed reply, word by word. `finish=None` ends without saying how, nor `[DONE]`; `usage=None` does not count.
    Calls come whole, or with `split` their arguments in pieces of so many characters, those of all calls in turn."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": word} for word in _words(reasoning)]
    deltas += [{"content": word} for word in _words(content or "")]
    deltas += [{"tool_calls": [piece]} for piece in _call_pieces(tool_calls, split)]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas
    ]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        chunks.append({"choices": [], "usage": dict(usage)})
    answer = events(
        *({"object": "chat.completion.chunk", "model": "gateway", **chunk} for chunk in chunks), **changes
    )
    return answer if finish else replace(answer, pieces=answer.pieces[:-1])


def events(*chunks: object, **changes: Any) -> Answer:
    """A stream of these JSON values, ended by `[DONE]`."""
    pieces = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return Answer([*pieces, b"data: [DONE]\n\n"], **changes)


def recorded(path: Path) -> Answer:
    """A stream as it was recorded from a server, event by event."""
    return Answer([event + b"\n\n" for event in path.read_bytes().split(b"\n\n") if event.strip()])


def fails(status: int, message: str = "", headers: Mapping[str, str] | None = None, **error: Any) -> Answer:
    """An error as OpenAI words it; `error` are its other fields, such as `code` and `param`."""
    return plain({"error": {"message": message, **error}}, status=status, headers=headers)


def plain(document: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """One JSON document."""
    kind = {"Content-Type": "application/json"}
    return Answer([json.dumps(document).encode()], status, {**kind, **(headers or {})})


def page(status: int = 200) -> Answer:
    """A web page, as a wrong address or a proxy answers."""
    return Answer(
        [b"<!doctype html><html><body>Welcome!</body></html>"], status, {"Content-Type": "text/html"}
    )


def _call_pieces(calls: Sequence[Mapping[str, Any]], split: int) -> Iterator[dict[str, Any]]:
    if not split:
        yield from ({"index": number, **call} for number, call in enumerate(calls))
        return
    rests = []
    for number, call in enumerate(calls):
        yield {"index": number, **call, "function": {**call["function"], "arguments": ""}}
        rests.append(call["function"]["arguments"])
    for at in range(0, max(map(len, rests)), split):
        for number, text in enumerate(rests):
            if at < len(text):
                yield {"index": number, "function": {"arguments": text[at : at + split]}}


class Gateway:
    """Serves `answers` on a free loopback port while its `with` block lasts, and then refuses with 400.

    `refuses` are parameters that it answers 400 to, without using up an answer. `models` are those that it lists (None: it
    lists none, with a 404). `client_left` is set when a client closes the connection of an answer that stalls.
    """

    def __init__(
        self,
        *answers: Answer,
        port: int = 0,
        refuses: Collection[str] = (),
        models: Sequence[str] | None = None,
    ) -> None:
        self.requests: list[Asked] = []
        self.models = models
        self.refuses = refuses
        self.client_left = threading.Event()
        self._answers = deque(answers)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), self)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def add(self, *answers: Answer) -> None:
        with self._lock:
            self._answers.extend(answers)

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.requests.append(asked)
            for name in self.refuses:
                if name in asked.body:
                    said = f"Unsupported parameter: '{name}' is not supported with this model."
                    return fails(400, said, code="unsupported_parameter", param=name)
            if wrong := malformed(asked.body):
                return fails(400, wrong, type="invalid_request_error")
            return self._answers.popleft() if self._answers else fails(400, "the gateway has no answer left")

    def serve_forever(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def __enter__(self) -> Gateway:
        self._thread = threading.Thread(target=self.serve_forever)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], gateway: Gateway) -> None:
        self.gateway = gateway
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            pass  # the client left between two requests

    def do_GET(self) -> None:
        models = self.server.gateway.models
        if self.path != "/v1/models" or models is None:
            self._send(fails(404, "Not Found"))
            return
        self._send(plain({"object": "list", "data": [{"id": name, "object": "model"} for name in models]}))

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.gateway.answer(Asked(self.path, headers, json.loads(content)))
        try:
            self._send(answer)
        except ConnectionError:
            self.server.gateway.client_left.set()
            self.close_connection = True

    def _send(self, answer: Answer) -> None:
        if answer.stall == "before":
            self._until_client_leaves()
            return
        time.sleep(answer.wait)
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in answer.pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if answer.stall == "after":
            self._until_client_leaves()
        elif answer.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _until_client_leaves(self) -> None:
        self.connection.recv(1)  # a client that waits for its answer sends nothing more: this is its end
        self.close_connection = True
        self.server.gateway.client_left.set()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass


def from_script(path: Path) -> Iterator[Answer]:
    """The answers of a script, one a line (see the top of this file)."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line.strip():
            continue
        yield _scripted(json.loads(line), path.parent)


def _scripted(line: dict[str, Any], folder: Path) -> Answer:
    faults = {name: line[name] for name in ("wait", "cut", "stall") if name in line}
    said = _said(line, folder)
    kept = said.pieces[: len(said.pieces) // 2] if faults.get("cut") else said.pieces
    return replace(said, pieces=kept, **faults)


def _said(line: dict[str, Any], folder: Path) -> Answer:
    if "page" in line:
        return page()
    if "raw" in line:
        return Answer([line["raw"].encode()], headers={"Content-Type": line.get("type", "text/event-stream")})
    if "sse" in line:
        return recorded(folder / line["sse"])
    if "status" in line:
        return fails(line["status"], line.get("message", ""), line.get("headers"))
    calls = line.get("tool_calls") or ()
    return says(
        line.get("content"),
        finish=line.get("finish_reason") or ("tool_calls" if calls else "stop"),
        usage=line.get("usage", COUNTED),
        reasoning=line.get("reasoning", ""),
        tool_calls=calls,
    )


# -- what a strict endpoint takes --------------------------------------------------------------------------------

_FIELDS: Mapping[str, set[str]] = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def malformed(body: Mapping[str, Any]) -> str | None:
    """What is wrong with a request for chat completions; None where it is well formed."""
    open_: list[str] = []
    names = [each["function"]["name"] for each in body.get("tools", ())]
    if len(set(names)) != len(names) or not all(map(_NAME.fullmatch, names)):
        return f"Invalid 'tools': {names}"
    for number, message in enumerate(body.get("messages", ())):
        where, role = f"Invalid 'messages[{number}]'", message.get("role")
        if role not in _FIELDS or set(message) - _FIELDS[role]:
            return f"{where}: role {role!r} with {sorted(message)}"
        if role == "tool":
            if message["tool_call_id"] not in open_ or not isinstance(message["content"], str):
                return f"{where}: {message['tool_call_id']!r} is the id of no call before it"
            open_.remove(message["tool_call_id"])
            continue
        if open_:
            return f"{where}: the calls {open_} before it have no result"
        if message["content"] is None and not message.get("tool_calls"):
            return f"{where}: content is null"
        open_ = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(open_)) != len(open_) or ("tool_calls" in message and not open_):
            return f"{where}: the calls have the ids {open_}"
        for call in message.get("tool_calls", ()):
            if wrong := _malformed_call(call):
                return f"{where}: {wrong}"
    return f"the calls {open_} have no result" if open_ else None


def _malformed_call(call: Mapping[str, Any]) -> str | None:
    function = call.get("function", {})
    if set(call) != {"id", "type", "function"} or set(function) != {"name", "arguments"}:
        return f"a call of the fields {sorted(call)}, {sorted(function)}"
    if not call["id"] or not _NAME.fullmatch(function["name"]):
        return f"a call of {function['name']!r} with the id {call['id']!r}"
    try:
        return None if isinstance(json.loads(function["arguments"]), dict) else "arguments that are no object"
    except (TypeError, ValueError):
        return f"arguments that are not JSON: {function['arguments']!r}"


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    given = parser.parse_args()
    gateway = Gateway(*from_script(given.script), port=given.port)
    print(gateway.url, flush=True)
    try:
        gateway.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
