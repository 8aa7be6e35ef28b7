"""What a tool is, whatever it was made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Effects = Literal["read", "write", "dangerous"]
Where = Literal["host", "sandbox"]
ParameterKind = Literal["positional", "normal", "keyword", "rest", "options"]
"""As in a signature: before `/`, plain, after `*`, `*args`, `**kwargs`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as code in the sandbox sees it. `name` is an identifier and no keyword; `sent` is what the source
    calls it where that differs. `annotation` is Python source of a type that the sandbox knows, or empty; `default` is a
    value that can cross, and counts only where `required` is False. `schema` is the JSON Schema of its value."""

    name: str
    kind: ParameterKind = "normal"
    annotation: str = ""
    required: bool = True
    default: Any = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    sent: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a tool may do and how often. Times are in seconds; None means no limit."""

    effects: Effects = "write"
    timeout: float | None = 60.0
    idempotent: bool = False
    """Whether a call that failed may be made again by us."""
    retries: int = 2
    """How often, where it is idempotent."""
    per_minute: float | None = None
    calls: int | None = None
    """Calls in one run."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the host that code in the sandbox may call, with checked values.

    `call` takes the values by the names that the source gives them, already converted to what it asks for, and may
    return an awaitable or an iterator whose items stream. `check` turns what came from the sandbox into these values; it
    raises ArgumentError, whose message says which argument, what is wrong, and how to write it.
    """

    name: str
    call: Callable[..., Any]
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    namespace: str = ""
    """The module it lies in below `tools`, such as `shop`; empty for `tools` itself."""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns: str = ""
    """The result's type as Python source that the sandbox knows, or empty."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schema of the result; empty where nothing is known of it."""
    errors: tuple[str, ...] = ()
    """Names of the exceptions that its calls may raise."""
    policy: Policy = Policy()
    secret: frozenset[str] = frozenset()
    """Parameters whose values no record shows."""
    where: Where = "host"
    source: str = ""
    """Its own Python source, where it runs in the sandbox."""

    @property
    def path(self) -> str:
        """Its full name, such as `shop.order_status`."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name
