"""Tools of an OpenAPI document, called over real HTTP."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from codeact.errors import ArgumentError, ToolSourceError
from codeact.tools import policy
from codeact.tools.hints import referred
from codeact.tools.openapi import from_openapi
from codeact.tools.openapi_calls import HttpError
from codeact.tools.tool import Tool

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "amount": {"type": "integer", "minimum": 1}},
    "required": ["id"],
}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "servers": [{"url": "{scheme}://127.0.0.1:1/v1", "variables": {"scheme": {"default": "http"}}}],
    "components": {
        "schemas": {"Order": ORDER},
        "parameters": {"Id": {"name": "order-id", "in": "path", "schema": {"type": "string"}, "description": "Its id."}},
    },
    "paths": {
        "/orders/{order-id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "operationId": "getOrder",
                "summary": "One order.",
                "parameters": [
                    {"name": "expand", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "X-Tenant", "in": "header", "schema": {"type": "string"}},
                    {"name": "draft", "in": "query", "schema": {"type": "boolean"}},
                ],
                "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}},
            },
            "delete": {"responses": {"204": {}}},
        },
        "/orders": {
            "post": {
                "operationId": "create-order",
                "requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                "responses": {"201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}},
            }
        },
        "/file": {"get": {"responses": {}}},
    },
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size).decode()
        status, kind, said = 200, "application/json", b""
        if self.path.startswith("/v1/file"):
            kind, said = "application/octet-stream", b"\x00\xff"
        elif "missing" in self.path:
            status, said = 404, json.dumps({"error": {"message": "no order\nof that id"}}).encode()
        elif self.command == "DELETE":
            status = 204
        else:
            asked = {"method": self.command, "path": self.path, "body": body}
            said = json.dumps(
                {
                    **asked,
                    "key": self.headers.get("X-Key") == "s3cret",
                    "tenant": self.headers.get("X-Tenant"),
                    **({"cookie": self.headers["Cookie"]} if "Cookie" in self.headers else {}),
                }
            ).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("X-Secret", "from the server")
        self.send_header("Set-Cookie", "session=of-one-run; Path=/")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
def tools(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Tool]]:
    monkeypatch.setenv("SHOP_KEY", "s3cret")
    with httpx2.Client(timeout=10) as client:
        made = from_openapi(
            DOCUMENT, base_url=address, headers={"X-Key": "${SHOP_KEY}"}, namespace="shop", client=client
        )
        yield {each.name: each for each in made}


def call(tool: Tool, **values: Any) -> Any:
    return tool.call(**tool.check(values))


def test_operations_as_tools(tools: dict[str, Tool]) -> None:
    assert [each.signature for each in tools.values()] == [
        "get_order(order_id: str, expand: list[str] = ..., X_Tenant: str = ..., draft: bool = ...) -> Order",
        "delete_orders_order_id(order_id: str)",
        "create_order(body: Order) -> Order",
        "get_file()",
    ]
    assert {each.name: (each.policy.effects, each.policy.idempotent) for each in tools.values()} == {
        "get_order": ("read", True), "delete_orders_order_id": ("write", True), "create_order": ("write", False), "get_file": ("read", True),
    }  # fmt: skip
    assert tools["get_order"].description == "One order."
    assert tools["get_order"].path == "shop.get_order"
    assert tools["get_order"].parameters[0].description == "Its id."


def test_what_is_sent(tools: dict[str, Tool]) -> None:
    asked = call(tools["get_order"], order_id="a/b?c", expand=["x", "y z"], X_Tenant="t", draft=True)
    assert asked == {
        "method": "GET", "path": "/v1/orders/a%2Fb%3Fc?expand=x&expand=y+z&draft=true", "body": "", "key": True, "tenant": "t",
    }  # fmt: skip
    posted = call(tools["create_order"], body={"id": "A", "amount": 2})
    assert (posted["method"], posted["path"], json.loads(posted["body"])) == (
        "POST",
        "/v1/orders",
        {"id": "A", "amount": 2},
    )
    assert call(tools["delete_orders_order_id"], order_id="A") is None
    assert call(tools["get_file"]) == b"\x00\xff"


@pytest.mark.parametrize("timeout", [30.0, 1e300, math.inf])
def test_the_projects_own_client_sends_no_cookie_and_may_wait_for_ever(address: str, timeout: float) -> None:
    [made, *_] = from_openapi(DOCUMENT, base_url=address, timeout=timeout)
    for _ in range(2):
        assert "cookie" not in call(made, order_id="A")
    assert made.policy.timeout == (30.0 if timeout == 30.0 else None)


PET = {
    "type": "object",
    "required": ["id", "name", "owner", "since"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "since": {"$ref": "#/components/schemas/Since"},
        "name": {"type": "string"},
        "owner": {"$ref": "#/components/schemas/Owner"},
    },
}
BASE = {"type": "object", "properties": {"id": {"type": "integer", "readOnly": True}}}
COMPONENTS = {
    "Pet": PET,
    "Since": {"type": "string", "readOnly": True},
    "Owner": {"type": "object", "required": ["id", "pets"], "properties": {"id": {"type": "integer", "readOnly": True}, "pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}},
    "Dog": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "properties": {"bark": {"type": "string"}}}], "required": ["id", "bark"]},
    "Base": BASE,
    "Plain": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "given", "wrong"),
    [
        ("Pet", {"name": "Rex", "owner": {"pets": []}}, {"owner": {"pets": []}}),
        ("Pet", {"name": "Rex", "owner": {"pets": [{"name": "Tom", "owner": {"pets": []}}]}}, {"name": "Rex"}),
        ("Pet", {"id": 1, "name": "Rex", "owner": {"id": 2, "pets": []}}, {"id": "x", "name": "Rex", "owner": {"pets": []}}),
        ("Dog", {"bark": "loud"}, {}),
        ("Plain", {"id": 1}, {}),
    ],
)  # fmt: skip
def test_what_only_the_server_says_need_not_be_sent(schema: str, given: Any, wrong: Any) -> None:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    operation = {
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"content": content}},
    }
    paths = {"/pets": {"post": {"operationId": "add", **operation}}}
    found = {"openapi": "3.0.0", "paths": paths, "components": {"schemas": COMPONENTS}}
    [made] = from_openapi(found, base_url="http://127.0.0.1:1")
    assert made.check({"body": given}) == {"body": given}
    with pytest.raises(ArgumentError):
        made.check({"body": wrong})
    returned = made.types[referred(made.result)]
    assert "id" in returned["required"]


def test_a_document_that_holds_itself_is_read(tmp_path: Path) -> None:
    place = tmp_path / "api.yaml"
    place.write_text(
        "openapi: 3.0.0\nservers: [{url: 'http://127.0.0.1:1'}]\ncomponents: {schemas: {A: &a {type: object, properties: {a: *a}}}}\n"
        "paths: {/a: {post: {requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/A'}}}}}}}\n"
    )
    [made] = from_openapi(place)
    assert made.check({"body": {"a": {"a": {}}}}) == {"body": {"a": {"a": {}}}}


def test_errors_are_the_servers_words(tools: dict[str, Tool]) -> None:
    with pytest.raises(HttpError) as caught:
        call(tools["get_order"], order_id="missing")
    assert str(caught.value) == "404 Not Found: no order of that id"
    with pytest.raises(
        ArgumentError,
        match=r"body\.amount: Input should be greater than or equal to 1, got 0 \(int\); body\.id: is missing",
    ):
        call(tools["create_order"], body={"amount": 0})
    assert "s3cret" not in repr(tools)
    assert "s3cret" not in repr([each.call for each in tools.values()])


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_value_cannot_lead_to_another_address(tools: dict[str, Tool], value: str) -> None:
    with pytest.raises(HttpError, match="names another address"):
        call(tools["get_order"], order_id=value)


def test_a_server_that_is_not_there() -> None:
    with httpx2.Client(timeout=5) as client:
        [*_, made] = from_openapi(DOCUMENT, client=client)
        with pytest.raises(HttpError, match="the server could not be asked: ConnectError"):
            call(made)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents_in_files(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"shop.{form}"
    path.write_text(json.dumps(DOCUMENT) if form == "json" else yaml.safe_dump(DOCUMENT, sort_keys=False))
    assert [each.path for each in from_openapi(path)][:1] == ["get_order"]


YAML = """
openapi: 3.0
servers: [{url: 'http://x'}]
x-laughs:
  - &a0 {type: object, properties: {a: {type: string}}}
LAUGHS
paths:
  /a:
    post:
      operationId: f
      parameters:
        - {name: land, in: query, required: true, schema: {enum: [NO, on, 'y', true]}}
        - {name: day, in: query, schema: {type: string, format: date, default: 2020-01-31}}
      requestBody: {content: {application/json: {schema: *a9}}}
      responses: {200: {description: Done.}}
"""
LAUGHS = [
    f"  - &a{n} {{type: object, properties: {{{', '.join(f'p{k}: *a{n - 1}' for k in range(9))}}}}}"
    for n in range(1, 10)
]


def test_yaml_is_read_as_the_json_that_it_stands_for(tmp_path: Path) -> None:
    """Norway is a text, a day too; and an alias of an alias is no flood."""
    path = tmp_path / "shop.yaml"
    path.write_text(YAML.replace("LAUGHS", "\n".join(LAUGHS)))
    [made] = from_openapi(path)
    assert (
        made.signature == "f(land: Literal['NO', 'on', 'y', True], day: str = '2020-01-31', body: Body = ...)"
    )


BROKEN: list[tuple[Any, str]] = [
    ({}, "the OpenAPI document is no OpenAPI 3 document"),
    ({"swagger": "2.0"}, "Swagger 2 must be converted"),
    ({"openapi": "3.1.0", "servers": [{"url": "http://x"}]}, "describes no operation under paths"),
    ({"openapi": "3.1.0", "paths": {}}, "does not say where its server is: give base_url"),
    ("/no/such/file.json", "/no/such/file.json cannot be read: No such file or directory"),
]


@pytest.mark.parametrize(("source", "message"), BROKEN)
def test_what_is_no_document(source: Any, message: str) -> None:
    with pytest.raises(ToolSourceError, match=message):
        from_openapi(source)


def document(path: str, **operation: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "servers": [{"url": "http://x"}], "paths": {path: {"get": operation}}}


def test_what_a_path_asks_for_is_an_argument_also_undeclared() -> None:
    [made] = from_openapi(
        document(
            "/a/{zz}/{b}",
            operationId="f",
            parameters=[{"name": "b", "in": "path", "schema": {"type": "integer"}}],
        )
    )
    assert made.signature == "f(b: int, zz: str)"


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"parameters": [{"$ref": "#/components/parameters/Id"}]}, "refers to #/components/parameters/Id, which is not there"),
        ({"requestBody": {"$ref": "other.yaml#/Body"}}, "refers to other.yaml#/Body, in another document: make one of them all"),
        ({"responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/nowhere"}}}}}}, "refers to #/nowhere"),
        ({"responses": {"404": {"$ref": "#/nowhere"}}}, ""),
        ({"parameters": [{"name": "a", "in": "query", "schema": {"enum": [{"$ref": "data"}], "items": {"$ref": "#"}}}]}, ""),
    ],
)  # fmt: skip
def test_a_reference_that_leads_nowhere(operation: dict[str, Any], said: str) -> None:
    if not said:
        assert len(from_openapi(document("/a", **operation))) == 1
        return
    with pytest.raises(ToolSourceError, match=re.escape(f"the OpenAPI document: GET /a {said}")):
        from_openapi(document("/a", **operation))


ECHO: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/echo": {
            "get": {
                "operationId": "get",
                "parameters": [
                    {"name": "each", "in": "query", "schema": {}},
                    {"name": "comma", "in": "query", "explode": False, "schema": {}},
                    {"name": "deep", "in": "query", "style": "deepObject", "schema": {}},
                    {"name": "json", "in": "query", "content": {"application/json": {"schema": {}}}},
                    {"name": "X-List", "in": "header", "schema": {}},
                    *({"name": name, "in": "header", "required": True, "schema": {}} for name in ("Host", "cookie", "x-key")),
                    {"name": "api_key", "in": "query", "required": True, "schema": {}},
                ],
            },
            **{
                method: {"operationId": method, "requestBody": {"required": True, "content": {kind: {}}}}
                for method, kind in [
                    ("post", "application/x-www-form-urlencoded"), ("put", "text/plain"), ("patch", "application/merge-patch+json"),
                    ("delete", "multipart/form-data"), ("options", "*/*"),
                ]
            },
        },
    },
}  # fmt: skip
CALLS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("get", {"each": ["a", "b&c"]}, {"query": "each=a&each=b%26c"}),
    ("get", {"each": {"a": 1, "b": True}}, {"query": "a=1&b=true"}),
    ("get", {"each": None}, {"query": ""}),
    ("get", {"comma": ["a", 2]}, {"query": "comma=a%2C2"}),
    ("get", {"comma": {"a": 1}}, {"query": "comma=a%2C1"}),
    ("get", {"deep": {"a": 1, "b": "x"}}, {"query": "deep%5Ba%5D=1&deep%5Bb%5D=x"}),
    ("get", {"json": [1, "x"]}, {"query": "json=%5B1%2C+%22x%22%5D"}),
    ("get", {"X_List": ["a", "b"]}, {"list": "a,b"}),
    ("post", {"body": {"a": ["x", "y"], "b": {"c": 1}, "d": None}}, {"body": "a=x&a=y&b=%7B%22c%22%3A+1%7D", "kind": "application/x-www-form-urlencoded"}),
    ("put", {"body": "é"}, {"body": "é", "kind": "text/plain"}),
    ("patch", {"body": {"a": "é"}}, {"body": '{"a": "\\u00e9"}', "kind": "application/merge-patch+json"}),
    ("options", {"body": [1]}, {"body": "[1]", "kind": "application/json"}),
]  # fmt: skip
ANSWERS: list[tuple[str, dict[str, str], bytes, int, Any]] = [
    ("json in latin-1", {"Content-Type": "application/json; charset=latin-1"}, b'{"a": "\xe9"}', 200, {"a": "é"}),
    ("vendor's json", {"Content-Type": "application/vnd.api+json"}, b'{"a": 1}', 200, {"a": 1}),
    ("xml", {"Content-Type": "application/atom+xml"}, b"<a>\xc3\xa9</a>", 200, "<a>é</a>"),
    ("unknown charset", {"Content-Type": "text/plain; charset=no-such"}, b"a\xff", 200, "a\ufffd"),
    ("no type", {}, b'{"a": 1}', 200, b'{"a": 1}'),
    ("nothing", {"Content-Type": "application/json"}, b"", 200, None),
    ("json that is none", {"Content-Type": "application/json"}, b'{"a":', 200, HttpError("the server sent what is not JSON as JSON")),
    ("json too deep", {"Content-Type": "application/json"}, b"[" * 100_000, 200, HttpError("the server sent what is not JSON as JSON")),
    ("a key sent back", {"Content-Type": "application/json"}, b'{"error": "bad s3cret, Bearer s3cret"}', 200, {"error": "bad ***, ***"}),
    ("a key in a message", {}, b"no access with s3cret", 403, HttpError("403 Forbidden: no access with ***")),
    ("a redirect", {"Location": "http://user:pw@169.254.169.254/x?token=1"}, b"", 302,
     HttpError("302 Found: the server leads elsewhere to http://169.254.169.254, and redirects are not followed")),
    ("too many", {"Retry-After": "7"}, b'{"message": "slow down"}', 429, HttpError("429 Too Many Requests: slow down (try again in 7 seconds)")),
    ("broken gzip", {"Content-Encoding": "gzip"}, b"xxxx", 200, HttpError("the server could not be asked: DecodingError")),
    ("cut", {"Content-Length": "9000"}, b"x", 200, HttpError("the server could not be asked: RemoteProtocolError")),
]  # fmt: skip
TRANSIENT = {"too many", "broken gzip", "cut"}


class Scripted(BaseHTTPRequestHandler):
    """Answers with what `answer` says, else with what it was asked."""

    answer: tuple[dict[str, str], bytes, int] | None = None

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        asked = {"query": self.path.partition("?")[2], "body": body, "kind": self.headers.get("Content-Type")}
        asked |= {"list": self.headers.get("X-List"), "host": self.headers.get("Host")}
        headers, said, status = self.answer or (
            {"Content-Type": "application/json"},
            json.dumps(asked).encode(),
            200,
        )
        self.send_response(status)
        for name, value in {"Content-Length": str(len(said)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_OPTIONS = respond

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Tool]]:
    monkeypatch.setenv("SHOP_KEY", "s3cret")
    own = {"Authorization": "Bearer ${SHOP_KEY}", "X-Key": "${SHOP_KEY}"}
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server, httpx2.Client(timeout=10) as client:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        made = from_openapi(ECHO, base_url=url, headers=own, query={"api_key": "hidden-key"}, client=client)
        yield {each.name: each for each in made}
        server.shutdown()
        thread.join()


def test_what_the_host_gives_and_what_cannot_be_sent_is_nothing_to_ask_for(echo: dict[str, Tool]) -> None:
    assert sorted(echo) == ["get", "options", "patch", "post", "put"]
    assert [each.name for each in echo["get"].parameters] == ["each", "comma", "deep", "json", "X_List"]


@pytest.mark.parametrize(("name", "given", "sent"), CALLS)
def test_arguments_are_sent_as_the_document_says(
    echo: dict[str, Tool], name: str, given: dict[str, Any], sent: dict[str, str]
) -> None:
    asked = call(echo[name], **given)
    asked["query"] = asked["query"].removeprefix("api_key=***").lstrip("&")
    assert {key: asked[key] for key in sent} == sent
    assert asked["host"].startswith("127.0.0.1:")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é", ["a\n"]])
def test_a_header_holds_one_line(echo: dict[str, Tool], value: Any) -> None:
    with pytest.raises(HttpError, match="X-List is a header, which takes one line of ASCII"):
        call(echo["get"], X_List=value)


@pytest.mark.parametrize(
    ("name", "headers", "body", "status", "expected"), ANSWERS, ids=[each[0] for each in ANSWERS]
)
def test_what_servers_answer(
    echo: dict[str, Tool],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    headers: dict[str, str],
    body: bytes,
    status: int,
    expected: Any,
) -> None:
    monkeypatch.setattr(Scripted, "answer", (headers, body, status))
    if not isinstance(expected, HttpError):
        assert call(echo["get"]) == expected
        return
    with pytest.raises(HttpError) as caught:
        call(echo["get"])
    assert str(caught.value) == str(expected)
    assert policy.may_retry(echo["get"], caught.value) is (name in TRANSIENT)
    assert not policy.may_retry(echo["post"], caught.value)


def test_an_answer_may_not_drip_for_ever(echo: dict[str, Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 61))
    monkeypatch.setattr("codeact.tools.openapi_calls.time.monotonic", lambda: next(clock))
    with pytest.raises(HttpError, match="the answer took longer than 60 seconds"):
        call(echo["get"])


def test_a_key_that_is_not_set() -> None:
    with pytest.raises(ToolSourceError, match="the environment has no NOT_SET_ANYWHERE"):
        from_openapi(DOCUMENT, headers={"X-Key": "${NOT_SET_ANYWHERE}"})
