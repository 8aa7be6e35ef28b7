"""Calls that are written in words or marks of a chat template, brought to the JSON that `calls` reads.

`<invoke name="python"><parameter name="code">`, `<function=python>`, `[TOOL_CALLS]`, and the `Action:` and `Action Input:`
lines of ReAct.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from codeact.actions.calls import INTERPRETER, T, Take, find_calls, read_calls
from codeact.actions.python import parse

# DeepSeek's and Step's own namespaces
_PREFIX = r"(?:[｜|]DSML[｜|]|steptml:)?"
_CALL = re.compile(
    rf"<{_PREFIX}(?:invoke|function)(?:=| name=)[\"']?([\w.-]+)[\"']?>(.*?)(?:(</{_PREFIX}(?:invoke|function)>)|\Z)",
    re.DOTALL,
)
_PARAMETER = re.compile(
    rf"<{_PREFIX}parameter(?:=| name=)[\"']?([\w-]+)[\"']?([^>\n]*)>\n?(.*?)\n?(?:</{_PREFIX}parameter>|\Z)",
    re.DOTALL,
)
_MARKED = re.compile(r"\[TOOL_CALLS\][ \t]*(?:(?P<name>[\w.]+)(?:\[CALL_ID\]\w+)?\[ARGS\])?(?=[ \t]*[\[{])")
_REACT = re.compile(
    r"^[ \t*_]*Action(?: \d+)?:[ \t*_]*`?(?P<name>[\w. ]+?)`?[ \t*_]*\n+"
    r"[ \t*_]*Action Input(?: \d+)?:[ \t*_]*(?P<input>.*?)(?=^[ \t*_]*(?:Observation|Thought|Final Answer)\b|\Z)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
# a call in prose is tried at each mark; nobody writes more than this
_MOST_CALLS = 64


def find_tagged(
    text: str, take: Take[T], texts: Callable[[str], Collection[str]] = lambda name: ()
) -> tuple[tuple[T, ...], int, int]:
    """What `take` makes of the calls in `text`, with where the first starts and where the last ends. `texts` are the parameters of a
    function that are texts, also where they look like numbers."""
    marked = _MARKED.search(text)
    if marked is not None:
        taken, _, stop = find_calls("\n" + text[marked.end() :].lstrip(), take)
        if marked["name"]:
            arguments = text[marked.end() :].strip()
            taken = read_calls(f'{{"name": {json.dumps(marked["name"])}, "arguments": {arguments}}}', take)
        return taken, marked.start(), len(text) if marked["name"] else min(len(text), marked.end() + stop)
    found = zip(range(_MOST_CALLS), _CALL.finditer(text), strict=False)
    whole = [call for _, call in found if not _is_cut_off(call)]
    taken = tuple(
        each for call in whole for each in _taken(call[1], _parameters(call[2], texts(call[1])), take)
    )
    if taken:
        return taken, whole[0].start(), whole[-1].end()
    react = _REACT.search(text)
    taken = _react(react["name"], react["input"].strip(), take) if react else ()
    return (taken, react.start(), react.end()) if taken and react else ((), 0, 0)


def _is_cut_off(call: re.Match[str]) -> bool:
    """Whether more parameters, or more of the last one, may have been meant to follow."""
    return call[3] is None and ("<param" in call[2] or "parameter name" in call[2])


def _taken(name: str, arguments: Any, take: Take[T]) -> tuple[T, ...]:
    return read_calls(json.dumps({"name": name, "arguments": arguments}), take)


def _parameters(body: str, texts: Collection[str]) -> Any:
    found = {
        each[1]: each[3] if each[1] in texts or 'string="true"' in each[2] else _value(each[3])
        for each in _PARAMETER.finditer(body)
    }
    return found or body.strip()


def _value(text: str) -> Any:
    """A parameter as JSON where it is a number, a list or the like; else as text."""
    try:
        return json.loads(text) if re.match(r"\s*(?:[-\d\[{]|true|false|null)", text) else text
    except (ValueError, RecursionError):
        return text


def _react(name: str, given: str, take: Take[T]) -> tuple[T, ...]:
    name = re.sub(r"\s+", "_", name.strip()).lower() if " " in name.strip() else name.strip()
    code = INTERPRETER.fullmatch(name) is not None
    if not code and name != "final_answer" and given[:1] != "{":
        return ()
    if code and given[:1] != "{" and parse(given) is None:
        return ()
    value = _value(given)
    return _taken(name, value if isinstance(value, dict) or not code else given, take)
