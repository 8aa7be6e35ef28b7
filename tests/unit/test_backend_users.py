"""Which numbers a bubblewrap sandbox's users get on this machine, by what the user namespace of its maker has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.backends.users import SPARE, _spare


@pytest.mark.parametrize(
    ("extents", "first"),
    [
        ("0 0 4294967295\n", SPARE),
        ("0 0 1\n1 100000 65535\n", 65532),  # a container of a user's: 65534 is nobody there
        ("0 100000 65536\n", 65532),
        ("0 0 1\n1 100000 1000\n", None),
        ("0 0 1\n", None),
        ("0 0 1000\n1879048192 1879048192 65536\n", SPARE),
        ("0 0 1\n100000 100000 65536\n", 165532),
    ],
)
def test_numbers_that_this_namespace_has_and_nobody_uses(
    tmp_path: Path, extents: str, first: int | None
) -> None:
    (tmp_path / "uid_map").write_text(extents)
    assert _spare(tmp_path / "uid_map") == first
