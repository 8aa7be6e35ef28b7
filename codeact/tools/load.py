"""Whatever tools are given as, as `Tool`s: objects in Python, and names on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from codeact.errors import ToolSourceError
from codeact.paths import exists, is_file
from codeact.tools.functions import from_function, from_toolset, is_toolset, marked
from codeact.tools.langchain import from_langchain, is_langchain
from codeact.tools.openapi import from_openapi
from codeact.tools.tool import Tool

MAX_NAMES = 8


def tools_from(source: Any) -> list[Tool]:
    """The tools in a function, method, object, toolset, LangChain tool, OpenAPI document, module, `Tool`, a name such as `shop.py:desk`,
    or any iterable of these. Raises ToolSourceError where there is none, or two have one path."""
    return unique(_each(source))


def load(spec: str) -> list[Tool]:
    """The tools of `FILE.py`, `module`, `FILE.py:NAME` or `module:NAME`: what is decorated, or what is named.

    Raises ToolSourceError, with file and line, where the user's file cannot be imported.
    """
    place, name = _split(spec)
    module = _from_file(Path(place)) if _is_path(place) else _module(place)
    if not name:
        return unique(_decorated(module, place))
    value: Any = module
    for part in name.split("."):
        value = inspect.getattr_static(value, part, None) if value is module else getattr(value, part, None)
        if value is None:
            raise ToolSourceError(f"{place} has no {name}{_offer(module, place)}")
    return tools_from(value)


def unique(tools: Iterable[Tool]) -> list[Tool]:
    by_path: dict[str, Tool] = {}
    for each in tools:
        if by_path.setdefault(each.path, each) is not each:
            raise ToolSourceError(
                f"two tools are called {each.path}; give one another name or namespace, as in @tool(name=...)"
            )
    return list(by_path.values())


def _each(source: Any) -> Iterator[Tool]:
    if isinstance(source, Tool):
        yield source
    elif isinstance(source, str):
        yield from load(source)
    elif isinstance(source, ModuleType):
        yield from _decorated(source, source.__name__)
    elif is_toolset(source):
        yield from from_toolset(source)
    elif is_langchain(source):
        yield from_langchain(source)
    elif isinstance(source, type):
        raise ToolSourceError(
            f"the class {source.__name__} is no toolset: decorate it with @toolset, and give an instance"
        )
    elif isinstance(source, Mapping) and "openapi" in source:
        yield from from_openapi(source)
    elif isinstance(source, Mapping):
        raise ToolSourceError(
            "a definition alone is no tool: codeact.tools.definitions.from_definition(definition, function) makes one"
        )
    elif callable(source):
        yield from_function(source)
    elif isinstance(source, Iterable):
        for each in source:
            yield from _each(each)
    else:
        raise ToolSourceError(
            f"a {type(source).__name__} is no tool: give a function, a toolset, a Tool, or a name such as shop.py:order_status"
        )


def _split(spec: str) -> tuple[str, str]:
    place, colon, name = spec.rpartition(":")
    named = colon and all(part.isidentifier() for part in name.split("."))
    return (place, name) if named else (spec, "")


def _is_path(place: str) -> bool:
    return place.endswith(".py") or "/" in place or (not place.isidentifier() and is_file(place))


def _from_file(path: Path) -> ModuleType:
    if exists(path) and path.is_dir():
        raise ToolSourceError(f"{path} is a folder: name a file in it, as in {path}/shop.py")
    if is_file(path) and path.suffix != ".py":
        raise ToolSourceError(
            f"{path} is no Python file: --tools takes one, or a module, as in shop.py or shop.py:order_status"
        )
    if not is_file(path):
        raise ToolSourceError(
            f"{path} is not there: --tools takes a Python file or module, as in shop.py or shop.py:order_status"
        )
    full = path.resolve()
    name, other = full.stem, f"codeact_tools_{full.stem}"
    for known in map(sys.modules.get, (name, other)):
        if known is not None and getattr(known, "__file__", None) == str(full):
            return known
    if name in sys.modules or not name.isidentifier() or importlib.util.find_spec(name) is not None:
        name = other
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(full.parent) not in sys.path:
        sys.path.insert(0, str(full.parent))  # what lies beside the file can be imported, as when it is run
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ToolSourceError(_told(str(path), full, error)) from error
    return module


def _module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ToolSourceError(
            f"{name!r:.100} is no module: --tools takes a Python file or module, as in shop.py or shop.py:order_status"
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ToolSourceError(f"there is no module {name}; is it a file? then write {name}.py") from error
        raise ToolSourceError(_told(name, None, error)) from error
    except (Exception, SystemExit) as error:
        raise ToolSourceError(_told(name, None, error)) from error


def _told(place: str, file: Path | None, error: BaseException) -> str:
    """The error and where in the user's file it was raised, in one line."""
    if isinstance(error, SyntaxError):
        return f"{error.filename or place}, line {error.lineno}: {error.msg}"
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<frozen")
    ]
    own = [each for each in frames if file is None or each.filename == str(file)]
    where = f"{place if file else own[-1].filename}, line {own[-1].lineno}" if own else place
    text = " ".join(str(error).split())[:300]
    return f"{where}: {type(error).__name__}{f': {text}' if text else ''}"


def _decorated(module: ModuleType, place: str) -> Iterator[Tool]:
    values = [value for name, value in vars(module).items() if not name.startswith("__")]
    made = {type(value) for value in values if is_toolset(value) and not isinstance(value, type)}
    found = False
    seen: set[int] = set()
    for value in values:
        tool = (
            isinstance(value, Tool) or marked(value) is not None or (is_toolset(value) and value not in made)
        )
        if tool and id(value) not in seen:
            seen.add(id(value))
            found = True
            yield from _each(value)
    if not found and module.__spec__ is not None and module.__spec__.origin is None:
        raise ToolSourceError(f"{place} is a folder: name a file in it, as in {place}/shop.py")
    if not found:
        raise ToolSourceError(
            f"{place} has nothing that is decorated with @tool or @toolset{_offer(module, place)}"
        )


def _offer(module: ModuleType, place: str) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    if not names:
        return ""
    return f"; decorate what is a tool, or name it, as in {place}:{names[0]} (it has {', '.join(names[:MAX_NAMES])})"
