"""Literals of the SQL language: strings, names and numbers, written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.language.literals import (
    read_number,
    read_quoted_name,
    read_string,
    write_name,
    write_number,
    write_string,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS)
def test_strings_read_back_equal(text: str) -> None:
    assert read_string(write_string(text)) == text


@given(TEXTS.filter(bool))
def test_names_read_back_equal(name: str) -> None:
    written = write_name(name)
    assert (read_quoted_name(written) if written.startswith("`") else written) == name


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'\n\t\r\0\b\Z'", "\n\t\r\0\b\x1a"),
        (r"'\\ \' \" \x'", "\\ ' \" x"),
        (r"'\% \_'", r"\% \_"),
        (r"'A\101\777'", "AA777"),
        (r"'\u0041\U0001F600'", "A😀"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\u12'", "u12"),
        ("''''", "'"),
    ],
)
def test_escapes_read_as_in_spark(literal: str, value: str) -> None:
    assert read_string(literal) == value


@pytest.mark.parametrize(
    "text", ["", "-", ".", "1e", "e5", "0x10", "1_000", "\u0661", "--1", "1 2"]
)
def test_text_that_is_no_number_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        read_number(text)


def test_infinity_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        write_number(float("inf"))


@given(st.text("\0\b\x1a01237\\%_'n", max_size=12))
def test_strings_of_escape_characters_read_back_equal(text: str) -> None:
    assert read_string(write_string(text)) == text
