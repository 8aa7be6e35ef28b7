"""The manifest where the image has the standard library only: it says plainly what it cannot do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import codeact

MESSY = Path(__file__).parents[1] / "data" / "messy" / "files"


def describe(*paths: Path) -> list[dict[str, Any]]:
    """Runs the guest code without site-packages."""
    start = f"import sys; sys.path.append({str(Path(codeact.__file__).parent)!r}); from inside.manifest import main; main()"
    command = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        "-c",
        start,
        "--json",
        *map(str, paths),
    ]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    files: list[dict[str, Any]] = json.loads(done.stdout)["files"]
    return files


def test_text_tables_are_described_in_full_and_read_with_csv() -> None:
    (entry,) = describe(MESSY / "banklist.csv")
    assert (entry["encoding"], entry["rows"], entry["read_verified"]) == ("cp1252", 568, True)
    assert "csv.reader" in entry["read"]
    assert "pandas is not in this image: read with csv" in entry["notes"]


def test_a_workbook_still_has_its_sheet_names() -> None:
    (entry,) = describe(MESSY / "pivots.xlsx")
    assert [sheet["name"] for sheet in entry["sheets"]][-2:] == ["DataSheet", "DataSheet2"]
    assert "cannot be read in this image" in entry["problem"]


def test_what_needs_a_package_names_it() -> None:
    (entry,) = describe(MESSY / "silly-names.parquet")
    assert entry["problem"] == "cannot be described: the package 'pyarrow' is not in this image"
