"""What a folder of data is known by."""

from pathlib import Path

import pytest

from codeact.inputs import change, fingerprint
from sandbox.files import files_below


def test_what_a_folder_holds_that_cannot_be_looked_at_is_no_part_of_it(tmp_path: Path) -> None:
    file, odd = tmp_path / "a.csv", tmp_path / "odd"
    file.write_text("x\n1\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "gone").symlink_to("nowhere")
    odd.symlink_to("x" * 300)
    with pytest.raises(OSError, match="too long"):  # as a link into a closed folder does, but for root, too
        odd.is_file()
    known = fingerprint(tmp_path)
    assert known["files"] == 1
    assert files_below(tmp_path) == [file]
    assert change(tmp_path, known) is None
    file.write_text("x\n1\n2\n")
    assert change(tmp_path, known) == "has changed since the run began"
