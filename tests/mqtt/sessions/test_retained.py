"""The store of retained messages: order, bounds, removals and expiry."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.matching import TopicError
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions import retained
from shoal.mqtt.sessions.retained import LEVEL_BYTES, RetainedStore

SENT = st.builds(
    PublishedMessage,
    st.sampled_from(["a", "a/b", "c"]),
    st.sampled_from([b"", b"1", b"2"]),
    st.sampled_from(["p", "q"]),
    st.integers(0, 5),
)


def contents(store: RetainedStore) -> dict[str, bytes]:
    return {message.topic: message.payload for message in store.matching("#", 0)}


@given(st.lists(SENT, max_size=12, unique_by=lambda m: (m.topic, m.publisher, m.published_us)))
def test_messages_in_any_order_leave_the_same_store(messages: list[PublishedMessage]) -> None:
    forward, backward = RetainedStore(10), RetainedStore(10)
    for message in messages:
        forward.keep(message)
    for message in reversed(messages):
        backward.keep(message)
    assert contents(forward) == contents(backward)
    assert forward.digest == backward.digest
    sizes = Counter[str]()
    for message in forward.matching("#", 0):
        sizes[message.publisher] += message.size
    assert dict(forward.heaviest(10)) == dict(backward.heaviest(10)) == sizes
    last = {
        topic: max(
            (m for m in messages if m.topic == topic), key=lambda m: (m.published_us, m.publisher)
        )
        for topic in {m.topic for m in messages}
    }
    assert contents(forward) == {t: m.payload for t, m in last.items() if m.payload}


def test_an_empty_store_has_the_digest_of_an_empty_store() -> None:
    store = RetainedStore(10)
    store.keep(PublishedMessage("a", b"x", "p", 1))
    assert store.digest != 0
    store.keep(PublishedMessage("a", b"", "p", 2))
    assert store.digest == 0
    properties = Properties(message_expiry_interval_s=1)
    store.keep(PublishedMessage("b", b"x", "p", 3, properties=properties))
    assert list(store.matching("b", 2_000_000)) == []
    assert (store.digest, len(store)) == (0, 0)


@given(st.lists(SENT, max_size=12))
def test_a_store_never_has_more_bytes_than_it_may(messages: list[PublishedMessage]) -> None:
    maximum = 2 * LEVEL_BYTES + 6
    store = RetainedStore(10, maximum_bytes=maximum)
    for message in messages:
        store.keep(message)
        kept = list(store.matching("#", 0))
        levels = {each.topic[: end + 1] for each in kept for end in range(0, len(each.topic), 2)}
        assert sum(each.size for each in kept) + LEVEL_BYTES * len(levels) <= maximum


def test_a_message_without_room_removes_its_predecessor() -> None:
    store = RetainedStore(10, maximum_bytes=LEVEL_BYTES + 10)
    assert store.keep(PublishedMessage("a", b"12345", "p", 1))
    assert not store.keep(PublishedMessage("b", b"12345", "p", 2))
    assert not store.keep(PublishedMessage("a", bytes(10), "p", 3))
    assert contents(store) == {}
    assert store.keep(PublishedMessage("b", b"12345", "p", 4))
    assert store.keep(PublishedMessage("b", b"1234", "p", 5))
    assert contents(store) == {"b": b"1234"}


def test_removals_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "MAX_REMOVAL_BYTES", 6)
    store = RetainedStore(10)
    properties = Properties(user_properties=(("k", "v" * 1_000),))
    for at_us, topic in enumerate(("aa", "bb", "aa", "cc", "dd")):
        store.keep(PublishedMessage(topic, b"", "p", at_us, properties=properties))
    assert [message.topic for message in store.history()] == ["aa", "cc", "dd"]
    assert all(message.properties is NO_PROPERTIES for message in store.history())


def test_a_message_published_now_is_later_than_what_it_replaces() -> None:
    store = RetainedStore(10)
    store.keep(PublishedMessage("a", b"future", "q", 100))
    message = PublishedMessage("a", b"now", "p", 50)
    store.date(message)
    assert message.published_us == 101
    store.keep(message)
    assert contents(store) == {"a": b"now"}


def test_the_history_omits_system_topics() -> None:
    store = RetainedStore(10)
    for topic, payload in (("$SYS/x", b"1"), ("a", b"1"), ("b", b"")):
        store.keep(PublishedMessage(topic, payload, "p", 1))
    assert [message.topic for message in store.history()] == ["a", "b"]


def test_an_invalid_topic_is_not_stored() -> None:
    with pytest.raises(TopicError):
        RetainedStore(10).keep(PublishedMessage("a/+", b"x", "p", 1))


def test_each_new_level_counts_in_bytes() -> None:
    deep = "/a" * 200
    store = RetainedStore(10, maximum_bytes=LEVEL_BYTES * 202 + 2_000)
    assert store.keep(PublishedMessage(f"0{deep}", b"x", "p", 1))
    assert not store.keep(PublishedMessage(f"1{deep}", b"x", "p", 2))
    assert store.keep(PublishedMessage(f"0{deep[:-2]}/b", b"x", "p", 3))
    assert len(store) == 2
    assert store.keep(PublishedMessage(f"0{deep}", b"y", "p", 4))
    for topic in list(contents(store)):
        store.keep(PublishedMessage(topic, b"", "p", 5))
    assert store.keep(PublishedMessage(f"1{deep}", b"x", "p", 6))


def expiring(topic: str, at_us: int, after_s: int = 60) -> PublishedMessage:
    properties = Properties(message_expiry_interval_s=after_s)
    return PublishedMessage(topic, b"x", "p", at_us, properties=properties)


def test_expired_messages_make_room() -> None:
    """It is expired and without subscribers, so it must not fill the store."""
    store = RetainedStore(100)
    for number in range(100):
        assert store.keep(expiring(f"jobs/{number}", number), number)
    assert not store.keep(PublishedMessage("new/0", b"x", "p", 1_000_000), 1_000_000)
    later_us = 200_000_000
    for number in range(10):
        assert store.keep(PublishedMessage(f"new/{number}", b"x", "p", later_us), later_us)
    assert len(store) <= 100
    for number in range(20):
        store.keep(PublishedMessage("new/0", b"x", "p", later_us + number), later_us + number)
    assert len(store) == 10
    alone = RetainedStore(100)
    for number in range(10):
        at_us = later_us if number else later_us + 19
        alone.keep(PublishedMessage(f"new/{number}", b"x", "p", at_us), at_us)
    assert store.digest == alone.digest


def test_expired_bytes_make_room_for_something_large() -> None:
    store = RetainedStore(1_000, maximum_bytes=300 * LEVEL_BYTES)
    kept = sum(store.keep(expiring(f"{number}", number), number) for number in range(400))
    assert 200 < kept < 300
    large = PublishedMessage("large", bytes(200 * LEVEL_BYTES), "p", 200_000_000)
    assert store.keep(large, 200_000_000)


def test_a_message_that_is_replaced_expires_when_the_new_one_does() -> None:
    store = RetainedStore(10)
    for number in range(1_000):
        at_us = number * 1_000_000
        store.keep(expiring("clock", at_us, 300), at_us)
        if not number:
            store.keep(expiring("once", at_us, 300), at_us)
    assert contents(store) == {"clock": b"x"}
    assert sum(map(len, store._expiring._topics.values())) == 1
    assert len(store._expiring._minutes) < 20
