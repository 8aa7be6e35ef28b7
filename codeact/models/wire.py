"""The chat-completions format as data: a `Request` to a JSON body, and streamed chunks back to a `Reply`. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codeact.errors import ModelBadReply
from codeact.types import Call, Delta, Finish, Message, Reply, Request, Usage

CHARACTERS_PER_TOKEN = 4
"""What an estimate takes a token to be, where an endpoint does not count: close for English and code."""

_FINISH: Mapping[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_length", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "safety"), "content_filter"),
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
_BROKEN = ("error", "network_error", "abort")


class BrokenOff(Exception):
    """The endpoint said that it broke the reply off: asked again, it may not."""


def body(model: str, request: Request, sees: bool) -> dict[str, Any]:
    """The JSON body of a streaming request. What the request leaves open is left to the endpoint."""
    settings = {
        "stop": list(request.stop) or None,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "tools": list(request.tools) or None,
        "parallel_tool_calls": False if request.tools and request.one_call else None,
    }
    made = {
        "model": model,
        "messages": [_message(message, sees) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **{name: value for name, value in settings.items() if value is not None},
    }
    return _sendable(made)  # type: ignore[no-any-return]


def _sendable(value: Any) -> Any:
    """Without lone surrogates, which UTF-8 has not: a model may write them in JSON, as `\\ud800`."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
        case Mapping():
            return {_sendable(key): _sendable(item) for key, item in value.items()}
        case list() | tuple():
            return [_sendable(item) for item in value]
    return value


def estimate(request: Request, written: str) -> Usage:
    """The usage of one call for which nobody counted: characters divided by four, rounded up; images are not counted."""
    asked = sum(len(message.content) for message in request.messages)
    calls = [call for message in request.messages for call in message.calls]
    asked += sum(len(call.name) + len(json.dumps(call.arguments)) for call in calls)
    asked += len(json.dumps(list(request.tools))) if request.tools else 0
    return Usage(1, _tokens(asked), _tokens(len(written)), estimated=True)


@dataclass(slots=True)
class Assembly:
    """Puts a streamed reply together. `choices` counts the pieces of it that came, `finish` is None until the endpoint has said how the reply ended."""

    finish: Finish | None = None
    choices: int = 0
    model: str = ""
    fingerprint: str = ""
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage | None = None

    def add(self, chunk: object) -> Iterator[Delta]:
        """Take one chunk, decoded from JSON, and yield what is new. Raises ModelBadReply if it has not a chunk's shape."""
        data = _mapping(chunk, "a chunk")
        self.model = str(data.get("model") or self.model)
        self.fingerprint = str(data.get("system_fingerprint") or self.fingerprint)
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
        found = sorted(self.calls, key=lambda call: call["index"] or 0)
        functions = [call["function"] for call in found]
        written = "".join(self.reasoning) + text + "".join(f["name"] + f["arguments"] for f in functions)
        calls = tuple({key: call[key] for key in ("id", "type", "function")} for call in found)
        usage = self.usage or estimate(request, written)
        return Reply(text, self.finish, usage, self.model or model, calls, self.fingerprint)

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
        for call in _list(delta.get("tool_calls"), "tool_calls"):
            self._call(_mapping(call, "a tool call"))
            yield Delta("")  # nobody shows it, and whoever has enough can end the reply here
        if delta.get("function_call"):  # what calls were before there were several
            self._call({"index": 0, "function": delta["function_call"]})
        if choice.get("finish_reason") not in (None, ""):
            self.finish = _finish(choice["finish_reason"], begun=bool(self.text or self.calls))

    def _call(self, piece: Mapping[str, Any]) -> None:
        """Takes a call, or a piece of one. Which one it belongs to is told by its index, its id, or that it begins anew."""
        index = piece.get("index")
        if not isinstance(index, int | None):
            raise ModelBadReply(f"a tool call has the index {index!r:.40}")
        function = _mapping(piece.get("function") or {}, "a function")
        name, given = _string(function.get("name"), "name"), _arguments(function.get("arguments"))
        known = self._known(index, _string(piece.get("id"), "id"), name)
        if known is None:
            begun = {"name": name, "arguments": given}
            made = {"id": piece.get("id") or "", "type": "function", "function": begun, "index": index}
            self.calls.append(made)
            return
        known["id"] = known["id"] or piece.get("id") or ""
        if name != known["function"]["name"]:  # some send it whole with each piece
            known["function"]["name"] += name
        known["function"]["arguments"] += given

    def _known(self, index: int | None, call_id: str, name: str) -> dict[str, Any] | None:
        """The call that a piece goes on with; None where it is the first of another."""
        same = [call for call in self.calls if index is None or call["index"] == index]
        if call_id:
            same = [call for call in same if call["id"] in (call_id, "")]
        if not same or (name and _is_over(same[-1], index, call_id)):
            return None
        return same[-1]


def _is_over(call: Mapping[str, Any], index: int | None, call_id: str) -> bool:
    """Whether a piece that has a name begins another call than this one."""
    given = call["function"]["arguments"]
    if call_id and call["id"] == call_id:  # some send id and name with each piece
        return index is None and _is_json(given)
    return index is None or bool(given)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _message(message: Message, sees: bool) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if message.calls:
        calls = [_sent(call) for call in message.calls]
        return {"role": message.role, "content": message.content or None, "tool_calls": calls}
    if not (sees and message.images):
        return {"role": message.role, "content": message.content}
    images = [
        {"type": "image_url", "image_url": {"url": f"data:{image.mime};base64,{image.base64}"}}
        for image in message.images
    ]
    return {"role": message.role, "content": [{"type": "text", "text": message.content}, *images]}


def _sent(call: Call) -> dict[str, Any]:
    """A call as it goes back; where its arguments could not be read there are none, since chat templates decode them."""
    function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(given: object) -> str:
    """A piece of the arguments; some endpoints send them whole and decoded."""
    return given if isinstance(given, str) else "" if given is None else json.dumps(given)


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _usage(counted: object) -> Usage | None:
    """None where the endpoint sent no counts, or counts that are none: then they are estimated."""
    if not isinstance(counted, Mapping):
        return None
    prompt, completion = (_count(counted.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    if prompt is None or completion is None:
        return None
    cached = _count(_detail(counted, "prompt_tokens_details", "cached_tokens"))
    if cached is None:
        cached = _count(counted.get("prompt_cache_hit_tokens"))  # DeepSeek's name for it
    reasoning = _count(_detail(counted, "completion_tokens_details", "reasoning_tokens")) or 0
    if reasoning and _count(counted.get("total_tokens")) == prompt + completion + reasoning:
        completion += reasoning  # Grok and Gemini count it apart, and charge it all the same
    return Usage(1, prompt, completion, min(cached or 0, prompt), min(reasoning, completion))


def _detail(counted: Mapping[str, Any], group: str, name: str) -> object:
    details = counted.get(group)
    return details.get(name) if isinstance(details, Mapping) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _finish(reason: object, *, begun: bool) -> Finish:
    """Endpoints have words of their own for it: one that is not known ends what has begun, and is nonsense alone."""
    word = str(reason).lower()
    if word in _BROKEN:
        raise BrokenOff(word)
    finish = _FINISH.get(word, "stop" if begun else None)
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
