"""An agent whose actions are Python programs, run in a persistent kernel inside a hardened container."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeact.agent import Agent
    from codeact.errors import CodeActError, ModelError, UsageError
    from codeact.models import ScriptedModel, resolve
    from codeact.session import Session
    from codeact.tools.functions import tool, toolset
    from codeact.types import Artifact, Figure, Message, Model, Reply, Request, Result, RunLimits, Usage
    from codeact.workspace import warm

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Artifact",
    "CodeActError",
    "Figure",
    "Message",
    "Model",
    "ModelError",
    "Reply",
    "Request",
    "Result",
    "RunLimits",
    "ScriptedModel",
    "Session",
    "Usage",
    "UsageError",
    "resolve",
    "tool",
    "toolset",
    "warm",
]

_HOMES = {
    "Agent": "agent",
    "CodeActError": "errors",
    "ModelError": "errors",
    "UsageError": "errors",
    "ScriptedModel": "models",
    "Session": "session",
    "resolve": "models",
    "tool": "tools.functions",
    "toolset": "tools.functions",
    "warm": "workspace",
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first used, so that the command line starts at once."""
    if name not in __all__:
        raise AttributeError(f"module 'codeact' has no attribute {name!r}")
    return getattr(import_module(f"codeact.{_HOMES.get(name, 'types')}"), name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext codeact` in a notebook: `%%codeact` makes a cell a task."""
    from codeact.commands.magic import load

    load(shell)
