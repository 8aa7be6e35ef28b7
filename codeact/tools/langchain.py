"""Tools of LangChain, known by their shape: nothing of LangChain is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codeact.errors import ToolSourceError
from codeact.tools.definitions import from_schema
from codeact.tools.own import kept
from codeact.tools.tool import Policy, Tool


def is_langchain(value: Any) -> bool:
    if isinstance(value, type) or not isinstance(getattr(value, "name", None), str):
        return False
    runs = callable(getattr(value, "invoke", None)) or callable(getattr(value, "_run", None))
    return runs and (hasattr(value, "args_schema") or hasattr(value, "args"))


def from_langchain(value: Any, *, namespace: str = "", policy: Policy | None = None) -> Tool:
    """A tool from an object with `name`, `description`, `args_schema` or `args`, and `invoke` or `_run`."""
    description = getattr(value, "description", "")
    return from_schema(
        value.name,
        _arguments(value),
        _call(value),
        namespace=namespace,
        description=description if isinstance(description, str) else "",
        policy=policy,
        bound=kept(value),
    )


def _arguments(value: Any) -> Any:
    asked = getattr(value, "args_schema", None)
    if isinstance(asked, Mapping):
        return dict(asked)
    for method in ("model_json_schema", "schema"):
        if callable(made := getattr(asked, method, None)):
            return made()
    args = getattr(value, "args", None)
    if not isinstance(args, Mapping):
        raise ToolSourceError(
            f"the tool {value.name:.60} does not say what arguments it takes: give it an args_schema"
        )
    needed = [name for name, each in args.items() if isinstance(each, Mapping) and "default" not in each]
    return {"type": "object", "properties": dict(args), "required": needed}


def _call(value: Any) -> Callable[..., Any]:
    if _is_coroutine_alone(value):
        return lambda **values: value.ainvoke(values)
    if _may_be_coroutine_alone(value):
        return _either(value)
    if callable(getattr(value, "invoke", None)):
        return lambda **values: value.invoke(values)
    return lambda **values: value._run(**values)


def _is_coroutine_alone(value: Any) -> bool:
    """Whether its function, where it has one, can only be awaited."""
    made_of = callable(getattr(value, "coroutine", None)) and getattr(value, "func", None) is None
    return made_of and callable(getattr(value, "ainvoke", None))


def _may_be_coroutine_alone(value: Any) -> bool:
    """Whether its class has both ways, of which the first may say only that it is none."""
    maker = next((cls for cls in type(value).__mro__ if "_run" in vars(cls)), object)
    return "_arun" in vars(maker) and not hasattr(value, "func") and callable(getattr(value, "ainvoke", None))


def _either(value: Any) -> Callable[..., Any]:
    def call(**values: Any) -> Any:
        try:
            return value.invoke(values)
        except NotImplementedError:
            return value.ainvoke(values)

    return call
