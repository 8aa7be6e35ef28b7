"""The examples of tools, as a user would have them."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from codeact import events
from codeact.agent import Agent
from codeact.models import ScriptedModel
from tests.command import ROOT, codeact, environment
from tests.integration.test_agent import block

pytestmark = pytest.mark.docker


def test_a_database_behind_a_reading_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orders (id TEXT, city TEXT, total REAL)")
        database.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)", [("1", "Oslo", 2.5), ("2", "Lima", 4), ("3", "Oslo", 1)]
        )
    monkeypatch.setenv("SHOP_DB", str(path))
    before = path.read_bytes()
    code = (
        "from tools.db import query, tables\nsaid = []\n"
        "for sql in ('DELETE FROM orders', 'ATTACH \"/tmp/x.db\" AS x', 'PRAGMA query_only = off', 'DROP TABLE orders',\n"
        "            'SELECT load_extension(\"x\")', 'SELECT 1; SELECT 2', 'SELEC'):\n"
        "    try: query(sql); said.append('ran')\n    except Exception as error: said.append(type(error).__name__)\n"
        "rows = query('SELECT city, sum(total) AS total FROM orders WHERE total > ? GROUP BY city ORDER BY city', [0])\n"
        "final_answer([list(tables()), [[row['city'], row['total']] for row in rows], sorted(set(said))])"
    )
    agent = Agent(
        ScriptedModel([block(code)]),
        image="minimal",
        runs=tmp_path / "runs",
        tools=str(ROOT / "examples" / "database.py"),
        approve="never",
    )
    tables, rows, said = agent.run("Sum up.").answer
    assert tables == ["orders"]
    assert rows == [["Lima", 4.0], ["Oslo", 3.5]]
    assert "ran" not in said
    assert path.read_bytes() == before
    assert not Path("/tmp/x.db").exists()


class Weather(BaseHTTPRequestHandler):
    """Answers when eight have asked: whoever asks one after the other waits for ever. The first answer is a failure."""

    together = threading.Barrier(8)
    failed = threading.Event()

    def do_GET(self) -> None:
        city = parse_qs(urlsplit(self.path).query)["city"][0]
        status, body = 200, {"celsius": len(city)}
        if self.headers["Authorization"] != "Bearer key-of-the-host":
            status, body = 401, {}
        elif city == "Atlantis":
            status, body = 404, {}
        elif city == "Oslo" and not self.failed.is_set():
            self.failed.set()
            status, body = 503, {}
        else:
            self.together.wait(20)
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_slow_api_asked_for_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Weather)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WEATHER_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("WEATHER_KEY", "key-of-the-host")
    cities = ["Oslo", "Lima", "Rome", "Bern", "Riga", "Quito", "Cairo", "Tunis"]
    code = (
        f"from tools import temperature\ncities = {cities}\n"
        "found = temperature.map(cities, concurrency=8)\n"
        "try: temperature('Atlantis')\nexcept LookupError as error: missing = str(error)\n"
        "final_answer([list(found), missing])"
    )
    agent = Agent(
        ScriptedModel([block(code)]),
        image="minimal",
        runs=tmp_path / "runs",
        tools=str(ROOT / "examples" / "weather.py"),
    )
    try:
        result = agent.run("How warm is it?")
    finally:
        server.shutdown()
        server.server_close()
    assert result.answer == [[len(city) for city in cities], "no weather is known of Atlantis"]
    attempts = {event.attempts for event in result.events if isinstance(event, events.ToolReturned)}
    assert attempts == {1, 2}
    journal = (tmp_path / "runs" / result.run / "run.jsonl").read_text()
    assert "key-of-the-host" not in journal


def test_an_mcp_server_of_the_registry(tmp_path: Path) -> None:
    code = (
        "from tools.time import convert_time\n"
        "hours = convert_time.map(['Asia/Tokyo', 'Asia/Kolkata'], time='12:00', target_timezone='UTC')\n"
        "try: convert_time('Nowhere', '12:00', 'UTC')\n"
        "except Exception as error: wrong = type(error).__name__\n"
        "final_answer([[each.time_difference for each in hours], wrong])"
    )
    (tmp_path / "model.jsonl").write_text(json.dumps({"content": block(code)}))
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = codeact(
        *("solve", "Compare the clocks.", "--mcp", str(ROOT / "examples" / "mcp.json")),
        *("--image", "minimal", "--model", "scripted:model.jsonl"),
        folder=tmp_path,
        env=environment(tmp_path, PATH=programs),
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == [["-9.0h", "-5.5h"], "McpError"]
