"""The embedded model for real: fetched, served, asked, killed, served again, ended. Run with --live."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from codeact.errors import ModelAuthError
from codeact.home import models_dir
from codeact.models import embedded, resolve
from codeact.models.catalogue import DEFAULT
from codeact.models.openai import OpenAIModel
from codeact.models.server import State, read_state
from codeact.types import Message, Reply, Request

pytestmark = pytest.mark.live
ASK = Request([Message("user", "Write a Python one-liner that prints 2+2")], max_tokens=60)


def running() -> State:
    state = read_state(models_dir() / f"server-{DEFAULT}.json")
    assert state is not None
    assert state.alive
    return state


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with the user's weights, so that a server which serves someone else is left alone."""
    weights = embedded.fetch(DEFAULT, print)
    monkeypatch.setenv("CODEACT_HOME", str(tmp_path))
    models_dir().mkdir(parents=True)
    (models_dir() / weights.name).symlink_to(weights)


@pytest.mark.usefixtures("own_home")
def test_a_local_model_from_nothing_to_stopped() -> None:
    pytest.importorskip("xllamacpp")
    model = resolve("local", on_progress=print)
    try:
        *_, reply = model(ASK)
        assert isinstance(reply, Reply)
        assert reply.text
        assert not reply.usage.estimated
        first = running()
        with pytest.raises(ModelAuthError):
            list(OpenAIModel(DEFAULT, base_url=f"{first.url}/v1", api_key="wrong", proxies=False)(ASK))

        os.kill(first.pid, signal.SIGKILL)
        *_, reply = model(ASK)
        assert isinstance(reply, Reply)
        assert running().pid != first.pid

        addresses: set[tuple[str, str]] = set()
        threads = [
            threading.Thread(target=lambda: addresses.add(embedded.ensure_server(DEFAULT, print)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert addresses == {(f"{running().url}/v1", running().key)}
    finally:
        assert embedded.stop_server(DEFAULT) == [DEFAULT]
