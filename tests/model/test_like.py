"""LIKE patterns: escapes, and the canonical form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.model.like import Wildcard, canonical_pattern, elements, escape_literal


@given(st.text())
def test_an_escaped_text_is_one_literal(text: str) -> None:
    assert elements(escape_literal(text)) == ((text,) if text else ())


@given(st.lists(st.sampled_from(["%", "_", "a", "!%", "!_", "!!", "\\"])).map("".join))
def test_the_escape_can_be_exchanged(pattern: str) -> None:
    assert elements(canonical_pattern(pattern, "!")) == elements(pattern, "!")


def test_runs_of_percent_are_one_run() -> None:
    assert elements("%%_%%") == (Wildcard.ANY_RUN, Wildcard.ANY_ONE, Wildcard.ANY_RUN)


@pytest.mark.parametrize("pattern", ["a\\", "\\a"])
def test_a_stray_escape_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match="must stand before"):
        elements(pattern)
