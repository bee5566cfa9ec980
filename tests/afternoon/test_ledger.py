"""The ledger finds losses, and excuses those of the table in `ledger.py` only."""

from __future__ import annotations

import json

import pytest

from tests.afternoon.clients import PahoPublisher, Subscriber, passes_filter, wants_all
from tests.afternoon.ledger import Ledger

LOST = {"s from p": [4]}


def ledger(system: str = "tree") -> tuple[Ledger, Subscriber]:
    """A subscriber at B4 has received 0 to 3 of 0 to 4; a broker is given up after 10 s."""
    found = Ledger(system, 10.0)
    publisher = PahoPublisher("p", [("B1", 1)])
    subscriber = Subscriber("s", [("B4", 4)], wants_all)
    found.add_publisher(publisher)
    found.add_subscriber(subscriber)
    found.begin_anew()
    publisher.next = 5
    publisher.acknowledged.update(range(5))
    for number in range(4):
        subscriber.record("site/p", json.dumps({"n": number}))
    return found, subscriber


def test_an_acknowledged_publication_that_has_not_arrived_is_owed() -> None:
    found, subscriber = ledger()
    assert found.debts() == LOST
    subscriber.record("site/p", '{"n": 4}')
    assert found.debts() == {}


def test_a_subscriber_is_owed_what_its_filter_lets_through() -> None:
    found, subscriber = ledger()
    subscriber.wants = passes_filter
    assert found.debts() == {}


def test_a_subscriber_hears_a_publisher_by_a_new_number() -> None:
    found, subscriber = ledger()
    marks = found.marks()
    assert found.unheard(marks) == ["s from p"]
    subscriber.record("site/p", '{"n": 5}')
    assert found.unheard(marks) == []


@pytest.mark.parametrize(("broker", "seconds"), [("B4", 9.0), ("B3", 11.0)])
def test_short_outages_and_those_of_other_brokers_excuse_nothing(
    broker: str, seconds: float
) -> None:
    found, _ = ledger()
    found.excuse_outage(found.at(broker), seconds)
    found.excuse_end()
    found.begin_anew()
    assert found.debts() == LOST


def test_long_outages_excuse_the_subscribers_of_their_broker() -> None:
    found, _ = ledger()
    found.excuse_outage(found.at("B4"), 11.0)
    assert found.debts() == LOST
    found.begin_anew()
    assert found.debts() == {}


@pytest.mark.parametrize(("broker", "debts"), [("B1", {}), ("B3", LOST), ("B4", {})])
def test_a_forgotten_broker_excuses_its_subscribers_and_publishers(
    broker: str, debts: dict[str, list[int]]
) -> None:
    found, _ = ledger()
    found.excuse_forget(broker)
    found.begin_anew()
    assert found.debts() == debts


def test_the_end_of_a_broker_excuses_losses_of_tid() -> None:
    found, _ = ledger("tid")
    found.excuse_end()
    found.begin_anew()
    assert found.debts() == {}
