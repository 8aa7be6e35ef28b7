"""Tools of an OpenAPI document, called over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from codeact.errors import ArgumentError, ToolSourceError
from codeact.tools.openapi import HttpError, from_openapi
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
                {**asked, "key": self.headers.get("X-Key"), "tenant": self.headers.get("X-Tenant")}
            ).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("X-Secret", "from the server")
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
        "method": "GET", "path": "/v1/orders/a%2Fb%3Fc?expand=x&expand=y+z&draft=true", "body": "", "key": "s3cret", "tenant": "t",
    }  # fmt: skip
    posted = call(tools["create_order"], body={"id": "A", "amount": 2})
    assert (posted["method"], posted["path"], json.loads(posted["body"])) == (
        "POST",
        "/v1/orders",
        {"id": "A", "amount": 2},
    )
    assert call(tools["delete_orders_order_id"], order_id="A") is None
    assert call(tools["get_file"]) == b"\x00\xff"


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


def test_a_key_that_is_not_set() -> None:
    with pytest.raises(ToolSourceError, match="the environment has no NOT_SET_ANYWHERE"):
        from_openapi(DOCUMENT, headers={"X-Key": "${NOT_SET_ANYWHERE}"})
