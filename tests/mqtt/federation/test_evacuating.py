"""A leaving broker hands its remaining sessions to others, without loss."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Vacated
from shoal.mqtt.sessions.session import Session
from tests.mqtt.broker_api import KEPT, will
from tests.mqtt.network_broker_api import Network


@pytest.fixture
def network() -> Network:
    return Network("B1", "B2", "B3")


def evacuate(network: Network, name: str, *takers: str) -> None:
    """Act as the driver of a leaving broker does."""
    site = network[name]
    clients = site.clients
    for session in list(clients.sessions):
        if session.session_writer is not None:
            connection = session.session_writer.connection
            connection.disconnect(ReasonCode.SERVER_MOVED, "it leaves", site.now_us)
    assert clients.federation is not None
    clients.federation.evacuating.begin(lambda: takers, site.now_us)
    site.carry_out(clients.take_effects())
    network.settle()


def left(network: Network, name: str) -> int:
    """The number of remaining sessions."""
    return len(network[name].clients.sessions)


def test_sessions_are_handed_over_with_their_queues(network: Network) -> None:
    publisher = network["B2"].connect("p")
    clients = [network["B1"].connect(f"c{number}", **KEPT) for number in range(4)]
    for client in clients:
        client.subscribe("a", qos=2)
    clients[0].lose()
    publisher.publish("a", b"1", qos=2)
    assert clients[1].take_payloads() == [b"1"]  # and acknowledges it
    assert [packet.payload for packet in clients[2].take()] == [b"1"]
    evacuate(network, "B1", "B2", "B3")
    assert all(client.closed for client in clients)
    publisher.publish("a", b"2", qos=1)
    network.after(10)
    assert left(network, "B1") == 0
    assert network["B1"].clients.subscriptions.count == 0
    publisher.publish("a", b"3", qos=1)
    kept = [set(network[name].clients.sessions._sessions) for name in ("B2", "B3")]
    assert kept == [{"p", "c0", "c2"}, {"c1", "c3"}]
    for number in range(4):
        back = network["B3"].connect(f"c{number}", **KEPT)
        assert back.connack.session_present
        network.after(10)
        rest = [b"2", b"3"]
        assert back.take_payloads() == (rest if number == 1 else [b"1", *rest])


def test_expiry_continues_after_a_handover(network: Network) -> None:
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w")
    short = {"clean_start": False, "properties": Properties(session_expiry_interval_s=100)}
    delayed = will("w", properties=Properties(will_delay_interval_s=60))
    network["B1"].connect("c", will=delayed, **short).lose()
    network.after(30)
    evacuate(network, "B1", "B3")
    network.after(20)
    assert left(network, "B1") == 0
    assert watcher.take_payloads() == []
    network.after(20)
    assert watcher.take_payloads() == [b"gone"]
    assert "c" in network["B3"].clients.sessions
    network.after(40)
    assert "c" not in network["B3"].clients.sessions


def test_a_client_that_returns_during_a_handover_gets_its_session(network: Network) -> None:
    publisher = network["B2"].connect("p")
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    network.is_slow = True
    evacuate(network, "B1", "B3")
    network.is_slow = False
    client = network["B2"].connect("c", **KEPT)
    assert client.connack.session_present
    publisher.publish("a", b"x", qos=1)
    network.after(20)
    assert client.take_payloads() == [b"x"]
    assert left(network, "B1") == 0
    assert not client.closed


def test_a_broker_that_does_not_answer_is_not_the_only_one_asked(network: Network) -> None:
    network["B1"].connect("c", **KEPT)
    evacuate(network, "B1", "B9", "B2")
    network.after(20)
    assert left(network, "B1") == 0
    assert "c" in network["B2"].clients.sessions


@pytest.mark.parametrize("count", [9, 10])
def test_many_sessions_are_handed_over_in_slices(
    network: Network, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200,000 in one slice would take 0.7 s; each is offered once, and again if it stays."""
    monkeypatch.setattr("shoal.mqtt.federation.evacuating.MOST_AT_ONCE", 3)
    for number in range(count):
        network["B1"].connect(f"c{number}", **KEPT).lose()
    evacuating = network["B1"].clients.federation.evacuating
    asked: list[str] = []

    def vacated(session: Session, now_us: int) -> Vacated:
        asked.append(session.client_id)
        return said(session, now_us)

    said = evacuating._vacated
    monkeypatch.setattr(evacuating, "_vacated", vacated)
    network.is_slow = True
    evacuating.begin(lambda: ("B2", "B3"), network["B1"].now_us)
    assert len(asked) == 3
    network.after(1)
    assert sorted(asked) == [f"c{number}" for number in range(count)]
    network.is_slow = False
    network.after(10)
    assert left(network, "B1") == 0
