"""Generated modules: what a person would write, whatever names, texts, types and defaults say."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact import tool
from codeact.errors import ToolSourceError
from codeact.tools import prompt, stubs
from codeact.tools.definitions import from_definition
from codeact.tools.load import tools_from
from codeact.tools.tool import Parameter, Tool


@dataclasses.dataclass
class Order:
    id: str
    note: str | None = None


@tool(effects="read", namespace="shop", raises=["OutOfStock", "KeyError"])
def order_status(order_id: str, /, *, details: bool = False) -> Order:
    """Where an order is.

    Args:
        order_id: As on the invoice.
    """
    raise NotImplementedError


@tool(effects="read", namespace="shop")
def changes(since: str = "2020", *words: str, **more: int) -> Iterator[Order]:
    """What changed."""
    raise NotImplementedError


SHOP = '''"""Tools of shop: each call runs on the host."""

from __future__ import annotations

from typing import Iterator

from codeact_inside import calling as _host
from codeact_inside.records import Record
from codeact_inside.toolerrors import ToolError


class Order(Record):
    """Order(id, note)"""

    id: str
    note: str | None


class OutOfStock(ToolError):
    """Raised by order_status."""


@_host.tool
def order_status(order_id: str, /, *, details: bool = False) -> Order:
    """Where an order is.

    Args:
        order_id: As on the invoice.

    Raises:
        OutOfStock
        KeyError
    """
    return _host.call('shop.order_status', order_id=order_id, details=details)


@_host.streaming_tool
def changes(since: str = '2020', *words: str, **more: int) -> Iterator[Order]:
    """What changed."""
    return _host.stream('shop.changes', since=since, words=words, more=more)
'''


def test_a_module_is_what_a_person_would_write() -> None:
    made = stubs.modules(tools_from([order_status, changes]))
    assert made["tools/shop.py"] == SHOP
    assert set(made) == {"tools/__init__.py", "tools/shop.py", "tools/errors.py"}


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports generated modules as code inside does, with a host that records what it is asked."""
    asked: list[tuple[str, Any]] = []
    host = types.ModuleType("sandbox_guest.host")
    for name, kind in _host_of(asked).items():
        setattr(host, name, kind)
    package = types.ModuleType("sandbox_guest")
    package.host = host  # type: ignore[attr-defined]
    before = set(sys.modules)
    monkeypatch.setitem(sys.modules, "sandbox_guest", package)
    monkeypatch.setitem(sys.modules, "sandbox_guest.host", host)
    (tmp_path / "codeact_inside").symlink_to(Path(stubs.__file__).parents[1] / "inside")
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(tools: list[Tool]) -> tuple[Any, list[tuple[str, Any]]]:
        for path, source in stubs.modules(tools).items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source, "utf-8")
        importlib.invalidate_caches()
        return importlib.import_module("tools"), asked

    yield load
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("tools", "codeact_inside"):
            del sys.modules[name]


def _host_of(asked: list[tuple[str, Any]]) -> Mapping[str, Any]:
    import contextvars

    class HostCallError(Exception):
        kind = "OutOfStock"

    class CallTooLarge(HostCallError):
        def __init__(self, name: str, why: str) -> None:
            super().__init__(why)
            self.why = why

    class Handle:
        def cancel(self) -> None: ...

    def call_with_buffers(name: str, payload: Any, buffers: Any) -> Any:
        asked.append((payload["tool"], payload["arguments"]))
        if payload["arguments"].get("order_id") == "none":
            raise HostCallError("none is left")
        return {"id": "1"}, []

    handle: Any = contextvars.ContextVar("handle", default=None)
    return {
        "HostCallError": HostCallError,
        "CallTooLarge": CallTooLarge,
        "Handle": Handle,
        "HANDLE": handle,
        "call_with_buffers": call_with_buffers,
    }


def test_imported_it_behaves_like_the_function(inside: Any) -> None:
    tools, asked = inside(tools_from([order_status, changes]))
    shop = importlib.import_module("tools.shop")
    status = shop.order_status
    assert (
        str(inspect.signature(status)).replace("'", "")
        == "(order_id: str, /, *, details: bool = False) -> Order"
    )
    assert inspect.getsource(status).splitlines()[0] == "@_host.tool"
    assert str(inspect.getdoc(status)).startswith("Where an order is.")
    assert status("A-1").id == "1"
    assert isinstance(status("A-1", details=True), shop.Order)
    assert asked == [
        ("shop.order_status", {"order_id": "A-1"}),
        ("shop.order_status", {"order_id": "A-1", "details": True}),
    ]
    with pytest.raises(shop.OutOfStock, match="none is left"):
        status("none")
    with pytest.raises(
        tools.ArgumentError, match=r"missing 1 required .*; write order_status\(order_id: str, /, \*, details"
    ):
        status()
    with pytest.raises(TypeError, match="order_id is the function len"):
        status(len)
    assert issubclass(shop.OutOfStock, tools.ToolError)
    assert issubclass(importlib.import_module("tools.errors").CallRefused, tools.ToolError)


def test_map_keeps_the_order_and_collects_errors(inside: Any) -> None:
    tools, asked = inside(tools_from([order_status]))
    status = importlib.import_module("tools.shop").order_status
    assert [order.id for order in status.map(["a", "b", "c"], details=True)] == ["1"] * 3
    assert sorted(arguments["order_id"] for _, arguments in asked) == ["a", "b", "c"]
    with pytest.raises(
        tools.ToolErrors, match=r"1 of 3 calls failed, the first with OutOfStock: none is left"
    ) as raised:
        status.map(["a", "none", "c"])
    results = raised.value.results
    assert [type(each).__name__ for each in results] == ["Order", "OutOfStock", "Order"]
    returned = status.map(["none", "b"], errors="return", concurrency=100)
    assert [type(each).__name__ for each in returned] == ["OutOfStock", "Order"]
    assert status.map([]) == []


def test_each_result_of_a_map_over_streams_is_a_list(inside: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def pages(name: str, payload: Any, buffers: Any) -> Iterator[Any]:
        return (({"id": str(n)}, []) for n in range(int(payload["arguments"]["since"])))

    inside(tools_from([changes]))
    monkeypatch.setattr(sys.modules["sandbox_guest.host"], "stream", pages, raising=False)
    found = importlib.import_module("tools.shop").changes.map(["2", "0", "1"])
    assert [[order.id for order in each] for each in found] == [["0", "1"], [], ["0"]]


def test_a_call_that_is_too_large_names_its_largest_argument(
    inside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = sys.modules["sandbox_guest.host"]

    def refuse(name: str, payload: Any, buffers: Any) -> Any:
        raise host.CallTooLarge("tool", "300 bytes, at most 200")

    tools, _ = inside(tools_from([changes, order_status]))
    monkeypatch.setattr(host, "call_with_buffers", refuse)
    monkeypatch.setattr(host, "stream", lambda *asked: (refuse(*each) for each in [asked]), raising=False)
    shop = importlib.import_module("tools.shop")
    said = "(): since is too large: 300 bytes, at most 200; write it to a file and pass its Path"
    with pytest.raises(tools.TooLarge) as caught:
        list(shop.changes("x" * 300_000, *("y" * 5000 for _ in range(9))))
    assert str(caught.value) == f"shop.changes{said}"
    with pytest.raises(tools.TooLarge, match=r"shop.order_status\(\): order_id is too large"):
        shop.order_status(b"x" * 5000, details=False)


def named(name: str, namespace: str = "", description: str = "", **schema: Any) -> Tool:
    definition = {"name": name, "description": description, "parameters": schema}
    return from_definition(definition, lambda **values: None, namespace=namespace)


MANY = [
    named("refund_order", "shop", "Pays a customer back.", properties={"order_id": {"type": "string"}}),
    named("order_status", "shop", "Where the parcels of an order are."),
    named(
        "convert",
        "money",
        "Converts an amount between currencies.",
        properties={"amount": {"type": "number"}},
    ),
    named("send_mail", "", "Writes to a customer."),
]


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("refund", "shop.refund_order"),
        ("refunding orders", "shop.refund_order"),
        ("refnud", "shop.refund_order"),
        ("parcel", "shop.order_status"),
        ("currency", "money.convert"),
        ("AMOUNT", "money.convert"),
        ("mails", "send_mail"),
        ("the customer's mail", "send_mail"),
    ],
)
def test_search_finds_by_words(inside: Any, words: str, first: str) -> None:
    tools, _ = inside(MANY)
    assert tools.search(words)[0].path == first


def test_what_search_and_list_give(inside: Any) -> None:
    tools, asked = inside(MANY)
    assert tools.search("zebra") == []
    assert repr(tools.search("zebra")) == "no tool"
    assert [each.path for each in tools.list("shop")] == ["shop.refund_order", "shop.order_status"]
    assert len(tools.list()) == 4
    found = tools.search("refund")[0]
    assert repr(found) == (
        "from tools.shop import refund_order  # refund_order(order_id: str = ...): Pays a customer back."
    )
    assert found.source.startswith("@_host.tool")
    assert found(order_id="7") == {"id": "1"}
    assert asked == [("shop.refund_order", {"order_id": "7"})]


# -- hostile input -----------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=60) | st.sampled_from(
    [
        '"""\nimport os\nos.system("x")\n"""',
        "\\",
        'a"',
        '\\"""',
        "\r\nimport os",
        "\x0cimport os",
        "\u2028import os",
        "\ud800",
        "\u202e",
        "\x00",
        "{__import__('os')}",
        "'''",
    ]
)
NAMES = TEXTS | st.sampled_from(
    [
        "class",
        "_host",
        "calling",
        "Record",
        "ToolError",
        "search",
        "list",
        "Any",
        "print",
        "self",
        "x; import os",
        "__debug__",
        "None",
    ]
)
SCHEMAS = st.recursive(
    st.sampled_from(["string", "integer", "object", "array", "null"]).map(lambda kind: {"type": kind})
    | st.just({}),
    lambda inner: (
        st.dictionaries(NAMES, inner, max_size=3).map(
            lambda each: {"type": "object", "title": "T", "properties": each}
        )
        | st.lists(TEXTS, min_size=1, max_size=3).map(lambda each: {"enum": each})
        | st.tuples(inner, TEXTS).map(lambda pair: {**pair[0], "default": pair[1], "description": pair[1]})
    ),
    max_leaves=6,
)
ANNOTATIONS = TEXTS | st.sampled_from(
    [
        "__import__('os').system('x')",
        "[x for x in ().__class__.__bases__]",
        "lambda: 1",
        "list[str] | (y := 1)",
        "Literal['a', f'{1}']",
        "pandas.DataFrame",
        "dict[str, list[Order | None]]",
        "(yield)",
        "list[" * 200 + "]" * 200,
    ]
)


class Hostile:
    def __repr__(self) -> str:
        return "__import__('os')"


@st.composite
def tools(draw: st.DrawFn) -> list[Tool]:
    made = []
    for number in range(draw(st.integers(1, 3))):
        properties = draw(st.dictionaries(NAMES, SCHEMAS, max_size=4))
        schema = {"type": "object", "properties": properties, "required": draw(st.lists(NAMES, max_size=2))}
        made.append(
            dataclasses.replace(
                from_definition(
                    {"name": draw(NAMES) or "t", "description": draw(TEXTS), "parameters": schema},
                    lambda **values: None,
                    namespace=f"space_{number}" if draw(st.booleans()) else "",
                ),
                errors=tuple(draw(st.lists(NAMES, max_size=2))),
                returns=draw(ANNOTATIONS),
            )
        )
    parameter = Parameter(
        "p", "keyword", draw(ANNOTATIONS), required=False, default=draw(st.just(Hostile()) | TEXTS)
    )
    made.append(
        Tool("by_hand", lambda: None, lambda values: values, parameters=(parameter,), description=draw(TEXTS))
    )
    return made


@given(tools())
def test_nothing_in_a_tool_becomes_code(made: list[Tool]) -> None:
    try:
        files = stubs.modules(made)
    except ToolSourceError:  # two of one name
        return
    for source in files.values():
        source.encode("utf-8")
        tree = ast.parse(source)
        compile(source, "stub", "exec")
        for node in tree.body:
            assert_defines(node)
    prompt.describe(made)


def assert_defines(node: ast.stmt) -> None:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            pass
        case ast.ImportFrom(module=module):
            known = ("__future__", "typing", "datetime", "decimal", "pathlib", "uuid")
            assert str(module) in known or str(module).startswith("codeact_inside")
        case ast.ClassDef(
            bases=[ast.Name(id="Record" | "_Record" | "ToolError")], decorator_list=[], keywords=[]
        ):
            for inner in node.body:
                match inner:
                    case ast.Expr(value=ast.Constant(value=str())):
                        pass
                    case ast.AnnAssign(target=ast.Name(), value=None):
                        assert_type(inner.annotation)
                    case _:
                        raise AssertionError(ast.dump(inner))
        case ast.FunctionDef(
            decorator_list=[ast.Attribute(value=ast.Name(), attr="tool" | "streaming_tool")]
        ):
            assert_stub(node)
        case _:
            raise AssertionError(ast.dump(node))


def assert_stub(node: ast.FunctionDef) -> None:
    match node.body:
        case [
            ast.Expr(value=ast.Constant(value=str())),
            ast.Return(value=ast.Call(args=[ast.Constant(value=str())]) as call),
        ]:
            assert isinstance(call.func, ast.Attribute)
            assert all(
                isinstance(each.value, ast.Name) and each.value.id == each.arg for each in call.keywords
            )
        case _:
            raise AssertionError(ast.dump(node))
    arguments = node.args
    for default in [*arguments.defaults, *filter(None, arguments.kw_defaults)]:
        ast.literal_eval(default)
    for each in [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]:
        if each is not None and each.annotation is not None:
            assert_type(each.annotation)
    if node.returns is not None:
        assert_type(node.returns)


def assert_type(hint: ast.expr) -> None:
    allowed = (
        ast.Name,
        ast.Load,
        ast.Constant,
        ast.Subscript,
        ast.Tuple,
        ast.List,
        ast.BinOp,
        ast.BitOr,
        ast.Attribute,
        ast.UnaryOp,
        ast.USub,
    )
    for node in ast.walk(hint):
        assert isinstance(node, allowed), ast.dump(node)
        assert not isinstance(node, ast.Attribute) or ast.unparse(node.value) in (
            "numpy",
            "pandas",
            "polars",
            "pyarrow",
        )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([named("a"), named("a")], "there are two tools called a; give one another name or namespace"),
        ([named("shop"), named("a", "shop")], "shop is both a tool and a namespace; give one another name"),
        (
            [dataclasses.replace(named("a"), name="x; y")],
            "the tool 'x; y' has no Python name; give it another",
        ),
        (
            [dataclasses.replace(named("a"), namespace="../x")],
            "the namespace '../x' is no Python name; give it another",
        ),
    ],
)
def test_names_that_cannot_be_are_said(made: list[Tool], message: str) -> None:
    with pytest.raises(ToolSourceError) as raised:
        stubs.modules(made)
    assert str(raised.value) == message


@dataclasses.dataclass
class Record:
    id: str


@dataclasses.dataclass
class Line:
    of: Record


OWN = ["search", "list", "errors", "ToolError", "ToolErrors", "CallRefused"]


@pytest.mark.parametrize("name", OWN)
def test_what_is_called_as_something_of_ours_gets_another_name(inside: Any, name: str) -> None:
    def function() -> str:
        return name

    function.__name__ = name
    made = [*tools_from([function]), named(name, "shop"), named("a", name)]
    assert [each.path for each in made] == [f"{name}_", f"shop.{name}", f"{name}_.a"]
    tools, asked = inside([dataclasses.replace(made[0], name=f"{name}_0"), *made[1:]])
    getattr(tools.shop, name)()
    importlib.import_module(f"tools.{name}_").a()
    assert [path for path, _ in asked] == [f"shop.{name}", f"{name}_.a"]
    assert {each.path for each in tools.list()} == {f"{name}_0", f"shop.{name}", f"{name}_.a"}
    assert issubclass(tools.CallRefused, tools.ToolError)
    assert issubclass(importlib.import_module("tools.errors").ToolErrors, ExceptionGroup)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("namespace", [False, True])
def test_a_tool_made_by_hand_may_not_be_called_as_something_of_ours(name: str, namespace: bool) -> None:
    made = named("a", "shop")
    own = (
        dataclasses.replace(made, namespace=name)
        if namespace
        else dataclasses.replace(made, name=name, namespace="")
    )
    with pytest.raises(
        ToolSourceError, match=f"the .* {name} is called as something that `tools` has itself"
    ):
        stubs.check([own])


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("class", "class_"), ("None", "None_"), ("__init__", "init"), ("__doc__", "doc"), ("print", "print"),
        ("map", "map"), ("aio", "aio"), ("_host", "_host"), ("Record", "Record"), ("Any", "Any"), ("datetime", "datetime"),
        ("find", "find"), ("calling", "calling"), ("annotations", "annotations"),
    ],
)  # fmt: skip
def test_other_names_that_mean_something_can_be_called(inside: Any, given: str, name: str) -> None:
    when = {"type": "object", "properties": {"when": {"type": "string"}}}
    made = from_definition({"name": given, "parameters": when}, lambda **values: None)
    assert made.name == name
    tools, asked = inside([made, named("other", "space")])
    assert getattr(tools, name)(when="now") == {"id": "1"}
    assert getattr(tools, name).map(["now"]) == [{"id": "1"}]
    assert [path for path, _ in asked] == [name, name]


def test_namespaces_need_no_import_of_their_own(inside: Any) -> None:
    tools, _ = inside([named("a", "shop"), named("b", "shop.old"), named("c", "money")])
    assert {"money", "search", "shop"} <= set(dir(tools))
    assert tools.shop.old.b() == tools.shop.a() == tools.money.c() == {"id": "1"}
    with pytest.raises(AttributeError, match=r"tools has no 'shpo'; did you mean shop\?"):
        tools.shpo  # noqa: B018
    with pytest.raises(AttributeError, match=r"tools has no 'xyz'; tools.search"):
        tools.xyz  # noqa: B018
    assert not hasattr(tools, "__wrapped__")


def test_a_class_of_theirs_may_be_called_record(inside: Any) -> None:
    def record() -> Record:
        return Record("1")

    def line() -> Line:
        return Line(Record("1"))

    tools, _ = inside(tools_from([record, line]))
    assert type(tools.record()) is tools.Record
    assert tools.Record.__mro__[1].__module__.endswith("records")
    assert tools.Line.__mro__[1] is tools.Record.__mro__[1]


def test_what_runs_inside_is_shipped_as_it_is_written(inside: Any) -> None:
    @tool(where="sandbox")
    def double(number: int, times: int = 2) -> int:
        """So many times."""
        return number * times

    tools, asked = inside(tools_from([double]))
    assert tools.double(4) == 8
    assert tools.double.map([1, 2], times=3) == [3, 6]
    assert asked == []


def test_five_hundred_tools_cost_the_prompt_no_more_than_twenty() -> None:
    def some(count: int) -> list[Tool]:
        return [named(f"look_up_{n}", f"space_{n // 10}", "Looks up orders.") for n in range(count)]

    assert "\n  Imported already, from tools.space_1:\n  look_up_10(): Looks up orders.\n" in prompt.describe(
        some(20)
    )
    assert prompt.imported(some(11)) == [
        "import tools",
        "from tools.space_0 import look_up_0, look_up_1, look_up_2, look_up_3, look_up_4, look_up_5, look_up_6, look_up_7, look_up_8, look_up_9",
        "from tools.space_1 import look_up_10",
    ]
    assert prompt.imported(some(500)) == ["import tools"]
    assert len(prompt.describe(some(500))) <= len(prompt.describe(some(20)))
    text = prompt.describe(some(500))
    assert "There are 500 functions" in text
    assert "tools.space_0 (10)" in text
    assert "and 30 more" in text
    assert prompt.describe([]) == ""


def test_tools_are_imported_from_the_start_but_for_those_whose_name_is_taken() -> None:
    made = [named("refund", "shop", "Pays."), named("refund", "desk", "Pays."), named("open", "", "Opens.")]
    made += [named("find", "shop", "Finds."), named("pd", "", "Is no pandas."), named("close", "", "Closes.")]
    assert prompt.describe(made).splitlines() == [
        "  Imported already, from tools.shop:",
        "  find(): Finds.",
        "  Imported already, from tools:",
        "  close(): Closes.",
        "  To be imported:",
        "  from tools.shop import refund  # refund(): Pays.",
        "  from tools.desk import refund  # refund(): Pays.",
        "  from tools import open  # open(): Opens.",
        "  from tools import pd  # pd(): Is no pandas.",
    ]
    assert prompt.imported(made) == ["import tools", "from tools.shop import find", "from tools import close"]
    assert prompt.describe(made[:3]).startswith("  from tools.shop import refund  #")
    assert prompt.imported(made[:3]) == ["import tools"]
    assert prompt.imported([]) == []
