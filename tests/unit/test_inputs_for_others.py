"""Which inputs the user inside can read where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.backends.common import readable_by_all
from sandbox.guest.installed import pin


@pytest.mark.parametrize(
    ("modes", "readable"),
    [
        ({"a.csv": 0o644}, True),
        ({"a.csv": 0o600}, False),
        ({"a.csv": 0o644, "below": 0o755, "below/b.csv": 0o600}, False),
        ({"a.csv": 0o644, "below": 0o700, "below/b.csv": 0o644}, False),
        ({}, True),
    ],
)
def test_a_folder_is_readable_where_all_in_it_is(
    tmp_path: Path, modes: dict[str, int], readable: bool
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "link").symlink_to("/nowhere")
    for name in modes:
        path = folder / name
        path.touch() if path.suffix else path.mkdir()
    for name, mode in [*modes.items(), ("", 0o755)]:
        (folder / name).chmod(mode)
    assert readable_by_all(folder) is readable


def test_a_package_whose_folder_has_a_name_of_its_own_is_pinned_as_well(tmp_path: Path) -> None:
    for name in ("my-pkg-1.0.dist-info", "other-2.1.dist-info", "odd.dist-info", "module.py"):
        (tmp_path / name).mkdir()
    pin(str(tmp_path / "pinned"), str(tmp_path))
    assert sorted((tmp_path / "pinned").read_text().split()) == ["my-pkg==1.0", "other==2.1"]
