"""Filters with expressions in brokers' messages: they arrive as they were, or are refused."""

from __future__ import annotations

import msgspec
import pytest

from shoal.broker.wire import read_filter
from shoal.language import parse
from shoal.model import Expression, FilterError, Kind, Operator, Predicate
from shoal.model.expressions import DERIVED


@pytest.mark.parametrize(
    "text",
    [
        "a - b > 5",
        "exists(tags, t -> t LIKE 'a%') OR CASE WHEN a > 1 THEN b END < 0.5",
        "distance(lat, lon, 52.5, 13.4) <= 5000 AND NOT startswith(s, 'é')",
    ],
)
def test_a_filter_with_expressions_arrives_as_it_was(text: str) -> None:
    filter = parse(text)
    sent = msgspec.msgpack.encode(filter.expression)
    assert read_filter(msgspec.msgpack.decode(sent, type=Expression)) == filter


@pytest.mark.parametrize(
    "name",
    [
        DERIVED + '["call","system",["x"]]',
        DERIVED + '["call","coalesce",[' + ",".join(['["call","lower",["a"]]'] * 300) + "]]",
        DERIVED + '["call","abs",[' * 500 + "1" + "]]" * 500,
        DERIVED + "{",
    ],
)
def test_a_damaged_or_costly_expression_of_a_neighbour_is_refused(name: str) -> None:
    with pytest.raises(FilterError):
        read_filter(Predicate(name, Operator.GT, 5, Kind.NUMBER))
