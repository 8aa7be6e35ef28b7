"""A throw-away container: one command, its output, gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import docker

DEADLINE = 300
"""Seconds; what is run so takes one, and a busy machine many times that."""


def run_once(client: docker.DockerClient, image: str, command: Sequence[str], **settings: Any) -> bytes:
    """Runs `command` without a network and returns its standard output.

    Raises ValueError with the last line of its errors where it fails, DockerException or OSError where it does not run.
    """
    container = client.containers.create(image, list(command), network_mode="none", **settings)
    try:
        container.start()
        code = container.wait(timeout=DEADLINE)["StatusCode"]
        if code:
            complaints = container.logs(stdout=False).decode("utf-8", "replace").strip().splitlines()
            raise ValueError(complaints[-1] if complaints else f"exit code {code}")
        output = container.logs(stderr=False)
        assert isinstance(output, bytes)
        return output
    finally:
        container.remove(force=True)
