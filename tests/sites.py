"""A web site on loopback that stands for servers of the internet, and the network setting that reaches it.

The proxy refuses loopback: the setting resolves every name to a public address, and connects to the site in its place.
What the proxy asked to connect to is in `site.dialled`.
"""

from __future__ import annotations

import http.server
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from sandbox import Network
from sandbox.network import Entry

Page = bytes | Callable[[Any], None]
TLS = Path(__file__).parent / "data" / "tls"
PUBLIC = "93.184.215.14"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that breaks off is no news."""


class Site:
    """Answers `GET path` with `pages[path]`, or by calling it; `POST` with the number of bytes that came."""

    def __init__(self, pages: Mapping[str, Page], *, tls: bool = False) -> None:
        self.pages = pages
        self.dialled: list[tuple[str, int]] = []
        self.asked: list[str] = []
        self._server = Server(("127.0.0.1", 0), self._handler())
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / "server.pem")
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def network(self, *allow: str, addresses: list[str] | None = None, **settings: Any) -> Network:
        """A setting whose names all resolve to `addresses`, and whose connections come here."""
        entries = tuple(map(Entry.parse, allow))
        return Network(
            entries, resolve=lambda host, port: addresses or [PUBLIC], connect=self._connect, **settings
        )

    def _connect(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        return socket.create_connection(("127.0.0.1", self.port))

    def _handler(site) -> type[http.server.BaseHTTPRequestHandler]:
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked.append(f"{self.headers['Host']} {self.requestline} {sorted(self.headers)}")
                page = site.pages.get(self.path)
                if callable(page):
                    page(self)
                else:
                    self._reply(200 if page is not None else 404, page or b"")

            def do_POST(self) -> None:
                self._reply(200, str(len(self._body())).encode())

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers["Content-Length"]))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def _reply(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
