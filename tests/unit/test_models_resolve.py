"""Names to models, and where things live."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeact import home
from codeact.errors import CodeActError, ModelAuthError, ModelNotFound, UsageError
from codeact.models import resolve
from codeact.types import Message, Reply, Request
from tests.gateway import Gateway, fails, says

ASK = Request([Message("user", "hi")])


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())


def test_an_endpoint_of_the_environment(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", gateway.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    gateway.add(says("hello"))
    *_, reply = resolve("llama3.1:8b")(ASK)
    assert isinstance(reply, Reply)
    assert reply.text == "hello"
    assert gateway.requests[0].body["model"] == "llama3.1:8b"
    assert gateway.requests[0].headers["authorization"] == "Bearer sk-from-the-environment"


def test_what_is_passed_beats_the_environment(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://nowhere.invalid/v1")
    gateway.add(says("hello"))
    *_, reply = resolve("m", base_url=gateway.url, api_key="sk-passed")(ASK)
    assert isinstance(reply, Reply)
    assert gateway.requests[0].headers["authorization"] == "Bearer sk-passed"


def test_an_empty_key_is_none(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    gateway.add(fails(401))
    with pytest.raises(ModelAuthError, match=r"asks for a key \(401\), and got none: set OPENAI_API_KEY"):
        list(resolve("m", base_url=gateway.url, api_key="")(ASK))
    assert "sk-" not in gateway.requests[0].headers["authorization"]


def test_a_script(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text('{"content": "played"}\n')
    *_, reply = resolve(f"scripted:{file}")(ASK)
    assert isinstance(reply, Reply)
    assert reply.text == "played"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", [None, ""])
def test_no_name_and_no_endpoint_is_local_and_says_so(name: str | None) -> None:
    said: list[str] = []
    model = resolve(name, on_progress=said.append)
    assert (model.name, model.sees) == ("local:qwen2.5-coder-1.5b", False)
    assert len(said) == 1
    assert "--model local" in said[0]


@pytest.mark.usefixtures("engine")
def test_local_models_by_name() -> None:
    assert resolve("local:qwen2.5-coder-0.5b").name == "local:qwen2.5-coder-0.5b"
    assert resolve("local").name == "local:qwen2.5-coder-1.5b"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("anthropic:claude", ModelNotFound, "not supported yet"),
        ("local:gpt-9", ModelNotFound, "choose one of qwen2.5-coder-1.5b, qwen2.5-coder-0.5b"),
        ("gpt-5-mini", ModelAuthError, r"no key for api\.openai\.com: set OPENAI_API_KEY"),
        ("scripted:none.jsonl", UsageError, "none.jsonl"),
        ("replay:none", UsageError, "no run 'none'"),
    ],
)
def test_names_that_name_nothing(name: str, kind: type[CodeActError], words: str) -> None:
    with pytest.raises(kind, match=words):
        resolve(name)


def test_an_endpoint_that_lists_no_models_is_asked_for_the_default() -> None:
    said: list[str] = []
    model = resolve(None, base_url="http://localhost:1/v1", on_progress=said.append)
    assert model.name == "gpt-5-mini"
    assert said == ["no model named: using gpt-5-mini of localhost:1 (--model)"]


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("qwen2.5-coder-1.5b", True),
        ("qwen2.5-coder:3b", True),
        ("SmolLM2-360M-Instruct", True),
        ("llama-3.1-8b", False),
        ("mixtral-8x3b", False),
        ("mixtral-8x22b", False),
        ("tiny-2x1.5b", True),
        ("qwen3-30b-a3b", False),
        ("Qwen3-Coder-30B-A3B-Instruct", False),
        ("phi-3.8b", True),
        ("gemma-3-4b-it", False),
        ("qwen-72b", False),
        ("gpt-5-mini", False),
    ],
)
def test_which_models_are_small(name: str, small: bool) -> None:
    assert resolve(name, base_url="http://localhost:1/v1").small is small


@pytest.mark.parametrize(
    ("platform", "words"), [("linux", r"codeact\[local\]"), ("darwin", "Linux, not on darwin")]
)
def test_a_missing_engine(monkeypatch: pytest.MonkeyPatch, platform: str, words: str) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.platform", platform)
    with pytest.raises(ModelNotFound, match=words):
        resolve("local")


def test_where_things_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CODEACT_HOME", str(tmp_path / "h"))
    assert (home.home(), home.runs_dir(), home.models_dir()) == (
        tmp_path / "h",
        tmp_path / "h" / "runs",
        tmp_path / "h" / "models",
    )
    assert not (tmp_path / "h").exists()
    monkeypatch.delenv("CODEACT_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert home.home() == tmp_path / "codeact"
