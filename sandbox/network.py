"""What a sandbox may reach: the names that are allowed, and the addresses that never are.

Two questions are answered here and nowhere else. *Which host does this text name?* (`host_name`: one form for upper and
lower case, a dot at the end, letters beyond ASCII.) *Which address may a connection go to?* (`refusal_of`: the public
internet and nothing else, whatever a name resolves to.)
"""

from __future__ import annotations

import ipaddress
import itertools
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import idna

from sandbox.types import parse_size

PORTS = frozenset({80, 443})
"""The ports of an entry that names none."""
CONNECT_SECONDS = 5.0
"""For one address: all that are tried take less than the head of a request may."""
SHOWN = 8
"""Entries that a refusal names."""
MAX_ADDRESSES = 4
"""Addresses of one name that are tried."""

Resolve = Callable[[str, int], Sequence[str]]
"""Host name, port → its addresses as text. Raises OSError."""
Connect = Callable[[str, int], socket.socket]
"""Address, port → a connected TCP socket. Raises OSError."""

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_REGISTRIES = frozenset(
    {"ac", "co", "com", "edu", "gob", "gov", "gouv", "go", "ne", "net", "or", "org", "mil"}
)
"""Second labels below which a country's registry gives out names: `*.co.uk` is as wide as `*.com`."""
_FORBIDDEN = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "168.63.129.16/32",  # Azure's services for its own machines: a public address that no other network routes
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
"""IANA's special-purpose registries (RFC 6890 and what was added), and what they leave out."""
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
"""All that is routed in public; IPv4-mapped, NAT64, unique local, link-local and multicast lie outside of it."""


class Forbidden(Exception):
    """Why a connection is not made, as one line for the code that asked for it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A host, or with `wildcard` all hosts below it, at any depth but not itself. `port`: None for 80 and 443."""

    host: str
    wildcard: bool = False
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """`api.example.com`, `*.example.org`, either with `:8443`. Raises ValueError with one line."""
        stripped = text.strip()
        if not stripped:
            raise ValueError("an entry is empty; write host names such as api.example.com, or none")
        if "/" in stripped:
            meant = stripped.split("://")[-1].split("/")[0]
            raise ValueError(f"{stripped!r} is not a host name; write the host alone: {meant}")
        wildcard = stripped.startswith("*.")
        name, colon, port = stripped.removeprefix("*.").partition(":")
        if "*" in name or not name:
            raise ValueError(
                f"{stripped!r} is too wide; a * stands for the names below one domain: *.example.org"
            )
        if colon and not (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
            raise ValueError(f"{stripped!r} names no port; write for example {name}:8443")
        try:
            host = host_name(name)
        except ValueError as error:
            raise ValueError(f"{stripped!r} {error}") from None
        labels = host.split(".")
        if len(labels) < 2:
            what = "is too wide" if wildcard else "is not a full host name"
            raise ValueError(f"{stripped!r} {what}; name a domain in full, such as api.example.com")
        if wildcard and len(labels) == 2 and len(labels[1]) == 2 and labels[0] in _REGISTRIES:
            raise ValueError(
                f"{stripped!r} is too wide: everyone can get a name there; name the domain in full"
            )
        return cls(host, wildcard, int(port) if colon else None)

    def covers(self, host: str, port: int) -> bool:
        """`host` as `host_name` returns it."""
        named = host.endswith(f".{self.host}") if self.wildcard else host == self.host
        return named and (port in PORTS if self.port is None else port == self.port)

    def __str__(self) -> str:
        return f"{'*.' if self.wildcard else ''}{self.host}{f':{self.port}' if self.port else ''}"


@dataclass(frozen=True, slots=True)
class Network:
    """The hosts that code in a sandbox may reach, and how much of them. Sizes are bytes, or strings such as `"64m"`.

    `resolve` and `connect` are the two steps from a name to a socket. What the first returns is checked against the
    addresses that are forbidden, and only what passes is given to the second. Put others in their place to go through a
    proxy of your own, or to test against a server on this machine.
    """

    allow: tuple[Entry, ...]
    connections: int = 10_000
    """Connections that one sandbox may ask for, all told."""
    connection_bytes: int | str = "2g"
    """Bytes of one connection, both ways together."""
    total_bytes: int | str = "8g"
    """Bytes of all connections of one sandbox."""
    seconds: float = 900.0
    """How long one connection may last."""
    resolve: Resolve | None = None
    connect: Connect | None = None

    def __post_init__(self) -> None:
        for name in ("connections", "connection_bytes", "total_bytes"):
            object.__setattr__(self, name, parse_size(getattr(self, name)))

    @classmethod
    def parse(cls, hosts: str | Iterable[str]) -> Self | None:
        """`"none"` → None; `"api.example.com,*.example.org"`, or the entries one by one. Raises ValueError."""
        texts = hosts.split(",") if isinstance(hosts, str) else list(hosts)
        if [text.strip().lower() for text in texts] in (["none"], []):
            return None
        entries = [Entry.parse(text) for text in texts]
        return cls(tuple(dict.fromkeys(entries)))

    def check(self, host: str, port: int) -> str:
        """The host as one name, where it may be reached at that port. Raises Forbidden."""
        if is_address(host):
            raise Forbidden(
                f"{_shown(host)} is refused: connections go to host names, not to addresses; use its name"
            )
        try:
            name = host_name(host)
        except ValueError as error:
            raise Forbidden(f"{_shown(host)} is refused: it {error}") from None
        if not any(entry.covers(name, port) for entry in self.allow):
            elsewhere = any(entry.covers(name, entry.port or 443) for entry in self.allow)
            what = f"port {port} of {name}" if elsewhere else name
            wanted = name if port in PORTS else f"{name}:{port}"
            raise Forbidden(
                f"{what} is refused: the network setting does not allow it; allowed: {self._shown()};"
                f" the person who runs this can add it with --network {wanted}"
            )
        return name

    def dial(self, host: str, port: int) -> socket.socket:
        """Resolves once, and connects to an address that passed. Raises Forbidden, or OSError where nothing answers."""
        addresses = list(dict.fromkeys((self.resolve or resolve)(host, port)))
        open_to_all = [address for address in addresses if refusal_of(address) is None]
        if not open_to_all:
            what = (
                refusal_of(addresses[0]) if addresses else "no address"
            )  # its kind: which one is not theirs to know
            raise Forbidden(
                f"{host} is refused: it resolves to {what}; only hosts of the public internet can be reached,"
                " so have the person hand that data over as a file"
            )
        problem: OSError | None = None
        for address in _alternating(open_to_all)[:MAX_ADDRESSES]:
            try:
                return (self.connect or connect)(address, port)
            except OSError as error:
                problem = error
        assert problem is not None
        raise problem

    def _shown(self) -> str:
        more = len(self.allow) - SHOWN
        return ", ".join(map(str, self.allow[:SHOWN])) + (f" and {more} more" if more > 0 else "")

    def __str__(self) -> str:
        return ", ".join(map(str, self.allow))


def host_name(text: str) -> str:
    """The one form of a host name: lower case, no dot at the end, ASCII (IDNA 2008 with UTS 46). Raises ValueError."""
    name = text.strip().removesuffix(".")
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode()
        except (idna.IDNAError, UnicodeError):
            raise ValueError("is not a host name; write it as it stands in an address bar") from None
    name = name.lower()
    if is_address(name):
        raise ValueError("is an address; write a host name, for only names are allowed")
    labels = name.split(".")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("is not a host name; write for example api.example.com")
    return name


def is_address(host: str) -> bool:
    """Whether a URL with this host goes to an address: browsers and libc read 127.1, 0x7f.1 and 2130706433 as one."""
    last = host.strip().strip("[]").removesuffix(".").rpartition(".")[2]
    return ":" in host or re.fullmatch(r"\d+|0[xX][0-9a-fA-F]*", last) is not None


def refusal_of(address: str) -> str | None:
    """What kind of address this is where no connection may go to it, or None where one may."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "what is not an address"
    allowed = parsed.is_global and not parsed.is_multicast and not parsed.is_reserved
    if isinstance(parsed, ipaddress.IPv6Address):
        allowed = allowed and parsed in _GLOBAL_IPV6 and parsed.scope_id is None
    if allowed and not any(parsed in network for network in _FORBIDDEN if network.version == parsed.version):
        return None
    return f"a {_kind(parsed)} address"


def _kind(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    return "private" if address.is_private else "reserved"


def resolve(host: str, port: int) -> list[str]:
    """The addresses that this machine knows a name by, in the order of preference."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _, _, _, _, address in found]


def _alternating(addresses: Sequence[str]) -> list[str]:
    """One of each family in turn, as they were preferred: where IPv6 leads nowhere, IPv4 comes next (RFC 8305)."""
    families = [[each for each in addresses if (":" in each) is six] for six in (False, True)]
    families.sort(key=lambda family: addresses[0] not in family)
    return [each for pair in itertools.zip_longest(*families) for each in pair if each is not None]


def connect(address: str, port: int) -> socket.socket:
    """A TCP connection to an address, which is no other name of this machine. Raises OSError, Forbidden."""
    link = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
    if link.getpeername()[0] == link.getsockname()[0]:
        link.close()
        raise Forbidden(f"{address} is refused: it is this machine")
    return link


def _shown(host: str) -> str:
    return host.encode("ascii", "replace").decode()[:100]
