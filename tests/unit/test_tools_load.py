"""Tools by name, from files and modules, and from whatever a list of tools may hold."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from codeact import tool, toolset
from codeact.errors import ArgumentError, ToolSourceError
from codeact.tools.load import load, tools_from

SHOP = """
from dataclasses import dataclass
from codeact import tool, toolset
from beside import RATE

@dataclass
class Order:
    id: str

@tool(effects="read")
def order_status(order_id: str) -> Order:
    return Order(order_id + RATE)

def plain(x: int) -> int:
    return x

@toolset
class Desk:
    def __init__(self, key): self.key = key
    def refund(self, order_id: str) -> str: return self.key

desk = Desk("k")
several = [plain, desk]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("RATE = '!'\n")
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "json.py").write_text("from codeact import tool\n@tool\ndef f(): return 1\n")
    yield tmp_path
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ("shop.py", ["order_status", "desk.refund"]),
        ("./shop.py:order_status", ["order_status"]),
        ("shop:plain", ["plain"]),
        ("shop", ["order_status", "desk.refund"]),
        ("shop.py:desk", ["desk.refund"]),
        ("shop.py:desk.refund", ["refund"]),
        ("shop.py:several", ["plain", "desk.refund"]),
        ("json.py", ["f"]),
    ],
)
def test_specs(folder: Path, spec: str, paths: list[str]) -> None:
    assert [each.path for each in load(spec)] == paths


@pytest.mark.parametrize("shadowed", [False, True])
def test_the_same_file_twice_is_one_module(
    folder: Path, monkeypatch: pytest.MonkeyPatch, shadowed: bool
) -> None:
    if shadowed:  # another module of that name can be imported
        monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    first, second = load("shop.py:order_status"), load(f"{folder}/shop.py:order_status")
    assert first[0].call(order_id="a") == second[0].call(order_id="a")


BROKEN = {
    "absent.py": (None, "absent.py is not there: --tools takes a Python file or module, as in shop.py or shop.py:order_status"),
    "absent": (None, "there is no module absent; is it a file? then write absent.py"),
    "no such": (None, "'no such' is no module: --tools takes a Python file or module, as in shop.py or shop.py:order_status"),
    "prices.csv": ("a,b\n", "prices.csv is no Python file: --tools takes one, or a module, as in shop.py or shop.py:order_status"),
    "./cities.csv": ("a,b\n", "cities.csv is no Python file: --tools takes one, or a module, as in shop.py or shop.py:order_status"),
    "syntax.py": ("x = 1\ndef f(:\n", "syntax.py, line 2: invalid syntax"),
    "imports.py": ("\nimport not_installed\n", "imports.py, line 2: ModuleNotFoundError: No module named 'not_installed'"),
    "raises.py": ("def f():\n    raise ValueError('two\\nlines')\nf()\n", "raises.py, line 2: ValueError: two lines"),
    "exits.py": ("import sys\nsys.exit(3)\n", "exits.py, line 2: SystemExit: 3"),
    "bare.py": ("def a(): ...\ndef b(): ...\n", "bare.py has nothing that is decorated with @tool or @toolset; decorate what is a tool, or name it, as in bare.py:a (it has a, b)"),
    "empty.py": ("", "empty.py has nothing that is decorated with @tool or @toolset"),
    "bare.py:c": ("def a(): ...\n", "bare.py has no c; decorate what is a tool, or name it, as in bare.py:a (it has a)"),
    "twice.py": ("from codeact import tool\n@tool\ndef a(): ...\n@tool(name='a')\ndef b(): ...\n", "two tools are called a; give one another name or namespace, as in @tool(name=...)"),
    "needs.py": ("from codeact import toolset\n@toolset\nclass Desk:\n    def __init__(self, key): ...\n", "the toolset Desk takes arguments: give an instance, as in Desk(...)"),
    "number.py:x": ("x = 5\n", "a int is no tool: give a function, a toolset, a Tool, or a name such as shop.py:order_status"),
}  # fmt: skip


@pytest.mark.parametrize("spec", BROKEN)
def test_what_cannot_be_loaded_is_one_line(folder: Path, spec: str) -> None:
    text, message = BROKEN[spec]
    if text is not None:
        (folder / spec.partition(":")[0]).write_text(text)
    with pytest.raises(ToolSourceError) as caught:
        load(spec)
    assert str(caught.value).replace(f"{folder}/", "") == message


@pytest.mark.parametrize("spec", ["more_of_them", "./more_of_them"])
def test_a_folder_is_no_source(folder: Path, spec: str) -> None:
    (folder / "more_of_them").mkdir()
    with pytest.raises(ToolSourceError) as caught:
        load(spec)
    assert str(caught.value) == "more_of_them is a folder: name a file in it, as in more_of_them/shop.py"


class Arguments(BaseModel):
    city: str
    days: int = 1


class Chained:
    """The shape of a tool of LangChain."""

    name = "weather"
    description = "The weather."
    args_schema: Any = Arguments

    def invoke(self, values: dict[str, Any]) -> Any:
        return values


class Older:
    name = "weather"
    description = "The weather."
    args = {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}  # noqa: RUF012

    def _run(self, **values: Any) -> Any:
        return values


@pytest.mark.parametrize("source", [Chained(), Older()])
def test_tools_of_langchain(source: Any) -> None:
    [made] = tools_from([source])
    assert made.signature == "weather(city: str, days: int = 1)"
    assert made.description == "The weather."
    assert made.call(**made.check({"city": "Ulm"})) == {"city": "Ulm"}
    with pytest.raises(ArgumentError, match="city: Input should be a valid string"):
        made.check({"city": 5})


class OfACoroutine(Chained):
    """As StructuredTool.from_function(coroutine=...) makes it."""

    func = None

    async def coroutine(self, **values: Any) -> Any:
        return values

    def invoke(self, values: dict[str, Any]) -> Any:
        raise NotImplementedError("no sync invocation")

    async def ainvoke(self, values: dict[str, Any]) -> Any:
        return await self.coroutine(**values)


class OfTwo(Chained):
    """As a class of one's own that can only be awaited."""

    def _run(self, **values: Any) -> Any:
        raise NotImplementedError

    async def _arun(self, **values: Any) -> Any:
        return values

    def invoke(self, values: dict[str, Any]) -> Any:
        return self._run(**values)

    async def ainvoke(self, values: dict[str, Any]) -> Any:
        return await self._arun(**values)


@pytest.mark.parametrize("source", [OfACoroutine(), OfTwo()])
def test_tools_of_langchain_that_can_only_be_awaited(source: Any) -> None:
    [made] = tools_from([source])
    assert asyncio.run(made.call(**made.check({"city": "Ulm"}))) == {"city": "Ulm"}


def test_a_tool_of_langchain_with_a_function_is_not_awaited_in_its_place() -> None:
    class Unfinished(OfTwo):
        def _run(self, **values: Any) -> Any:
            raise NotImplementedError("not for Ulm")

    [made] = tools_from([Unfinished()])
    with pytest.raises(NotImplementedError, match="not for Ulm"):
        made.call(**made.check({"city": "Ulm"}))


def test_further_arguments_of_a_tool_of_langchain_are_given_by_name() -> None:
    class Open(Arguments, extra="allow"):
        pass

    chained = Chained()
    chained.args_schema = Open
    [made] = tools_from([chained])
    assert made.call(**made.check({"city": "Ulm"})) == {"city": "Ulm"}
    assert made.call(**made.check({"city": "Ulm", "lang": "de"})) == {"city": "Ulm", "lang": "de"}


def test_what_a_list_may_hold() -> None:
    @tool(namespace="a")
    def one() -> None: ...

    @toolset
    class Several:
        def two(self) -> None: ...

    module = SimpleNamespace()
    found = tools_from([one, [Several()], (len_of,), tools_from(one_more)])
    assert [each.path for each in found] == ["a.one", "several.two", "len_of", "one_more"]
    with pytest.raises(ToolSourceError, match="a SimpleNamespace is no tool"):
        tools_from(module)
    with pytest.raises(ToolSourceError, match="the class Path is no toolset"):
        tools_from(Path)
    with pytest.raises(ToolSourceError, match="a definition alone is no tool"):
        tools_from({"name": "f"})


def len_of(value: list[int]) -> int:
    return len(value)


def one_more(value: int) -> int:
    return value + 1
