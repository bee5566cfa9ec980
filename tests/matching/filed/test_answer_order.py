"""The order of ids in answers: known before any publication comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import MatchIndex
from shoal.model import Filter

BOUNDS = st.tuples(st.integers(0, 9), st.integers(0, 9))
FORMS = (
    "price > {}",
    "price < {}",
    "price >= {} AND price <= {}",
    "volume >= {} AND volume < {}",
    "volume > {} AND price < {}",
    "name > '{}'",
    "name < '{}' AND volume > {}",
    "",
)
TEXTS = st.tuples(st.sampled_from(["P", "Q"]), st.sampled_from(FORMS), BOUNDS).map(
    lambda drawn: " AND ".join(filter(None, [f"symbol = '{drawn[0]}'", drawn[1].format(*drawn[2])]))
)
NUMBERS = st.integers(0, 9) | st.floats(0, 9)
PUBLICATIONS = st.fixed_dictionaries(
    {"symbol": st.just("P")},
    optional={"price": NUMBERS, "volume": NUMBERS, "name": st.sampled_from("0123456789")},
)
WHOLE: dict[str, Any] = {"symbol": "P", "price": 5, "volume": 5.0, "name": "5"}
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 20), TEXTS.map(parse)),
        st.tuples(st.integers(0, 20), st.none()),
        PUBLICATIONS,
    ),
    max_size=80,
)


@given(CHANGES)
def test_answers_have_their_ids_in_one_order(
    changes: list[tuple[int, Filter | None] | dict[str, Any]],
) -> None:
    index = MatchIndex()
    for change in changes:
        if isinstance(change, dict):
            order = index.answer_order(WHOLE)
            assert order is not None
            found = index.match(change)
            assert found == [id for id in order if id in found]
            continue
        id, filter = change
        if filter is not None:
            index.add(id, filter)
        elif id in index:
            index.remove(id)


@pytest.mark.parametrize(
    "text", ["price > 1 OR volume > 1", "name LIKE '%a%'", "price + 1 > volume"]
)
def test_no_order_is_known_of_filters_that_are_tested(text: str) -> None:
    index = MatchIndex()
    index.add("plain", parse("price > 3"))
    assert index.answer_order(WHOLE) == ["plain"]
    index.add("tested", parse(text))
    assert index.answer_order(WHOLE) is None
