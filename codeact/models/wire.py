"""The chat-completions format as data: a `Request` to a JSON body, and streamed chunks back to a `Reply`. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codeact.errors import ModelBadReply
from codeact.types import Delta, Finish, Message, Reply, Request, Usage

CHARACTERS_PER_TOKEN = 4
"""What an estimate takes a token to be, where an endpoint does not count: close for English and code."""

_FINISH: Mapping[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_length"), "length"),
    **dict.fromkeys(("content_filter", "safety"), "content_filter"),
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


def body(model: str, request: Request, sees: bool) -> dict[str, Any]:
    """The JSON body of a streaming request. What the request leaves open is left to the endpoint."""
    settings = {
        "stop": list(request.stop) or None,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    return {
        "model": model,
        "messages": [_message(message, sees) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **{name: value for name, value in settings.items() if value is not None},
    }


def estimate(messages: Sequence[Message], written: str) -> Usage:
    """The usage of one call for which nobody counted: characters divided by four, rounded up; images are not counted."""
    asked = sum(len(message.content) for message in messages)
    return Usage(1, _tokens(asked), _tokens(len(written)), estimated=True)


@dataclass(slots=True)
class Assembly:
    """Puts a streamed reply together. `choices` counts the pieces of it that came, `finish` is None until the endpoint has said how the reply ended."""

    finish: Finish | None = None
    choices: int = 0
    model: str = ""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    usage: Usage | None = None

    def add(self, chunk: object) -> Iterator[Delta]:
        """Take one chunk, decoded from JSON, and yield what is new. Raises ModelBadReply if it has not a chunk's shape."""
        data = _mapping(chunk, "a chunk")
        self.model = str(data.get("model") or self.model)
        self.usage = _usage(data.get("usage")) or self.usage
        for choice in _list(data.get("choices", []), "choices"):
            self.choices += 1
            choice = _mapping(choice, "a choice")
            if not choice.get("index"):  # others were not asked for
                yield from self._choice(choice)

    def done(self) -> None:
        """The endpoint said that this is all: a reply for which it gave no reason to end has come to its end."""
        if self.choices and self.finish is None:
            self.finish = "stop"

    def reply(self, request: Request, model: str) -> Reply:
        """The whole reply; call it only once `finish` is known."""
        if self.finish is None:
            raise ModelBadReply("the reply has no finish_reason")
        text = "".join(self.text)
        calls = tuple(self.calls[index] for index in sorted(self.calls))
        written = "".join(self.reasoning) + text + "".join(call["function"]["arguments"] for call in calls)
        return Reply(
            text, self.finish, self.usage or estimate(request.messages, written), self.model or model, calls
        )

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Delta]:
        # an endpoint that does not stream answers with a `message` where a chunk has a `delta`
        delta = _mapping(choice.get("delta") or choice.get("message") or {}, "a delta")
        thought = _string(delta.get("reasoning_content") or delta.get("reasoning"), "reasoning")
        if thought:
            self.reasoning.append(thought)
            yield Delta(thought, "reasoning")
        for name in ("content", "refusal"):
            piece = _string(_joined(delta.get(name)), name)
            if piece:
                self.text.append(piece)
                yield Delta(piece)
        for position, call in enumerate(_list(delta.get("tool_calls"), "tool_calls")):
            self._call(_mapping(call, "a tool call"), position)
        if choice.get("finish_reason") not in (None, ""):
            self.finish = _finish(choice["finish_reason"])

    def _call(self, piece: Mapping[str, Any], position: int) -> None:
        index = piece.get("index", position)
        if not isinstance(index, int):
            raise ModelBadReply(f"a tool call has the index {index!r:.40}")
        blank = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = self.calls.setdefault(index, blank)
        call["id"] = _string(piece.get("id"), "id") or call["id"]
        function = _mapping(piece.get("function") or {}, "a function")
        for name in ("name", "arguments"):
            call["function"][name] += _string(function.get(name), name)


def _message(message: Message, sees: bool) -> dict[str, Any]:
    if not (sees and message.images):
        return {"role": message.role, "content": message.content}
    images = [
        {"type": "image_url", "image_url": {"url": f"data:{image.mime};base64,{image.base64}"}}
        for image in message.images
    ]
    return {"role": message.role, "content": [{"type": "text", "text": message.content}, *images]}


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _usage(counted: object) -> Usage | None:
    """None where the endpoint sent no counts, or counts that are none: then they are estimated."""
    if not isinstance(counted, Mapping):
        return None
    details = counted.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    numbers = [counted.get("prompt_tokens"), counted.get("completion_tokens"), cached or 0]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        return None
    return Usage(1, *numbers)  # type: ignore[arg-type]


def _finish(reason: object) -> Finish:
    finish = _FINISH.get(str(reason).lower())
    if finish is None:
        raise ModelBadReply(f"the reply ended with the unknown finish_reason {reason!r:.60}")
    return finish


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ModelBadReply(f"{what} is {value!r:.60}, not an object")
    return value


def _list(value: object, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ModelBadReply(f"{what} is {value!r:.60}, not a list")
    return value


def _joined(content: object) -> object:
    """Content that came in parts, as their text; what the parts think is left out."""
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return "".join(str(part["text"]) for part in content if isinstance(part.get("text"), str))
    return content


def _string(value: object, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ModelBadReply(f"{what} is {value!r:.60}, not text")
    return value
