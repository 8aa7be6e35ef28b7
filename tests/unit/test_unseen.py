"""Answers that were made up."""

from __future__ import annotations

import pytest

from codeact.unseen import made_up, says_nothing

SHOWN = [
    "Task: Which city? Files: 60 rows of order 3e9412ab-77",
    "Output:\nOslo  8096.40\nr = -0.0038745\ntotal 1,234, p 1.49e-07, at 12,345,678,901,234,567,891, 1__0",
]


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
        ("final_answer(42)", "42"),
        ("final_answer(12345678901234567891)", None),
        ("final_answer(12345678901234567890)", "12345678901234567890"),
        ("final_answer(1.5e-07)", None),
        ("final_answer(1.6e-07)", "1.6e-07"),
        ("final_answer(1e-05)", "1e-05"),
        (f"final_answer({7 * 10**374})", str(7 * 10**374)),
        ("final_answer(1e999)", "inf"),
        ("final_answer({{'total': 5}})", None),
        (f"final_answer({'-' * 20000}1)", None),
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


@pytest.mark.parametrize(
    "answer", [0, 0.0, "", None, [], {}, [0, 0.0], {"a": 0, "b": [[], None]}, [{"n": ""}]]
)
def test_what_finding_nothing_gives_says_nothing(answer: object) -> None:
    assert says_nothing(answer)


@pytest.mark.parametrize("answer", [False, True, "0", "none", 1e-9, [0, 1], {"a": 0, "b": "x"}, [False]])
def test_other_answers_say_something(answer: object) -> None:
    assert not says_nothing(answer)
