"""The event log as messages to a model: the prompt, then a reply and an observation for each turn.

Messages are only ever added at the end, so that a provider's prompt cache holds; building twice gives the same.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources

from codeact import events
from codeact.answers import Check
from codeact.manifest import VARIABLES
from codeact.types import ActionStyle, Call, Message
from sandbox.types import Image

EMPTY_REPLY = "(no text)"
NOT_MADE = "(this call was not made)"
PICTURES = "(what the code displayed)"


def prompt_file(name: str) -> str:
    return resources.files("codeact.prompts").joinpath(name).read_text(encoding="utf-8")


@cache
def follow_ups(style: ActionStyle = "fenced") -> Mapping[str, str]:
    """What is said after an observation, by name, in a way of acting."""
    lines = tomllib.loads(prompt_file("follow_ups.toml"))
    lines |= lines.get(style, {})
    return {name: text for name, text in lines.items() if isinstance(text, str)}


def system_text(how: str, where: str, tools: str) -> str:
    """The rules: how to act, where code runs (empty where none does), which tools it may call."""
    text = prompt_file("system.md").replace("{how}", how.strip()).replace("{where}", where).strip()
    return f"{text}\n\n{prompt_file('tools.md').replace('{tools}', tools).strip()}" if tools else text


def where_text(packages: str, network: str, *, files: bool = True) -> str:
    """Where code runs. `files`: whether the task comes with any."""
    said = tomllib.loads(prompt_file("files.toml"))["some" if files else "none"]
    text = prompt_file("where.md").replace("{files}", said)
    return text.replace("{packages}", packages).replace("{network}", network)


def example(*, files: bool = True) -> list[Message]:
    """One worked task, as the turns of a conversation. `files`: one that comes with a file."""
    text = prompt_file("example.md" if files else "example_plain.md")
    parts = re.split(r"^# (user|assistant)\n", text, flags=re.MULTILINE)[1:]
    return [
        Message("user" if role == "user" else "assistant", text.strip())
        for role, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def first_text(task: str, manifest: str, asked: str) -> str:
    """The message that sets the task. What the files say stands between lines that nothing in it can imitate."""
    heading = "" if manifest.startswith(VARIABLES) else "Files:\n"
    parts = [f"{heading}{manifest.rstrip()}"] if manifest else []
    parts.append(f"Task: {task.strip()}")
    if asked:
        parts.append(asked)
    return "\n\n".join(parts)


def asked(check: Check) -> str:
    """What an answer must be, as the model is told; empty where any will do."""
    if check.schema:
        return f"The value given to final_answer must fit this JSON Schema:\n{json.dumps(check.schema)}"
    return check.asked


def keep_all(
    log: Iterable[events.Event],
    pictures: Mapping[str, Image],
    example: Sequence[Message] = (),
    plain: Sequence[Message] = (),
) -> list[Message]:
    """Every turn in full. `pictures` holds the images of observations by their name. A worked task goes before: `example`,
    which has a file, where the task has data, and `plain` where it has neither data nor tools: models take what they saw in the
    example for what they have. What native calls came to stands right behind them, whatever came between."""
    messages: list[Message] = []
    open_: Sequence[Call] = ()
    held: list[Message] = []

    def close(results: Mapping[str, str]) -> None:
        nonlocal open_, held
        messages.extend(Message("tool", results.get(call.id, NOT_MADE), call_id=call.id) for call in open_)
        messages.extend(held)
        open_, held = (), []

    for event in log:
        match event:
            case events.RunStarted():
                worked = _fitting(event, example, plain)
                messages += [Message("system", event.system), *worked, Message("user", event.first)]
            case events.Replied():
                close({})
                messages.append(_reply(event))
                open_ = messages[-1].calls
            case events.Observed():
                shown = tuple(pictures[name] for name in event.images if name in pictures)
                if open_:
                    held += [Message("user", PICTURES, shown)] if shown else []
                    held += [] if event.results else [Message("user", event.text)]
                    close({result.id: result.text for result in event.results})
                else:
                    messages.append(Message("user", event.text, shown))
            case events.RunResumed() if event.text:
                (held if open_ else messages).append(Message("user", event.text))
    close({})
    return list(merged(messages))


def _fitting(
    event: events.RunStarted, example: Sequence[Message], plain: Sequence[Message]
) -> Sequence[Message]:
    """The worked task that is like this one; none for one that is about tools, since there is none that has these tools."""
    if event.settings.get("data") or event.settings.get("given"):
        return example
    return () if event.settings.get("tools") else plain


def _reply(event: events.Replied) -> Message:
    reading = event.reading
    if reading.native:
        return Message("assistant", event.text.strip(), calls=reading.calls)
    said = event.text if reading.end is None else event.text[: reading.end]
    return Message("assistant", said.strip() or EMPTY_REPLY)


def merged(messages: Iterable[Message]) -> Iterator[Message]:
    """Turns of the user that follow one another as one, since there are models that take no other form."""
    last: Message | None = None
    for message in messages:
        if last is not None and last.role == message.role == "user":
            last = Message("user", f"{last.content}\n\n{message.content}", (*last.images, *message.images))
            continue
        if last is not None:
            yield last
        last = message
    if last is not None:
        yield last
