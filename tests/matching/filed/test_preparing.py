"""Long texts that are searched in slices, before a publication is matched."""

from __future__ import annotations

import random
import time
from unittest import mock

import pytest

from shoal.language import parse
from shoal.matching import MatchIndex, TopicIndex, long_texts
from shoal.model import Filter, Operator, predicate
from tests.matching.naive_like import like


def drawn(chance: random.Random) -> tuple[list[str], str]:
    """Patterns of two letters, and a text of the same."""
    patterns = []
    for _ in range(200):
        pieces = ("".join(chance.choices("ab", k=chance.randint(1, 9))) for _ in range(3))
        patterns.append("%" + chance.choice(["%", "_"]).join(pieces) + "%")
    return patterns, "".join(chance.choices("ab", k=600))


@pytest.mark.parametrize("most_answers", [0, 40, 262_144])
@pytest.mark.parametrize("work_us", [0.1, 5, 1_000])
def test_a_sliced_search_finds_what_a_match_finds(work_us: float, most_answers: int) -> None:
    chance = random.Random(f"{work_us} {most_answers}")
    patterns, text = drawn(chance)
    index = MatchIndex()
    for number, pattern in enumerate(patterns):
        index.add(number, Filter(predicate("a", Operator.LIKE, pattern)))
    attributes = {"a": text, "b": 1}
    with mock.patch.object(long_texts, "MOST_ANSWERS", most_answers):
        long_texts._texts.clear()
        turns = 1
        while not index.prepare(attributes, work_us):
            turns += 1
            assert turns < 1_000
        expected = [number for number, each in enumerate(patterns) if like(text, each)]
        assert sorted(index.match(attributes)) == expected
    assert turns > 1 or work_us == 1_000 or not most_answers


def test_preparing_a_topic_covers_all_filters_and_chooses_no_member() -> None:
    index = TopicIndex()
    for name in ("s1", "s2"):
        index.add(name, f"$share/{name}/t", parse("a LIKE '%b_b%'"))
    index.add("s3", "t", parse("a LIKE '%ba%'"))
    index.add("s4", "$share/s1/t", parse("a LIKE '%b_b%'"))
    attributes = {"a": "ab" * 600}
    while not index.prepare("t", attributes, 1):
        pass
    assert index.match("t", attributes) == ["s3", "s1", "s2"]


def test_thousands_of_searches_in_one_text_take_many_short_slices() -> None:
    """In processor time: all of them together take 100 to 200 ms, and none ends before its answer
    is known.
    """
    chance = random.Random(1)
    index = MatchIndex()
    for number in range(8_000):
        pattern = "".join(chance.choices("ab", k=14))
        index.add(number, Filter(predicate("a", Operator.LIKE, f"%{pattern}%")))
    longest = []
    with mock.patch.object(MatchIndex, "may_wait", False):  # as in a broker
        for _ in range(3):
            attributes = {"a": "".join(chance.choices("ab", k=16_384))}
            turns = []
            is_done = False
            while not is_done:
                began = time.process_time()
                is_done = index.prepare(attributes, 10_000)
                turns.append(time.process_time() - began)
            assert len(turns) > 4
            began = time.process_time()
            index.match(attributes)
            longest.append(max(*turns, time.process_time() - began))
    assert min(longest) < 0.05
