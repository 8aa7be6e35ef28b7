"""The embedded model: an OpenAI-compatible server of our own that is fetched and started when first asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from codeact.models import catalogue, embedded
from codeact.models.download import Progress
from codeact.models.openai import OpenAIModel
from codeact.types import Delta, Reply, Request

READ_TIMEOUT = 600.0
"""Seconds: a full context of prompt is read at some 60 tokens a second on two cores."""


class LocalModel:
    """A model of the catalogue. Temperature and seed default to 0.

    The first call may download the weights (about 1 GB) and start the server; `on_progress` is told in single lines. A
    server that has ended meanwhile is started again. Raises ModelNotFound for an unknown name or a missing extra at
    once, and ModelError when called.
    """

    sees = False
    small = True

    def __init__(self, name: str = catalogue.DEFAULT, on_progress: Progress = lambda line: None) -> None:
        embedded.require_engine()
        self._weights = catalogue.find(name)
        self._on_progress = on_progress
        self._endpoint: OpenAIModel | None = None
        self._server: tuple[str, str] | None = None
        self.name = f"local:{name}"

    def __call__(self, request: Request) -> Iterator[Delta | Reply]:
        request = replace(
            request,
            temperature=0 if request.temperature is None else request.temperature,
            seed=0 if request.seed is None else request.seed,
        )
        yield from self._connected()(request)

    def _connected(self) -> OpenAIModel:
        """The running server as a model; kept, with what it has learnt, as long as the server is the same."""
        server = url, key = embedded.ensure_server(self._weights.name, self._on_progress)
        if (
            self._endpoint is None or self._server != server
        ):  # one that was started anew may have the old port
            self._server = server
            self._endpoint = OpenAIModel(
                self._weights.name,
                base_url=url,
                api_key=key,
                sees=False,
                read_timeout=READ_TIMEOUT,
                proxies=False,
            )
        return self._endpoint
