"""Thousands of costly expressions are evaluated in time slices, once for each message."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from shoal.language import parse
from shoal.matching import MatchIndex, matches
from shoal.matching.filed.remembered_tests import RememberedTest
from shoal.matching.topics.index import TopicIndex
from tests.matching.costly import costly

COUNT = 600
SLICE_US = 5_000


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tests were evaluated; each call of a test counts."""
    found = [0]
    made = RememberedTest.__init__

    def make(self: Any, conjunction: Any, test: Any, work: int) -> None:
        def count(attributes: Any) -> bool:
            found[0] += 1
            return bool(test(attributes))

        made(self, conjunction, count, work)

    monkeypatch.setattr(RememberedTest, "__init__", make)
    return found


def test_slices_evaluate_all_and_the_match_none(evaluated: list[int]) -> None:
    random = Random(4)
    filters = {f"s{number}": parse(costly(random, number)) for number in range(COUNT)}
    index = MatchIndex()
    for id, each in filters.items():
        index.add(id, each)
    assert index.most_candidates > 10 * COUNT
    for message in ({"a": 2**60, "b": 300}, {"a": True, "b": 1}, {"a": 1, "b": 1.5}, {"b": 7}):
        assert not index.prepare(message, 0)
        slices = 1
        before = evaluated[0]
        while not index.prepare(message, SLICE_US):
            assert 0 < evaluated[0] - before < COUNT / 4
            before = evaluated[0]
            slices += 1
        assert slices > 4
        before = evaluated[0]
        assert set(index.match(message)) == {
            id for id, each in filters.items() if matches(each, message)
        }
        assert evaluated[0] == before
        # Equal values of another message are other objects, or other types.
        assert set(index.match({**message, "b": 0})) == {
            id for id, each in filters.items() if matches(each, {**message, "b": 0})
        }


def test_few_expressions_need_no_slices() -> None:
    index = MatchIndex()
    for number in range(50):
        index.add(number, parse(f"a + {number} * b > 3"))
    assert index.prepare({"a": 1, "b": 2}, 0)
    for number in range(50):
        index.remove(number)
    assert index.most_candidates == 0


def test_a_topic_with_costly_filters_is_known(evaluated: list[int]) -> None:
    random = Random(5)
    index: TopicIndex[str] = TopicIndex()
    for number in range(COUNT):
        index.add(f"s{number}", "t/#", parse(costly(random, number)))
    assert not index.prepare("t/1", {}, 0)
    assert index.prepare("u/1", {}, 0)
