from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.matching.topics.filters import TopicError, topic_matches
from shoal.matching.topics.store import TopicStore
from tests.examples import examples
from tests.matching.topics.test_topics import ANY_TOPIC_FILTERS, TOPICS


@given(
    st.lists(st.tuples(TOPICS, st.booleans()), max_size=30),
    st.lists(ANY_TOPIC_FILTERS, min_size=1, max_size=5),
)
@settings(max_examples=examples(100))
def test_the_store_agrees_with_the_naive_truth_through_churn(
    changes: list[tuple[str, bool]], topic_filters: list[str]
) -> None:
    store: TopicStore[int] = TopicStore()
    truth: dict[str, int] = {}
    for number, (topic, stored) in enumerate(changes):
        if stored:
            store[topic] = truth[topic] = number
        elif truth.pop(topic, None) is not None:
            del store[topic]
    assert list(store.items()) == list(truth.items())
    for topic_filter in topic_filters:
        found = list(store.matching(topic_filter))
        expected = {topic for topic in truth if topic_matches(topic_filter, topic)}
        assert len(found) == len(expected)
        assert set(found) == expected
    store.clear()
    assert not store._root.children


def test_what_is_refused() -> None:
    store: TopicStore[int] = TopicStore({"a": 1})
    with pytest.raises(TopicError):
        store["a/+"] = 2
    with pytest.raises(TopicError):
        store.matching("a#")
    with pytest.raises(KeyError):
        del store["b"]
    assert dict(store) == {"a": 1}


def test_a_value_is_replaced_in_its_place() -> None:
    store = TopicStore({"a": 1, "b": 2})
    store["a"] = 3
    assert list(store.items()) == [("a", 3), ("b", 2)]


def test_dollar_topics_are_hidden_from_leading_wildcards_only() -> None:
    store = TopicStore(dict.fromkeys(["$SYS/a", "x/$y", "x", "/"]))
    assert list(store.matching("#")) == ["x", "x/$y", "/"]
    assert list(store.matching("+/+")) == ["x/$y", "/"]
    assert list(store.matching("$SYS/#")) == ["$SYS/a"]


@given(st.lists(st.tuples(st.booleans(), TOPICS), max_size=20))
def test_it_counts_its_levels(changes: list[tuple[bool, str]]) -> None:
    store: TopicStore[int] = TopicStore()
    for is_there, topic in changes:
        lacking, before = store.lacking(topic), store.levels
        if is_there:
            store[topic] = 1
            assert store.levels == before + lacking
        else:
            store.pop(topic, None)
        beginnings = {
            tuple(each.split("/")[:depth])
            for each in store
            for depth in range(1, each.count("/") + 2)
        }
        assert store.levels == len(beginnings)
        assert store.lacking(topic) == (0 if is_there else store.lacking(topic))
