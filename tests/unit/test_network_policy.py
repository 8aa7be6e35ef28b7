"""Which hosts an entry means, and which addresses no connection may go to: tables, and what holds for all values."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Network
from sandbox.network import CONNECT_SECONDS, Entry, Forbidden, connect, host_name, is_address, refusal_of
from sandbox.network_http import HEAD_SECONDS


def network(*allow: str, **settings: object) -> Network:
    return Network(tuple(map(Entry.parse, allow)), **settings)  # type: ignore[arg-type]


def allowed(setting: Network, host: str, port: int) -> bool:
    try:
        setting.check(host, port)
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "host", "port", "right"),
    [
        ("api.example.com", "api.example.com", 443, True),
        ("api.example.com", "API.Example.COM.", 80, True),
        ("API.EXAMPLE.COM.", "api.example.com", 443, True),
        ("api.example.com", "api.example.com", 8443, False),
        ("api.example.com", "api.example.com", 22, False),
        ("api.example.com:8443", "api.example.com", 8443, True),
        ("api.example.com:8443", "api.example.com", 443, False),
        ("api.example.com", "example.com", 443, False),
        ("api.example.com", "x.api.example.com", 443, False),
        ("api.example.com", "api.example.com.evil.net", 443, False),
        ("api.example.com", "evilapi.example.com", 443, False),
        ("*.example.org", "a.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("*.example.org", ".example.org", 443, False),
        ("*.example.org:8080", "a.example.org", 8080, True),
        ("*.example.org:8080", "a.example.org", 80, False),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
        ("xn--bcher-kva.example", "BÜCHER.example", 443, True),
        ("api.example.com", "api。example。com", 443, True),  # the ideographic stop is a dot in UTS 46
        ("api.example.com", "аpi.example.com", 443, False),  # the first letter is Cyrillic
        ("api.example.com", "api.example.com\x00.evil.net", 443, False),
        ("api.example.com", "user@api.example.com", 443, False),
    ],
)
def test_an_entry_covers(entry: str, host: str, port: int, right: bool) -> None:
    assert allowed(network(entry), host, port) is right


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "an entry is empty"),
        ("a.example.com,,b.example.com", "an entry is empty"),
        ("*", "'*' is too wide"),
        ("*.", "'*.' is too wide"),
        ("*.com", "'*.com' is too wide"),
        ("*.co.uk", "'*.co.uk' is too wide"),
        ("**.example.com", "too wide"),
        ("a.*.example.com", "too wide"),
        ("localhost", "not a full host name"),
        ("10.0.0.1", "is an address"),
        ("127.1", "is an address"),
        ("0x7f000001", "is an address"),
        ("[::1]", "names no port"),
        ("https://api.example.com/v1", "write the host alone: api.example.com"),
        ("api.example.com:0", "names no port"),
        ("api.example.com:65536", "names no port"),
        ("api.example.com:٤٤٣", "names no port"),
        ("a b.example.com", "is not a host name"),
        ("-a.example.com", "is not a host name"),
        ("a..example.com", "is not a host name"),
        ("none,api.example.com", "'none' is not a full host name"),
    ],
)
def test_what_is_no_entry_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        Network.parse(text)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["none", " None ", []])
def test_none_is_no_network(text: str | list[str]) -> None:
    assert Network.parse(text) is None


def test_entries_are_kept_once_and_shown_in_their_one_form() -> None:
    assert (
        str(Network.parse("API.example.com, *.Example.org:8443,api.example.com."))
        == "api.example.com, *.example.org:8443"
    )
    assert str(Network.parse(["api.example.com", "b.example.com"])) == "api.example.com, b.example.com"


@pytest.mark.parametrize(
    ("host", "port", "line"),
    [
        (
            "evil.example",
            443,
            "evil.example is refused: the network setting does not allow it; allowed: api.example.com, *.example.org;"
            " the person who runs this can add it with --network evil.example",
        ),
        (
            "api.example.com",
            22,
            "port 22 of api.example.com is refused: the network setting does not allow it; allowed: api.example.com,"
            " *.example.org; the person who runs this can add it with --network api.example.com:22",
        ),
        ("8.8.8.8", 443, "8.8.8.8 is refused: connections go to host names, not to addresses; use its name"),
        ("[::1]", 80, "[::1] is refused: connections go to host names, not to addresses; use its name"),
        (
            "2130706433",
            80,
            "2130706433 is refused: connections go to host names, not to addresses; use its name",
        ),
        ("a\r\nb", 80, "a\r\nb is refused: it is not a host name; write for example api.example.com"),
    ],
)
def test_a_refusal_names_host_reason_and_mend(host: str, port: int, line: str) -> None:
    with pytest.raises(Forbidden) as caught:
        network("api.example.com", "*.example.org").check(host, port)
    assert str(caught.value) == line


def test_a_long_list_is_not_told_in_full() -> None:
    with pytest.raises(Forbidden, match=r"h7\.example\.com and 92 more; the person who"):
        network(*(f"h{n}.example.com" for n in range(100))).check("evil.example", 443)


FORBIDDEN = [
    "0.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "2606:4700::1111%eth0",
    "not-an-address",
    "1.2.3",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.3.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450::1",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_no_connection_goes_to(address: str) -> None:
    assert refusal_of(address) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_connections_go_to(address: str) -> None:
    assert refusal_of(address) is None


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_any_ipv6_disguise_is_refused(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for prefix in (0, 0xFFFF << 32, 0x64FF9B << 96, (0x64FF9B0001 << 80), (0x2002 << 112) | (number << 80)):
        assert refusal_of(str(ipaddress.IPv6Address(prefix | number))) is not None


@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    if special or address.is_reserved or address.is_unspecified:
        assert refusal_of(str(address)) is not None


@given(st.text(max_size=40))
def test_a_host_has_one_form_and_an_address_has_none(text: str) -> None:
    try:
        name = host_name(text)
    except ValueError:
        return
    assert host_name(name) == host_name(name.upper()) == host_name(f"{name}.") == name
    assert name.isascii()
    assert not is_address(name)


@given(st.ip_addresses(v=4))
def test_an_address_is_known_however_it_is_written(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for text in (
        str(address),
        str(number),
        hex(number),
        f"{number >> 24}.{number & 0xFFFFFF}",
        f"{address}.",
    ):
        assert is_address(text)
        assert not allowed(network("*.example.org"), text, 80)


def test_names_of_this_machine_lead_nowhere() -> None:
    """With the real resolver: `localhost.` has only loopback addresses."""
    with pytest.raises(Forbidden, match="it resolves to a loopback address"):
        network("a.example.com").dial("localhost", 80)


def test_a_name_is_resolved_once_and_only_what_passed_is_connected_to() -> None:
    answers = iter([["10.0.0.1", "8.8.8.8", "8.8.8.8", "::1", "1.1.1.1"], ["127.0.0.1"]])
    tried: list[tuple[str, int]] = []

    def refuse(address: str, port: int) -> socket.socket:
        tried.append((address, port))
        raise ConnectionRefusedError("refused")

    with pytest.raises(ConnectionRefusedError):
        network("a.example.com", resolve=lambda host, port: next(answers), connect=refuse).dial(
            "a.example.com", 443
        )
    assert tried == [("8.8.8.8", 443), ("1.1.1.1", 443)]
    assert next(answers) == ["127.0.0.1"]


SIX = ["2600:9000::1", "2600:9000::2", "2600:9000::3", "2600:9000::4", "2600:9000::5"]


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([*SIX, "8.8.8.8"], [SIX[0], "8.8.8.8", SIX[1], SIX[2]]),
        (["8.8.8.8", *SIX], ["8.8.8.8", SIX[0], SIX[1], SIX[2]]),
        (SIX, SIX[:4]),
        ([SIX[0], "8.8.8.8", "1.1.1.1"], [SIX[0], "8.8.8.8", "1.1.1.1"]),
    ],
)
def test_the_families_of_addresses_are_tried_in_turn(addresses: list[str], expected: list[str]) -> None:
    tried: list[str] = []

    def connect_to(address: str, port: int) -> socket.socket:
        tried.append(address)
        raise TimeoutError("timed out")

    with pytest.raises(TimeoutError):
        network("a.example.com", resolve=lambda host, port: addresses, connect=connect_to).dial(
            "a.example.com", 443
        )
    assert tried == expected
    assert len(tried) * CONNECT_SECONDS < HEAD_SECONDS


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["169.254.169.254", "fd00:ec2::254"], ["::ffff:8.8.8.8"], []]
)
def test_a_name_with_no_public_address_is_refused_and_its_address_is_not_told(addresses: list[str]) -> None:
    with pytest.raises(Forbidden) as caught:
        network("a.example.com", resolve=lambda host, port: addresses).dial("a.example.com", 443)
    assert "only hosts of the public internet can be reached" in str(caught.value)
    assert not any(address in str(caught.value) for address in addresses)


def test_another_name_of_this_machine_is_refused_when_it_is_connected_to() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(Forbidden, match="it is this machine"),
    ):
        connect("127.0.0.1", server.getsockname()[1])
