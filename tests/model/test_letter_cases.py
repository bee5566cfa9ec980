"""Lower and upper case are those of Unicode 14 on every Python."""

from __future__ import annotations

import hashlib
import sys

import pytest

from shoal.model.expressions import letter_cases
from shoal.model.expressions.letter_cases import lower, upper

UNICODE_14 = "42e06d672cc471278c2954cff5bc55e415256164b1aff7cabb8874ac45bea43e"
LETTERS = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]


def test_every_letter_has_the_case_of_unicode_14() -> None:
    """Whatever Unicode this Python knows: two brokers that disagree would route differently."""
    found = hashlib.sha256()
    for letter in LETTERS:
        found.update(f"{letter}{lower(letter)}{upper(letter)}\n".encode())
    assert found.hexdigest() == UNICODE_14


@pytest.mark.parametrize("later", [True, False])
def test_letters_that_got_a_case_later_keep_what_they_have(
    later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_cases, "_IS_LATER", later)
    assert upper("a\u019bb\u0264\U00010d70c") == "A\u019bB\u0264\U00010d70C"
    assert lower("A\U00010d50B\ua7dc") == "a\U00010d50b\ua7dc"
    # Beside a letter without case, sigma ends a word; beside an old letter it does not.
    assert lower("ΑΣ\U00010d50Σ") == "ας\U00010d50\u03c3"
    assert lower("Σ\u0264Σ") == "\u03c3\u0264ς"
