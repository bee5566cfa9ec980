"""The audience of traced publications: the clients that received them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from shoal.broker.messages import RoutedPublication
from shoal.clients.front_ends import MOST_BITS, DeliveriesReported
from shoal.model import MessageId, Publication
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.content import attributes_of
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions import audience as module
from shoal.mqtt.sessions.audience import Audience
from tests.mqtt.network_broker_api import Network, Site

FOLLOWS = Properties(user_properties=(("$follow", ""),), session_expiry_interval_s=1_000)
SECOND = 1_000_000
T = MessageId("B9", "p", 0)


@pytest.fixture
def site() -> Site:
    return Network("B1", "B2")["B1"]


def audience(site: Site) -> Audience:
    assert site.clients.audience is not None
    return site.clients.audience


def note(site: Site, topic: str, number: int, session: MessageId = T, **content: Any) -> None:
    """The session's publication of that number."""
    user = tuple((name, str(value)) for name, value in content.items())
    properties = Properties(user_properties=user)
    message = PublishedMessage(
        topic, b"", session.publisher, site.now_us, 1, False, properties, None
    )
    publication = Publication(
        publisher=session.publisher,
        sequence=number,
        published_us=site.now_us,
        attributes=attributes_of(message, "auto"),
    )
    identifier = MessageId(session.broker, session.publisher, session.number + number)
    routed = RoutedPublication(publication, identifier, session)
    audience(site).note(routed, message, site.now_us)


def deliveries_of(site: Site, session: MessageId = T) -> DeliveriesReported | None:
    return audience(site).who_had(session, site.now_us)


def test_deliveries_are_reported_by_client(site: Site) -> None:
    for name, topic_filter in (("one", "a/+"), ("two", "a/1"), ("three", "b"), ("five", "a/#?x>1")):
        site.connect(name, properties=FOLLOWS).subscribe(topic_filter, qos=1)
    site.connect("stays").subscribe("a/2", qos=1)
    away = site.connect("away", properties=FOLLOWS, clean_start=False)
    away.subscribe("a/3")
    away.lose()
    for number, (topic, x) in enumerate((("a/1", 1), ("a/2", 2), ("a/1", 3), ("a/3", 0), ("c", 9))):
        note(site, topic, number, x=x)
    note(site, "a/1", MOST_BITS)  # garbage
    had = deliveries_of(site)
    assert had is not None
    assert had.had == {"one": 0b1111, "two": 0b101, "five": 0b110}
    # `stays` received one, and `away` another; it cannot be redirected while disconnected.
    assert (had.others, had.times, dict(had.untold), had.gone) == (0b1010, 1, {}, ())
    assert deliveries_of(site) is None
    assert deliveries_of(site, MessageId("B9", "other", 0)) is None


def test_a_sampled_session_counts_for_all(site: Site) -> None:
    site.connect("one", properties=FOLLOWS).subscribe("a")
    sessions = [MessageId("B9", "p", 100 * number) for number in range(5)]
    for session in sessions[:4]:
        note(site, "a", 0, session)
    assert [deliveries_of(site, session) is not None for session in sessions[:4]] == [True] + [
        False
    ] * 3
    site.after(1)
    note(site, "a", 0, sessions[4])
    note(site, "a", 1, sessions[4])
    had = deliveries_of(site, sessions[4])
    assert had is not None
    assert (had.had, had.times) == ({"one": 0b11}, 4)


def test_untraced_deliveries_are_reported_until_the_publisher_is_silent(site: Site) -> None:
    site.connect("one", properties=FOLLOWS).subscribe("a")
    other = MessageId("B9", "q", 0)
    for number in range(3):
        note(site, "a", number, other)
    note(site, "a", 0)
    had = deliveries_of(site)
    assert had is not None
    assert dict(had.untold) == {"one": 3}
    site.after(61)
    again = MessageId("B9", "p", 100)
    note(site, "a", 0, again)
    had = deliveries_of(site, again)
    assert had is not None
    assert dict(had.untold) == {}


def test_changed_clients_are_named(site: Site) -> None:
    clients = {name: site.connect(name, properties=FOLLOWS) for name in ("one", "two", "three")}
    for client in clients.values():
        client.subscribe("a")
    for number in (0, 100):
        session = MessageId("B9", "p", number)
        note(site, "a", 0, session)
        had = deliveries_of(site, session)
        assert had is not None
        assert had.had.keys() == clients.keys()
        assert sorted(had.gone) == ([] if not number else ["one", "two"])
        for name in ("one", "three"):
            clients[name].lose()
        site.after(1)
        clients["one"] = site.connect("one", properties=FOLLOWS, clean_start=True)
        clients["one"].subscribe("a")
        clients["two"].subscribe("b")
        # It returns to what it received, and nothing about it has changed.
        clients["three"] = site.connect("three", properties=FOLLOWS, clean_start=False)


@pytest.mark.parametrize("seed", range(5))
def test_lookups_in_parts_equal_one_lookup(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for most in (1, 7, 10_000):
        monkeypatch.setattr(module, "MOST_NOTED", most)
        chance, site = Random(seed), Network("B1", "B2")["B1"]
        for name in range(20):
            client = site.connect(f"c{name}", properties=FOLLOWS)
            client.subscribe(chance.choice(("a", "b", "+", "a?x>2", "#?x<3")))
        for number in range(50):
            note(site, chance.choice("abc"), number, x=chance.randrange(5))
        found.append(deliveries_of(site))
    assert found[0] is not None
    assert found[0].had
    assert found[0] == found[1] == found[2]


def test_lookups_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LOOKED_UP", 3)
    for name in ("one", "two"):
        site.connect(name, properties=FOLLOWS).subscribe("+")
    for number, topic in enumerate("abc"):
        note(site, topic, number)
    had = deliveries_of(site)
    assert had is not None
    assert had.had == {"one": 0b11, "two": 0b11}
    site.after(2)
    again = MessageId("B9", "p", 100)
    note(site, "c", 5, again)
    had = deliveries_of(site, again)
    assert had is not None
    assert had.had == {"one": 1 << 5, "two": 1 << 5}


def test_a_shared_topics_lookups_count_for_each_publisher(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One topic with 512 publishers and 2,000 subscribers must not be counted in one go of a
    second.
    """
    monkeypatch.setattr(module, "MOST_LOOKED_UP", 10)
    for name in range(4):
        site.connect(f"c{name}", properties=FOLLOWS).subscribe("a")
    sessions = [MessageId("B9", f"p{number}", 0) for number in range(9)]
    for session in sessions:
        note(site, "a", 0, session)
    found = [had for session in sessions if (had := deliveries_of(site, session)) is not None]
    assert [len(had.had) for had in found] == [4] * 3 + [0] * 6


def test_the_number_of_remembered_receivers_is_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting untraced clients of 1,000 publishers would read 2 million entries."""
    monkeypatch.setattr(module, "MOST_HAD", 10)
    chance = Random(1)
    for name in range(4):
        site.connect(f"c{name}", properties=FOLLOWS).subscribe("a")
    for number in range(400):
        session = MessageId("B9", f"p{chance.randrange(6)}", number * 10)
        note(site, "a", 0, session)
        if chance.random() < 0.3:
            deliveries_of(site, session)
        if chance.random() < 0.3:
            site.after(1)
        traced = [
            each
            for publisher in audience(site)._publishers.values()
            for each in (publisher.current, publisher.before)
            if each is not None
        ]
        held = sum(len(each.had) for each in traced)
        assert audience(site)._held == held <= 10
