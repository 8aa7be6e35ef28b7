"""What a tool is, whatever it was made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from codeact.errors import ToolSourceError
from codeact.tools.given import check
from codeact.tools.shown import short

Effects = Literal["read", "write", "dangerous"]
Where = Literal["host", "sandbox"]
ParameterKind = Literal["positional", "normal", "keyword", "rest", "options"]
"""As in a signature: before `/`, plain, after `*`, `*args`, `**kwargs`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as code in the sandbox sees it. `name` is an identifier and no keyword; `sent` is what the source
    calls it where that differs. `annotation` is the Python source of a type expression, never to be evaluated, or empty.
    Where `required` is False, `default` is a value that can cross, or `...`: the source has a default that code does not
    see, and a call leaves the argument out. `schema` is the JSON Schema of its value (of each, for `*args` and
    `**kwargs`), with what it refers to in `$defs`."""

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

    def __post_init__(self) -> None:
        """Raises ToolSourceError."""
        check("a tool", **{each.name: getattr(self, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the host that code in the sandbox may call, with checked values.

    `check` turns what came from the sandbox, by the names of the parameters (`*args` as a list, `**kwargs` as a dict,
    both under their own name), into what `call(**values)` takes, or raises ArgumentError, whose message says which
    argument, what is wrong, and how to write it. `call` may return an awaitable, or an iterator or asynchronous iterator
    whose items stream where `streams`.
    """

    name: str
    call: Callable[..., Any] = field(repr=False)
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]] = field(repr=False)
    namespace: str = ""
    """The module it lies in below `tools`, such as `shop`; empty for `tools` itself."""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns: str = ""
    """The result's type as Python source that the sandbox knows, or empty."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schema of the result; empty where nothing is known of it."""
    streams: bool = False
    """Whether it yields its items; `returns` is `Iterator[...]` then, and `result` the schema of one item."""
    types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The JSON Schemas of the classes that annotations name; a `$ref` of `#/$defs/NAME` in any schema means one of them."""
    errors: tuple[str, ...] = ()
    """Names of the exceptions that its calls may raise."""
    policy: Policy = Policy()
    secret: frozenset[str] = frozenset()
    """Parameters whose values no record shows."""
    own_secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Secrets that the host itself gives to calls, such as defaults of the above: no record and no error shows them."""
    bound: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that what was made a tool holds, such as the arguments of a partial: no error shows them."""
    where: Where = "host"
    source: str = ""
    """Its own Python source, where it runs in the sandbox."""

    def __post_init__(self) -> None:
        """Raises ToolSourceError."""
        check("a tool", name=self.name)
        check(f"the tool {self.name:.60}", namespace=self.namespace, secret=self.secret, where=self.where)
        if not isinstance(self.policy, Policy):
            raise ToolSourceError(
                f"policy of the tool {self.name:.60} is {short(self.policy)}; it takes a Policy"
            )

    @property
    def path(self) -> str:
        """Its full name, such as `shop.order_status`."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    def by_code_names(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names that code uses, where they go by those of the source."""
        names = {each.sent: each.name for each in self.parameters if each.sent}
        return {
            key if (name := names.get(key, key)) in values else name: each for key, each in values.items()
        }

    @property
    def signature(self) -> str:
        """As a person would write it, such as `order_status(order_id: str, *, details: bool = False) -> dict`."""
        return signature(self.name, self.parameters, self.returns)


def signature(name: str, parameters: Sequence[Parameter], returns: str = "") -> str:
    """A call with its parameters, as Python writes them; `...` stands for a default that code does not see."""
    shown: list[str] = []
    kinds = [each.kind for each in parameters]
    for index, each in enumerate(parameters):
        if each.kind == "keyword" and not {"keyword", "rest"} & set(kinds[:index]):
            shown.append("*")
        shown.append(_shown(each))
        if each.kind == "positional" and "positional" not in kinds[index + 1 :]:
            shown.append("/")
    return f"{name}({', '.join(shown)})" + (f" -> {returns}" if returns else "")


def _shown(parameter: Parameter) -> str:
    stars = {"rest": "*", "options": "**"}.get(parameter.kind, "")
    text = stars + parameter.name + (f": {parameter.annotation}" if parameter.annotation else "")
    if parameter.required or stars:
        return text
    default = "..." if parameter.default is ... else repr(parameter.default)
    return f"{text} = {default}" if parameter.annotation else f"{text}={default}"
