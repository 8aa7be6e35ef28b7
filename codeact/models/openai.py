"""A model behind an OpenAI-compatible endpoint, asked through the `openai` package, always streaming."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from codeact.errors import ModelAuthError, ModelBadReply, ModelError, UsageError
from codeact.models import faults, sse, wire
from codeact.models.named import sees_by_name, small_by_name
from codeact.models.retry import Transient
from codeact.models.words import in_words
from codeact.types import Delta, Reply, Request

OPENAI = "https://api.openai.com/v1"
CONNECT_TIMEOUT = 10.0
"""Seconds until a connection stands."""
READ_TIMEOUT = 120.0
"""Seconds between two pieces of a reply, and until the first."""

_OPTIONAL = (
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "seed",
    "stop",
    "parallel_tool_calls",
)
_UNSUPPORTED = re.compile(
    r"unsupported|not supported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra inputs"
    r"|invalid (?:parameter|argument|field)|must be",
    re.IGNORECASE,
)
_NO_FUNCTIONS = re.compile(
    r"\btools?\b[^.]{0,60}(?:not supported|not support|unsupported|requires|unrecogni[sz]ed|not permitted)"
    r"|(?:not support|unsupported|requires)[^.]{0,60}(?:\btools?\b|function.call)|support tool use|enable-auto-tool-choice",
    re.IGNORECASE,
)
_LOOKED_AT = 64

DEFAULT = "gpt-5-mini"
"""The model where an endpoint is set up and neither a name is given nor the endpoint lists one."""


class OpenAIModel:
    """Any OpenAI-compatible endpoint as a `Model`.

    `base_url` is the address up to `/v1`; without a key an endpoint other than OpenAI's is asked without one. `sees`
    defaults to what the name tells (`sees_by_name`). `read_timeout` is in seconds, between two pieces of a reply.
    `proxies=False` passes by the proxies of the environment. Parameters that the endpoint refuses as unsupported are
    renamed or dropped, once, and remembered; functions that it does not take are described in words; asking again after other failures is for `retrying()`. Raises UsageError
    for an address that is none, and ModelAuthError, ModelNotFound, ModelUnreachable, ModelBadReply or ModelRefused when called.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        sees: bool | None = None,
        read_timeout: float = READ_TIMEOUT,
        proxies: bool = True,
    ) -> None:
        self.name = name
        self.sees = sees_by_name(name) if sees is None else sees
        self.small = small_by_name(name)
        self.base_url = _checked(base_url or OPENAI)
        self._key = (api_key or "").strip()
        self._read_timeout = read_timeout
        self._proxies = proxies
        self._refused: list[str] = []
        self._in_words = False

    @property
    def host(self) -> str:
        """Host and port, for messages: an address may hold a password."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    def check_key(self) -> None:
        """Raises ModelAuthError where there is no key, or none that could be one: before anything is asked, or started."""
        if not self._key and self.base_url == OPENAI:
            raise ModelAuthError(
                f"no key for {self.host}: set OPENAI_API_KEY, or --base-url for another endpoint"
            )
        if not re.fullmatch(r"[!-~]*", self._key):
            raise ModelAuthError(
                f"the key for {self.host} holds characters that no key has: check OPENAI_API_KEY"
            )

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        assembly = wire.Assembly()
        stream = self._open(request)
        try:
            for chunk in self._chunks(stream):
                if chunk is sse.DONE:
                    assembly.done()
                else:
                    yield from assembly.add(chunk)
        except openai.APIError as error:
            raise self._fault(error) from error
        except wire.BrokenOff as error:
            raise Transient(f"{self.host} broke the reply off ({error}): try again") from error
        except ModelBadReply as error:
            raise self._nonsense(str(error)) from error
        finally:
            stream.close()
        if assembly.finish is None:
            raise self._cut(stream, assembly)
        yield assembly.reply(request, self.name)

    def first_listed(self) -> str | None:
        """The first model that the endpoint lists; None where it does not list any."""
        try:
            listed: Any = self._client.get("/models", cast_to=object)
            return str(listed["data"][0]["id"])
        except (openai.APIError, ValueError, TypeError, LookupError):
            return None  # what is wrong with the endpoint is said when it is asked to chat

    @cached_property
    def _client(self) -> openai.OpenAI:
        self.check_key()
        timeout = openai.Timeout(self._read_timeout, connect=CONNECT_TIMEOUT)
        return openai.OpenAI(
            api_key=self._key or "none",
            base_url=self.base_url,
            timeout=timeout,
            max_retries=0,  # retries are ours, so that every one of them is an event
            http_client=None
            if self._proxies
            else openai.DefaultHttpxClient(trust_env=False, timeout=timeout),
        )

    def _open(self, request: Request) -> openai.Stream[object]:
        """Send a request, less what the endpoint does not support."""
        body = self._body(request)
        while True:
            try:
                # chunks come undecoded by any schema: an endpoint's nonsense is ours to judge
                return self._client.post(
                    "/chat/completions",
                    cast_to=object,
                    body=body,
                    stream=True,
                    stream_cls=openai.Stream[object],
                )
            except openai.APIStatusError as error:
                if "tools" in body and _takes_no_functions(error):
                    self._in_words = True
                    body = self._body(request)
                    continue
                refused = _unsupported(error, body)
                if refused is None:
                    raise self._fault(error) from error
                self._refused.append(refused)
                _without(body, refused)
            except openai.APIError as error:
                raise self._fault(error) from error
            except httpx2.HTTPError as error:  # the body of a refusal broke off
                raise Transient(f"{self.host} broke its answer off: {faults.explain(error)}") from error

    def _body(self, request: Request) -> dict[str, Any]:
        body = wire.body(self.name, in_words(request) if self._in_words else request, self.sees)
        for name in self._refused:
            _without(body, name)
        return body

    def _chunks(self, stream: openai.Stream[object]) -> Iterator[object]:
        """The chunks, or the one answer of an endpoint that does not stream; `sse.DONE` where it says that this is all."""
        try:
            for event, value in sse.read(self._bytes(stream)):
                error = faults.in_event(event, value)
                if error is not None:
                    raise openai.APIError(faults.said(error), stream.response.request, body=error)
                yield value
        except (ValueError, RecursionError) as error:
            raise ModelBadReply(f"an event is not JSON ({error})") from error

    def _bytes(self, stream: openai.Stream[object]) -> Iterator[bytes]:
        start = b""
        try:
            for piece in stream.response.iter_bytes():
                if len(start) < _LOOKED_AT:
                    start += piece
                    if start.lstrip()[:1] == b"<":
                        raise ModelBadReply("a web page came back")
                yield piece
        except httpx2.TimeoutException as error:
            raise openai.APITimeoutError(stream.response.request) from error
        except httpx2.HTTPError as error:
            raise openai.APIConnectionError(request=stream.response.request) from error

    def _cut(self, stream: openai.Stream[object], assembly: wire.Assembly) -> ModelError:
        """The stream ended before its last chunk: a connection that broke, unless it never was a stream of chunks."""
        if not assembly.choices and stream.response.num_bytes_downloaded:
            return self._nonsense("nothing in it is a chunk with choices")
        return Transient(f"{self.host} broke the reply off before its end: try again")

    def _nonsense(self, reason: str) -> ModelBadReply:
        return ModelBadReply(
            f"{self.host} does not answer with a chat completion: {faults.shorten(reason, self._key)}; "
            "check --base-url (most end in /v1)"
        )

    def _fault(self, error: openai.APIError) -> ModelError:
        return faults.from_openai(error, self.host, self.name, self._key)


def _checked(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        right = False
    if not right:
        shown = base_url.rpartition("@")[2]  # before it may stand a password, even one with a slash
        raise UsageError(
            f"{shown!r} is not the address of an endpoint: write for example http://localhost:8000/v1"
        )
    return re.sub(r"/chat/completions/?$", "", base_url)


def _takes_no_functions(error: openai.APIStatusError) -> bool:
    """Whether it is the functions that an endpoint refuses: some do so with the status of a broken server."""
    named = str(error.param or "").partition(".")[0].partition("[")[0] in ("tools", "tool_choice")
    said = f"{error.code} {error.body}"
    return error.status_code in (400, 404, 422, 500, 501) and (
        _NO_FUNCTIONS.search(said) is not None or (named and _UNSUPPORTED.search(said) is not None)
    )


def _unsupported(error: openai.APIStatusError, body: dict[str, Any]) -> str | None:
    """The optional parameter of `body` that the endpoint says it does not support."""
    said = f"{error.code} {error.body}"
    if error.status_code not in (400, 422) or not _UNSUPPORTED.search(said):
        return None
    named = str(error.param or "").partition(".")[0]
    if named in _OPTIONAL and named in body:
        return named
    return next((name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", said)), None)


def _without(body: dict[str, Any], name: str) -> None:
    value = body.pop(name, None)
    if name == "max_tokens" and value is not None:
        body["max_completion_tokens"] = value  # its name for reasoning models
