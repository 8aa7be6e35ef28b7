"""Calls of functions written in the text of a reply, by models that have no channel of their own for them.

The forms of the chat templates (Hermes and Qwen, Llama, Mistral, DeepSeek, Kimi, GLM, Command, gpt-oss, Gemma and smaller ones),
JSON by itself, in a block of code or in prose, ReAct's lines, and calls as Python writes them.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from codeact.actions.arguments import Unreadable
from codeact.actions.calls import find_calls, named_call
from codeact.actions.prose import INVENTION, NEXT_TURN, behind_thinking
from codeact.actions.python import parse
from codeact.actions.tagged import find_tagged
from codeact.actions.templates import bare, gemma, regions

Definitions = Mapping[str, Mapping[str, Any]]
Written = tuple[str, Any]
"""The name and the arguments, as a value or as text."""

_MOST_CALLS = 64
# a name in marks, with its arguments as JSON behind it
_NAMED = re.compile(
    r"<[|｜]tool[_▁]call[_▁]begin[|｜]>(?:function<[|｜]tool[_▁]sep[|｜]>)?\s*(?P<deep>[\w.:-]+)\s*"
    r"(?:<[|｜]tool[_▁](?:sep|call[_▁]argument[_▁]begin)[|｜]>|\n)\s*(?:```(?:json)?)?\s*(?=\{)"
    r"|<\|channel\|>\w+ to=(?P<oss>[\w.]+)[^{\n]{0,60}?<\|message\|>\s*(?=\{)"
    r"|\[TOOL_CALLS\]\s*(?P<mistral>[\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{)"
    r"|(?:^|<\|start\|>assistant)\s*to=(?P<role>[\w.]+)[^{\n]{0,60}?<\|message\|>\s*(?=\{)"
    r"|<function=(?P<llama>[\w.-]+)>\s*(?=\{)|<(?:function|tool_call) name=[\"'](?P<named>[\w.-]+)[\"']>\s*(?=\{)"
    r"|<name>\s*(?P<element>[\w.-]+)\s*</name>\s*<(?:arguments|parameters|args)>\s*(?=\{)"
)
# no pair may follow that is cut off: the call would be made without it
_PAIRS = re.compile(
    r"<tool_call>\s*([\w.-]+)\s*((?:<arg_key>.*?</arg_value>\s*)+)(?!\s*<(?:a|\Z))", re.DOTALL
)
_PAIRS_BEGIN = re.compile(r"<tool_call>\s*[\w.-]+\s*(?=<arg_key>)")
_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_TAGGED = re.compile(r"<tool_calls?>\s*(?=[{\[])(.*?)\s*(?:(</tool_calls?>)|(?=<tool_call>)|\Z)", re.DOTALL)
# what may stand right before JSON
_MARKS = re.compile(
    r"</?(?:\w+_)?tool_calls?>|</?tools?>|</?function_calls?>|</?TOOLCALL>|<\|/?tool_call(?:_start|_end)?\|>|<\|tools_(?:prefix|suffix)\|>"
    r"|<\|python_(?:tag|start|end)\|>|<\|action_(?:start|end)\|>|<\|plugin\|>|functools(?=\[)|\[TOOL_CALLS\]|<\|(?:START|END)_ACTION\|>"
    r"|```\w*|Action:(?=\s*```)|</?response>"
)
_LAST_MARKS = re.compile(rf"(?:(?:{_MARKS.pattern})\s*)+\Z")
_CLOSED = ("```", "</tool_call>")
_OSS_CALL = re.compile(
    r"<\|channel\|>commentary to=|(?:^|<\|start\|>assistant)\s*to=[\w.]+[^{\n]{0,60}<\|message\|>"
)
_TRIED = re.compile(
    r"<(?:\w+[:_])?tool_call[> ]|<TOOLCALL>|\[TOOL_CALLS\]|<function(?:=| name=)|<(?:steptml:)?invoke |<[|｜]tool[_▁]call[_▁]begin"
    r"|<[|｜]DSML[|｜]|<start_function_call>|<\|(?:tool_call(?:_start)?\|?>|python_(?:tag|start)\|>|tools_prefix\|>|action_start\|>)"
    r"|^[ \t*_]*Action(?: \d+)?:[^\n]*\n+[ \t*_]*Action Input",
    re.MULTILINE,
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


def find(text: str, known: Definitions) -> Found:
    """The calls in a reply's text. `known` are the definitions of functions by their names: what is written as Python, or without
    arguments, is a call only of one of these. Behind what the model invents as a result nothing is read."""
    start = 0 if _OSS_CALL.search(text) else behind_thinking(text)
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


def complete(text: str, known: Definitions) -> int | None:
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


def _calls(text: str, known: Definitions) -> tuple[tuple[Written, ...], int, int]:
    def take(value: Any) -> Written | None:
        call = named_call(value)
        if call is not None:
            return call
        match value:
            case {"name": str(name)} if name in known and set(value) <= {"name", "type", "id"}:
                return name, {}
            case {"name": str(name), **beside} if name in known and set(beside) <= set(
                _properties(known, name)
            ):
                return name, beside
            case dict() if len(value) == 1 and isinstance(given := next(iter(value.values())), dict):
                name = next(iter(value))
                return (name, given) if name in known else None
        return None

    def texts(name: str) -> Collection[str]:
        """The parameters that are texts, whatever they look like."""
        return [each for each, about in _properties(known, name).items() if _is_text(about)]

    for found in (_named(text), _pairs(text, texts), gemma(text), bare(text, known)):
        if found[0]:
            return found
    tagged = find_tagged(text, take, texts)
    if tagged[0]:
        return tagged
    plain = _MARKS.sub(lambda mark: "\n" + " " * (len(mark[0]) - 1), text)
    in_json = find_calls(plain, take)
    if in_json[0]:
        return in_json
    for found in (_unreadable(text), _python(text, known), _marked_python(text, known)):
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


def _properties(known: Definitions, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = known.get(name, {}).get("parameters", {}).get("properties", {})
    return found


def _is_text(about: Any) -> bool:
    kind = about.get("type") if isinstance(about, Mapping) else None
    return kind == "string" or (isinstance(kind, list) and set(kind) == {"string", "null"})


def _pairs(text: str, texts: Callable[[str], Collection[str]]) -> tuple[tuple[Written, ...], int, int]:
    """GLM's: a name, then keys and values in tags."""
    calls: list[re.Match[str]] = []
    # one by one: a search for all looks for the end of each that has none through the whole text
    for begin in itertools.islice(_PAIRS_BEGIN.finditer(text), _MOST_CALLS):
        if not calls or begin.start() >= calls[-1].end():
            calls += filter(None, [_PAIRS.match(text, begin.start())])
    found = tuple(
        (
            call[1],
            {key: value if key in texts(call[1]) else _value(value) for key, value in _PAIR.findall(call[2])},
        )
        for call in calls
    )
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


def _marked_python(text: str, known: Collection[str]) -> tuple[tuple[Written, ...], int, int]:
    """As `_python`, in marks, with whatever stands around these."""
    found: list[Written] = []
    start = stop = 0
    for inner, begin, end in regions(text):
        calls, _, _ = _python(inner, known)
        if not calls:
            return (), 0, 0
        start, stop = start if found else begin, end
        found += calls
    return tuple(found), start, stop


def _expressions(statement: ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    match statement:
        case ast.Expr(value=ast.List(elts=items) | ast.Tuple(elts=items)) if items:
            yield from items
        case ast.Expr(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            yield value
        case _:
            yield statement


def _python_call(node: ast.AST, known: Collection[str]) -> Written | None:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="default_api" | "tools" | "functions"), attr=name)
        ):
            return _python_call(ast.Call(ast.Name(name), node.args, node.keywords), known)
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
