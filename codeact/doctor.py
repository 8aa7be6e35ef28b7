"""Checks of everything that a run needs, each with what to do where it fails."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from typing import cast

from codeact import models
from codeact.config import Settings
from codeact.errors import CodeActError
from codeact.models import embedded
from codeact.pump import Late, Pump
from codeact.types import Message, Model, Reply, Request, Retrying
from sandbox.checks import Check, check_sandbox
from sandbox.types import BackendName

OLDEST_PYTHON = (3, 11)
MODEL_SECONDS = 30.0
"""How long a model may take to say anything at all."""


def examine(settings: Settings) -> Iterator[Check]:
    """All checks, as they are made. Areas are python, engine, image, sandbox, model."""
    version = platform.python_version()
    yield Check(
        "python", "version", sys.version_info >= OLDEST_PYTHON, version, "install Python 3.11 or newer"
    )
    yield from check_sandbox(settings.image, settings.runtime, cast(BackendName, settings.sandbox))
    yield check_model(settings)


def check_model(settings: Settings) -> Check:
    """Whether the configured model answers one short question; a local one is not loaded for that."""
    told: list[str] = []
    try:
        model = models.resolve(
            settings.model[0] if settings.model else None,
            base_url=settings.base_url,
            api_key=settings.api_key,
            on_progress=told.append,
        )
    except CodeActError as error:
        return _failed("configured", str(error))
    if model.name.startswith("local:"):
        return _local(model.name)
    if model.name.startswith(("scripted:", "replay:")):
        return Check("model", model.name, True, "plays what is written, and asks nobody", "")
    return _asked(model)


def _local(name: str) -> Check:
    status = embedded.status(name.removeprefix("local:"))
    size = f"{status.size / 1e6:.0f} MB"
    here = f"weights are here ({size})" if status.fetched else f"weights ({size}) are fetched when first used"
    return Check("model", name, True, here + (f", served at {status.url}" if status.url else ""), "")


def _asked(model: Model) -> Check:
    pump = Pump(model(Request([Message("user", "Reply with the word ok.")], max_tokens=16)))
    try:
        while not isinstance(item := pump.get(timeout=MODEL_SECONDS), Reply):
            if isinstance(item, Retrying):
                return _failed(model.name, item.reason)
    except Late:
        return _failed(model.name, f"it said nothing for {MODEL_SECONDS:g} s")
    except CodeActError as error:
        return _failed(model.name, str(error))
    finally:
        pump.close()
    return Check("model", model.name, True, f"answers ({item.usage.total_tokens} tokens)", "")


def _failed(name: str, reason: str) -> Check:
    return Check(
        "model",
        name,
        False,
        reason,
        "check --model, --base-url or OPENAI_BASE_URL, and OPENAI_API_KEY; or use --model local",
    )
