"""Shared by all tests: the `--live` option, and a gateway to play a model endpoint."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.gateway import Gateway

# the machine may be busy with containers: time is never a reason to fail
settings.register_profile("default", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=10_000, suppress_health_check=list(HealthCheck))
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--live", action="store_true", help="also run the tests that ask a real model")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--live"):
        return
    for item in items:
        if item.get_closest_marker("live"):  # not `in item.keywords`, which has the names of folders too
            item.add_marker(pytest.mark.skip(reason="asks a real model; run with --live"))


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    """An endpoint without answers; give it some with `gateway.add(says("..."))`."""
    with Gateway() as running:
        yield running
