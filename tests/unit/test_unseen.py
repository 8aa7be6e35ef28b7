"""Answers that were made up."""

from __future__ import annotations

import pytest

from codeact.unseen import made_up

SHOWN = ["Task: Which city? Files: 60 rows", "Output:\nOslo  8096.40\nr = -0.0038745\ntotal 1,234"]


@pytest.mark.parametrize(
    ("source", "constant"),
    [
        ("final_answer('Oslo')", None),
        ("final_answer('oslo ')", None),
        ("final_answer('Quito')", "'Quito'"),
        ("final_answer(8096.4)", None),
        ("final_answer(8096)", None),
        ("final_answer(-0.004)", None),
        ("final_answer(0.004)", "0.004"),
        ("final_answer(1234)", None),
        ("final_answer(68)", "68"),
        ("final_answer(True)", None),
        ("final_answer('no')", None),
        ("final_answer(total)", None),
        ("total = 68\nfinal_answer(total)", None),
        ("final_answer([1, 2])", None),
        ("final_answer(", None),
    ],
)
def test_constants_must_have_been_shown(source: str, constant: str | None) -> None:
    assert made_up(source, SHOWN, begun=True) == constant


@pytest.mark.parametrize(
    ("source", "constant"),
    [("final_answer('Oslo')", "'Oslo'"), ("final_answer('no')", None), ("final_answer(8096.4)", None)],
)
def test_before_anything_was_run_words_are_a_guess_though_they_were_shown(
    source: str, constant: str | None
) -> None:
    assert made_up(source, SHOWN, begun=False) == constant
