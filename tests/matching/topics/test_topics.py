"""The index of topic subscriptions and groups, against naive matching through churn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.language import parse
from shoal.matching import matches
from shoal.matching.topics.filters import TopicError, read_topic_filter, topic_matches
from shoal.matching.topics.index import TopicIndex
from shoal.matching.topics.memory import MOST_BYTES, TopicMemory
from shoal.model import EVERYTHING, And, Filter, FilterError, Value
from tests.examples import examples

Publication = dict[str, Value]

LEVELS = st.sampled_from(["a", "b", "", "$a"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)


def with_rest(levels: list[str], rest: str) -> str:
    return "/".join([*levels, rest] if rest else levels) or "+"


TOPIC_FILTERS = st.builds(
    with_rest,
    st.lists(st.sampled_from(["a", "b", "", "$a", "+", "+"]), max_size=4),
    st.sampled_from(["", "", "#"]),
)
ANY_TOPIC_FILTERS = st.one_of(
    TOPIC_FILTERS, st.builds("$share/{}/{}".format, st.sampled_from("gh"), TOPIC_FILTERS)
)
CONTENT = st.sampled_from(
    [EVERYTHING, EVERYTHING, *map(parse, ("x > 1", "x < 3", "x = 2 OR y", "y IS NULL", "FALSE"))]
)
PUBLICATIONS: list[Publication] = [{}, {"x": 1}, {"x": 2, "y": True}, {"x": 3}, {"y": "no"}]


class NaiveTopics:
    """Every subscription is tested; a group is a list whose chosen member goes last."""

    def __init__(self) -> None:
        self.subscriptions: dict[Hashable, tuple[str, Filter]] = {}
        self.queues: dict[tuple[str, ...], list[Hashable]] = {}

    def add(self, id: Hashable, topic_filter: str, filter: Filter) -> None:
        if id in self.subscriptions:
            self.remove(id)
        self.subscriptions[id] = (topic_filter, filter)
        self.queues.setdefault(self.group(topic_filter), []).append(id)

    def remove(self, id: Hashable) -> None:
        topic_filter, _ = self.subscriptions.pop(id)
        self.queues[self.group(topic_filter)].remove(id)

    def match(self, topic: str, attributes: Publication) -> list[Hashable]:
        found: list[Hashable] = []
        for group, queue in self.queues.items():
            matching = [id for id in queue if self.wants(id, topic, attributes)]
            if group and matching:
                queue.remove(matching[0])
                queue.append(matching[0])
                found.append(matching[0])
            else:
                found += matching
        return found

    def wants(self, id: Hashable, topic: str, attributes: Publication) -> bool:
        topic_filter, filter = self.subscriptions[id]
        return topic_matches(topic_filter, topic) and matches(filter, attributes)

    @staticmethod
    def group(topic_filter: str) -> tuple[str, ...]:
        return (topic_filter,) if read_topic_filter(topic_filter).group else ()


def is_bare(index: TopicIndex) -> bool:
    return not len(index) and not index._exact and index._trie.is_empty


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 9), ANY_TOPIC_FILTERS, CONTENT),
    st.tuples(st.just("add"), st.integers(0, 9), ANY_TOPIC_FILTERS, CONTENT),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("match"), TOPICS, st.sampled_from(PUBLICATIONS)),
    st.tuples(st.just("match"), TOPICS, st.sampled_from(PUBLICATIONS)),
)


@given(st.lists(STEPS, max_size=40))
@settings(max_examples=examples(120))
def test_the_topic_index_equals_naive_matching_through_churn(steps: list[Any]) -> None:
    index, truth = TopicIndex(), NaiveTopics()
    for kind, *arguments in steps:
        if kind == "add":
            index.add(*arguments)
            truth.add(*arguments)
        elif kind == "match":
            assert sorted(index.match(*arguments)) == sorted(truth.match(*arguments))
        elif arguments[0] in truth.subscriptions:
            index.remove(*arguments)
            truth.remove(*arguments)
        assert set(index) == set(truth.subscriptions)
    for id in list(index):
        index.remove(id)
    assert is_bare(index)


def test_long_churn_leaves_no_entries() -> None:
    chance = random.Random(11)
    index, truth = TopicIndex(), NaiveTopics()
    contents = [EVERYTHING, parse("x > 1"), parse("x <= 1 OR y")]
    for _ in range(examples(2_000)):
        id = chance.randrange(150)
        if id in index and chance.random() < 0.5:
            index.remove(id)
            truth.remove(id)
        else:
            levels = [chance.choice(["a", "b", "c", "+", ""]) for _ in range(chance.randint(1, 4))]
            topic_filter = chance.choice(["", "$share/g/"]) + ("/".join(levels) or "#")
            content = chance.choice(contents)
            index.add(id, topic_filter, content)
            truth.add(id, topic_filter, content)
        topic = "/".join(chance.choice("abc") for _ in range(chance.randint(1, 4)))
        attributes: Publication = {"x": chance.randrange(4)}
        assert sorted(index.match(topic, attributes)) == sorted(truth.match(topic, attributes))
    for id in list(index):
        index.remove(id)
    assert is_bare(index)


def test_members_of_a_group_take_turns_in_the_order_of_joining() -> None:
    index = TopicIndex()
    for member in ("m1", "m2", "m3"):
        index.add(member, "$share/g/t/#")
    assert [index.match("t/x", {}) for _ in range(4)] == [["m1"], ["m2"], ["m3"], ["m1"]]
    index.add("m4", "$share/g/t/#")
    index.remove("m3")
    assert [index.match("t", {}) for _ in range(4)] == [["m2"], ["m1"], ["m4"], ["m2"]]


def test_each_group_gets_one_and_equal_names_with_other_filters_are_other_groups() -> None:
    index = TopicIndex()
    asked = {"a1": "$share/a/t", "a2": "$share/a/t", "b": "$share/b/t", "c": "$share/a/+", "d": "t"}
    for id, topic_filter in asked.items():
        index.add(id, topic_filter)
    assert sorted(index.match("t", {})) == ["a1", "b", "c", "d"]
    assert sorted(index.match("t", {})) == ["a2", "b", "c", "d"]


def test_a_group_is_fair_to_members_that_want_only_some() -> None:
    index = TopicIndex()
    index.add("all", "$share/g/t")
    index.add("large", "$share/g/t", parse("n >= 50"))
    index.add("small", "$share/g/t", parse("n < 50"))
    served = Counter(id for n in range(100) for id in index.match("t", {"n": n}))
    assert served == {"all": 50, "large": 25, "small": 25}
    assert index.match("t", {"n": "no number"}) == ["all"]
    index.remove("all")
    assert index.match("t", {}) == []


def test_an_id_replaces_its_subscription_and_keeps_payloads() -> None:
    index = TopicIndex()
    index.add("s", "a", payload=1)
    index.add("s", "b/+", parse("x"), payload=2)
    assert index.match("a", {}) == []
    assert index.match("b/c", {"x": True}) == ["s"]
    assert len(index) == 1
    assert "s" in index
    assert index["s"] == ("b/+", parse("x"), 2)


def test_the_index_knows_whether_attributes_are_needed() -> None:
    index = TopicIndex()
    index.add("plain", "a/#")
    index.add("content", "a/b", parse("x"))
    index.add("shared", "$share/g/a/c", parse("x"))
    needed = [index.asks_for_content(topic) for topic in ("a", "a/b", "a/c", "z")]
    assert needed == [False, True, True, False]


def test_a_refused_subscription_changes_nothing() -> None:
    index = TopicIndex()
    index.add("s", "a")
    large = And(tuple(parse(f"(a = {n} OR b = {n})").expression for n in range(7)))
    with pytest.raises(TopicError):
        index.add("s", "a/#/b")
    with pytest.raises(FilterError):
        index.add("s", "b", Filter(large))
    assert index.match("a", {}) == ["s"]
    with pytest.raises(KeyError):
        index.remove("t")
    index.remove("s")
    assert is_bare(index)


def test_a_topic_with_wildcards_finds_no_filter_by_its_text() -> None:
    index = TopicIndex()
    index.add("s", "a/+")
    index.add("t", "a/b")
    assert index.match("a/+", {}) == ["s"]


def test_cached_topics_are_bounded() -> None:
    index = TopicIndex()
    index._cache = TopicMemory(most=3)
    index.add("s", "+")
    for number in range(10):
        assert index.match(str(number), {}) == ["s"]
        assert len(index._cache) <= 3
    index.add("t", "9")
    assert index.match("9", {}) == ["t", "s"]


def test_cached_long_topics_and_their_matches_are_bounded() -> None:
    index = TopicIndex()
    index.add("s", "+")
    for number in range(1_300):
        assert index.match(f"{number:_>60000}", {}) == ["s"]
    assert 100 < len(index._cache) < 1_150
    assert sum(map(len, index._cache)) <= MOST_BYTES
    many: TopicMemory[int] = TopicMemory(most_bytes=10_000)
    for number in range(100):
        many.keep(str(number), number, places=100)
        assert many[str(number)] == number
        assert len(many) < 10
    many.keep("a", 1, places=10_000)
    assert dict(many) == {"a": 1}


def test_many_levels_and_branches_take_bounded_work() -> None:
    index = TopicIndex()
    index.add("deep", "/".join(["+"] * 200))
    chance = random.Random(5)
    for number in range(300):
        index.add(number, "/".join(chance.choice(["a", "+"]) for _ in range(100)))
    assert index.match("/".join(["a"] * 200), {}) == ["deep"]
    assert sorted(index.match("/".join(["a"] * 100), {})) == list(range(300))


def test_an_answer_by_topic_only_is_marked() -> None:
    index = TopicIndex()
    index.add("s1", "a/b")
    index.add("s2", "a/+")
    assert index.match_topic("a/b") == index.match("a/b", {}) == ["s1", "s2"]
    assert index.match_topic("x") == []
    index.add("s3", "a/#", parse("x > 1"))
    index.add("w1", "$share/g/c")
    assert index.match_topic("a/b") is None
    assert index.match_topic("c") is None
    index.remove("s3")
    assert index.match_topic("a/b") == ["s1", "s2"]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.one_of(st.none(), st.tuples(ANY_TOPIC_FILTERS, CONTENT))),
        max_size=30,
    ),
    st.lists(TOPICS, min_size=1, max_size=5),
)
@settings(max_examples=examples(150))
def test_no_topics_outcome_exceeds_its_bound(
    changes: list[tuple[int, tuple[str, Filter] | None]], topics: list[str]
) -> None:
    index = TopicIndex()
    for id, said in changes:
        if said is not None:
            index.add(id, *said)
        elif id in index:
            index.remove(id)
    for topic in topics:
        for attributes in PUBLICATIONS:
            assert len(index.match(topic, attributes)) <= index.most_candidates
    for id in list(index):
        index.remove(id)
    assert index.most_candidates == 0


def test_the_nodes_read_for_one_topic_are_bounded() -> None:
    index = TopicIndex()
    for number in range(100):
        index.add(number, f"device/{number}")
    assert index.most_candidates == 1
    for number in range(100, 200):
        index.add(number, "quotes", parse(f"symbol = 'S{number}' AND price > 1"))
    assert index.most_candidates == 1
    for number in range(200, 230):
        index.add(number, "quotes", parse(f"price > {number}"))
    assert index.most_candidates == 31
    for number in range(300, 307):
        index.add(number, f"+/{number}")
    index.add(400, "$share/g/#", parse("price > 1"))
    assert index.most_candidates == 31 + 7 + 2
    assert index.weigh("quotes", {"symbol": "S101", "price": 210}) == (0, 1 + 10 + 1)
    for number in range(200, 230):
        index.remove(number)
    index.remove(400)
    assert index.most_candidates == 1 + 7
