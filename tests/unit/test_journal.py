"""The journal on a disk that takes no more."""

from __future__ import annotations

import base64
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codeact import events
from codeact.errors import UsageError
from codeact.journal import Journal, read
from sandbox.types import Image

STARTED = events.RunStarted(run="r-1", task="t", model="m", settings={}, system="s", first="f")
TOO_LONG = events.RunStarted(run="r-1", task="t" * 10_000, model="m", settings={}, system="s", first="f")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_event_that_the_disk_does_not_take_is_said_and_closing_is_quiet(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r-1")
    journal.append(STARTED)
    with files_of_at_most(5000):
        with pytest.raises(UsageError, match=r"run\.jsonl: cannot be written: .*; free some space"):
            journal.append(TOO_LONG)
        journal.close()
    assert [event["task"] for event in read(tmp_path / "r-1")] == ["t"]


def test_a_picture_that_the_disk_does_not_take_is_said(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r-1")
    picture = Image("image/png", base64.b64encode(bytes(10_000)).decode())
    with (
        files_of_at_most(5000),
        pytest.raises(UsageError, match=r"figure-1\.png: cannot be written: .*; free some"),
    ):
        journal.keep_picture(picture)
    journal.close()
