"""Framing: any cut of a stream gives the same frames; anything else ends in one error, with bounded memory."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.guest import frames
from sandbox.guest.frames import Decoder, FrameError, Sequencer, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
HEADERS = st.dictionaries(st.text(max_size=8), JSON, max_size=4)
FRAMES = st.lists(st.tuples(HEADERS, st.binary(max_size=200)), max_size=6)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=20))
def test_any_cut_gives_the_same_frames(sent: list[tuple[dict[str, Any], bytes]], places: list[int]) -> None:
    decoder = Decoder()
    data = b"".join(encode(*frame) for frame in sent)
    assert [frame for piece in cut(data, places) for frame in decoder.feed(piece)] == sent


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_garbage_raises_nothing_but_frame_errors(data: bytes, places: list[int]) -> None:
    decoder = Decoder(max_header=100, max_body=100)
    try:
        for piece in cut(data, places):
            list(decoder.feed(piece))
    except FrameError:
        with pytest.raises(FrameError):
            list(decoder.feed(encode({})))


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", frames.MAX_HEADER + 1, 0),
        struct.pack(">II", 2, frames.MAX_BODY + 1),
        struct.pack(">II", 2, 0) + b"[]",
        struct.pack(">II", 4, 0) + b"null",
        struct.pack(">II", 0, 0),
        struct.pack(">II", 3, 0) + b"\xff\xfe\xfd",
        struct.pack(">II", 200_000, 0) + b"[" * 200_000,
        struct.pack(">II", 10_005, 0) + b'{"a":' + b"1" * 9_999 + b"}",
    ],
    ids=["header", "body", "list", "null", "empty", "bytes", "deep", "number"],
)
def test_what_is_not_a_frame(data: bytes) -> None:
    with pytest.raises(FrameError):
        list(Decoder().feed(data))


def test_a_truncated_frame_waits() -> None:
    decoder = Decoder()
    data = encode({"a": 1}, b"body")
    assert list(decoder.feed(data[:-1])) == []
    assert list(decoder.feed(data[-1:])) == [({"a": 1}, b"body")]


def test_too_large_to_send() -> None:
    with pytest.raises(FrameError, match="too large"):
        encode({}, bytes(frames.MAX_BODY + 1))


def decoded(data: bytes) -> list[frames.Frame]:
    return list(Decoder().feed(data))


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_whatever_gets_lost_is_sent_again_once(arrives: list[bool]) -> None:
    """Each False is a stream that breaks and takes the frame with it; the peers then resume."""
    sender, receiver = Sequencer(), Sequencer()
    got: list[int] = []

    def take(data: bytes) -> None:
        for header, body in decoded(data):
            if receiver.accept(header, body):
                got.append(header["n"])

    broken = False
    for number, whole in enumerate(arrives):
        frame = sender.wrap({"n": number})
        broken = broken or not whole
        if not broken:
            take(frame)
        elif number % 3 == 0:
            take(sender.resume(receiver.received))
            broken = False
    take(sender.resume(receiver.received))
    take(sender.resume(0))  # a peer that says it has less than it has
    assert got == list(range(len(arrives)))


def test_a_gap_or_a_wrong_type_of_number_is_an_error() -> None:
    for seq in (2, 0.5, "1", True, [1]):
        with pytest.raises(FrameError):
            Sequencer().accept({"seq": seq}, b"")


def test_acknowledged_frames_are_let_go() -> None:
    sender, receiver = Sequencer(), Sequencer()
    for _ in range(Sequencer.ACK_FRAMES):
        ((header, body),) = decoded(sender.wrap({}, b"12345"))
        receiver.accept(header, body)
    assert sender.unacked_bytes > 0
    ack = receiver.ack()
    assert ack is not None
    ((header, body),) = decoded(ack)
    assert sender.accept(header, body)
    assert sender.unacked_bytes == 0
    assert sender.resume(0) == b""


def test_acknowledgements_of_what_was_never_sent_are_ignored() -> None:
    sender = Sequencer()
    frame = sender.wrap({"op": "x"})
    sender.accept({"ack": 99}, b"")
    sender.accept({"ack": "1"}, b"")
    assert sender.resume(None) == frame
    assert json.loads(frame[8:])["seq"] == 1
