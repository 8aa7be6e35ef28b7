"""Names from inside, made safe for the host."""

from __future__ import annotations

import pytest

from codeact.artifacts import safe_name


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("report.xlsx", "report.xlsx"),
        ("a/b/ä ö.csv", "a/b/ä ö.csv"),
        ("../../etc/passwd", "etc/passwd"),
        ("/abs//x", "abs/x"),
        ("./a/./b", "a/b"),
        ("new\nline\x1b[31m.txt", "new_line_[31m.txt"),
        ("rtl\u202egpj.exe", "rtl_gpj.exe"),
        ("bad\udcff.bin", "bad_.bin"),
        ('c:\\x<y>|"*?.txt', "c__x_y_____.txt"),
        ("cafe\u0301.csv", "caf\xe9.csv"),
        ("..", "file"),
        ("x" * 300, "x" * 150),
        ("x" * 300 + ".csv", "x" * 146 + ".csv"),
    ],
)
def test_names_are_safe(inside: str, outside: str) -> None:
    assert safe_name(inside) == outside
