"""The automaton of string conditions: acceptance, and states without a future change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.matching.relations.string_search import AtLeast, Below, Constraint, Like, OneOf, exists
from shoal.model.like import escape_literal
from tests.matching.naive_like import like
from tests.strategies import STRINGS, patterns

TEXTS = st.one_of(st.sampled_from(STRINGS), st.text(alphabet="\0ab", max_size=5))


def accepts(constraint: Constraint, text: str) -> bool:
    state = constraint.start
    for character in text:
        # Dead and sure states may not change their minds.
        doomed, safe = constraint.is_dead(state), constraint.is_sure(state)
        state = constraint.step(state, character)
        assert not doomed or constraint.is_dead(state)
        assert not safe or constraint.is_sure(state)
    return constraint.accepts(state)


@given(TEXTS, TEXTS)
def test_comparisons_are_accepted(bound: str, text: str) -> None:
    assert accepts(AtLeast(bound), text) is (text >= bound)
    assert accepts(Below(bound), text) is (text < bound)


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_lists_are_accepted(listed: list[str], text: str) -> None:
    assert accepts(OneOf(listed), text) is (text in listed)


@given(patterns(), TEXTS)
def test_patterns_are_accepted(pattern: str, text: str) -> None:
    assert accepts(Like(pattern), text) is like(text, pattern)


@given(patterns(), st.booleans())
def test_every_pattern_has_a_match(pattern: str, percent: bool) -> None:
    meeting = [(Like(pattern), True)]
    assert exists(meeting) is True
    assert exists([*meeting, (Like("%" if percent else pattern), False)]) is False


@pytest.mark.parametrize("text", STRINGS)
def test_an_equality_accepts_only_itself(text: str) -> None:
    alone = [(Like(escape_literal(text)), True)]
    assert exists(alone, breaking=[(OneOf([text]), True)]) is False
    assert exists(alone, breaking=[(OneOf([text]), False)]) is True
