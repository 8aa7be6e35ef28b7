"""Calls of functions written in the text of a reply, by models that have no channel of their own for them.

The forms of the chat templates (Hermes and Qwen, Llama, Mistral, DeepSeek, Kimi, GLM, Command, gpt-oss), JSON by itself, in a block
of code or in prose, ReAct's lines, and calls as Python writes them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from codeact.actions.arguments import Unreadable
from codeact.actions.calls import find_calls, named_call
from codeact.actions.prose import INVENTION, NEXT_TURN, behind_thinking
from codeact.actions.python import parse
from codeact.actions.tagged import find_tagged

Written = tuple[str, Any]
"""The name and the arguments, as a value or as text."""

_MOST_CALLS = 64
# a name in marks, with its arguments as JSON behind it
_NAMED = re.compile(
    r"<[|｜]tool[_▁]call[_▁]begin[|｜]>(?:function<[|｜]tool[_▁]sep[|｜]>)?\s*(?P<deep>[\w.:-]+)\s*"
    r"(?:<[|｜]tool[_▁](?:sep|call[_▁]argument[_▁]begin)[|｜]>|\n)\s*(?:```(?:json)?)?\s*(?=\{)"
    r"|<\|channel\|>\w+ to=(?P<oss>[\w.]+)[^{\n]{0,60}?<\|message\|>\s*(?=\{)"
    r"|\[TOOL_CALLS\]\s*(?P<mistral>[\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{)"
    r"|<function=(?P<llama>[\w.-]+)>\s*(?=\{)|<function name=[\"'](?P<named>[\w.-]+)[\"']>\s*(?=\{)"
)
# no pair may follow that is cut off: the call would be made without it
_PAIRS = re.compile(
    r"<tool_call>\s*([\w.-]+)\s*((?:<arg_key>.*?</arg_value>\s*)+)(?!\s*<(?:a|\Z))", re.DOTALL
)
_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_TAGGED = re.compile(r"<tool_calls?>\s*(?=[{\[])(.*?)\s*(?:(</tool_calls?>)|(?=<tool_call>)|\Z)", re.DOTALL)
# what may stand right before JSON
_MARKS = re.compile(
    r"</?tool_calls?>|</?tools?>|</?function_calls?>|<\|python_tag\|>|functools(?=\[)|\[TOOL_CALLS\]|<\|(?:START|END)_ACTION\|>"
    r"|```\w*|Action:(?=\s*```)|</?response>"
)
_LAST_MARKS = re.compile(rf"(?:(?:{_MARKS.pattern})\s*)+\Z")
_CLOSED = ("```", "</tool_call>")
_OSS_CALL = "<|channel|>commentary to="
_TRIED = re.compile(
    r"<tool_call>|\[TOOL_CALLS\]|<function(?:=| name=)|<\|python_tag\|>|<invoke |<[|｜]tool[_▁]call[_▁]begin"
)
_BEGUN = re.compile(
    r"\{\s*[\"'](?:name|function|tool|tool_name|function_name|action|arguments|parameters)[\"']\s*:"
)


@dataclass(frozen=True, slots=True)
class Found:
    """`calls` in order; `thoughts` are what stands before them, `end` where the model's own text ends (None: at its end).

    `tried`: it holds the marks of a call, or one in JSON that is broken, and none could be read.
    """

    calls: tuple[Written, ...]
    thoughts: str
    end: int | None = None
    tried: bool = False


def find(text: str, known: Collection[str]) -> Found:
    """The calls in a reply's text. `known` are the names of functions: what is written as Python, or without arguments, is a
    call only of one of these. Behind what the model invents as a result nothing is read."""
    start = 0 if _OSS_CALL in text else behind_thinking(text)
    if start is None:
        return Found((), text.strip(), tried=_tried(text))
    calls, first, _ = _calls(text[start:], known)
    if not calls:
        cut = NEXT_TURN.search(text, start)
        end = cut.start() if cut and not _TRIED.search(text) else None
        return Found((), text[start:end].strip(), end, _tried(text[start:]))
    invented = INVENTION.search(text, start + first)
    if invented and invented.start() > start + first and not _within_call(text, invented.start()):
        before, earlier, _ = _calls(text[start : invented.start()], known)
        if before:
            return Found(before, _before(text[start : start + earlier]), invented.start())
    return Found(calls, _before(text[start : start + first]))


def complete(text: str, known: Collection[str]) -> int | None:
    """Where the reply of which `text` has come so far can be ended, as an offset; None if not yet: behind its first call, or
    where the model begins to invent a result."""
    if not text.rstrip().endswith(_CLOSED) and not INVENTION.search(text):
        return None
    found = find(text, known)
    return (len(text) if found.end is None else found.end) if found.calls else None


def _tried(text: str) -> bool:
    """Whether a text without calls was to hold one."""
    if _TRIED.search(text):
        return True
    begun = _BEGUN.search(text)
    return begun is not None and not _is_whole(text[begun.start() :])


def _is_whole(text: str) -> bool:
    """Whether a text begins with an object that can be read, such as an answer that has a `name`."""
    try:
        json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return isinstance(_literal(text), dict)
    return True


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _before(text: str) -> str:
    """What stands before calls, without the marks that open them."""
    return _LAST_MARKS.sub("", text).strip()


def _within_call(text: str, at: int) -> bool:
    """Whether a place lies in a JSON string that is open on its line: arguments may hold any words."""
    return text.count('"', text.rfind("\n", 0, at) + 1, at) % 2 == 1


def _calls(text: str, known: Collection[str]) -> tuple[tuple[Written, ...], int, int]:
    def take(value: Any) -> Written | None:
        call = named_call(value)
        if call is not None:
            return call
        if isinstance(value, dict) and value.get("name") in known and set(value) <= {"name", "type", "id"}:
            return value["name"], {}
        return None

    for found in (_named(text), _pairs(text)):
        if found[0]:
            return found
    tagged = find_tagged(text, take)
    if tagged[0]:
        return tagged
    plain = _MARKS.sub(lambda mark: "\n" + " " * (len(mark[0]) - 1), text)
    in_json = find_calls(plain, take)
    if in_json[0]:
        return in_json
    for found in (_unreadable(text), _python(text, known)):
        if found[0]:
            return found
    return (), 0, 0


def _named(text: str) -> tuple[tuple[Written, ...], int, int]:
    decoder = json.JSONDecoder(strict=False)
    found: list[Written] = []
    first = last = 0
    for _, mark in zip(range(_MOST_CALLS), _NAMED.finditer(text), strict=False):
        if mark.start() < last:
            continue  # within the arguments of the one before
        name = next(each for each in mark.groups() if each)
        given: Any
        try:
            given, stop = decoder.raw_decode(text, mark.end())
        except (ValueError, RecursionError):
            following = _NAMED.search(text, mark.end())
            stop = following.start() if following else len(text)
            given = re.sub(r"(?:</function>|```|<[|｜][^>\n]*>|\s)+\Z", "", text[mark.end() : stop])
        first, last = first if found else mark.start(), stop
        found.append((re.sub(r":\d+\Z", "", name), given))
    return tuple(found), first, last


def _pairs(text: str) -> tuple[tuple[Written, ...], int, int]:
    """GLM's: a name, then keys and values in tags."""
    calls = list(_PAIRS.finditer(text))[:_MOST_CALLS]
    found = tuple((call[1], {key: _value(value) for key, value in _PAIR.findall(call[2])}) for call in calls)
    return (found, calls[0].start(), calls[-1].end()) if found else ((), 0, 0)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _unreadable(text: str) -> tuple[tuple[Written, ...], int, int]:
    """Calls between tags that are no JSON: with single quotes, or with a bracket missing at the end."""
    found: list[Written] = []
    tags = list(_TAGGED.finditer(text))[:_MOST_CALLS]
    for tag in tags:
        try:
            call = named_call(_mended(tag[1], closed=tag[2] is not None))
        except Unreadable:
            return (), 0, 0
        found += [call] if call else []
    return (tuple(found), tags[0].start(), tags[-1].end()) if found else ((), 0, 0)


def _mended(body: str, *, closed: bool) -> Any:
    """A call with the brackets that its model forgot. What was cut off has no closing tag, and a number or a word that ends it
    may have been meant to go on."""
    from codeact.actions.arguments import read

    forgotten = ("}", "}}") if closed and body.endswith(('"', "'", "}", "]")) else ()
    for ending in ("", *forgotten):
        try:
            return read(body + ending)
        except Unreadable as error:
            problem = error
    raise problem


def _python(text: str, known: Collection[str]) -> tuple[tuple[Written, ...], int, int]:
    """`[f(a=1), g()]` or one call a line, of known functions with literal arguments, and nothing else."""
    plain = _MARKS.sub("", text).strip()
    tree = parse(plain)
    if tree is None or not tree.body:
        return (), 0, 0
    nodes = [node for statement in tree.body for node in _expressions(statement)]
    found = [call for node in nodes if (call := _python_call(node, known))]
    return (tuple(found), 0, len(text)) if len(found) == len(nodes) else ((), 0, 0)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    match statement:
        case ast.Expr(value=ast.List(elts=items) | ast.Tuple(elts=items)) if items:
            yield from items
        case ast.Expr(value=value):
            yield value
        case _:
            yield statement


def _python_call(node: ast.AST, known: Collection[str]) -> Written | None:
    match node:
        case ast.Call(func=ast.Name(id="print"), args=[ast.Call() as inner], keywords=[]):
            return _python_call(inner, known)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in known:
            try:
                given = {str(each.arg): ast.literal_eval(each.value) for each in keywords if each.arg}
                values = [ast.literal_eval(each) for each in args]
            except (ValueError, TypeError, RecursionError):
                return None
            return (name, {"*": values, **given}) if values else (name, given)
    return None
