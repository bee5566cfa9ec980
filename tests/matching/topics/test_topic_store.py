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


def test_a_search_goes_on_while_topics_come_and_go() -> None:
    """Topics that are there all the while are found once, in their order."""
    store = TopicStore({f"a/{number}/b": number for number in range(100)})
    found = []
    for number, topic in enumerate(store.search("a/+/b", nodes=2)):
        if topic is not None:
            found.append(topic)
        store[f"a/new{number}/b"] = number
        store.pop(f"a/{3 * number}/b", None)
    stay = [f"a/{number}/b" for number in range(100) if number % 3]
    assert [topic for topic in found if topic in stay] == stay
    assert len(found) == len(set(found))


def test_a_slice_of_a_search_takes_the_next_nodes_and_no_more() -> None:
    """Of a level with 500,000 topics all were looked up before the first was tested."""

    class Children(dict[str, object]):
        looked_up = 0

        def __getitem__(self, name: str) -> object:
            self.looked_up += 1
            return super().__getitem__(name)

    store = TopicStore({f"a/{number}/b": number for number in range(2_000)})
    children = Children(store._root.children["a"].children)
    store._root.children["a"].children = children
    search = store.search("a/+/nothing", nodes=50)
    for part in range(1, 2_000 // 50):
        assert next(search) is None
        assert children.looked_up <= 50 * part
