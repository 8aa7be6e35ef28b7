"""What an endpoint's failure means: whether to ask again, and one line for the user that never holds a key."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import openai

from codeact.errors import (
    ModelAuthError,
    ModelBadReply,
    ModelError,
    ModelNotFound,
    ModelRefused,
    ModelUnreachable,
)
from codeact.models.retry import Transient

LONGEST_WAIT = 120.0
"""Seconds. An endpoint that asks for a longer wait ends the request instead."""

_WORTH_ANOTHER = {408, 409, 429}
_SECRET = re.compile(
    r"(?<=://)[^/\s@]+(?=@)|\b(?:sk|pk|key|gsk|xai|hf)[-_][\w*.-]{6,}|\bBearer\s+\S+|\bAIza[\w-]{10,}",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"context.?(?:length|size|window)|maximum context|too many tokens", re.IGNORECASE)
_PASSING = re.compile(r"server|overload|rate_?limit|unavailable|timeout", re.IGNORECASE)


def from_openai(error: openai.APIError, host: str, model: str, key: str) -> ModelError:
    """The error to raise for one of the `openai` package's."""
    if isinstance(error, openai.APIStatusError):
        return _from_status(error, host, model, key)
    if isinstance(error, openai.APITimeoutError):
        return Transient(f"{host} did not answer in time: try again, or allow a longer read timeout")
    if isinstance(error, openai.APIConnectionError):
        return _from_connection(error, host)
    return _from_stream(error, host, key)


def explain(error: BaseException) -> str:
    """The innermost cause of a connection error, in one short line: that is where the reason stands."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return shorten(str(error) or type(error).__name__)


def shorten(text: str, key: str = "") -> str:
    """`text` on one line of at most 300 characters, with what looks like a key replaced by `[secret]`."""
    if key:
        text = text.replace(key, "[secret]")
    text = " ".join(_SECRET.sub("[secret]", text).split())
    return text if len(text) <= 300 else text[:299] + "…"


def in_event(event: str, value: object) -> object:
    """The error that an event of a stream tells of; None where it is a chunk."""
    if isinstance(value, Mapping) and value.get("error"):
        return value["error"]
    return value if event == "error" else None


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that `retry-after-ms` or `Retry-After` (seconds or an HTTP date) ask for; None without a usable one."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None


def _from_status(error: openai.APIStatusError, host: str, model: str, key: str) -> ModelError:
    status, words = error.status_code, shorten(said(error.body), key)
    it_said = f"; it said: {words}" if words else ""
    if status in (401, 403):
        if not key:
            return ModelAuthError(
                f"{host} asks for a key ({status}), and got none: set OPENAI_API_KEY, and name the endpoint with --base-url"
            )
        what = "the key was refused by" if status == 401 else "the key gives no access at"
        return ModelAuthError(f"{what} {host} ({status}): check OPENAI_API_KEY and what it may use{it_said}")
    if status == 404:
        return ModelNotFound(
            f"{host} knows no model {model!r} at this address (404): check --model and --base-url{it_said}"
        )
    if error.code == "insufficient_quota":
        return ModelRefused(f"{host} refused: the account's quota is used up. {words}")
    if status in _WORTH_ANOTHER or status >= 500:
        return _transient(
            error, f"{host} answered {status} ({_phrase(status)})" + (f": {words}" if words else "")
        )
    if _TOO_LONG.search(f"{error.code} {error.type} {words}"):
        return ModelRefused(
            f"the conversation is longer than the context of {model!r}: give a shorter task or less output. {host}: {words}"
        )
    return ModelRefused(f"{host} refused the request ({status}): {words or _phrase(status)}")


def _transient(error: openai.APIStatusError, message: str) -> ModelError:
    wait = retry_after(error.response.headers, time.time())
    if wait is not None and wait > LONGEST_WAIT:
        return ModelUnreachable(
            f"{message}; it asks for a wait of {wait:.0f} s: try again later, or use another model"
        )
    return Transient(message, wait)


def _from_connection(error: openai.APIConnectionError, host: str) -> ModelError:
    reason = explain(error)
    if "certificate" in reason.lower():
        return ModelUnreachable(
            f"no trusted connection to {host}: {reason}; for a private authority set SSL_CERT_FILE"
        )
    return Transient(
        f"no connection to {host}: {reason}; check that it runs, --base-url, and the proxy settings"
    )


def _from_stream(error: openai.APIError, host: str, key: str) -> ModelError:
    """For an error that came as an event of a stream which had begun well."""
    words = shorten(error.message, key)
    status = _number(error.code)
    passing = error.code != "insufficient_quota" and _PASSING.search(f"{error.type} {error.code}")
    if passing or (status is not None and (status in _WORTH_ANOTHER or status >= 500)):
        return Transient(f"{host} broke the reply off: {words}")
    if isinstance(error, openai.APIResponseValidationError):
        return ModelBadReply(f"{host} does not answer with a chat completion: {words}")
    return ModelRefused(f"{host} broke the reply off: {words}")


def said(body: Any) -> str:
    """The endpoint's own message: `{"error": {"message"}}`, `{"error": "..."}`, `{"detail": ...}`, or short plain text."""
    if isinstance(body, Mapping):
        inner = body.get("message") or body.get("error") or body.get("detail") or body
        return said(inner) if isinstance(inner, Mapping) and inner is not body else str(inner)
    text = str(body or "")
    return "" if "<html" in text.lower() else text


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no standard status"


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
