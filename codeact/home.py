"""Where runs, models and caches live: `CODEACT_HOME`, or the user's data folder. Folders are made when first written to."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """The folder of everything that outlives a run; `CODEACT_HOME` where that is set."""
    chosen = os.environ.get("CODEACT_HOME")
    return Path(chosen).expanduser().absolute() if chosen else platformdirs.user_data_path("codeact")


def runs_dir() -> Path:
    """One folder a run, each with its `run.jsonl`."""
    return home() / "runs"


def models_dir() -> Path:
    """Weights of the local models, and the state and log of their servers."""
    return home() / "models"
