"""The subscriber's side of a move: the table of its docstring, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.broker.effects import Record
from shoal.broker.messages import Subscribe, Unsubscribe
from shoal.clients.publisher import ToBroker, WakeUp
from shoal.clients.subscriber import SPREAD_US, Handed, Subscriber
from shoal.model import Subscription
from tests.broker.transcript import publication, subscription

LATE_US = SPREAD_US // 2


@pytest.fixture
def subscriber() -> Subscriber:
    """One that has subscribed at B1."""
    found = Subscriber("c")
    found.subscribe("B1", interest())
    return found


def interest() -> Subscription:
    return subscription("s", "x > 0", "c")


def messages_of(effects: list[Any]) -> list[str]:
    """The messages to brokers, in short."""
    words = []
    for effect in effects:
        match effect:
            case ToBroker(broker, Subscribe(row)):
                words.append(f"{broker}+{row.id}")
            case ToBroker(broker, Unsubscribe(name)):
                words.append(f"{broker}-{name}")
    return words


def handed(effects: list[Any]) -> list[tuple[str, int]]:
    return [
        (effect.broker, effect.publication.sequence)
        for effect in effects
        if isinstance(effect, Handed)
    ]


def deliver(subscriber: Subscriber, broker: str, name: str, *numbers: int, at_us: int) -> Any:
    """Deliver these publications; return those that are handed over."""
    return [
        each
        for number in numbers
        for each in handed(
            subscriber.delivered(broker, publication(number, "p", x=1), (name,), 1, at_us)
        )
    ]


def test_it_accepts_the_old_broker_until_the_new_one_is_complete(subscriber: Subscriber) -> None:
    effects = subscriber.move("B2", now_us=0)
    assert messages_of(effects) == ["B2+s@1"]
    assert effects[-1] == WakeUp(SPREAD_US)
    assert deliver(subscriber, "B1", "s", 1, 2, at_us=LATE_US) == [("B1", 1), ("B1", 2)]
    assert deliver(subscriber, "B2", "s@1", 2, 3, at_us=LATE_US) == []
    assert subscriber.woken(SPREAD_US - 1) == []
    effects = subscriber.woken(SPREAD_US)
    assert handed(effects) == [("B2", 3)]
    assert messages_of(effects) == ["B1-s"]
    (record,) = [each.record for each in effects if isinstance(each, Record)]
    assert (record.source, record.target) == ("B1", "B2")  # type: ignore[attr-defined]
    assert deliver(subscriber, "B1", "s", 3, 4, at_us=SPREAD_US) == []
    assert deliver(subscriber, "B2", "s@1", 1, 4, at_us=SPREAD_US) == [("B2", 4)]
    assert [(row.id, broker) for row, broker in subscriber] == [("s@1", "B2")]


def test_publications_missed_by_the_old_broker_do_not_come_late(
    subscriber: Subscriber,
) -> None:
    subscriber.move("B2", 0)
    # A broker on the way to B1 was down when the second was published.
    assert deliver(subscriber, "B1", "s", 1, 3, at_us=LATE_US) == [("B1", 1), ("B1", 3)]
    assert deliver(subscriber, "B2", "s@1", 1, 2, 3, 4, at_us=LATE_US) == []
    assert handed(subscriber.woken(SPREAD_US)) == [("B2", 4)]


def test_early_publications_of_the_new_broker_are_duplicates(subscriber: Subscriber) -> None:
    assert deliver(subscriber, "B1", "s", 1, at_us=0) == [("B1", 1)]
    subscriber.move("B2", now_us=0)
    assert deliver(subscriber, "B2", "s@1", 1, at_us=LATE_US - 1) == []
    assert handed(subscriber.woken(SPREAD_US)) == []


def test_it_continues_at_the_living_broker(subscriber: Subscriber) -> None:
    subscriber.move("B2", now_us=0)
    assert messages_of(subscriber.lost("B2", now_us=1)) == ["B2-s@1"]
    assert deliver(subscriber, "B1", "s", 1, at_us=2) == [("B1", 1)]
    subscriber.move("B3", now_us=3)
    deliver(subscriber, "B3", "s@2", 2, at_us=3 + LATE_US)
    effects = subscriber.lost("B1", now_us=4 + LATE_US)
    # It may be back already, with the subscription repeated.
    assert (handed(effects), messages_of(effects)) == ([("B3", 2)], ["B1-s"])
    assert messages_of(subscriber.reconnected("B3")) == ["B3+s@2"]
    assert subscriber.lost("B3", now_us=9 + LATE_US) == []


def test_a_moving_subscriber_ignores_another_move(subscriber: Subscriber) -> None:
    subscriber.move("B2", now_us=0)
    assert subscriber.move("B3", now_us=1) == []
    assert messages_of(subscriber.reconnected("B2")) == ["B2+s@1"]
    subscriber.woken(SPREAD_US)
    assert subscriber.move("B2", now_us=SPREAD_US) == []


def test_a_subscriber_leaves_and_returns(subscriber: Subscriber) -> None:
    subscriber.move("B2", now_us=0)
    assert subscriber.uses("B2")
    assert messages_of(subscriber.go("B2")) == ["B2-s@1"]
    subscriber.move("B3", now_us=1)
    assert messages_of(subscriber.go("B1")) == ["B1-s", "B3-s@2"]
    assert list(subscriber) == []
    assert deliver(subscriber, "B1", "s", 1, at_us=2) == []
    assert subscriber.move("B2", now_us=2) == []
    assert subscriber.come("B4", left="B2") == []
    assert messages_of(subscriber.come("B4", left="B1")) == ["B4+s"]
    assert messages_of(subscriber.unsubscribe("s")) == ["B4-s"]
    assert subscriber.unsubscribe("s") == []
