"""Clients redirected to other brokers, by an operator or by a drain."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.codec.packets import Connack, Connect, Disconnect, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.connection.connecting import FOLLOW
from shoal.mqtt.federation.moving import AT_ONCE, HOUR_US, Moving
from tests.mqtt.broker_api import SECOND, Client, will
from tests.mqtt.network_broker_api import Network

NAMES = ("B1", "B2", "B3")


def follower(expiry_s: int = 1_000) -> dict[str, Any]:
    properties = Properties(session_expiry_interval_s=expiry_s, user_properties=((FOLLOW, ""),))
    return {"clean_start": False, "properties": properties}


def moving(network: Network, name: str) -> Moving:
    federation = network[name].clients.federation
    assert federation is not None
    return federation.moving


def connected(*names: str, **limits: Any) -> Network:
    """A network whose brokers' names are addresses for redirects."""
    network = Network(*names, **limits)
    for name in names:
        moving(network, name).servers = {each: {"mqtt": each} for each in names if each != name}
    network.after(20)
    return network


@pytest.fixture
def network() -> Network:
    return connected(*NAMES)


def move(network: Network, client: str, source: str, target: str) -> list[str]:
    """The result of a move: the reason of a refusal, or empty; the client is redirected by then."""
    said: list[str] = []
    site = network[source]
    moving(network, source).move(client, target, site.now_us, said.append, "asked to")
    site.carry_out(site.clients.take_effects())
    network.after(0.2)
    return said


def goes(network: Network, client: Client, **fields: Any) -> Client:
    """The client follows the redirect, and its former broker learns of it."""
    goodbye = client.take()[-1]
    assert isinstance(goodbye, Disconnect)
    assert goodbye.reason_code is ReasonCode.USE_ANOTHER_SERVER
    server = goodbye.properties.server_reference
    assert server is not None
    client.lose()
    client_id = client.connection.client_id
    assert client_id is not None
    new = network[server].connect(client_id, **fields)
    assert new.connack.session_present
    network.after(20)
    assert client_id not in network[client.connection._broker_api.broker_id].clients.sessions  # type: ignore[attr-defined]
    return new


@pytest.mark.parametrize("expiry_s", [1_000, 0], ids=["kept", "ends with its connection"])
def test_a_moved_clients_messages_follow_it(network: Network, expiry_s: int) -> None:
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w")
    client = network["B1"].connect("c", will=will("w"), **follower(expiry_s))
    client.subscribe("a?x>1", qos=2)
    client.subscribe("$share/g/s", qos=1)
    client.subscribe("zero")
    publisher = network["B3"].connect("p")
    publisher.publish("a", b'{"x":2}', qos=2)
    (first,) = client.take()
    said = move(network, "c", "B1", "B3")
    assert said == []
    publisher.publish("a", b'{"x":3}', qos=1)
    publisher.publish("a", b'{"x":0}', qos=1)
    publisher.publish("s", b"of the group", qos=1)
    publisher.publish("zero", b"at most once")
    client.send(Pubrec(first.packet_id))  # messages received before count here
    new = goes(network, client, will=will("w"), **follower(expiry_s))
    packets = new.take()
    assert sum(isinstance(each, Pubrel) for each in packets) == 1
    payloads = [each.payload for each in packets if isinstance(each, Publish)]
    assert payloads == [b'{"x":3}', b"of the group", b"at most once"]
    assert watcher.take() == []
    new.lose()
    network.after(1)
    assert watcher.take_payloads() == [b"gone"]


def test_a_client_is_answered_before_its_redirect(network: Network) -> None:
    heard = network["B2"].connect("s")
    heard.subscribe("a")
    client = network["B1"].connect("c", **follower())
    network.is_settling = False
    client.send(Publish("a", b"1", 1, packet_id=1))
    assert heard.take_payloads() == [b"1"]
    said = move(network, "c", "B1", "B3")
    client.send(Publish("a", b"2", 1, packet_id=2), Publish("a", b"now", 0))
    assert client.take() == []
    network.is_settling = True
    for name in NAMES:
        network[name].settle(network[name].unsettled)
    network.after(0.1)
    puback, goodbye = client.take()
    assert (puback.packet_id, goodbye.reason_code) == (1, ReasonCode.USE_ANOTHER_SERVER)
    assert heard.take_payloads() == [b"now"]  # sent once; the rest is sent again
    client.lose()
    new = network["B3"].connect("c", **follower())
    network.after(0.1)
    assert new.connack.session_present
    assert said == [""]
    assert moving(network, "B1").counts == {"moved": 1}


def comes(network: Network, client: Client) -> Client:
    """It was redirected to B3, and has connected there; its session is on its way."""
    assert move(network, "c", "B1", "B3") == []
    client.lose()
    network.is_slow = True
    coming = network["B3"].open()
    coming.send(Connect("c", **follower()))
    return coming


def test_an_arriving_client_is_redirected_after_its_arrival(network: Network) -> None:
    client = network["B1"].connect("c", **follower())
    client.subscribe("a", qos=1)
    coming = comes(network, client)
    said = move(network, "c", "B3", "B2")
    assert said == []
    network.is_slow = False
    network.settle()
    network.after(0.1)
    new = goes(network, coming, **follower())
    assert said == [""]
    network["B1"].connect("p").publish("a", b"1", qos=1)
    assert new.take_payloads() == [b"1"]


def test_a_refused_arriving_client_is_not_redirected(network: Network) -> None:
    coming = comes(network, network["B1"].connect("c", **follower()))
    said = move(network, "c", "B3", "B2")
    coming.lose()
    network.after(5)
    assert said == ["c is not connected to B3"]


def test_unsettled_publications_keep_a_client_here(network: Network) -> None:
    client = network["B1"].connect("c", **follower())
    network.is_settling = False
    client.send(Publish("a", b"1", 1, packet_id=1))
    said = move(network, "c", "B1", "B3")
    network.after(6)
    assert said == ["publications of c are not settled"]
    assert not client.connection.must_wait


@pytest.mark.parametrize(
    ("client", "target", "problem"),
    [
        ("nobody", "B3", "nobody is not connected to B1"),
        ("c", "B1", "c is there already"),
        ("c", "B9", "no broker B9 is known to which clients can be redirected"),
        (
            "stays",
            "B3",
            "stays does not follow redirects, and would return to B1; shoal.Client",
        ),
    ],
)
def test_moves_of_unmovable_clients_are_refused(
    network: Network, client: str, target: str, problem: str
) -> None:
    network["B1"].connect("c", **follower())
    network["B1"].connect("stays", version=4)
    (said,) = move(network, client, "B1", target)
    assert said.startswith(problem)


def test_no_move_to_a_full_drained_or_silent_broker() -> None:
    network = connected(*NAMES, maximum_connections=2)
    for number in range(2):
        network["B1"].connect(f"c{number}", **follower())
        network["B3"].connect(f"other{number}")
    said = move(network, "c0", "B1", "B3")
    assert said == ["B3 takes no clients: too many connections"]
    assert move(network, "c0", "B1", "B2") == []
    assert move(network, "c1", "B1", "B2") == []  # and expected ones count
    moving(network, "B2").drain(tuple, network["B2"].now_us)
    network["B1"].connect("c2", **follower())
    assert move(network, "c2", "B1", "B2") == ["B2 takes no clients: the broker is being drained"]
    network.cut("B2", "B3")
    said = move(network, "c2", "B1", "B3")
    network.after(3)
    assert said == ["B3 takes no clients: it does not answer"]


def test_a_client_that_moved_often_stays_for_a_while() -> None:
    network = connected(*NAMES, maximum_moves_per_hour=2)
    client = network["B1"].connect("c", **follower())
    for source, target in (("B1", "B2"), ("B2", "B3")):
        move(network, "c", source, target)
        client = goes(network, client, **follower())
    problem = "c has moved 2 times within an hour; more is not allowed"
    assert move(network, "c", "B3", "B1") == [problem]
    network.after(HOUR_US / SECOND)
    assert move(network, "c", "B3", "B1") == []


def test_an_expected_client_that_does_not_come_expires(network: Network) -> None:
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w")
    network["B1"].connect("c", will=will("w"), **follower(0))
    said = move(network, "c", "B1", "B3")
    network.after(14)
    assert watcher.take() == []
    network.after(2)
    assert watcher.take_payloads() == [b"gone"]
    assert said[0] in ("c was told to go, and has not come there", "the session of c has ended")
    assert "c" not in network["B1"].clients.sessions


def test_a_drained_broker_redirects_all_and_admits_none(network: Network) -> None:
    watcher = network["B2"].connect("watcher")
    watcher.subscribe("w")
    followers = [network["B1"].connect(f"c{number}", **follower()) for number in range(4)]
    for each in followers:
        each.subscribe("a", qos=1)
    others = [network["B1"].connect(f"o{v}", version=v, will=will("w")) for v in (4, 5)]
    away = network["B1"].connect("away", **follower())
    away.subscribe("a", qos=1)
    away.lose()
    site = network["B1"]
    moving(network, "B1").drain(lambda: ("B2", "B3"), site.now_us)
    network.after(1)
    others[0].lose()
    assert others[1].take()[-1].reason_code is ReasonCode.USE_ANOTHER_SERVER
    network.after(9)
    for each in others:  # they find another broker by themselves, and start anew
        network["B3"].connect(each.connection.client_id or "", version=each.version)
    for number, client in enumerate(followers):
        goes(network, client, **follower()).lose()
        assert f"c{number}" not in site.clients.sessions
    late = site.open()
    late.send(Connect("late"))
    (refusal,) = late.take()
    assert isinstance(refusal, Connack)
    assert refusal.reason_code is ReasonCode.USE_ANOTHER_SERVER
    assert refusal.properties.server_reference in ("B2", "B3")
    network.after(30)
    assert len(site.clients.sessions) == 0
    assert watcher.take() == []
    moving(network, "B1").undrain()
    network["B1"].connect("late")


def test_a_broker_with_many_clients_is_drained_in_slices(network: Network) -> None:
    for number in range(AT_ONCE + 20):
        network["B1"].connect(f"c{number}", **follower())
    moving(network, "B1").drain(lambda: ("B3",), network["B1"].now_us)
    network.after(0.1)
    sent = [each for each in network["B1"].clients.sessions if each.session_writer is None]
    assert len(sent) == AT_ONCE


def test_few_clients_among_many_sessions_are_found_in_slices(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search of 200,000 sessions every 20 ms would take 29 ms each time."""
    monkeypatch.setattr("shoal.mqtt.federation.moving.MOST_SEEN", 5)
    for number in range(30):
        client = network["B1"].connect(f"c{number}", **follower())
        if number not in (7, 29):
            client.lose()
    looked: list[str] = []
    here = Moving._here

    def counted(self: Moving, client_id: str) -> Any:
        looked.append(client_id)
        return here(self, client_id)

    monkeypatch.setattr(Moving, "_here", counted)
    moving(network, "B1").drain(lambda: ("B3",), network["B1"].now_us)
    network.after(0.03)
    assert len(looked) <= 10
    network.after(0.3)
    assert [
        each for each in network["B1"].clients.sessions if each.session_writer is not None
    ] == []
    late = network["B1"].open()
    late.send(Connect("late"))
    assert late.take()[0].reason_code is ReasonCode.USE_ANOTHER_SERVER


def test_a_drained_broker_reports_why_clients_remain() -> None:
    network = connected("B1", "B2", maximum_connections=1)
    other = network["B2"].connect("other")
    client = network["B1"].connect("c", **follower())
    moving(network, "B1").drain(lambda: ("B2",), network["B1"].now_us)
    network.after(2)
    assert moving(network, "B1").problem == "B2 takes no clients: too many connections"
    assert not client.closed
    other.lose()
    network.after(12)
    assert client.take()[-1].reason_code is ReasonCode.USE_ANOTHER_SERVER
