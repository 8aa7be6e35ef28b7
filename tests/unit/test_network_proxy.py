"""Both ends of the proxy, joined without a sandbox between them: real clients, real servers, hostile peers."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import httpx2
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Connection, Network
from sandbox.errors import ProtocolError
from sandbox.guest.frames import MAX_STREAMS, STREAM_WINDOW
from sandbox.guest.loop import Loop
from sandbox.guest.network import Streams
from sandbox.network_proxy import Proxy
from tests.sites import PUBLIC, Page, Site


class Joined:
    """The supervisor's end in a loop of its own, the host's end as it is, and what crosses between them."""

    def __init__(self, network: Network) -> None:
        self.told: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self.under_way = self.most_under_way = 0
        """Bytes on their way to the code that the supervisor's end has not passed on."""
        self._frames: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
        self._bell, self._ear = socket.socketpair()
        self._ended = False
        self._loop = Loop()
        self._streams = Streams(self._loop, self._to_host, lambda: 0, ("127.0.0.1", 0))
        self._loop.watch(self._ear.fileno(), self._hear)
        self.proxy = Proxy(network, self._to_guest, self.told.put)
        self._thread = threading.Thread(target=self._turn, daemon=True)
        self._thread.start()
        self.address = self._streams.address
        self.url = f"http://127.0.0.1:{self.address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.close()
        self._ended = True
        self._bell.send(b"!")
        self._thread.join()
        self._bell.close()
        self._ear.close()

    def _turn(self) -> None:
        while not self._ended:
            self._loop.turn(1000)
        self._streams.close()

    def _to_host(self, header: dict[str, Any], body: bytes) -> None:
        if header["do"] == "room":
            self.under_way -= header["bytes"]
        self.proxy.take(header, body)

    def _to_guest(self, header: dict[str, Any], body: bytes) -> None:
        self.under_way += len(body)
        self.most_under_way = max(self.most_under_way, self.under_way)
        self._frames.put((header, body))
        self._bell.send(b"!")

    def _hear(self, _: int) -> None:
        self._ear.recv(4096)
        with contextlib.suppress(queue.Empty):
            while True:
                self._streams.hear(*self._frames.get_nowait())

    def client(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.proxies = {"http": self.url, "https": self.url}
        return session

    def raw(self, request: bytes) -> socket.socket:
        link = socket.create_connection(self.address)
        link.settimeout(20)
        link.sendall(request)
        return link

    def next_told(self) -> Connection:
        return self.told.get(timeout=20)


def everything(link: socket.socket) -> bytes:
    with link, contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: link.recv(65536), b""))
    return b"(reset)"


def endless(handler: Any) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 65536)


BIG = bytes(range(256)) * 40_000


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    broken: dict[str, Page] = {
        "/gone": lambda handler: handler.connection.close(),
        "/junk": lambda handler: handler.wfile.write(b"SSH-2.0-server\r\n\r\n"),
        "/half": lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
    }
    with Site({"/": b"home", "/big": BIG, "/endless": endless, "/a?b=%20c": b"asked", **broken}) as running:
        yield running


@pytest.fixture
def joined(site: Site) -> Iterator[Joined]:
    with Joined(site.network("api.example.com", "*.data.example.org")) as both:
        yield both


def test_of_a_name_that_is_none_no_more_is_told_than_a_name_may_have(joined: Joined) -> None:
    answer = everything(joined.raw(b"CONNECT " + b"a" * 60_000 + b":443 HTTP/1.1\r\nHost: x\r\n\r\n"))
    told = joined.next_told()
    assert answer.startswith(b"HTTP/1.1 403")
    assert (told.host, told.outcome) == ("a" * 253, "refused")
    assert len(told.reason) < 1000


def test_plain_http_there_and_back(joined: Joined, site: Site) -> None:
    client = joined.client()
    assert client.get("http://api.example.com/").text == "home"
    assert client.get("http://API.example.com:80/a?b=%20c#part").text == "asked"
    assert client.get("http://x.data.example.org/big").content == BIG
    assert client.post("http://api.example.com/", data=BIG).text == str(len(BIG))
    assert client.post("http://api.example.com/", data=(b"x" * 1000 for _ in range(700))).text == "700000"
    assert client.head("http://api.example.com/").status_code == 501
    assert client.get("http://api.example.com/none").status_code == 404
    assert set(site.dialled) == {(PUBLIC, 80)}
    told = joined.next_told()
    assert (told.host, told.port, told.outcome) == ("api.example.com", 80, "closed")
    assert told.sent > 0
    assert told.received > len("home")


def test_what_is_for_the_proxy_does_not_go_on(joined: Joined, site: Site) -> None:
    site.asked.clear()
    said = everything(
        joined.raw(
            b"GET http://api.example.com/ HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: secret\r\n"
            b"Proxy-Connection: keep-alive\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\n"
            b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        )
    )
    assert said.count(b"HTTP/1.1") == 1
    assert site.asked == ["api.example.com GET / HTTP/1.1 ['Connection', 'Host', 'X-End']"]


def test_a_tunnel_carries_bytes_as_they_are(joined: Joined) -> None:
    with joined.raw(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n") as link:
        assert link.recv(4096).startswith(b"HTTP/1.1 200 ")
        asked = b"GET /big HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        link.sendall(asked)
        assert everything(link).endswith(BIG)
    told = joined.next_told()
    assert (told.host, told.port, told.outcome, told.sent) == ("api.example.com", 443, "closed", len(asked))
    assert told.received > len(BIG)


@pytest.mark.parametrize("url", ["http://evil.example/", "https://evil.example/"])
def test_clients_show_why_they_were_refused(joined: Joined, url: str) -> None:
    line = (
        "evil.example is refused: the network setting does not allow it; allowed: api.example.com, *.data.example.org;"
        " the person who runs this can add it with --network evil.example"
    )
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({"http": joined.url, "https": joined.url})
    )
    with pytest.raises((urllib.error.URLError, urllib.error.HTTPError)) as by_urllib:
        opener.open(url)
    with pytest.raises(requests.RequestException) as by_requests:
        joined.client().get(url).raise_for_status()
    with (
        pytest.raises(httpx2.HTTPError) as by_httpx,
        httpx2.Client(proxy=joined.url, trust_env=False) as client,
    ):
        client.get(url).raise_for_status()
    for caught in (by_urllib, by_requests, by_httpx):
        assert line in str(caught.value)
        told = joined.next_told()
        assert (told.host, told.outcome, told.reason, told.received) == ("evil.example", "refused", line, 0)


@pytest.mark.parametrize(
    "request_line",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/1.1",
        b"GET https://api.example.com/ HTTP/1.1",
        b"GET http://user@api.example.com/ HTTP/1.1\x00",
        b"CONNECT /x HTTP/1.1\x01",
        b"CONNECT api.example.com:99999 HTTP/1.1",
        b"GET http://api.example.com:x/ HTTP/1.1",
        b"GET http://api.example.com\\@evil.example/ HTTP/1.1",
        b"GET http://api.example.com@evil.example/ HTTP/1.1",
        b"\r\n\r\n\r\n",
    ],
)
def test_what_is_no_request_is_said_to_be_none(joined: Joined, site: Site, request_line: bytes) -> None:
    site.dialled.clear()
    said = everything(joined.raw(request_line + b"\r\nHost: api.example.com\r\n\r\n"))
    assert said.startswith(b"HTTP/1.1 40")
    assert site.dialled == []


def test_code_that_goes_before_it_has_asked_leaves_nothing(joined: Joined) -> None:
    for said in (b"", b"\r\n", b"GET http://api.example.com/ HTTP/1.1\r\n"):
        with joined.raw(said) as link:
            link.shutdown(socket.SHUT_WR)
            everything(link)
    assert joined.client().get("http://api.example.com/").text == "home"


def test_a_head_without_end_is_refused(joined: Joined) -> None:
    said = everything(joined.raw(b"GET http://api.example.com/ HTTP/1.1\r\nX: " + b"x" * 100_000))
    assert said.startswith(b"HTTP/1.1 400") or said == b"(reset)"


def test_a_connection_that_is_not_made_in_time_is_not_called_silent(site: Site) -> None:
    def lost(address: str, port: int) -> socket.socket:
        raise TimeoutError("timed out")

    with Joined(replace(site.network("api.example.com"), connect=lost)) as joined:
        answer = joined.client().get("http://api.example.com/")
        said = "api.example.com could not be reached: timed out"
        assert (answer.status_code, answer.reason) == (502, said)
        told = joined.next_told()
        assert (told.outcome, told.reason) == ("failed", said)


def test_what_cannot_be_reached_is_said(site: Site) -> None:
    def no_name(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    with Joined(Network(site.network("api.example.com").allow, resolve=no_name)) as joined:
        answer = joined.client().get("http://api.example.com/")
        assert (answer.status_code, answer.reason) == (
            502,
            "api.example.com could not be reached: Name or service not known",
        )
        assert joined.next_told().outcome == "failed"


def test_a_server_that_breaks_off_is_said(joined: Joined) -> None:
    for page in ("/gone", "/junk"):
        answer = joined.client().get(f"http://api.example.com{page}")
        assert (answer.status_code, answer.reason) == (
            502,
            "api.example.com was reached, and failed: it closed early, or answered with what is not HTTP",
        )
    said = everything(joined.raw(b"GET http://api.example.com/half HTTP/1.0\r\nConnection: close\r\n\r\n"))
    assert said.endswith(b"half") or said == b"(reset)"
    assert [joined.next_told().outcome for _ in range(3)] == ["failed"] * 3


def test_a_reader_that_stops_holds_up_nobody_and_little_memory(joined: Joined) -> None:
    stuck = [joined.raw(b"GET http://api.example.com/endless HTTP/1.0\r\n\r\n") for _ in range(8)]
    for link in stuck:
        link.recv(1)
    for _ in range(3):
        assert joined.client().get("http://api.example.com/big").content == BIG
    assert joined.most_under_way <= 9 * STREAM_WINDOW
    for link in stuck:
        link.close()
    for _ in range(11):
        joined.next_told()


def test_a_server_that_takes_nothing_holds_up_nobody(joined: Joined, site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, socket.socket() as link:
        other = site.network("api.example.com", "deaf.data.example.org")

        def connect(address: str, port: int) -> socket.socket:
            assert other.connect is not None
            if port == 443:
                return socket.create_connection(deaf.getsockname())
            return other.connect(address, port)

        with Joined(Network(other.allow, resolve=other.resolve, connect=connect)) as both:
            link.connect(both.address)
            link.sendall(b"CONNECT deaf.data.example.org:443 HTTP/1.1\r\nHost: d\r\n\r\n")
            assert link.recv(4096).startswith(b"HTTP/1.1 200 ")
            link.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(2000):
                    link.send(b"x" * 65536)
            assert both.client().get("http://api.example.com/big").content == BIG


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"connection_bytes": "1m"}, "it carried more than the 1 MiB that one connection may"),
        (
            {"total_bytes": "1m"},
            "refused: this sandbox has used up the 1 MiB that all its connections may carry",
        ),
        ({"seconds": 0.3}, "it lasted longer than 0.3 seconds"),
    ],
)
def test_a_connection_is_cut_at_a_limit(site: Site, limits: dict[str, Any], reason: str) -> None:
    with Joined(site.network("api.example.com", **limits)) as joined:
        link = joined.raw(b"GET http://api.example.com/endless HTTP/1.0\r\n\r\n")
        everything(link)
        told = joined.next_told()
        assert (told.outcome, told.reason) == ("cut", reason)
        if "total_bytes" in limits:
            assert joined.client().get("http://api.example.com/").status_code == 403


def test_there_are_only_so_many_connections(site: Site) -> None:
    with Joined(site.network("api.example.com", connections=2)) as joined:
        answers = [joined.client().get("http://api.example.com/") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 403]
        assert "has made its 2 connections" in answers[2].reason


def test_one_too_many_at_a_time_is_told_so(joined: Joined) -> None:
    held = [
        joined.raw(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: d\r\n\r\n") for _ in range(MAX_STREAMS)
    ]
    for link in held:
        assert link.recv(4096).startswith(b"HTTP/1.1 200 ")
    said = everything(joined.raw(b""))
    assert f"refused: {MAX_STREAMS} connections are open already".encode() in said
    held.pop().close()
    told = joined.next_told()
    assert told.outcome == "closed"
    while (answer := joined.client().get("http://api.example.com/")).status_code == 503:
        pass  # the other end has not heard of it yet
    assert answer.text == "home"
    for link in held:
        link.close()


def test_what_is_open_at_the_end_is_told(joined: Joined) -> None:
    link = joined.raw(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: d\r\n\r\n")
    link.recv(4096)
    joined.proxy.end_connections()
    assert joined.told.get(timeout=0).host == "api.example.com"
    assert everything(link) in (b"", b"(reset)")
    joined.proxy.close()
    assert "sandbox-network" not in {thread.name for thread in threading.enumerate()}


HEADERS = st.dictionaries(
    st.sampled_from(["stream", "do", "bytes", "op"]),
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.just(2**70)
    | st.sampled_from(["open", "data", "end", "close", "room", "hello"])
    | st.lists(st.integers(), max_size=2),
    max_size=4,
)


@given(st.lists(st.tuples(HEADERS, st.sampled_from([b"", b"GET", b"x" * STREAM_WINDOW])), max_size=40))
def test_frames_that_no_supervisor_sends_do_no_harm(sent: list[tuple[dict[str, Any], bytes]]) -> None:
    said: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
    proxy = Proxy(Network(()), lambda header, body: said.put((header, body)), lambda connection: None)
    try:
        with contextlib.suppress(ProtocolError):
            for header, body in sent:
                proxy.take(header, body)
        proxy.take({"op": "net", "stream": 77, "do": "open"}, b"")
        proxy.take(
            {"op": "net", "stream": 77, "do": "data"},
            b"CONNECT a.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        )
        while True:
            header, body = said.get(timeout=20)
            if header["stream"] == 77 and header["do"] == "data":
                assert b"403" in body
                break
    finally:
        proxy.close()
