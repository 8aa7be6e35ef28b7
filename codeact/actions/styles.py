"""Ways of acting: what the model is told, which functions it is given, and how its reply is read.

A style is a value; the loop, the tools, the limits and the journal are the same for all. `fenced`: a block of code in the reply.
`python-tool`: the code is the argument of one function. `functions`: the tools are functions that the model calls itself,
with `run_python` beside them where code is to be run.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from codeact import context
from codeact.actions import arguments, native, reading, written
from codeact.actions.native import CODE, FINAL
from codeact.actions.python import parse
from codeact.errors import UsageError
from codeact.tools.definitions import function_name, schema
from codeact.tools.stub_text import cleaned
from codeact.tools.stubs import MAX_DOC
from codeact.tools.tool import Tool
from codeact.types import ActionStyle, Call, Message, Reading, Reply

STYLES: tuple[ActionStyle, ...] = get_args(ActionStyle)
PYTHON, RUN_PYTHON = CODE
HOW_WRITTEN = (
    "The call in your reply cannot be read. Write it as JSON, as in "
    '{"name": "NAME", "arguments": {"NAME OF ARGUMENT": "VALUE"}}.'
)


@dataclass(frozen=True, slots=True)
class Style:
    """`how` is the block of the prompt that differs from style to style, `said` what follows an observation, `example` a
    worked task as messages, and `plain` one without data. `functions` are the definitions that are sent, `tools` the tools that they stand for, by name.
    `code`: code is run, so that there is a sandbox; `imports`: it can import the tools. `one_call`: the first call of a
    reply is made, and no other. `complete` says where a reply can be ended while it streams."""

    name: ActionStyle
    how: str
    said: Mapping[str, str]
    example: tuple[Message, ...] = ()
    plain: tuple[Message, ...] = ()
    functions: tuple[Mapping[str, Any], ...] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    code: bool = True
    imports: bool = True
    one_call: bool = False

    @property
    def definitions(self) -> Mapping[str, Mapping[str, Any]]:
        return {each["function"]["name"]: each["function"] for each in self.functions}

    def read(self, reply: Reply, turn: int, used: Collection[str]) -> Reading:
        """What a reply says. A reply that was cut does nothing. Ids are made where they are missing, or `used` already."""
        if reply.finish == "length":
            return Reading(reply.text, problem=self.said["cut"])
        if reply.finish == "content_filter":
            return Reading(reply.text, problem=self.said["filtered"])
        found = _READERS[self.name](reply, self.definitions)
        if not (found.acts or found.problem or found.thoughts):
            return replace(found, problem=self.said["silent"])
        return replace(found, calls=_with_ids(found.calls, turn, used))

    def complete(self, text: str, *, first_block_only: bool) -> int | None:
        if self.name == "functions":
            return written.complete(text, self.definitions) if first_block_only else None
        return reading.complete(text, first_block_only=first_block_only)


FENCED = Style(
    "fenced",
    context.prompt_file("act_fenced.md"),
    context.follow_ups("fenced"),
    tuple(context.example()),
    tuple(context.example(files=False)),
)


def style(
    name: ActionStyle,
    tools: Sequence[Tool] = (),
    answer: Mapping[str, Any] | None = None,
    *,
    run_python: bool = False,
    parallel: bool = True,
) -> Style:
    """The style of a name. `answer` is the JSON Schema of the final answer. Raises UsageError."""
    match name:
        case "fenced":
            return FENCED
        case "python-tool":
            how, said = context.prompt_file("act_python_tool.md"), context.follow_ups(name)
            examples = (_example(said, files=True), _example(said, files=False))
            return Style(name, how, said, *examples, (_code_function(PYTHON),))
        case "functions":
            return _functions(tools, answer, run_python=run_python, parallel=parallel)
    raise UsageError(f"actions={name!r} is not known; write {', '.join(STYLES)}")


def _functions(
    tools: Sequence[Tool], answer: Mapping[str, Any] | None, *, run_python: bool, parallel: bool
) -> Style:
    lines = tomllib.loads(context.prompt_file("act_functions.toml"))
    how = context.prompt_file("act_functions.md")
    how = how.replace("{calls}", lines["several" if parallel else "one"])
    how = how.replace("{python}", f"{lines['python']}\n" if run_python else "")
    said = context.follow_ups("functions")
    named = _by_name(tools)
    functions = [_definition(name, tool) for name, tool in named.items()]
    functions += [_code_function(RUN_PYTHON)] if run_python else []
    functions.append(_answer_function(answer))
    return Style(
        "functions",
        how,
        said,
        functions=tuple(functions),
        tools=named,
        code=run_python,
        imports=False,
        one_call=not parallel,
    )


# -- what is sent ------------------------------------------------------------------------------------------------


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """The tools by names that endpoints accept, no two alike."""
    named: dict[str, Tool] = {}
    for tool in tools:
        name, number = function_name(tool), 2
        while name in named or name in (FINAL, *CODE):
            ending = f"_{number}"
            name, number = f"{function_name(tool)[: native.MAX_NAME - len(ending)]}{ending}", number + 1
        named[name] = tool
    return named


def _definition(name: str, tool: Tool) -> Mapping[str, Any]:
    """A tool's definition; what it says of itself is foreign text, and is cleaned as in the stubs of code."""
    function: dict[str, Any] = dict(
        schema(tool)["function"], name=name, description=cleaned(tool.description, MAX_DOC)
    )
    return {"type": "function", "function": function}


def _code_function(name: str) -> Mapping[str, Any]:
    code = {"type": "string", "description": "Python source, run as one cell."}
    return _function(
        name, "Runs Python in a persistent Jupyter kernel and returns what it printed.", {"code": code}
    )


def _answer_function(answer: Mapping[str, Any] | None) -> Mapping[str, Any]:
    own = dict(answer or {})
    definitions: dict[str, Any] = {key: own.pop(key) for key in ("$defs", "definitions") if key in own}
    for key in ("$schema", "$id"):
        own.pop(key, None)
    own.setdefault("description", "The answer itself, and not a sentence about it.")
    return _function(FINAL, "Ends the task with its answer.", {"value": own}, definitions)


def _function(
    name: str, description: str, properties: Mapping[str, Any], definitions: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """A function all of whose parameters are required."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **(definitions or {}),
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _example(said: Mapping[str, str], *, files: bool) -> tuple[Message, ...]:
    """The worked task with calls in place of blocks."""
    messages: list[Message] = []
    for message in context.example(files=files):
        if message.role == "assistant":
            thoughts, _, source = message.content.partition("```python\n")
            number = sum(bool(each.calls) for each in messages) + 1
            call = Call(f"example{number:02}", PYTHON, {"code": source.removesuffix("```").strip()})
            messages.append(Message("assistant", thoughts.strip(), calls=(call,)))
        elif messages:
            output = message.content.replace(context.follow_ups()["ok"], said["ok"])
            messages.append(Message("tool", output, call_id=messages[-1].calls[0].id))
        else:
            messages.append(message)
    return (*messages, Message("tool", "The answer was taken.", call_id=messages[-1].calls[0].id))


# -- how a reply is read -----------------------------------------------------------------------------------------


def _read_fenced(reply: Reply, known: native.Definitions) -> Reading:
    found = reading.read(reply.text)
    if found.actions or not reply.tool_calls:
        return found
    # an endpoint may take what looks like a call out of the text
    in_calls = reading.read(json.dumps(list(reply.tool_calls)))
    return replace(in_calls, thoughts=found.thoughts) if in_calls.actions else found


def _read_code_calls(reply: Reply, known: native.Definitions) -> Reading:
    """Calls that came as such; else code in the text, in any of the ways in which models write it there."""
    return _native(reply, known) or reading.read(reply.text)


def _read_calls(reply: Reply, known: native.Definitions) -> Reading:
    if came := _native(reply, known):
        return came
    found = written.find(reply.text, known)
    if found.calls:
        calls = tuple(native.call("", name, given, known) for name, given in found.calls)
        return Reading(found.thoughts, calls=calls, end=found.end)
    if answer := _bare_answer(reply.text, known):
        return Reading("", calls=(answer,))
    if native.CODE[1] in known:
        code = reading.read(reply.text)
        calls = tuple(Call("", RUN_PYTHON, {"code": action.source}) for action in code.actions)
        if calls:
            return Reading(code.thoughts, calls=calls, notes=code.notes, end=code.end)
    elif any(_calls_one(action.source, known) for action in reading.read(reply.text).actions):
        return Reading(found.thoughts, problem=HOW_WRITTEN, end=found.end)
    return Reading(found.thoughts, problem=HOW_WRITTEN if found.tried else None, end=found.end)


def _calls_one(source: str, known: Collection[str]) -> bool:
    """Whether code, which nobody runs, calls one of these functions."""
    tree = parse(source)
    for node in [] if tree is None else ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="tools"), attr=name)):
                if name in known:
                    return True
    return False


def _bare_answer(text: str, known: native.Definitions) -> Call | None:
    """A call of `final_answer` of which nothing but the arguments was written."""
    body = _spoken(text)
    if FINAL not in known or not body.startswith(("{", "```")):
        return None
    try:
        found = arguments.read(body)
    except arguments.Unreadable:
        return None
    return Call("", FINAL, found) if set(found) == {"value"} else None


def _native(reply: Reply, known: native.Definitions) -> Reading | None:
    calls = tuple(
        native.call(call_id, name, given, known) for call_id, name, given in native.written(reply.tool_calls)
    )
    if not calls:
        return None
    return Reading(_spoken(reply.text), calls=calls, native=True)


def _spoken(text: str) -> str:
    """The text beside calls, without the thinking before it."""
    from codeact.actions.prose import behind_thinking

    return text[behind_thinking(text) or 0 :].strip()


def _with_ids(calls: tuple[Call, ...], turn: int, used: Collection[str]) -> tuple[Call, ...]:
    taken = set(used)
    made = []
    for number, call in enumerate(calls, 1):
        call_id = call.id
        if call_id in taken or not re.fullmatch(r"[\w.:-]{1,64}", call_id, re.ASCII):
            call_id = (
                f"c{turn:04}{number:04}"  # nine letters and digits: there are endpoints that take no other
            )
        taken.add(call_id)
        made.append(replace(call, id=call_id))
    return tuple(made)


_READERS: Mapping[ActionStyle, Callable[[Reply, native.Definitions], Reading]] = {
    "fenced": _read_fenced,
    "python-tool": _read_code_calls,
    "functions": _read_calls,
}
