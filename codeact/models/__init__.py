"""Models: a name to a `Model`, and the pieces for those who build one themselves.

`codeact.models.openai.OpenAIModel` and `codeact.models.local.LocalModel` are imported from where they are: loading the
`openai` package takes most of a second, which those who ask no endpoint need not wait for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from codeact.errors import ModelNotFound, UsageError
from codeact.models.replay import ReplayModel
from codeact.models.retry import ATTEMPTS, RetryingModel, retrying
from codeact.models.scripted import ScriptedModel
from codeact.types import Model

__all__ = ["ReplayModel", "RetryingModel", "ScriptedModel", "model_of", "resolve", "retrying"]


def resolve(
    name: str | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    attempts: int = ATTEMPTS,
    on_progress: Callable[[str], None] = lambda line: None,
) -> Model:
    """The model of a name: `local[:NAME]`, `scripted:FILE.jsonl`, `replay:RUN`, or a name that an endpoint knows.

    `base_url` and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY; an empty `api_key` is none. With no name and no endpoint it is `local`,
    and `on_progress` is told; with an endpoint of one's own it is the first that the endpoint lists. Endpoints and the
    local model are asked again when a failure may pass, `attempts` times in all (`retrying`). Raises UsageError, ModelNotFound, or ModelAuthError where an endpoint's key is missing.
    """
    base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    if api_key is None:
        api_key = os.environ.get("OPENAI_API_KEY")
    if not name:
        if base_url or api_key:
            return retrying(_unnamed(base_url, api_key, on_progress), attempts)
        on_progress("no model named and no endpoint set up: using the embedded model (--model local)")
        name = "local"
    kind, _, rest = name.partition(":")
    match kind:
        case "local":
            from codeact.models.local import LocalModel

            local = LocalModel(rest, on_progress) if rest else LocalModel(on_progress=on_progress)
            return retrying(local, attempts)
        case "scripted":
            return ScriptedModel.from_file(Path(rest))
        case "replay":
            return ReplayModel(rest)
        case "anthropic":
            raise ModelNotFound(
                f"{name}: Anthropic's own interface is not supported yet; use an OpenAI-compatible one"
            )
        case _:
            from codeact.models.openai import OpenAIModel

            model = OpenAIModel(name, base_url=base_url, api_key=api_key)
            model.check_key()
            return retrying(model, attempts)


def model_of(given: Model | str, on_progress: Callable[[str], None] = lambda line: None) -> Model:
    """A model, or what `resolve` makes of its name. Raises UsageError for what is neither, or as that does."""
    if isinstance(given, str) and given:
        return resolve(given, on_progress=on_progress)
    if callable(given) and isinstance(getattr(given, "name", None), str):
        return given
    what = "is empty" if given == "" else f"is of type {type(given).__name__}"
    raise UsageError(f'model: {what}; give a name such as "local", or a model as codeact.types.Model says')


def _unnamed(base_url: str | None, api_key: str | None, on_progress: Callable[[str], None]) -> Model:
    from codeact.models.openai import DEFAULT, OpenAIModel

    name = OpenAIModel(DEFAULT, base_url=base_url, api_key=api_key).first_listed() if base_url else None
    model = OpenAIModel(name or DEFAULT, base_url=base_url, api_key=api_key)
    on_progress(f"no model named: using {model.name} of {model.host} (--model)")
    return model
