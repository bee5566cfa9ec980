"""Duplicates of publications, with and without order."""

from __future__ import annotations

import msgspec
import pytest

from shoal.broker.ack_tracker import marked
from shoal.mqtt.front_end import deduplication as module
from shoal.mqtt.front_end.deduplication import OrderedDeduplication, UnorderedDeduplication
from tests.broker.transcript import publish


def test_a_copy_overtaken_by_its_repetition_is_a_duplicate() -> None:
    repeats = OrderedDeduplication({})
    (fourth,), (fifth,), (sixth,), (seventh,) = (publish(n).publications for n in (4, 5, 6, 7))
    assert repeats.take(fourth)
    assert [repeats.take(marked(each)) for each in (fourth, fifth, sixth)] == [False, True, True]
    assert [repeats.take(each) for each in (fifth, sixth, seventh)] == [False, False, True]


def test_the_number_of_remembered_publishers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 2)
    repeats = OrderedDeduplication({})
    for name in ("P", "Q", "P", "R"):
        (publication,) = publish(7, publisher=name).publications
        assert repeats.take(publication)
    assert list(repeats._last) == ["P", "R"]


def test_duplicates_are_detected_within_a_topics_stream() -> None:
    repeats = OrderedDeduplication({"P\0=a": 5}, "topic")
    found = {}
    for number, attributes in (
        (4, {"topic": "a"}),
        (4, {"topic": "b"}),
        (3, {}),
        (6, {"topic": "a"}),
    ):
        (plain,) = publish(number, publisher="P").publications
        publication = marked(msgspec.structs.replace(plain, attributes=attributes))
        found[number, *attributes.values()] = repeats.take(publication)
    assert found == {(4, "a"): False, (4, "b"): True, (3,): True, (6, "a"): True}


def test_without_order_each_publication_is_looked_up() -> None:
    repeats = UnorderedDeduplication()
    fourth, fifth, sixth = (
        msgspec.structs.replace(publish(n).publications[0], assured=True) for n in (4, 5, 6)
    )
    assert repeats.take(sixth)
    # Not delivered before, though a later one was.
    assert [repeats.take(marked(each)) for each in (fourth, sixth)] == [True, False]
    assert [repeats.take(each) for each in (fourth, fifth)] == [False, True]


def test_a_detoured_publication_is_accepted_late_and_once() -> None:
    """The fifth and the seventh are the last of the former incarnations."""
    repeats = UnorderedDeduplication({"P": 5, "Q": 7})
    found = []
    for number, publisher in ((6, "P"), (8, "P"), (7, "P"), (7, "P"), (5, "P"), (7, "Q"), (4, "R")):
        (publication,) = publish(number, publisher=publisher).publications
        found.append(repeats.take(msgspec.structs.replace(publication, assured=True)))
    assert found == [True, True, True, False, False, False, True]


def test_a_publication_before_the_window_is_a_duplicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PUBLICATIONS", 2)
    repeats = UnorderedDeduplication({})
    for number, is_new in ((3, True), (5, True), (6, True), (4, True), (3, False), (5, False)):
        (publication,) = publish(number).publications
        assured = msgspec.structs.replace(publication, assured=True)
        assert repeats.take(assured) is is_new, number


def test_an_unassured_publication_comes_once_and_evicts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have circulated while brokers disagreed on links."""
    monkeypatch.setattr(module, "MAX_UNASSURED", 2)
    repeats = UnorderedDeduplication({"P": 9})
    (fifth,), (sixth,), (seventh,) = (publish(n, publisher="P").publications for n in (5, 6, 7))
    found = [repeats.take(each) for each in (fifth, sixth, fifth, seventh, fifth)]
    assert found == [True, True, False, True, True]
    assert repeats._taken == {}


def test_the_number_of_remembered_publications_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PUBLICATIONS", 2)
    repeats = UnorderedDeduplication()
    rows = [msgspec.structs.replace(publish(n).publications[0], assured=True) for n in range(3)]
    assert [repeats.take(row) for row in (*rows, rows[1], rows[0])] == [
        True,
        True,
        True,
        False,
        True,
    ]
