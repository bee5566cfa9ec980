"""Sessions with many subscriptions are installed in time slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.broker.messages import PublicationBatch
from shoal.mqtt.codec.packets import Connect, Subscribe, SubscriptionRequest
from shoal.mqtt.federation.session_transfer.fetching import WAIT_US
from shoal.mqtt.limits import DEFAULT_LIMITS, MICROSECONDS
from shoal.mqtt.sessions.subscribed import presence
from tests.calls import Calls
from tests.mqtt.broker_api import KEPT, Client
from tests.mqtt.network_broker_api import Network, Site
from tests.mqtt.remembering import Memory

MANY = 1_500
COMING = 30
# A part of the session; the whole would be more than half a million.
MOST_CALLS = 200_000


def network() -> Network:
    network = Network("B1", "B2")
    network.after(20)
    return network


def settle(brokers: Network) -> None:
    """Time passes at all brokers alike."""
    for _ in range(20):
        brokers.after(1)


def asks(client: Client, prefix: str = "", many: int = MANY) -> None:
    """Subscribe to `many` topics."""
    for start in range(0, many, 500):
        topics = (f"{prefix}{each}/#" for each in range(start, start + 500))
        client.send(Subscribe(1, tuple(SubscriptionRequest(each, qos=1) for each in topics)))


def step(site: Site) -> None:
    """The next event of any kind."""
    deadline_us = site.clients.deadline_us
    assert deadline_us is not None
    site.now_us = max(site.now_us, deadline_us)
    site.carry_out(site.clients.advance(site.now_us))


def comes(site: Site) -> Client:
    """The client connects, without waiting for the answer."""
    client = site.open()
    client.send(Connect(client_id="c", **KEPT))
    return client


def clocked(site: Site) -> list[int]:
    """Count the function calls of each time slice of a broker from now on."""
    counts: list[int] = []

    def count(name: str, does: Callable[..., Any]) -> None:
        def counted(*about: Any) -> Any:
            with Calls() as calls:
                effects = does(*about)
            counts.append(calls.count)
            return effects

        setattr(site.clients, name, counted)

    for name in ("deliver", "advance"):
        count(name, getattr(site.clients, name))
    return counts


@pytest.mark.parametrize("prefix", ["", "$share/g/"], ids=["own", "shared"])
def test_a_large_session_is_installed_in_slices(prefix: str) -> None:
    """At once, one of 20,000 topic filters would occupy its new broker for a second."""
    brokers = network()
    old = brokers["B1"].connect("c", **KEPT)
    asks(old, prefix)
    turns = [clocked(site) for site in brokers.sites.values()]
    new = comes(brokers["B2"])
    assert not new.take()
    publisher = brokers["B1"].connect("p")
    publisher.publish("7/a", b"meanwhile", qos=1)
    steps = 0
    while not (found := new.take()):
        step(brokers["B2"])
        steps += 1
    assert steps >= MANY // 300
    assert found[0].session_present
    assert [each.payload for each in found[1:]] == [b"meanwhile"]
    publisher.publish(f"{MANY - 1}/a", b"then", qos=1)
    settle(brokers)
    publisher.publish("5/a", b"at last", qos=1)
    assert new.take_payloads() == [b"then", b"at last"]
    assert [site.clients.subscriptions.count for site in brokers.sites.values()] == [0, MANY]
    assert max(map(max, turns)) < MOST_CALLS


def test_a_client_is_not_refused_during_a_long_installation() -> None:
    """The timeout of 10 s must not drop a session that a slow broker is still installing."""
    brokers = network()
    old = brokers["B1"].connect("c", **KEPT)
    asks(old)
    new = comes(brokers["B2"])
    began_us = brokers["B2"].now_us
    while not (found := new.take()):
        brokers["B2"].now_us += 3 * MICROSECONDS
        step(brokers["B2"])
    assert brokers["B2"].now_us - began_us > DEFAULT_LIMITS.connect_timeout_s * MICROSECONDS
    assert found[0].session_present


def waits_for_its_messages() -> tuple[Network, Client]:
    """A client that connects elsewhere, over a slow link."""
    brokers = network()
    old = brokers["B1"].connect("c", **KEPT)
    asks(old, many=500)
    old.lose()
    publisher = brokers["B1"].connect("p")
    for number in range(COMING):
        publisher.publish("0/a", b"%d" % number, qos=1)
    brokers.is_slow = True
    return brokers, comes(brokers["B2"])


def one_comes(brokers: Network) -> None:
    """Each second one message of the former broker arrives, and the answers reach it."""
    while brokers.links["B2", "B1"]:
        brokers.arrive("B2", "B1")
    link = brokers.links["B1", "B2"]
    if isinstance(link[0], PublicationBatch):
        batch = link.popleft()
        link.extendleft(
            PublicationBatch((each,), batch.hops) for each in reversed(batch.publications)
        )
    brokers.arrive("B1", "B2")
    brokers["B2"].after(1)


def test_a_client_is_not_refused_during_a_slow_transfer() -> None:
    """A slow link may need longer for a session of megabytes than the timeout."""
    brokers, new = waits_for_its_messages()
    for _ in range(COMING):
        one_comes(brokers)
        assert not new.take()
    brokers.is_slow = False
    brokers.settle()
    settle(brokers)
    found = new.take()
    assert found[0].session_present
    assert [each.payload for each in found[1:]] == [b"%d" % number for number in range(COMING)]


def test_a_client_is_refused_when_its_transfer_stops() -> None:
    brokers, new = waits_for_its_messages()
    one_comes(brokers)
    one_comes(brokers)
    assert not new.take()
    brokers["B2"].after(2 * WAIT_US / MICROSECONDS)
    assert not new.take()[0].session_present  # as nothing is on a disk


def test_queued_messages_are_transferred_in_slices() -> None:
    """10,000 messages of a session in one slice would take 0.1 s, at both brokers."""
    brokers = network()
    old = brokers["B1"].connect("c", **KEPT)
    old.send(Subscribe(1, (SubscriptionRequest("#", qos=1),)))
    old.lose()
    publisher = brokers["B1"].connect("p")
    for number in range(8_000):
        publisher.publish("7/a", b"%d" % number, qos=1)
    turns = [clocked(site) for site in brokers.sites.values()]
    new = comes(brokers["B2"])
    steps = 0
    while not (found := new.take()):
        step(min(brokers.sites.values(), key=lambda site: site.clients.deadline_us or 0))
        steps += 1
        publisher.publish("7/a", b"meanwhile %d" % steps, qos=1)
    assert steps == 13 + 13  # 600 messages sent in each after the first, and as many read in each
    assert max(map(max, turns)) < MOST_CALLS
    payloads = [each.payload for each in found[1:]]
    settle(brokers)
    assert payloads + new.take_payloads() == [
        *(b"%d" % number for number in range(8_000)),
        *(b"meanwhile %d" % number for number in range(1, steps + 1)),
    ]


def test_a_disconnect_meanwhile_leaves_the_session_at_its_source() -> None:
    brokers = network()
    old = brokers["B1"].connect("c", **KEPT)
    asks(old)
    new = comes(brokers["B2"])
    step(brokers["B2"])
    new.lose()
    settle(brokers)
    assert [site.clients.subscriptions.count for site in brokers.sites.values()] == [MANY, 0]
    assert "c" not in brokers["B2"].clients.sessions
    publisher = brokers["B2"].connect("p")
    publisher.publish("7/a", b"x", qos=1)
    back = brokers["B1"].connect("c", **KEPT)
    assert back.take_payloads() == [b"x"]


def test_a_client_that_moves_on_meanwhile_gets_its_session_there() -> None:
    brokers = network()
    old = brokers["B1"].connect("c", **KEPT)
    asks(old)
    comes(brokers["B2"])
    step(brokers["B2"])
    back = comes(brokers["B1"])
    settle(brokers)
    assert back.take()[0].session_present
    assert [site.clients.subscriptions.count for site in brokers.sites.values()] == [MANY, 0]


def test_sessions_are_installed_one_after_the_other() -> None:
    brokers = network()
    for name in ("c", "d", "e"):
        old = brokers["B1"].connect(name, **KEPT)
        asks(old, f"{name}/", 1_000)
    ends = [brokers["B2"].open() for _ in range(3)]
    for name, end in zip("cde", ends, strict=True):
        end.send(Connect(client_id=name, **KEPT))
    filed = brokers["B2"].clients.subscriptions
    while filed.count < 3 * 1_000:
        before = filed.count
        step(brokers["B2"])
        assert filed.count - before <= 200
    settle(brokers)
    assert all(end.take()[0].session_present for end in ends)


def test_many_groups_are_announced_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The former broker keeps the session until every broker knows of its groups here."""
    monkeypatch.setattr("shoal.mqtt.federation.session_transfer.moves.MOST_AT_ONCE", 10)
    assert presence.MOST_AT_ONCE > 10
    brokers = network()
    old = brokers["B1"].connect("c", **KEPT)
    asks(old, "$share/g/", 500)
    new = comes(brokers["B2"])
    while not new.take():
        step(brokers["B2"])
    move = brokers["B2"].clients.sessions["c"].diversion
    assert not move.is_spread  # type: ignore[union-attr]
    settle(brokers)
    assert move.is_spread  # type: ignore[union-attr]
    brokers["B1"].connect("p").publish("7/a", b"x", qos=1)
    assert new.take_payloads() == [b"x"]


@pytest.mark.parametrize("killed", ["B1", "B2"])
def test_a_broker_killed_meanwhile_loses_nothing(killed: str) -> None:
    """Until the transfer is complete the session is on the former broker's disk only."""
    brokers = Network("B1", "B2")
    memory = Memory(brokers)
    brokers.after(20)
    old = brokers["B1"].connect("c", **KEPT)
    asks(old, many=1_000)
    old.lose()
    brokers["B1"].connect("p").publish("7/a", b"x", qos=1)
    new = comes(brokers["B2"])
    step(brokers["B2"])
    assert 0 < brokers["B2"].clients.subscriptions.count < 1_000
    memory.restart(killed)
    if killed == "B2":
        assert "c" not in brokers["B2"].clients.sessions
        brokers.after(1)
        new = comes(brokers["B2"])
    settle(brokers)
    connack, *rest = new.take()
    assert connack.session_present
    assert [each.payload for each in rest] == [b"x"]
    brokers["B1"].connect("p").publish("999/a", b"y", qos=1)
    assert b"y" in new.take_payloads()
    assert "c" not in brokers["B1"].clients.sessions
    assert brokers["B2"].clients.subscriptions.count == 1_000
