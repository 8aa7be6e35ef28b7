"""The network by allow-list, from code in a sandbox to servers of the test, through the bridge and the proxy."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sandbox import Connection, Sandbox
from tests.contract.conftest import Make, fine, next_cell_works, notices, value
from tests.sites import PUBLIC, TLS, Site
from tests.wheels import index, wheel

ALPHA = wheel("alpha", "1.2", requires=["beta>=2"])
PAGES = {"/": b"home", "/big": bytes(range(256)) * 40_000, **index(ALPHA, wheel("beta", "2.0"))}
HOSTS = ("api.example.com", "*.data.example.org", "pypi.example.com")
GET = "import urllib.request\ndef get(url): return urllib.request.urlopen(url).read()\n"
INDEX = "--index-url https://pypi.example.com/simple --cert ca.pem"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(PAGES) as running:
        yield running


@pytest.fixture(scope="module")
def secure() -> Iterator[Site]:
    with Site(PAGES, tls=True) as running:
        yield running


@pytest.fixture(scope="module")
def told() -> queue.SimpleQueue[Connection]:
    return queue.SimpleQueue()


@pytest.fixture(scope="module")
def netbox(site: Site, settings: Mapping[str, Any], told: queue.SimpleQueue[Connection]) -> Iterator[Sandbox]:
    with Sandbox("minimal", network=site.network(*HOSTS), on_connection=told.put, **settings) as sandbox:
        yield sandbox


def drained(told: queue.SimpleQueue[Connection]) -> None:
    while not told.empty():
        told.get()


def test_a_host_that_is_allowed_answers_and_is_told(
    netbox: Sandbox, site: Site, told: queue.SimpleQueue[Connection]
) -> None:
    drained(told)
    assert value(netbox, f"{GET}value = get('http://api.example.com/').decode()") == "home"
    assert site.dialled[-1] == (PUBLIC, 80)
    connection = told.get(timeout=20)
    assert (connection.host, connection.port, connection.outcome) == ("api.example.com", 80, "closed")
    assert connection.sent > 0
    assert connection.received > 4


@pytest.mark.parametrize(
    "url", ["http://evil.example/", "https://evil.example/x", "http://data.example.org/"]
)
def test_a_host_that_is_not_is_refused_at_once(
    netbox: Sandbox, url: str, told: queue.SimpleQueue[Connection]
) -> None:
    drained(told)
    cell = netbox.run(f"{GET}get({url!r})")
    assert cell.error is not None
    assert "403" in cell.error.message
    assert "the network setting does not allow it; allowed: api.example.com," in cell.error.message
    assert told.get(timeout=20).outcome == "refused"
    next_cell_works(netbox)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.5",
        "169.254.169.254",
        "::1",
        "fd00:ec2::254",
        "::ffff:93.184.215.14",
        "64:ff9b::5db8:d70e",
    ],
)
def test_a_name_of_an_inner_address_is_refused(make: Make, site: Site, address: str) -> None:
    site.dialled.clear()
    box = make(network=site.network("api.example.com", addresses=[address]))
    cell = box.run(f"{GET}get('http://api.example.com/')")
    assert cell.error is not None
    assert "only hosts of the public internet can be reached" in cell.error.message
    assert site.dialled == []


def test_there_is_no_way_around_the_proxy(netbox: Sandbox) -> None:
    code = (
        "import errno, socket\nvalue = []\n"
        f"for address in ('{PUBLIC}', '169.254.169.254', '10.0.0.1'):\n"
        "    try: socket.create_connection((address, 80), timeout=5)\n"
        "    except OSError as error: value.append(errno.errorcode.get(error.errno, str(error)))\n"
        "try: socket.getaddrinfo('api.example.com', 80)\n"
        "except OSError: value.append('no name')\n"
        "try: socket.create_server(('127.0.0.1', 3128))\n"
        "except OSError as error: value.append(errno.errorcode[error.errno])\n"
        "try: socket.create_connection(('127.0.0.1', 3129), timeout=5)\n"
        "except OSError as error: value.append(errno.errorcode[error.errno])"
    )
    assert value(netbox, code) == [*["ENETUNREACH"] * 3, "no name", "EADDRINUSE", "ECONNREFUSED"]


def test_without_the_setting_there_is_no_proxy(box: Sandbox) -> None:
    code = (
        "import errno, os, socket\nvalue = [name for name in os.environ if 'proxy' in name.lower()]\n"
        "try: socket.create_connection(('127.0.0.1', 3128), timeout=5)\n"
        "except OSError as error: value.append(errno.errorcode[error.errno])"
    )
    assert value(box, code) == ["ECONNREFUSED"]


def test_a_child_process_has_the_network_too(netbox: Sandbox) -> None:
    code = "import subprocess, sys\n" + (
        "value = subprocess.run([sys.executable, '-c', "
        "'import urllib.request as u; print(u.urlopen(\"http://a.data.example.org/\").read())'],"
        " capture_output=True, text=True).stdout"
    )
    assert value(netbox, code) == "b'home'\n"


def test_many_at_once_with_cells_outputs_and_calls(make: Make, site: Site) -> None:
    box = make(network=site.network(*HOSTS), functions={"echo": lambda argument: argument})
    code = (
        f"{GET}from concurrent.futures import ThreadPoolExecutor\nfrom sandbox_guest.host import call\n"
        "with ThreadPoolExecutor(20) as pool:\n"
        "    sizes = [pool.submit(lambda: len(get('http://api.example.com/big'))) for _ in range(20)]\n"
        "    echoes = [call('echo', n) for n in range(50)]\n"
        "    for n in range(1000): print(n)\n"
        "assert echoes == list(range(50))\nassert {s.result() for s in sizes} == {10_240_000}"
    )
    cell = fine(box.run(code, timeout=60))
    assert cell.stdout == "".join(f"{n}\n" for n in range(1000))


def test_a_connection_that_is_never_read_does_not_hold_up_cells(make: Make, site: Site) -> None:
    box = make(network=site.network(*HOSTS))
    fine(
        box.run(
            "import socket\nheld = []\n"
            "for _ in range(40):\n"
            "    link = socket.create_connection(('127.0.0.1', 3128))\n"
            "    link.sendall(b'GET http://api.example.com/big HTTP/1.0\\r\\n\\r\\n')\n"
            "    held.append(link)\n"
            "print(len([link.recv(1) for link in held]))"
        )
    )
    next_cell_works(box)
    assert value(box, f"{GET}value = len(get('http://api.example.com/big'))") == 10_240_000


def test_a_flood_of_connections_leaves_the_sandbox_well(netbox: Sandbox) -> None:
    code = (
        "import socket\nlinks = []\n"
        "for _ in range(400):\n"
        "    link = socket.create_connection(('127.0.0.1', 3128), timeout=20)\n"
        "    links.append(link)\n"
        "answers = [link.recv(200) for link in links[64:]]\n"
        "for link in links: link.close()\n"
        "value = all(b'connections are open already' in answer for answer in answers)"
    )
    assert value(netbox, code, timeout=60) is True
    next_cell_works(netbox)


def test_the_network_is_there_after_the_kernel_died(netbox: Sandbox) -> None:
    assert netbox.run("import os\nos._exit(3)").status == "died"
    assert value(netbox, f"{GET}value = get('http://api.example.com/').decode()") == "home"


def test_a_connection_that_is_cut_is_said_in_the_cell(make: Make, site: Site) -> None:
    box = make(network=site.network(*HOSTS, connection_bytes="1m"))
    cell = box.run(f"{GET}get('http://api.example.com/big')")
    assert cell.status == "error"
    assert "the connection to api.example.com was ended: it carried more than the 1 MiB" in notices(cell)


def test_an_interrupt_ends_a_wait_for_the_network(make: Make) -> None:
    entered, release = threading.Event(), threading.Event()

    def hold(handler: Any) -> None:
        entered.set()
        release.wait(30)

    with Site({"/hold": hold}) as slow:
        box = make(network=slow.network(*HOSTS))

        def interrupt() -> None:
            assert entered.wait(20)
            box.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        assert box.run(f"{GET}get('http://api.example.com/hold')").status == "interrupted"
        thread.join()
        release.set()
        next_cell_works(box)


def test_https_goes_through_unopened_and_pip_installs_over_it(make: Make, secure: Site) -> None:
    connections: queue.SimpleQueue[Connection] = queue.SimpleQueue()
    box = make(network=secure.network(*HOSTS), on_connection=connections.put, timeout=60.0)
    box.put(TLS / "ca.pem", "ca.pem")
    cell = box.run(f"{GET}get('https://api.example.com/')")
    assert cell.error is not None
    assert (
        "CERTIFICATE_VERIFY_FAILED" in cell.error.message
    )  # the server's own certificate, and nobody else's
    cell = fine(box.run(f"%pip install alpha {INDEX}"))
    assert "Successfully installed alpha-1.2 beta-2.0" in cell.stdout
    assert value(box, "import alpha, beta\nvalue = [alpha.VERSION, beta.VERSION]") == ["1.2", "2.0"]
    assert secure.dialled[-1] == (PUBLIC, 443)
    assert connections.get(timeout=20).host == "api.example.com"
    code = "import subprocess, sys\nvalue = subprocess.run([sys.executable, '-c', 'import alpha; print(alpha.VERSION)'], capture_output=True, text=True).stdout"
    assert value(box, code) == "1.2\n"
    assert "Requirement already satisfied: alpha" in box.run(f"!pip install alpha {INDEX}").stdout
    box.restart()
    assert value(box, "import alpha\nvalue = alpha.VERSION") == "1.2"


def test_pip_shows_that_a_host_is_refused(netbox: Sandbox) -> None:
    cell = netbox.run("%pip install alpha --index-url https://other.example/simple", timeout=60)
    said = cell.stdout + cell.stderr
    assert "other.example is refused: the network setting does not allow it" in said
    assert "No matching distribution found for alpha" in said


def test_no_package_takes_the_place_of_one_of_the_image(make: Make) -> None:
    pages = index(wheel("traitlets", "99.0"), wheel("gamma", "1.0"))
    with Site(pages) as other:
        box = make(network=other.network(*HOSTS), timeout=60.0)
        options = "--index-url http://pypi.example.com/simple --trusted-host pypi.example.com"
        fine(box.run(f"%pip install gamma {options}"))
        refused = box.run(f"%pip install traitlets==99.0 {options}")
        assert "The user requested (constraint) traitlets==" in refused.stdout + refused.stderr
        assert "alpha" not in box.run("!pip list").stdout
        box.restart()
        assert value(box, "import traitlets\nvalue = hasattr(traitlets, 'HasTraits')") is True
