"""The names that users import: each is there, and none is there by accident."""

from __future__ import annotations

import importlib

import pytest

PUBLIC = {
    "codeact": "Agent Artifact CodeActError Figure Message Model ModelError Reply Request Result RunLimits ScriptedModel Session Usage"
    " UsageError resolve tool toolset warm",
    "sandbox": "CellError CellResult Connection ConnectionLost Dropped EngineError EngineNotFound EnginePermission FileError FileInfo"
    " HostCallRefused Image ImageError ImageNotFound Limits Network Notice Output Pool PoolClosed ProtocolError Rich Rung Sandbox"
    " SandboxBusy SandboxClosed SandboxError StartError Stream Variable",
}


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(module.__all__) == PUBLIC[package].split()
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Agnet'"):
        _ = importlib.import_module("codeact").Agnet
