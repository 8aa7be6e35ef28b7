"""MCP servers, real ones, over stdio, streamable HTTP and SSE: their tools, results, deaths and ends."""

from __future__ import annotations

import asyncio
import json
import math
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from codeact import events
from codeact.errors import ArgumentError, ToolSourceError
from codeact.tools import policy
from codeact.tools.approval import Approval
from codeact.tools.load import tools_from
from codeact.tools.mcp_config import read_config
from codeact.tools.mcp_servers import McpServers
from codeact.tools.mcp_values import McpError
from codeact.tools.runner import Setup, ToolRunner
from codeact.tools.tool import Tool
from sandbox.errors import HostCallRefused
from tests.unit.test_tools_runner import Bench

SERVER = Path(__file__).parents[1] / "mcp_server.py"
TIME = Path(sys.executable).with_name("mcp-server-time")


def stdio(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"my-test": {"command": sys.executable, "args": [str(SERVER), "stdio"], **more}}}


def call(tools: dict[str, Tool], name: str, /, **values: Any) -> Any:
    made = tools[name]
    return asyncio.run(made.call(**made.check(values)))


def by_name(servers: McpServers) -> dict[str, Tool]:
    return {each.name: each for each in servers}


def children() -> list[int]:
    """Servers that run; a process that has ended, of another test, may not have been waited for yet."""
    running = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    return [each.pid for each in running if str(SERVER) in " ".join(each.cmdline())]


def test_secrets_of_a_server_are_known_by_their_names_and_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FOLDER_OF_ANN", "/srv/ann")
    monkeypatch.setenv("OPTION", "--key=by-option")
    args = [
        "-m",
        "server",
        "/srv/docs",
        "--api-key",
        "key-0123",
        "--token=tok-4567",
        "${FOLDER_OF_ANN}",
        "${OPTION}",
    ]
    env = {"API_TOKEN": "ghp_abcdef", "MODE": "production"}
    [program] = read_config({"mcpServers": {"a": {"command": "server", "args": args, "env": env}}})
    assert set(program.secrets) == {"key-0123", "tok-4567", "/srv/ann", "by-option", "ghp_abcdef"}
    headers = {"Authorization": "Bearer abcdef-99", "Accept": "application/json"}
    [remote] = read_config(
        {"mcpServers": {"a": {"url": "https://a.example/mcp?key=sk-012345", "headers": headers}}}
    )
    assert set(remote.secrets) == {"Bearer abcdef-99", "abcdef-99", "sk-012345"}


def test_whoever_asks_while_servers_start_gets_their_tools() -> None:
    with ThreadPoolExecutor(4) as pool, McpServers(stdio()) as servers:
        servers.close()
        found = list(pool.map(lambda _: [each.path for each in servers], range(4)))
        assert len(found[0]) > 5
        assert found == [found[0]] * 4
        assert len(children()) == 1


def test_a_tools_own_error_shows_no_secret_of_its_server() -> None:
    with McpServers(stdio(env={"API_TOKEN": "ghp_abcdef123456", "MODE": "production"})) as servers:
        recorded: list[events.Event] = []
        calls = ToolRunner(Setup(tuple(servers), Approval("never")), run="r", emit=recorded.append)
        calls.begin(1)
        with pytest.raises(HostCallRefused) as refused:
            calls.call("my_test.fail", {"secret": "ghp_abcdef123456 in production\nand on"})
        assert "no such thing: (secret) in production\nand on" in str(refused.value)
        assert calls.call("my_test.class_", {"name": "API_TOKEN"}) == "ghp_abcdef123456"
    assert "abcdef" not in repr(recorded)


@pytest.fixture
def over_stdio() -> Iterator[dict[str, Tool]]:
    with McpServers(stdio()) as servers:
        yield by_name(servers)
    assert children() == []


def start(transport: str, port: int = 0) -> tuple[subprocess.Popen[bytes], int]:
    if port == 0:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, transport, str(port)], stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            continue
        return process, port
    raise AssertionError("the server did not start")


@pytest.fixture(params=["streamable-http", "sse"])
def over_http(request: pytest.FixtureRequest) -> Iterator[dict[str, Tool]]:
    process, port = start(request.param)
    path = "mcp" if request.param == "streamable-http" else "sse"
    entry = {
        "type": request.param,
        "url": f"http://127.0.0.1:{port}/{path}",
        "headers": {"X-Key": "${TEST_MCP_KEY:-k3y!}"},
    }
    try:
        with McpServers({"mcpServers": {"my-test": entry}}) as servers:
            yield by_name(servers)
    finally:
        process.kill()
        process.wait()


def works(tools: dict[str, Tool]) -> None:
    assert call(tools, "find", name="Ulm") == {"name": "city Ulm", "lat": 48.4}
    assert call(tools, "add", a=1, b=2) == 3
    assert call(tools, "words") == '{"text": "stays text"}'
    with pytest.raises(McpError, match="no such thing: hm") as caught:
        call(tools, "fail", secret="hm")
    assert not policy.counts_as_failure(tools["fail"], caught.value)
    with pytest.raises(
        ArgumentError, match=r"add\(\): a: Input should be a valid integer, got 'x' \(str\); b is missing"
    ):
        tools["add"].check({"a": "x"})


def test_tools_over_stdio(over_stdio: dict[str, Tool]) -> None:
    assert over_stdio["find"].path == "my_test.find"
    assert over_stdio["find"].signature == "find(name: str, kind: Literal['city', 'river'] = 'city') -> Place"
    assert over_stdio["add"].signature == "add(a: int, b: int) -> int"
    assert over_stdio["class_"].signature == "class_(name: str) -> str | None"
    assert over_stdio["find"].description == "Finds a place."
    effects = {name: (each.policy.effects, each.policy.idempotent) for name, each in over_stdio.items()}
    assert effects["find"] == ("read", True)
    assert effects["add"] == ("write", False)
    assert effects["fail"] == ("dangerous", False)
    assert effects["class_"] == ("write", True)
    works(over_stdio)


def test_tools_over_http(over_http: dict[str, Tool]) -> None:
    works(over_http)
    assert call(over_http, "header", name="x-key") == "k3y!"


def test_a_server_that_died_is_started_again(over_stdio: dict[str, Tool]) -> None:
    first = call(over_stdio, "pid")
    with pytest.raises(
        McpError, match="the MCP server my-test broke off; whether the call took effect is not known"
    ):
        call(over_stdio, "die")
    second = call(over_stdio, "pid")
    assert second != first
    psutil.Process(second).kill()
    third = call(over_stdio, "pid")
    assert third not in (first, second)
    assert call(over_stdio, "add", a=1, b=1) == 2


def test_an_http_server_that_was_started_again() -> None:
    process, port = start("streamable-http")
    with McpServers({"mcpServers": {"t": {"url": f"http://127.0.0.1:{port}/mcp"}}}) as servers:
        tools = by_name(servers)
        assert call(tools, "add", a=1, b=2) == 3
        process.kill()
        process.wait()
        with pytest.raises(McpError, match="the MCP server t ") as caught:
            call(tools, "add", a=1, b=2)
        assert policy.counts_as_failure(tools["add"], caught.value)
        process, port = start("streamable-http", port)
        assert call(tools, "add", a=1, b=2) == 3
    process.kill()
    process.wait()


def test_many_calls_at_once(over_stdio: dict[str, Tool]) -> None:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(over_stdio["add"].call(a=i, b=i) for i in range(64)))

    assert asyncio.run(all_of_them()) == [2 * i for i in range(64)]


def test_a_call_that_is_given_up_leaves_the_others(over_stdio: dict[str, Tool]) -> None:
    async def give_up() -> None:
        async with asyncio.timeout(0.2):
            await over_stdio["forever"].call()

    first = call(over_stdio, "pid")
    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert call(over_stdio, "pid") == first


def test_a_call_that_is_given_up_is_cancelled_at_the_server(over_stdio: dict[str, Tool]) -> None:
    async def give_up() -> None:
        async with asyncio.timeout(0.2):
            await over_stdio["forever"].call()

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert call(over_stdio, "was_cancelled") is True


def test_progress_is_told(over_stdio: dict[str, Tool]) -> None:
    bench = Bench()
    bench.runner._tools["count"] = over_stdio["count"]
    assert bench.call("count", to=3) == 3
    seen = [(event.done, event.total, event.text) for event in bench.of(events.ToolProgress)]
    assert seen[0] == (1, 3, "at 1")
    assert seen[-1] == (3, 3, "at 3")


def test_the_end_does_not_wait_for_calls() -> None:
    with McpServers(stdio()) as servers:
        tools = by_name(servers)
        outcomes: list[BaseException] = []

        def wait() -> None:
            try:
                call(tools, "forever")
            except BaseException as error:  # noqa: BLE001 - whatever ends it
                outcomes.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        call(tools, "pid")
    waiting.join(20)
    assert not waiting.is_alive()
    assert len(outcomes) == 1
    assert children() == []


def test_calls_from_several_threads(over_stdio: dict[str, Tool]) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(call(over_stdio, "add", a=i, b=0))) for i in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == list(range(8))


def test_the_host_environment_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_MCP_KEY", "s3cret")
    with McpServers(stdio(env={"GIVEN": "${TEST_MCP_KEY}"})) as servers:
        tools = by_name(servers)
        assert call(tools, "class_", name="GIVEN") == "s3cret"
        assert call(tools, "class_", name="TEST_MCP_KEY") is None
        with pytest.raises(McpError) as caught:
            call(tools, "fail", secret="s3cret")
    assert "s3cret" not in repr((servers, tools, read_config(stdio(env={"GIVEN": "${TEST_MCP_KEY}"}))))
    assert "no such thing" in str(caught.value)


def test_after_the_end(over_stdio: dict[str, Tool]) -> None:
    with McpServers(stdio()) as servers:
        tools = by_name(servers)
    with pytest.raises(McpError, match="the MCP server my-test was closed"):
        call(tools, "add", a=1, b=2)


def test_a_server_from_the_registry(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(
        json.dumps({"mcpServers": {"time": {"command": str(TIME), "args": ["--local-timezone", "UTC"]}}})
    )
    with McpServers(config) as servers:
        tools = {each.path: each for each in tools_from(servers)}
        found = call(
            tools, "time.convert_time", source_timezone="Asia/Tokyo", time="12:00", target_timezone="UTC"
        )
    assert found["target"]["datetime"].endswith("T03:00:00+00:00")
    assert tools["time.convert_time"].returns == "TimeConversionResult"


ABSENT = {"command": "/no/such/program", "args": ["--token", "t0psecret"]}
BROKEN: list[tuple[Any, str]] = [
    ({}, "the configuration has no mcpServers: write"),
    ({"mcpServers": {"a": {}}}, "the configuration: server a needs a command, of a program to start, or a url"),
    ({"mcpServers": {"a": {"type": "http"}}}, "server a needs a url, as a text"),
    ({"mcpServers": {"a": {"command": 5}}}, "server a needs a command, as a text"),
    ({"mcpServers": {"a": {"command": "x", "timeout": math.nan}}}, "timeout of .* server a is nan; it takes seconds"),
    ({"mcpServers": {"a": {"url": "ftp://x"}}}, "server a: its url must start with http:// or https://"),
    ({"mcpServers": {"a": {"type": "pigeon", "url": "http://x"}}}, "server a: type is 'pigeon'; it must be stdio, http or sse"),
    ({"mcpServers": {"a": {"command": "x", "env": {"K": "${NOT_SET_ANYWHERE}"}}}}, "the environment has no NOT_SET_ANYWHERE"),
    ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "server a: args must be a list of texts"),
    ({"mcpServers": {"a": ABSENT}}, "the MCP server a does not start: FileNotFoundError"),
    ({"mcpServers": {"a": {"command": sys.executable, "args": ["-c", "raise SystemExit('no key t0psecret')"], "env": {"K": "t0psecret"}}}},
     r"the MCP server a does not start: .*; it said: no key \*\*\*"),
    ({"mcpServers": {"a": {"command": sys.executable, "args": ["-c", "print('Welcome t0psecret')", "t0psecret"]}}},
     r"does not start: .*; on its standard output came what is no message of MCP: Welcome \*\*\*"),
    ({"mcpServers": {"a": {"url": "http://t0psecret@127.0.0.1:9/mcp"}}}, "the MCP server a cannot be reached"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message"), BROKEN, ids=lambda value: str(value)[:60])
def test_what_cannot_be_used_is_one_line(config: Any, message: str) -> None:
    with pytest.raises(ToolSourceError, match=message) as caught, McpServers(config):
        pass
    assert "t0psecret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("waits", ["mcp_connection", "mcp_servers"])
def test_a_server_that_says_nothing_is_ended(waits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"codeact.tools.{waits}.START_SECONDS", 0.5)
    silent = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()", str(SERVER)]}
    with pytest.raises(ToolSourceError, match=r"silent did not .* within 0\.5 s"):
        McpServers({"mcpServers": {"silent": silent}}).start()
    assert children() == []


def test_one_server_that_fails_ends_the_others() -> None:
    both = {"mcpServers": {**stdio()["mcpServers"], "a": ABSENT}}
    with pytest.raises(ToolSourceError), McpServers(both):
        pass
    assert children() == []


def test_disabled_servers_are_not_started() -> None:
    with McpServers({"mcpServers": {"a": {**ABSENT, "disabled": True}}}) as servers:
        assert list(servers) == []


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_files_that_are_none(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "mcp.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ToolSourceError, match=re.escape(str(path))):
        McpServers(path)


def test_a_program_that_forgets_to_close_ends() -> None:
    program = (
        f"from codeact.tools.mcp_servers import McpServers\ns = McpServers({stdio()!r})\nprint(len(list(s)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=True, text=True
    )
    assert (done.stdout, done.stderr) == ("12\n", "")


CHATTY = """
print("Welcome!", flush=True)
from mcp.server.mcpserver import MCPServer
server = MCPServer("chatty")
@server.tool()
def add(a: int, b: int) -> int:
    print("adding", flush=True)
    return a + b
server.run()
"""
ASK = """
import asyncio, sys
from codeact.tools.mcp_servers import McpServers
with McpServers({"mcpServers": {"a": {"command": sys.executable, "args": ["-c", sys.argv[1]]}}}) as servers:
    for tool in servers:
        print(asyncio.run(tool.call(**tool.check({"a": 1, "b": 2}))))
"""


def test_a_server_that_also_prints_is_served_and_heard_by_nobody() -> None:
    """In a process of its own, where nobody set up logging."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, CHATTY], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
