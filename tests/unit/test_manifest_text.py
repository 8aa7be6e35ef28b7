"""The standard-library parts of the manifest: encoding, separator, header and footer, cell types."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact.inside import cells, charset, columns, dialect, shape

FRENCH = "ville;montant\nBesançon;3\nOrléans;4\nNîmes;5\nÉvreux;6\n"
GERMAN = "Name – „Straße“;Müller;Jäger;Größe €\n"
RUSSIAN = "город;население\nМосква;3\nКазань;4\nНовосибирск;5\nЕкатеринбург;6\n"
POLISH = "miasto;ludność\nŁódź;3\nGdańsk;4\nPoznań;5\nCzęstochowa;6\n"
TURKISH = "şehir;nüfus\nAğrı;3\nMuğla;4\nŞanlıurfa;5\nEskişehir;6\nÇankırı;7\n"
GREEK = "πόλη;πληθυσμός\nΑθήνα;3\nΘεσσαλονίκη;4\n"
HEBREW = "עיר;אוכלוסייה\nירושלים;3\nתל אביב;4\n"
JAPANESE = "都道府県,メモ\n東京都,これはテストです\n大阪府,ひらがなとカタカナ\n"
CHINESE = "省份,备注\n北京市,数据来源\n广东省,统计年鉴\n四川省,数据说明\n"
KOREAN = "지역,인구\n서울특별시,3\n부산광역시,4\n대구광역시,5\n"


@pytest.mark.parametrize(
    ("text", "encoding", "accepted"),
    [
        (FRENCH, "utf-8", {"utf-8"}),
        ("a,b\n1,2\n", "ascii", {"utf-8"}),
        (FRENCH, "utf-8-sig", {"utf-8-sig"}),
        (FRENCH, "utf-16", {"utf-16"}),
        (FRENCH, "utf-16-le", {"utf-16-le"}),
        (FRENCH, "utf-16-be", {"utf-16-be"}),
        (FRENCH, "utf-32", {"utf-32"}),
        (FRENCH, "latin-1", {"cp1252"}),
        (GERMAN, "cp1252", {"cp1252"}),
        (RUSSIAN, "cp1251", {"cp1251"}),
        (RUSSIAN, "koi8-r", {"koi8-r"}),
        (RUSSIAN, "cp866", {"cp866"}),
        (POLISH, "cp1250", {"cp1250"}),
        (TURKISH, "cp1254", {"cp1254"}),
        (GREEK, "cp1253", {"cp1253"}),
        (HEBREW, "cp1255", {"cp1255"}),
        (FRENCH, "mac_roman", {"mac_roman"}),
        (JAPANESE, "shift_jis", {"cp932"}),
        (JAPANESE, "euc_jp", {"euc_jp"}),
        (CHINESE, "gb18030", {"gb18030"}),
        (KOREAN, "euc_kr", {"cp949"}),
    ],
)
def test_encoding(text: str, encoding: str, accepted: set[str]) -> None:
    found = charset.detect([text.encode(encoding)])
    assert found.name in accepted
    assert text.encode(encoding).decode(found.name) == text


def test_an_invalid_byte_late_in_a_large_file_is_seen() -> None:
    chunks = [b"plain text\n" * 100_000] * 3 + ["Besançon et Orléans, Nîmes\n".encode("latin-1")]
    found = charset.detect(chunks)
    assert (found.name, found.newlines) == ("cp1252", 300_001)


def test_a_character_cut_between_chunks_is_no_error() -> None:
    data = "aé".encode()
    assert charset.detect([data[:2], data[2:]]).name == "utf-8"


def test_utf8_with_few_broken_bytes_stays_utf8_and_unsure() -> None:
    found = charset.detect([("Zürich Genève\n" * 20).encode() + b"Z\xfcrich\n"])
    assert (found.name, found.sure) == ("utf-8", False)
    assert "encoding_errors" in found.notes[0]


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 40, b"\x7fELF\x02\x01\x01" + b"\0" * 900, b"\x01\x02\x03\xff" * 200]
)
def test_binary_is_no_text(data: bytes) -> None:
    assert charset.detect([data]).binary


@given(st.binary(max_size=400))
def test_any_bytes_have_an_answer(data: bytes) -> None:
    found = charset.detect([data])
    assert found.binary or isinstance(data.decode(found.name, "replace"), str)


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b,c\n1,2,3\n4,5,6\n", ","),
        ("a;b\n1,5;2,5\n3,5;4,5\n", ";"),
        ("a\tb\nx, y\t2\nz; w\t4\n", "\t"),
        ("a|b\n1|2\n3|4\n", "|"),
        ("a:b:c\n1:2:x\n3:4:y\n", ":"),
        ("time,v\n10:30:00,1\n11:30:00,2\n", ","),
        ("name    age   city\nAnn B   23    New York\nBob C   41    Los Angeles\n", dialect.SPACED),
        ("1 2 3\n4 5 6\n7 8 9\n", dialect.BLANKS),
        ("value\n1\n2\n", ""),
        ('"a","b"\n"x;y","1"\n"z;w","2"\n', ","),
    ],
)
def test_separator(text: str, separator: str) -> None:
    assert dialect.sniff(text).separator == separator


def test_quotes_that_never_close_are_read_as_text() -> None:
    found = dialect.sniff('id,t\n1,"open\n2,b\n3,c\n4,d\n5,e\n')
    assert found.quote == ""
    assert len(dialect.parse('id,t\n1,"open\n2,b\n', found)) == 3


def test_stray_quotes_are_located_and_doubled_ones_are_not() -> None:
    text = 'a,b\n"x ""y"" z",1\n"x "y" z",2\n'
    assert dialect.stray_quotes(text, dialect.Dialect(",")) == [3]


@given(st.text(alphabet="ab1,;\t|:\"'\n\r \\", max_size=120))
def test_any_text_parses(text: str) -> None:
    found = dialect.sniff(text)
    records = dialect.parse(text, found)
    where = shape.find(records)
    assert 0 <= where.start <= where.end <= len(records)


PREAMBLE = [
    ["Report 2021"],
    [],
    ["id", "name", "value"],
    ["1", "a", "2.5"],
    ["2", "b", "3.5"],
    ["3", "c", "1"],
    [],
    ["Source: x"],
]
STACKED = [
    ["region", "2020", "", "2021", ""],
    ["", "men", "women", "men", "women"],
    ["North", "1", "2", "3", "4"],
    ["South", "5", "6", "7", "8"],
]
YEARS = [
    ["Name", "2000", "2001", "2002"],
    ["a", "1,000", "2,000", "3"],
    ["b", "4", "5", "6"],
    ["c", "7", "8", "9"],
]
UNITS = [["time", "mass"], ["s", "kg"], ["0", "1.5"], ["1", "1.7"], ["2", "1.9"]]


@pytest.mark.parametrize(
    ("records", "header", "start", "end"),
    [
        (PREAMBLE, [2], 3, 6),
        (STACKED, [0, 1], 2, 4),
        (YEARS, [0], 1, 4),
        (UNITS, [0, 1], 2, 5),
        ([["1", "2"], ["3", "4"], ["5", "6"]], [], 0, 3),
        ([["id", "", "name", ""], ["1", "x", "a", "4"], ["2", "y", "b", "5"]], [0], 1, 3),
        ([["name", "city"], ["ann", "rome"], ["bob", "oslo"]], [0], 1, 3),
        ([["a", "b"], ["1", "2"], ["3", "4"], ["Total rows: 2"]], [0], 1, 3),
        ([["", "total"], ["North", "1"], ["South", "2"], ["East", "3"]], [0], 1, 4),
        ([["", "v"], ["2026-01-01", "1.5"], ["2026-01-02", "2.5"], ["2026-01-03", "9"]], [0], 1, 4),
        ([["Sales of 2026", ""], ["North", "1"], ["South", "2"], ["East", "3"]], [], 1, 4),
    ],
)
def test_shape(records: list[list[str]], header: list[int], start: int, end: int) -> None:
    found = shape.find(records)
    assert (found.header, found.start, found.end) == (header, start, end)


@pytest.mark.parametrize(
    ("records", "sure"),
    [
        ([["name", "city"], ["Ann", "Rome"], ["Bob", "Oslo"]], True),
        ([["Ann", "Rome"], ["Bob", "Oslo"], ["Cy", "Bonn"]], False),
        ([["Name", "City"], ["Ann", "Rome"], ["Bob", "Rome"], ["Cy", "Rome"]], True),
    ],
)
def test_a_header_over_text_is_sure_where_it_stands_out(records: list[list[str]], sure: bool) -> None:
    assert shape.find(records).sure is sure


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("12", "integer"), ("-3.5", "decimal"), ("1e5", "decimal"), ("007", "code"), ("0", "integer"), ("1,234,567", "thousands,"),
        ("1,234", "comma3"), ("1.234", "point3"), ("1.234.567,8", "thousands."), ("3,5", "decimal,"), ("1 234", "thousands "),
        ("- 1", "spaced sign"), ("(12)", "bracketed"), ("5%", "percent"), ("$3.20", "money"), ("2020-01-31", "date %Y-%m-%d"),
        ("2020-01-01T00:00:00+13:45", "date %Y-%m-%d"), ("3/4/2020", "date slash"), ("3-Nov-23", "date %d-%b-%Y"), ("Jan-87", "date %b-%y"),
        ("31.12.2020", "date %d.%m.%Y"), ("yes", "flag"), ("\xa0 ", "empty"), ("1 - a", "text"), ("", "empty"),
    ],
)  # fmt: skip
def test_cell(value: str, tag: str) -> None:
    assert cells.tag(value) == tag


@pytest.mark.parametrize(
    ("values", "kind", "missing"),
    [
        (["1", "2", ""], "integer", 1),
        (["1,5", "2,75"], "decimal", 0),
        (["1.5", "NA", "-", "2.5", "3.5", "4.5"], "decimal", 2),
        (["01", "02", "10"], "digits as text, all 2 long", 0),
        (["US", "NA", "DE", "FR", "IT", ""], "text", 1),
        (["20210203", "20210304"], "integer", 0),
        (["true", "false"], "true/false", 0),
        (["", " "], "empty", 2),
        (["9007199254740993", "5", ""], "digits as text", 1),
        (["9007199254740993", "5", "NA"], "digits as text", 1),
        (["-9,007,199,254,740,993", "12,345", "-"], "digits as text", 1),
        (["9007199254740993", "5"], "integer", 0),
        (["9007199254740991", "5", ""], "integer", 1),
        (["1E400", "2.5"], "decimal", 0),
        (["-1E400", "2"], "decimal", 0),
    ],
)
def test_column_type_and_missing(values: list[str], kind: str, missing: int) -> None:
    found = columns.describe("c", Counter(values))
    assert (found.type, found.missing) == (kind, missing)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["2020-01-01T00:00:00", "2020-01-01T00:00:00Z"], "mixed time zones"),
        (["3/4/2020", "5/6/2020"], "unsure whether day or month"),
        (["13/4/2020", "5/6/2020"], "format='%d/%m/%Y'"),
        (["3-Nov-23", "14-Dec-00"], "format='%d-%b-%y'"),
        (["1", "2", "3", "-999"], "-999 may stand for a missing value"),
        (["US", "NA", "DE", "FR"], "'NA' may be a code"),
        (["$3.20", "$1,000.00"], "currency signs"),
        (["1,500", "2,750", "2500"], "unsure"),
    ],
)
def test_column_notes(values: list[str], words: str) -> None:
    assert words in columns.describe("c", Counter(values)).note


def test_names_are_those_that_pandas_makes() -> None:
    assert columns.pandas_names(["id", "", "id", "id.1", "id"]) == [
        "id",
        "Unnamed: 1",
        "id.2",
        "id.1",
        "id.3",
    ]


@given(st.dictionaries(st.text(max_size=12), st.integers(1, 5), max_size=12))
def test_any_column_is_described(values: dict[str, int]) -> None:
    found = columns.describe("c", Counter(values))
    assert 0 <= found.missing <= sum(values.values())
