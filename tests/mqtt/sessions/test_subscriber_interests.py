"""A front end's reports of its clients' subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.broker.messages import Message
from shoal.clients.front_ends import Stayed, Wants, WhoWants, Wish
from shoal.model import EVERYTHING
from shoal.mqtt.federation.federation import Federation
from shoal.mqtt.sessions import subscriber_interests as module
from tests.mqtt.network_broker_api import Network, Site
from tests.mqtt.sessions.test_audience import FOLLOWS

RecordedBroker = Callable[[], dict[str, Wish]]


@pytest.fixture
def site() -> Site:
    return Network("B1", "B2")["B1"]


def federation(site: Site) -> Federation:
    assert site.clients.federation is not None
    return site.clients.federation


def ask(site: Site) -> tuple[RecordedBroker, list[Message]]:
    """Ask as the system does; the reports since the last question, by client, and all of them."""
    said: list[Any] = []
    assert site.clients.front_end is not None
    site.clients.front_end.say = said.append  # type: ignore[method-assign]
    assert federation(site).following.notified(WhoWants(), site.now_us) == []

    def told() -> dict[str, Wish]:
        site.after(1)
        found, said[:] = list(said), []
        return {wish.client: wish for each in found for wish in each.wishes}

    return told, said


def asked_for(site: Site, *topics: str) -> tuple[str | None, ...]:
    assert site.clients.front_end is not None
    return tuple(site.clients.front_end.asked_for(each, EVERYTHING) for each in topics)


def test_all_interests_are_reported_and_then_changes(site: Site) -> None:
    one = site.connect("one", properties=FOLLOWS)
    one.subscribe("a", qos=1)
    other = site.connect("other")
    other.subscribe("a")
    told, _ = ask(site)
    a = asked_for(site, "a")
    first = told()
    assert {name: (wish.subscriptions, wish.follows) for name, wish in first.items()} == {
        "one": (a, True),
        "other": (a, False),
    }
    assert told() == {}
    one.subscribe("b", qos=1)
    assert told()["one"].subscriptions == (*a, *asked_for(site, "b"))
    one.unsubscribe("a")
    one.lose()
    away = told()["one"]
    assert (away.subscriptions, away.follows) == (asked_for(site, "b"), False)
    other.disconnect()
    assert told()["other"].subscriptions == ()


def test_a_members_interest_is_its_groups(site: Site) -> None:
    site.connect("one").subscribe("$share/g/a", qos=1)
    site.connect("two").subscribe("a")
    told, _ = ask(site)
    wishes = told()
    assert wishes["one"].subscriptions == wishes["two"].subscriptions == asked_for(site, "a")


def test_many_interests_are_reported_in_slices(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EACH_US", 1_500_000)
    monkeypatch.setattr(module, "MOST_TOLD", 6)
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)
    for number in range(4):
        client = site.connect(f"c{number}")
        for topic in "abc":
            client.subscribe(topic)
    told, _ = ask(site)
    assert list(told()) == ["c0", "c1"]
    assert {name: len(wish.subscriptions) for name, wish in told().items()} == {"c2": 2, "c3": 2}


def test_a_staying_client_is_reported_once_after_a_question(site: Site) -> None:
    federation(site).wishes.stayed("one")
    _, said = ask(site)
    federation(site).wishes.stayed("one")
    assert said == [Stayed("one")]
    assert not any(isinstance(each, Wants) for each in said)
