"""The store of values by topic, against naive search through churn."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.matching.topics import store as topic_store
from shoal.matching.topics.filters import TopicError, topic_matches
from shoal.matching.topics.store import TopicStore
from tests.examples import at_length, examples
from tests.matching.topics.test_topics import ANY_TOPIC_FILTERS, TOPICS


@given(
    st.lists(st.tuples(TOPICS, st.booleans()), max_size=30),
    st.lists(ANY_TOPIC_FILTERS, min_size=1, max_size=5),
)
@settings(max_examples=examples(100))
def test_the_store_equals_a_naive_search_through_churn(
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
    assert not store._reserved.children


def test_invalid_topics_are_refused() -> None:
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
def test_the_store_counts_its_levels(changes: list[tuple[bool, str]]) -> None:
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


@pytest.mark.parametrize("topic_filter", ["d/#", "d/+", "+/+", "#", "d/+/x"])
@pytest.mark.parametrize("seed", [*range(4), *at_length(range(4, 40))])
def test_changes_between_two_steps_of_a_search_lose_no_other_topic(
    monkeypatch: pytest.MonkeyPatch, topic_filter: str, seed: int
) -> None:
    """Topics that stay are found once, in order; removed and added ones perhaps."""
    chance = Random(seed)
    monkeypatch.setattr(topic_store, "ROW", 3)
    topics = [f"d/{number}{below}" for number in range(40) for below in ("", "/x")]
    topics += ["e/1", "$own/1"]
    store: TopicStore[int] = TopicStore()
    for topic in chance.sample(topics, 50):
        store[topic] = 1
    staying, seen = list(store.matching(topic_filter)), set(store)
    found = []
    for topic in store.search(topic_filter, chance.choice((1, 2, 7))):
        if topic is not None:
            found.append(topic)
        for _ in range(chance.choice((0, 0, 1, 5))):
            changed = chance.choice(topics)
            if changed in store and chance.random() < 0.7:
                del store[changed]
                if changed in staying:
                    staying.remove(changed)
            else:
                store[changed] = 1
                seen.add(changed)
    assert len(found) == len(set(found))
    assert [each for each in found if each in staying] == staying
    assert set(found) <= {each for each in seen if topic_matches(topic_filter, each)}


@pytest.mark.parametrize("topic_filter", ["d/+/nothing", "+/+", "#"])
def test_a_step_does_not_read_all_topics_of_one_level(topic_filter: str) -> None:
    """Copying all 500,000 of a level before the first visit would take 0.25 s."""
    store = TopicStore(dict.fromkeys(f"d/{number}" for number in range(20_000)))
    tracemalloc.start()
    try:
        next(store.search(topic_filter, 10))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000


def test_removed_children_may_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_store, "ROW", 3)
    topics = [f"d/{number}" for number in range(10)]
    store = TopicStore(dict.fromkeys(["d", *topics]))
    for _ in range(2):
        for topic in topics:
            del store[topic]
        assert list(store.matching("#")) == ["d"]
        store.update(dict.fromkeys(topics))
        assert list(store.matching("#")) == ["d", *topics]
