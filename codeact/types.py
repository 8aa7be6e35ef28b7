"""The contracts of the agent: messages, replies, actions, limits, results. All sizes in tokens or seconds as named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol

from typing_extensions import TypeVar

from codeact.errors import UsageError
from sandbox.types import Image

T = TypeVar("T", default=Any)
"""The type of answers."""
Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "content_filter", "tool_calls"]
ActionStyle = Literal["fenced", "python-tool", "functions"]
"""How a model acts: in a block of code, in code as the argument of a function, or by calls of functions."""
OnDeath = Literal["restore", "fresh", "stop"]
"""What follows when a kernel dies: its state is made again, the next one begins without it, or the run ends."""
RunStatus = Literal["answered", "no_answer", "limit", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, as a model asked for it. `name` is the function's as it was written, `arguments` are JSON values.

    With a `problem` the arguments could not be read, or the call is not to be made: that is its result. `id` is unique in
    a run.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message to a model. `images` are sent only to models that see.

    A reply that called functions holds its `calls`; a message of the role `tool` is the result of the one with `call_id`.
    """

    role: Role
    content: str
    images: tuple[Image, ...] = ()
    calls: tuple[Call, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and calls of a model, and calls of tools with their seconds, summed with `+`. `cached_tokens` are part of the prompt's,
    `reasoning_tokens` of the completion's. `estimated` is set where the endpoint did not count."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    tool_calls: int = 0
    tool_seconds: float = 0.0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
            self.tool_calls + other.tool_calls,
            self.tool_seconds + other.tool_seconds,
        )


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it arrives. `kind` is `reasoning` for thinking that models send apart. One without text says only
    that something came, such as a piece of a call, and lets whoever reads the reply end it there."""

    text: str
    kind: Literal["text", "reasoning"] = "text"


@dataclass(frozen=True, slots=True)
class Retrying:
    """A wrapper is about to ask again: which attempt failed, why, and for how many seconds it waits."""

    attempt: int
    reason: str
    wait: float


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's whole reply. A reply whose `finish` is `length` or `content_filter` is never executed. `fingerprint` is what the
    endpoint says of what it runs, where it does."""

    text: str
    finish: Finish = "stop"
    usage: Usage = Usage(calls=1)
    model: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a model. `stop` are sequences at which it should end, `seed` and `temperature` go through as given.

    `tools` are the definitions of the functions that it may call, as OpenAI has them; `one_call` asks for one at a time.
    """

    messages: Sequence[Message]
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    one_call: bool = False


class Model(Protocol):
    """Any callable of this form is a model: it yields deltas, then exactly one `Reply` as the last item.

    Raises a `ModelError`. Closing the generator early ends the request. `name` is shown and journalled; `sees` says
    whether images are sent; with a `small` model a turn ends at its first block of code or written call, outputs are cut shorter, and
    an answer in words is asked for as a value.
    """

    name: str
    sees: bool
    small: bool

    def __call__(self, request: Request) -> Iterator[Delta | Retrying | Reply]: ...


@dataclass(frozen=True, slots=True)
class Code:
    """Python source to run as one cell."""

    source: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says, read: prose, then what is to be executed, or what is wrong with how it is written.

    `actions` are executed in order, up to the first that fails; `calls` are made. `native`: the calls came as such and not in the
    text, and go back to the model as such. `problem` is set when the reply tried to act and cannot
    be read: it is sent back as the observation. `end` is the offset in the reply after which the text is not the
    model's to say (an invented observation, and all behind it). `notes` say what was passed over, for the observation.
    """

    thoughts: str
    actions: tuple[Code, ...] = ()
    problem: str | None = None
    notes: tuple[str, ...] = ()
    end: int | None = None
    calls: tuple[Call, ...] = ()
    native: bool = False

    @property
    def acts(self) -> bool:
        return bool(self.actions or self.calls)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """When a run ends without an answer. None means no limit."""

    turns: int | None = 20
    seconds: float | None = 600
    tokens: int | None = 200_000

    def __post_init__(self) -> None:
        for name in ("turns", "seconds", "tokens"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and type(value) is not bool and value >= 0
            if value is not None and not number:
                raise UsageError(f"limits: {name} is {value!r:.60}; give a number, or None for no limit")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that the run handed over: its name within `/workspace/out`, where it is now, its size in bytes."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture that came out of a sandbox, as PNG. A notebook draws it."""

    png: bytes = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Writes it to a file. Raises OSError."""
        Path(path).write_bytes(self.png)

    def _repr_png_(self) -> bytes:
        return self.png


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """How a run ended. `answer` is validated, and of the type that was asked for; where `status` is not `answered` there is
    none: it is None then, and `error` says why in one line. `folder` is where the run's record lies."""

    answer: T
    status: RunStatus
    run: str
    usage: Usage = Usage()
    artifacts: tuple[Artifact, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    events: tuple[Any, ...] = field(default=(), repr=False)
    folder: Path | None = field(default=None, repr=False)

    def to_notebook(self, path: str | Path) -> None:
        """Writes the run as a notebook that opens in Jupyter and runs by itself. Raises UsageError where the run's record is
        gone, or the file cannot be written."""
        self._write("ipynb", path)

    def to_html(self, path: str | Path) -> None:
        """Writes the run as one HTML page. Raises UsageError as `to_notebook` does."""
        self._write("html", path)

    def _write(self, form: str, path: str | Path) -> None:
        from codeact import exports  # brings the views with it
        from codeact.errors import UsageError

        if self.folder is None:
            raise UsageError(f"{self.run}: has no record to write a file from")
        exports.write(self.folder, form, Path(path))

    def _repr_html_(self) -> str:
        from codeact.views.notebook import results

        return results.html(self)

    def _ipython_display_(self) -> None:
        from codeact.views.notebook import results

        results.show(self)
