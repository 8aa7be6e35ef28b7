"""The event log as messages to a model: the prompt, then a reply and an observation for each turn.

Messages are only ever added at the end, so that a provider's prompt cache holds; building twice gives the same.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources

from codeact import events
from codeact.types import Message
from sandbox.types import Image

EMPTY_REPLY = "(no text)"


def prompt_file(name: str) -> str:
    return resources.files("codeact.prompts").joinpath(name).read_text(encoding="utf-8")


@cache
def follow_ups() -> Mapping[str, str]:
    lines = tomllib.loads(prompt_file("follow_ups.toml"))
    return {name: str(text) for name, text in lines.items()}


def system_text(packages: str, network: str, tools: str) -> str:
    text = prompt_file("system.md").replace("{packages}", packages).replace("{network}", network).strip()
    return f"{text}\n\n{prompt_file('tools.md').replace('{tools}', tools).strip()}" if tools else text


def example() -> list[Message]:
    """One worked task, as the turns of a conversation."""
    parts = re.split(r"^# (user|assistant)\n", prompt_file("example.md"), flags=re.MULTILINE)[1:]
    return [
        Message("user" if role == "user" else "assistant", text.strip())
        for role, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def first_text(task: str, manifest: str, schema: str | None) -> str:
    """The message that sets the task. What the files say stands between lines that nothing in it can imitate."""
    parts = [f"Files:\n{manifest.rstrip()}"] if manifest else []
    parts.append(f"Task: {task.strip()}")
    if schema:
        parts.append(f"The value given to final_answer must fit this JSON Schema:\n{schema}")
    return "\n\n".join(parts)


def keep_all(log: Iterable[events.Event], pictures: Mapping[str, Image]) -> list[Message]:
    """Every turn in full. `pictures` holds the images of observations by their name."""
    messages: list[Message] = []
    for event in log:
        match event:
            case events.RunStarted():
                messages += [Message("system", event.system), *example(), Message("user", event.first)]
            case events.Replied():
                end = event.reading.end
                said = event.text if end is None else event.text[:end]
                messages.append(Message("assistant", said.strip() or EMPTY_REPLY))
            case events.Observed():
                shown = tuple(pictures[name] for name in event.images if name in pictures)
                messages.append(Message("user", event.text, shown))
            case events.RunResumed() if event.text:
                messages.append(Message("user", event.text))
    return list(_merged(messages))


def _merged(messages: Iterable[Message]) -> Iterator[Message]:
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
