"""The cap on a cell's output, the cleaning of its text, and its tracebacks."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.guest import frames
from sandbox.guest.outputs import MAX_ERRORS, OVERHEAD, OutputGate, cut
from sandbox.guest.tracebacks import brief
from sandbox.text import TextCleaner, clean, clean_error

Sent = list[tuple[dict[str, Any], bytes]]


def gate(limit: int) -> tuple[OutputGate, Sent]:
    sent: Sent = []
    return OutputGate(limit, lambda header, body: sent.append((header, body))), sent


def text(sent: Sent) -> str:
    return b"".join(body for header, body in sent if header["type"] == "stream").decode()


def dropped(sent: Sent) -> int:
    return sum(header["bytes"] for header, _ in sent if header["type"] == "dropped")


def test_what_is_within_the_limit_passes_at_once() -> None:
    out, sent = gate(1000)
    out.stream("stdout", "abc")
    assert sent == [({"type": "stream", "name": "stdout"}, b"abc")]
    out.finish()
    assert dropped(sent) == 0


def test_head_and_tail_and_the_exact_count_between() -> None:
    out, sent = gate(4000)  # 3000 for the head, 1000 for the tail
    out.stream("stdout", "h" * 5000 + "t" * 5000)
    out.finish()
    assert [len(body) for header, body in sent if header["type"] == "stream"] == [
        3000 - OVERHEAD,
        1000 - OVERHEAD,
    ]
    assert text(sent) == "h" * (3000 - OVERHEAD) + "t" * (1000 - OVERHEAD)
    assert dropped(sent) == 10_000 - 4000 + 2 * OVERHEAD
    assert [header["type"] for header, _ in sent] == ["stream", "dropped", "stream"]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=40),
    st.integers(10, 3000),
)
def test_nothing_is_lost_uncounted(pieces: list[str], limit: int) -> None:
    out, sent = gate(limit)
    for piece in pieces:
        out.stream("stdout", piece)
    out.finish()
    written = "".join(pieces)
    kept = text(sent)
    assert len(kept.encode()) + dropped(sent) == len(written.encode())
    assert len(kept.encode()) <= limit
    first = (
        b"".join(body for header, body in sent[: [h["type"] for h, _ in sent].index("dropped")])
        if dropped(sent)
        else b""
    )
    assert written.encode().startswith(first)


def test_empty_displays_are_not_free() -> None:
    out, sent = gate(10_000)
    for _ in range(100_000):
        out.rich("display", {"text/plain": ""})
    out.finish()
    assert len(sent) < 10_000 / OVERHEAD + 3
    assert [header["type"] for header, _ in sent].count("flood") == 1


def test_only_text_is_kept_of_what_is_displayed() -> None:
    out, sent = gate(10_000)
    out.rich("result", {"text/plain": "x", 5: "y", "application/json": {"a": 1}})
    out.rich("display", {"image/png": None})
    assert sent == [({"type": "rich", "kind": "result"}, b'{"text/plain": "x"}')]


def test_the_error_comes_last_and_is_never_dropped_for_what_came_before() -> None:
    out, sent = gate(100)
    out.stream("stdout", "x" * 10_000)
    out.error("ValueError", "m" * 200_000, "t")
    header, body = sent[-1]
    said = json.loads(body)
    assert header == {"type": "error"}
    assert said["name"] == "ValueError"
    assert 64 * 1024 < len(said["message"]) < 66 * 1024
    for _ in range(1000):
        out.error("E", "m", "t")
    assert [header["type"] for header, _ in sent].count("error") == MAX_ERRORS


def test_cut() -> None:
    assert cut("short") == "short"
    assert cut("a" * 10 + "b" * 10, 4) == "aa\n... 16 characters ...\nbb"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPpayload\x1b\\after", "after"),
        ("\x9b31mred", "red"),
        ("\x1bcreset", "reset"),
        ("a\x00b\x07c\x08d\x7fe\x85f", "abcdef"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("10%\r20%\r30%", "30%"),
        ("10%\r20%\r", "20%"),
        ("a\rb\nc\rd", "b\nd"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
        ("é漢🎉", "é漢🎉"),
        (None, ""),
        (5, ""),
        ([[]], ""),
    ],
)
def test_clean(raw: object, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text())
def test_cleaned_text_is_safe_and_stays_as_it_is(raw: str) -> None:
    shown = clean(raw)
    shown.encode()
    assert all(c in "\t\n" or not (ord(c) < 32 or 0x7F <= ord(c) < 0xA0) for c in shown)
    assert clean(shown) == shown


def test_cleaning_a_long_line_is_linear() -> None:
    """A quadratic one would take hours for this."""
    line = "x" * 5_000_000
    assert clean(line + "\n") == line + "\n"
    assert len(clean("\x1b[" + "0" * 1_000_000)) <= 1_000_000


@given(
    st.text(st.sampled_from("ab\x1b[]31;m\n\x07\\"), max_size=60), st.lists(st.integers(0, 60), max_size=8)
)
def test_pieces_are_cleaned_like_the_whole(raw: str, places: list[int]) -> None:
    cleaner = TextCleaner()
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    pieces = [cleaner.feed(raw[a:b]) for a, b in pairwise(edges)]
    assert "".join(pieces) + cleaner.finish() == clean(raw)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["\r10%", "\r20%", "\r30%\n", "done\n"], ["", "", "30%\n", "done\n", ""]),
        (["10%\r", "20%\r", "30%"], ["", "", "", "30%"]),
        (["10%", "\r20%", "\n"], ["10%", "", "\n20%\n", ""]),
        (["line\r", "\nnext"], ["", "line\nnext", ""]),
        (["no end"], ["no end", ""]),
    ],
)
def test_lines_that_are_overwritten(pieces: list[str], shown: list[str]) -> None:
    cleaner = TextCleaner()
    assert [*map(cleaner.feed, pieces), cleaner.finish()] == shown


def test_what_is_held_back_is_bounded() -> None:
    cleaner = TextCleaner()
    shown = "".join(cleaner.feed("\r" + "x" * 1000) for _ in range(1000)) + cleaner.feed("x" * 100_000)
    assert len(shown) + len(cleaner.finish()) < 250_000


def test_clean_error() -> None:
    assert clean_error("pkg.My<b>Error\n") == "pkg.MybError"
    assert clean_error("E" * 500) == "E" * 100


def failing(depth: int) -> None:
    if depth:
        failing(depth - 1)
    raise KeyError("k")


def name_of(file: str) -> str | None:
    return "Cell 1" if file == __file__ else None


def test_own_frames_with_their_lines_and_one_line_for_a_library() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        lines = brief(error, name_of)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].startswith("  Cell 1, line ")
    assert lines[1].endswith(
        'in test_own_frames_with_their_lines_and_one_line_for_a_library\n    json.loads("{")'
    )
    assert lines[2].startswith("  ... 3 frames in json, the last at ")
    assert lines[3].startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert len(lines) == 4


def test_deep_tracebacks_are_short() -> None:
    try:
        failing(100)
    except KeyError as error:
        lines = brief(error, name_of)
    assert lines[7] == "  ... 90 more frames ..."
    assert lines[-1] == "KeyError: 'k'"
    assert len(lines) == 15


def test_causes_are_one_line_each() -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("k")
    assert brief(error, name_of) == ["ValueError: outer", "(caused by KeyError: 'k')"]


def test_an_exception_that_cannot_be_shown() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "Hostile" in brief(Hostile(), name_of)[-1]


@pytest.mark.parametrize(
    ("cell", "last"),
    [
        (
            lambda: ElementTree.fromstring("<a>"),
            "xml.etree.ElementTree.ParseError: no element found: line 1, column 3",
        ),
        (lambda: ast.literal_eval("1 +"), "SyntaxError: invalid syntax"),
        (lambda: compile("1 +", "<string>", "eval"), "SyntaxError: invalid syntax"),
    ],
)
def test_a_syntax_error_of_text_that_code_read_has_its_line_in_the_cell(
    cell: Callable[[], object], last: str
) -> None:
    with pytest.raises(SyntaxError) as caught:
        cell()
    lines = brief(caught.value, name_of)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].startswith("  Cell 1, line ")
    assert lines[-1] == last


def test_a_syntax_error_of_the_cell_itself_is_without_frames() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("x = = 1", __file__, "exec")
    assert brief(caught.value, lambda file: "Cell 1" if file == "<cell>" else None)[0].startswith("  File ")


def test_an_output_that_no_frame_carries_is_dropped_and_counted() -> None:
    """With a limit of 200 MB, its head alone has room for it."""
    sequencer = frames.Sequencer()
    sent: list[dict[str, Any]] = []

    def emit(header: dict[str, Any], body: bytes) -> None:
        sequencer.wrap(header, body)
        sent.append(header)

    out = OutputGate(200_000_000, emit)
    out.rich("result", {"text/plain": "x" * frames.MAX_BODY})
    out.stream("stdout", "after")
    out.finish()
    assert [header["type"] for header in sent] == ["dropped", "stream"]
    assert sent[0]["bytes"] > frames.MAX_BODY
