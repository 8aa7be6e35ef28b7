"""Excel and OpenDocument workbooks: each sheet as a table, read by calamine (openpyxl where it is missing)."""

import re
import warnings
import zipfile
from datetime import date, datetime, time, timedelta
from typing import Any

from . import delimited, frames, options
from .columns import cut
from .packages import Missing, has, need
from .reading import Line, call, execute, reason
from .remarks import Table, writable
from .shape import filled
from .sources import MIB, Source, read_up_to

_LARGEST = 64 * MIB
_UNPACKED = 512 * MIB
_CELLS = 3_000_000
_SHEETS = 30
_FORM_ROWS = 8


def describe(entry: dict[str, Any], source: Source, rows: int) -> None:
    data = source.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        entry["problem"] = "the workbook is too large to be described here (over 64 MiB)"
        return
    if entry["kind"] in ("xlsx", "ods"):
        _raw_notes(entry, data)
        if entry.get("problem"):
            return
    try:
        sheets, entry["engine"] = _sheets(data, entry["kind"])
    except Missing as missing:
        entry["notes"].append(str(missing))
        entry["sheets"] = [{"name": name} for name in _sheet_names(data)]
        entry["problem"] = (
            "its cells cannot be read in this image: neither python-calamine nor openpyxl is there"
        )
        return
    except Exception as error:  # noqa: BLE001 - a broken workbook raises anything
        if data[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" and "E\0n\0c\0r\0y\0p\0t" in data[
            :1_000_000
        ].decode("latin-1"):
            entry["problem"] = "the workbook is protected by a password"
        else:
            entry["problem"] = f"the workbook cannot be opened: {reason(error)}"
        return
    entry["sheets"] = []
    for name, cells, hidden in sheets[:_SHEETS]:
        sheet = _sheet(entry, source, name, cells, rows)
        if hidden:
            sheet["hidden"] = True
            sheet["notes"].append("hidden in the workbook")
        entry["sheets"].append(sheet)
    if len(sheets) > _SHEETS:
        entry["notes"].append(f"{len(sheets) - _SHEETS} more sheets are not described")
    spaced = [name for name, _, _ in sheets if name != name.strip()]
    if spaced:
        entry["notes"].append(
            f"sheet names with outer spaces, use them exactly: {', '.join(map(repr, spaced[:3]))}"
        )
    empty = [name for name, cells, _ in sheets if not any(filled(row) for row in cells)]
    if empty:
        entry["notes"].append(f"empty sheets: {', '.join(map(repr, empty[:5]))}")
    best = max(
        (sheet for sheet in entry["sheets"] if sheet.get("read_verified")),
        key=lambda sheet: sheet.get("rows") or 0,
        default=None,
    )
    if best is not None:
        entry |= {"read": best["read"], "read_verified": True, "read_sheet": best["name"]}
    _try_openpyxl(entry, data)


Sheet = tuple[str, list[list[str]], bool]


def _sheets(data: bytes, kind: str) -> tuple[list[Sheet], str]:
    """Name, cells and whether it is hidden, of each sheet; and the engine with which pandas reads them so."""
    if kind == "xls" and data[:4] != b"\xd0\xcf\x11\xe0":  # older than what calamine knows
        return _with_xlrd(data), "xlrd"
    if has("python_calamine"):
        return _with_calamine(data), "calamine"
    return _with_openpyxl(data), "openpyxl"


def _with_xlrd(data: bytes) -> list[Sheet]:
    book = need("xlrd").open_workbook(file_contents=data)
    return [
        (sheet.name, _texts([sheet.row_values(at) for at in range(sheet.nrows)]), sheet.visibility != 0)
        for sheet in book.sheets()
    ]


def _with_calamine(data: bytes) -> list[Sheet]:
    import io

    book = need("python_calamine").load_workbook(io.BytesIO(data))
    found = []
    for meta in book.sheets_metadata:
        if "WorkSheet" not in str(meta.typ):
            continue
        cells = book.get_sheet_by_name(meta.name).to_python(skip_empty_area=False)
        found.append((meta.name, _texts(cells), not str(meta.visible).endswith("Visible")))
    return found


def _with_openpyxl(data: bytes) -> list[Sheet]:
    import io

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = need("openpyxl").load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        return [
            (sheet.title, _texts(list(sheet.iter_rows(values_only=True))), sheet.sheet_state != "visible")
            for sheet in book.worksheets
        ]


def _texts(cells: list[Any]) -> list[list[str]]:
    limit = max(100, _CELLS // max(1, max((len(row) for row in cells), default=1)))
    return [[_text(cell) for cell in row] for row in cells[:limit]]


def _text(cell: Any) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return str(cell).lower()
        case float() if cell == int(cell) if abs(cell) < 1e15 else False:
            return str(int(cell))
        case float():
            return _decimal(str(cell))
        case datetime():
            return (
                cell.date().isoformat()
                if (cell.hour, cell.minute, cell.second) == (0, 0, 0)
                else cell.isoformat(" ")
            )
        case date() | time():
            return cell.isoformat()
        case timedelta():
            return str(cell)
        case _:
            return str(cell)


def _decimal(written: str) -> str:
    """With a fourth decimal where there are three, which in text may be a mark between thousands and here is none."""
    return f"{written}0" if written[-4:-3] == "." else written


def _sheet(
    entry: dict[str, Any], source: Source, name: str, cells: list[list[str]], rows: int
) -> dict[str, Any]:
    width = max((filled(row)[-1] + 1 for row in cells if filled(row)), default=0)
    height = max((at + 1 for at, row in enumerate(cells) if filled(row)), default=0)
    sheet: dict[str, Any] = {"name": name, "dimensions": [height, width], "notes": []}
    if not height:
        sheet["rows"] = 0
        return sheet
    below = len(cells) - height
    table = delimited.build([row[:width] for row in cells[:height]])
    if _is_form(table):
        _form(sheet, entry, source, cells[:height])
        return sheet
    delimited.fill(sheet, table, rows)
    if below:
        sheet["notes"].append(f"{below} empty rows below the data")
    _offer(sheet, entry, source, table)
    return sheet


def _form(sheet: dict[str, Any], entry: dict[str, Any], source: Source, cells: list[list[str]]) -> None:
    """A sheet that is no table: its cells as they lie, from the first filled row on."""
    sheet["notes"].append(
        "looks like a form or a layout, not a table: look cells up by their labels, as in df.iloc[row, column]"
    )
    top = next(at for at, row in enumerate(cells) if filled(row))
    sheet["first_rows"] = [[cut(cell, 40) for cell in row] for row in cells[top:] if filled(row)][:_FORM_ROWS]
    line = _line(source, entry["engine"], {"sheet_name": sheet["name"], "header": None})
    frame = _read(sheet, line)
    if frame is not None:
        sheet["read_verified"] = len(cells) - top <= len(frame) <= len(cells)


def _line(source: Source, engine: str, chosen: dict[str, Any]) -> Line:
    target, modules = source.binary()
    return Line(f"df = {call('pd.read_excel', target, **chosen, engine=engine)}", (*modules, "pandas"))


def _read(sheet: dict[str, Any], line: Line) -> Any:
    """The table that the line makes; None, and a note that says why, where it fails."""
    sheet["read"] = line.text()
    try:
        return execute(line)
    except Missing as missing:
        sheet["notes"].append(str(missing))
    except Exception as error:  # noqa: BLE001 - whatever the line raises is the finding
        sheet["notes"].append(f"the reading line failed: {reason(error)}")
    return None


def _is_form(table: Table) -> bool:
    """Few cells filled, and no column of one type: labels and values laid out for the eye."""
    body = table.body
    cells = sum(len(filled(row)) for row in body)
    room = sum(len(row) for row in body) or 1
    mixed = sum(column.type in ("mixed", "empty") for column in table.columns)
    return len(body) > 3 and cells * 2 < room and (mixed * 3 >= len(table.columns) or not table.shape.sure)


def _offer(sheet: dict[str, Any], entry: dict[str, Any], source: Source, table: Table) -> None:
    found = table.shape
    chosen: dict[str, Any] = {"sheet_name": sheet["name"]}
    if not found.header:
        chosen |= {"header": None} | ({"skiprows": found.start} if found.start else {})
    elif len(found.header) > 1:
        chosen |= (
            {"header": None, "skiprows": found.start, "names": table.names}
            if writable(table.names)
            else {"header": found.header[-1]}
        )
    elif found.header[-1]:
        chosen["skiprows"] = found.header[-1]
    if found.end < len(table.records):
        chosen["nrows"] = table.rows
    if "header" not in chosen or "names" in chosen:
        found_options = options.written(options.of(table))
        chosen |= {
            key: value for key, value in found_options.items() if key not in ("parse_dates", "date_format")
        }
    line = _line(source, entry["engine"], chosen)
    blank = any(not filled(row) for row in table.records[found.start : found.end]) or any(
        "empty rows below" in note for note in sheet["notes"]
    )
    if blank:
        line = Line(line.code + ".dropna(how='all')", line.imports)
    frame = _read(sheet, line)
    if frame is None:
        return
    wanted = sum(bool(filled(row)) for row in table.body) if "dropna" in line.code else table.rows
    sheet["read_verified"] = len(frame) == wanted and len(frame) > 0
    sheet["rows"] = len(frame)
    if not sheet["read_verified"]:
        sheet["notes"].append(f"the reading line makes {len(frame)} rows, {wanted} were seen: check")
    if frame.shape[1] == len(sheet["columns"]):
        frames.as_read(sheet["columns"], frame)
        sheet["first_rows"] = frames.first_rows(frame, len(sheet["first_rows"]))
    options.note_handled(sheet, line.code)


def _raw_notes(entry: dict[str, Any], data: bytes) -> None:
    """Formulas and merged cells, counted in the raw parts; refuses what would unpack to very much."""
    import io

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _UNPACKED:
                entry["problem"] = "the workbook unpacks to over 512 MiB: not opened"
                return
            formulas = merged = errors = 0
            for member in archive.infolist():
                if re.fullmatch(r"xl/worksheets/[^/]+\.xml", member.filename) and member.file_size < 16 * MIB:
                    with archive.open(member) as stream:
                        raw = read_up_to(stream, 16 * MIB)
                    formulas += len(re.findall(rb"<f[ >]", raw))
                    merged += raw.count(b"<mergeCell ")
                    errors += raw.count(b' t="e"')
            pivots = sum("pivotCache/" in member.filename for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        entry["problem"] = f"the workbook is broken: {reason(error)}"
        return
    if formulas:
        entry["notes"].append(f"{formulas} cells are formulas: reading gives their last computed values")
    if errors:
        entry["notes"].append(
            f"errors such as #N/A or #DIV/0! in {errors} of the cells: they are read as missing"
        )
    if merged:
        entry["notes"].append(f"{merged} merged ranges: only the first cell of each holds the value")
    if pivots:
        entry["notes"].append("contains pivot tables: the source data may stand on another sheet")


def _sheet_names(data: bytes) -> list[str]:
    import html
    import io

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            raw = archive.read("xl/workbook.xml").decode("utf-8", "replace")
    except (zipfile.BadZipFile, KeyError):
        return []
    return [html.unescape(name) for name in re.findall(r'<sheet [^>]*?name="([^"]*)"', raw)]


def _try_openpyxl(entry: dict[str, Any], data: bytes) -> None:
    """Tells when openpyxl's default mode refuses the workbook, since that is what people reach for."""
    import io

    if entry["kind"] != "xlsx" or len(data) > MIB or not has("openpyxl"):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            need("openpyxl").load_workbook(io.BytesIO(data))
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        entry["notes"].append(
            f"openpyxl.load_workbook() fails on this workbook ({cut_reason(error)}): use pd.read_excel(..., engine='calamine') as below"
        )


def cut_reason(error: Exception) -> str:
    return reason(error)[:80]
