"""A request with functions, in words: for endpoints and models that take no functions. Their calls come as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from codeact.context import merged
from codeact.types import Message, Request

HOW = """\
Functions
- To call a function, write its name and arguments as JSON between these tags, on lines of their own:
<tool_call>
{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}
</tool_call>
- Then stop. You get what it returned between <tool_response> and </tool_response>.
- These are the functions, with the JSON Schemas of their arguments:
"""


def in_words(request: Request) -> Request:
    """The same request without functions: the rules list them, and calls and results are texts."""
    if not request.tools:
        return request
    return replace(request, messages=list(merged(_messages(request))), tools=())


def _messages(request: Request) -> Iterator[Message]:
    functions = "\n".join(json.dumps(each["function"], ensure_ascii=False) for each in request.tools)
    rules = f"{HOW}<tools>\n{functions}\n</tools>"
    first, *others = request.messages
    if first.role == "system":
        yield replace(first, content=f"{first.content}\n\n{rules}")
    else:
        yield from (Message("system", rules), first)
    yield from map(_in_words, others)


def _in_words(message: Message) -> Message:
    if message.role == "tool":
        return Message("user", f"<tool_response>\n{message.content}\n</tool_response>")
    if not message.calls:
        return message
    calls = [
        json.dumps({"name": c.name, "arguments": c.arguments}, ensure_ascii=False) for c in message.calls
    ]
    written = "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)
    return Message(message.role, f"{message.content}\n{written}".strip())
