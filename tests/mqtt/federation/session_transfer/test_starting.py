"""Admission at a broker that has just started, and may have missed news of sessions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from shoal.mqtt.access import ClientAdmission
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Entered, OwnersKnown, Several, encode_control
from shoal.mqtt.federation.session_transfer.directory import announcing
from shoal.mqtt.federation.session_transfer.directory.announcing import MOST_AS_ONE
from shoal.mqtt.federation.session_transfer.starting import (
    MOST_AT_ONCE,
    SOUGHT_US,
    START_US,
    StartupSync,
)
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.timers import MqttTimers
from tests.mqtt.broker_api import KEPT, SECOND
from tests.mqtt.network_broker_api import Network, federation_of

NAMES = ("B1", "B2", "B3")
START_S = START_US / SECOND


@pytest.fixture
def network() -> Network:
    network = Network(*NAMES)
    network.after(20)
    return network


def start(network: Network, name: str, **limits: Any) -> None:
    """Restart the MQTT side of a broker, without memory or links."""
    network.is_slow = True
    site = network[name]
    for end in list(site._ends.values()):
        end.closed = True
    settings = {"statistics_interval_s": 0, **limits}
    given = type(site.clients.limits)(**settings) if limits else site.clients.limits
    site.clients = BrokerClients(name, site.now_us, limits=given, networked=True)
    assert site.clients.federation is not None
    site.clients.federation.session_transfer.starting.others = lambda: set(NAMES) - {name}
    site.carry_out(site.clients.take_effects())


def answers(network: Network, name: str, client_id: str = "c", **terms: Any) -> Any:
    """The answers to a client without a session that connects."""
    client = network[name].open()
    client.send(Connect(client_id, **{**KEPT, **terms}))
    return client


def test_an_unknown_client_waits_until_all_brokers_answer(network: Network) -> None:
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    client, newcomer = answers(network, "B3"), answers(network, "B3", "new")
    network["B3"].after(1)
    assert client.take() + newcomer.take() == []
    network.is_slow = False
    network.settle()
    network.after(0.1)
    [connack] = client.take()
    assert connack.session_present
    [connack] = newcomer.take()
    assert connack.reason_code is ReasonCode.SUCCESS
    assert not connack.session_present


def test_a_client_of_a_known_session_does_not_wait_for_others(network: Network) -> None:
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    client, newcomer = answers(network, "B3"), answers(network, "B3", "new")
    network.is_slow = False
    silent = network["B2"].clients.federation
    assert silent is not None
    silent.joining.on_control = lambda control, now_us: None  # type: ignore[method-assign]
    network.after(1)
    assert client.take()[0].session_present
    assert newcomer.take() == []


def test_sessions_of_a_broker_that_is_down_are_known_to_others(network: Network) -> None:
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    client, newcomer = answers(network, "B3"), answers(network, "B3", "new")
    network.cut("B1", "B2")
    network.is_slow = False
    network.after(START_S + 3)
    assert newcomer.take()[0].reason_code is ReasonCode.SUCCESS
    # Without a disk B1 counts as dead once a question got no answer; with one it is waited for.
    federation = federation_of(network, "B3")
    assert federation.session_transfer.fetching._silent.keys() == {"B1"}
    assert client.take() != []


@pytest.mark.parametrize("count", [1, 2 * MOST_AS_ONE + 1])
def test_a_broker_asks_for_the_sessions_of_one_that_is_down(network: Network, count: int) -> None:
    for number in range(count):
        network["B1"].connect(f"c{number}", **KEPT)
    network["B2"].connect("elsewhere", **KEPT)
    network.after(1)
    start(network, "B3")
    network.cut("B1", "B2")
    network.is_slow = False
    network.after(3)
    transfer = network["B3"].clients.federation.session_transfer  # type: ignore[union-attr]
    assert {transfer.homes.get(f"c{number}") for number in range(count)} == {"B1"}
    assert transfer.starting._owners_known == {"B1"}


def test_a_session_that_is_here_stays_if_another_owner_is_known(network: Network) -> None:
    """Its owner, to which it is exported, says what becomes of it."""
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    there = network["B1"].clients.federation
    assert there is not None
    owner = Entered("c", "B2", network["B1"].now_us + 1, True, None)
    there.on_control(encode_control(OwnersKnown((owner,), ("B2",))), network["B1"].now_us)
    assert "c" in network["B1"].clients.sessions


@pytest.mark.parametrize("is_heard", [False, True])
def test_the_list_of_an_owner_counts_more_than_words_of_others(
    network: Network, is_heard: bool
) -> None:
    """The session has ended meanwhile, and a late answer of another broker says otherwise."""
    start(network, "B3")
    federation, now_us = network["B3"].clients.federation, network["B3"].now_us
    assert federation is not None
    if is_heard:
        federation.on_control(encode_control(Several((), "B1", 0, 1)), now_us)
    known = OwnersKnown((Entered("c", "B1", now_us - 1, True, None),), ("B1",))
    federation.on_control(encode_control(known), now_us)
    assert federation.session_transfer.homes.get("c") == (None if is_heard else "B1")


def test_brokers_are_asked_though_clients_keep_connecting(network: Network) -> None:
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    answers(network, "B3")
    network.cut("B1", "B2")
    network.is_slow = False
    for number in range(6):
        answers(network, "B3", f"new{number}")
        network.after(0.5)
    federation = federation_of(network, "B3")
    assert federation.session_transfer.homes.get("c") == "B1"


def test_a_client_does_not_delay_the_question_about_silent_brokers(network: Network) -> None:
    """The broker that is asked may be down a moment later."""
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    network.cut("B1", "B2")
    network.is_slow = False
    network.after(SOUGHT_US / SECOND - 0.2)
    answers(network, "B3", "new")
    network.after(0.3)
    federation = federation_of(network, "B3")
    assert federation.session_transfer.homes.get("c") == "B1"


def test_a_connected_broker_is_waited_for_however_long_it_is_silent(network: Network) -> None:
    """The system may carry no messages for a while, as another broker is down."""
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    federation = federation_of(network, "B3")
    connected = {"B2"}
    federation.session_transfer.starting.is_connected = connected.__contains__
    network["B3"].after(1)
    early = answers(network, "B3")
    network["B3"].after(START_S + 1)
    assert early.take()[0].reason_code is ReasonCode.SERVER_UNAVAILABLE
    late = answers(network, "B3")
    assert late.take() == []
    network.is_slow = False
    network.settle()
    network.after(1)
    assert late.take()[0].session_present


def test_a_connected_broker_that_is_silent_for_too_long_counts_as_dead(network: Network) -> None:
    start(network, "B3", silent_broker_s=60)
    federation = federation_of(network, "B3")
    federation.session_transfer.starting.is_connected = {"B2"}.__contains__
    network["B3"].after(START_S + 55)
    early = answers(network, "B3")
    network["B3"].after(4)
    assert early.take() == []
    network["B3"].after(5)
    assert early.take()[0].reason_code is ReasonCode.SUCCESS
    assert answers(network, "B3", "later").take()[0].reason_code is ReasonCode.SUCCESS


def test_a_connected_broker_is_asked_as_long_as_it_is_silent(network: Network) -> None:
    start(network, "B3")
    federation = federation_of(network, "B3")
    federation.session_transfer.starting.is_connected = {"B2"}.__contains__
    network["B3"].after(20)
    for link in network.links.values():
        link.clear()
    network.is_slow = False
    network["B3"].after(11)
    assert federation.session_transfer.starting.unheard(network["B3"].now_us) == []


def test_a_broker_that_comes_back_by_another_link_asks_for_the_lists(network: Network) -> None:
    """It was given up before, so all brokers send it their sessions, but no whole lists."""
    start(network, "B3")
    federation = federation_of(network, "B3")
    federation.session_transfer.starting.is_connected = {"B2"}.__contains__
    federation.linked("B4", False, network["B3"].now_us)
    network["B3"].after(START_S + 1)
    for link in network.links.values():
        link.clear()
    federation.linked("B2", True, network["B3"].now_us)
    network.is_slow = False
    network["B3"].after(1)
    assert federation.session_transfer.starting.unheard(network["B3"].now_us) == []
    client = answers(network, "B3", "new")
    assert client.take()[0].reason_code is ReasonCode.SUCCESS


def test_a_broker_that_is_not_connected_any_more_is_not_waited_for(network: Network) -> None:
    start(network, "B3")
    federation = federation_of(network, "B3")
    connected = {"B2"}
    federation.session_transfer.starting.is_connected = connected.__contains__
    network["B3"].after(START_S + 1)
    assert answers(network, "B3", "early").take() == []
    connected.clear()
    assert answers(network, "B3").take()[0].reason_code is ReasonCode.SUCCESS
    connected.add("B2")
    assert answers(network, "B3", "later").take()[0].reason_code is ReasonCode.SUCCESS


@pytest.mark.parametrize("is_over", [True, False], ids=["let in", "refused"])
def test_waiting_clients_are_admitted_in_slices(network: Network, is_over: bool) -> None:
    """The timer must not be due again in the same slice, or all would be admitted at once."""
    limits = {} if is_over else {"connect_timeout_s": 5}
    start(network, "B3", **limits)
    clients = [answers(network, "B3", f"c{number}") for number in range(3 * MOST_AT_ONCE)]
    site, answered = network["B3"], 0
    end_us = site.now_us + round((START_S + 1 if is_over else 6) * SECOND)
    while (deadline_us := site.clients.deadline_us) is not None and deadline_us <= end_us:
        site.now_us = max(site.now_us, deadline_us)
        site.carry_out(site.clients.advance(site.now_us))
        now_answered = sum(bool(each.written) for each in clients)
        assert now_answered - answered <= MOST_AT_ONCE
        answered = now_answered
    assert answered == len(clients)


class CountedReads(OrderedDict[str, Any]):
    """Counts the entries that are read."""

    looked = 0

    def __iter__(self) -> Iterator[str]:
        for each in super().__iter__():
            CountedReads.looked += 1
            yield each

    def items(self) -> Any:
        for each in super().items():
            CountedReads.looked += 1
            yield each

    def values(self) -> Any:
        for each in super().values():
            CountedReads.looked += 1
            yield each


def test_a_slice_reads_few_of_the_waiting_clients() -> None:
    """Copying all 50,000 for each 100 admitted would be 500 slices of 13 ms."""
    came: list[str] = []
    sessions: Any = type("Sessions", (dict,), {"limits": MqttLimits()})()
    never: Any = None
    starting = StartupSync(
        "B1", sessions, MqttTimers(), never, lambda *about: came.append(about[1].client_id), 0
    )
    others = ["B2"]
    starting.others = lambda: others
    starting._waiting = CountedReads()
    connection: Any = SimpleNamespace(is_closed=False)
    for number in range(1_000):
        connect = Connect(f"c{number}", clean_start=False)
        assert starting.must_wait(connection, connect, ClientAdmission(), 1)
    others.clear()
    while starting._waiting:
        CountedReads.looked = 0
        starting.admit_waiting(2)
        assert CountedReads.looked <= 2 * MOST_AT_ONCE + 2
    assert came == [f"c{number}" for number in range(1_000)]


def test_a_broker_without_answers_serves_after_the_timeout(network: Network) -> None:
    start(network, "B3")
    early = answers(network, "B3")
    network["B3"].after(START_S - 0.01)
    assert early.take() == []
    network["B3"].after(0.01)
    assert early.take()[0].reason_code is ReasonCode.SUCCESS
    assert answers(network, "B3", "late").take()[0].reason_code is ReasonCode.SUCCESS


def test_a_join_that_took_long_leaves_the_others_time_to_answer(network: Network) -> None:
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    network["B3"].after(START_S + 1)
    federation = federation_of(network, "B3")
    federation.joined(network["B3"].now_us)
    client = answers(network, "B3")
    network["B3"].after(1)
    assert client.take() == []
    network.is_slow = False
    network.settle()
    network.after(0.1)
    assert client.take()[0].session_present


def test_a_session_stays_if_the_broker_that_requested_it_leaves(network: Network) -> None:
    first = network["B1"].connect("c", **KEPT)
    first.subscribe("a", qos=1)
    first.lose()
    requesting, source = (network[name].clients.federation for name in ("B2", "B1"))
    assert requesting is not None
    assert source is not None
    requesting.session_transfer.fetching.on_control = lambda *_: None  # type: ignore[method-assign]
    elsewhere = answers(network, "B2")
    network.settle()
    elsewhere.lose()
    assert source.session_transfer.giving.get("c") is not None
    source.left("B2", network["B1"].now_us)
    network.settle()
    client = answers(network, "B3")
    network.settle()
    assert client.take()[0].session_present


def test_a_late_request_of_a_broker_that_has_left_is_dropped(network: Network) -> None:
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    source = network["B1"].clients.federation
    assert source is not None
    request = Entered("c", "B2", network["B1"].now_us + 1, True, "B1")
    source.left("B2", network["B1"].now_us)
    source.on_control(encode_control(request), network["B1"].now_us)
    assert source.session_transfer.giving.get("c") is None
    source.came("B2", network["B1"].now_us)
    source.on_control(encode_control(request), network["B1"].now_us)
    assert source.session_transfer.giving.get("c") is not None


def test_a_session_that_is_being_exported_is_known(network: Network) -> None:
    """The broker that has requested it lost its client, and has no session to list."""
    first = network["B1"].connect("c", **KEPT)
    first.subscribe("a", qos=1)
    first.lose()
    requesting = network["B2"].clients.federation
    assert requesting is not None
    requesting.session_transfer.fetching.on_control = lambda *_: None  # type: ignore[method-assign]
    elsewhere = answers(network, "B2")
    network.settle()
    elsewhere.lose()
    start(network, "B3")
    client = answers(network, "B3")
    network.is_slow = False
    network.settle()
    network.after(3)
    assert client.take()[0].session_present


def test_a_request_for_a_session_names_its_owner(network: Network) -> None:
    """The owner is down when a new broker comes, and another broker asks for the session first."""
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    start(network, "B3")
    network.cut("B1", "B2")
    network.is_slow = False
    network["B3"].after(0.1)
    answers(network, "B2").lose()
    network.settle()
    federation = federation_of(network, "B3")
    assert federation.session_transfer.homes.get("c") == "B1"


@pytest.mark.parametrize("terms", [{"clean_start": True}, {"client_id": ""}])
def test_a_clean_start_does_not_wait(network: Network, terms: dict[str, Any]) -> None:
    start(network, "B3")
    client = network["B3"].open()
    client.send(Connect(**{"client_id": "c", **KEPT, **terms}))
    assert client.take()[0].reason_code is ReasonCode.SUCCESS


def test_a_client_of_a_single_broker_does_not_wait(network: Network) -> None:
    start(network, "B3")
    federation = federation_of(network, "B3")
    federation.session_transfer.starting.others = tuple
    assert answers(network, "B3").take()[0].reason_code is ReasonCode.SUCCESS


def test_a_client_that_would_wait_too_long_is_refused_with_the_reason(network: Network) -> None:
    start(network, "B3", connect_timeout_s=3, server_keep_alive_s=0)
    client = answers(network, "B3")
    network["B3"].after(2.6)
    [connack] = client.take()
    assert connack.reason_code is ReasonCode.SERVER_UNAVAILABLE
    assert connack.properties.reason_string == (
        "this broker has just started, and B1 has not sent its sessions"
    )
    assert client.closed


def test_a_second_connection_replaces_a_waiting_one(network: Network) -> None:
    network["B1"].connect("c", **KEPT)
    start(network, "B3")
    first, second = answers(network, "B3"), answers(network, "B3")
    assert first.take()[0].reason_code is ReasonCode.SERVER_BUSY
    assert first.closed
    network.is_slow = False
    network.after(1)
    assert second.take()[0].session_present


def test_a_waiting_client_that_connected_elsewhere_is_not_admitted(network: Network) -> None:
    network["B1"].connect("c", **KEPT)
    start(network, "B3")
    network.after(0.2)
    client = answers(network, "B3")
    network.after(0.2)
    network["B2"].connect("c", clean_start=True, properties=KEPT["properties"])
    network.is_slow = False
    network.settle()
    assert client.take()[0].reason_code is ReasonCode.SERVER_BUSY


def test_a_waiting_client_that_disconnects_is_not_admitted(network: Network) -> None:
    start(network, "B3")
    client = answers(network, "B3")
    federation = federation_of(network, "B3")
    assert federation.session_transfer.starting._waiting.keys() == {"c"}
    client.lose()
    assert not federation.session_transfer.starting._waiting
    network.is_slow = False
    network.after(START_S)
    assert "c" not in network["B3"].clients.sessions


def test_parts_may_come_in_any_order(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "MOST_AS_ONE", 3)
    for number in range(10):
        network["B1"].connect(f"c{number}", **KEPT)
    start(network, "B3")
    federation = federation_of(network, "B3")
    starting, now_us = federation.session_transfer.starting, network["B3"].now_us
    parts = [Several((Entered(f"c{n}", "B1", n + 1, True, None),), "B1", n, 4) for n in range(4)]
    Random(1).shuffle(parts)
    for part in parts:
        assert "B1" in starting.unheard(now_us)
        federation.session_transfer.on_control(part, now_us)
        federation.session_transfer.on_control(part, now_us)
    assert starting.unheard(now_us) == ["B2"]
    # And so it does by itself.
    network.is_slow = False
    network.after(1)
    assert starting.unheard(network["B3"].now_us) == []


def test_a_departed_broker_is_not_waited_for(network: Network) -> None:
    start(network, "B3")
    client = answers(network, "B3")
    federation = federation_of(network, "B3")
    for name in ("B1", "B2"):
        federation.left(name, network["B3"].now_us)
    network["B3"].after(0.001)
    assert client.take()[0].reason_code is ReasonCode.SUCCESS


def test_many_waiting_clients_are_admitted_in_slices(network: Network) -> None:
    start(network, "B3")
    clients = [answers(network, "B3", f"c{number}") for number in range(250)]
    network.is_slow = False
    network.after(1)
    assert all(client.take()[0].reason_code is ReasonCode.SUCCESS for client in clients)


@pytest.mark.parametrize("is_heard", [False, True], ids=["a new session", "a requested one"])
def test_a_client_that_came_back_later_keeps_its_session(network: Network, is_heard: bool) -> None:
    """B3 does not notice that the client hung up, and admits it after the client's return to B1.

    B1 keeps the session: the client's CONNECT at B1 is the later one.
    """
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    network["B1"].after(1)
    start(network, "B3")
    answers(network, "B3")
    network.after(1)
    client = network["B1"].connect("c", **KEPT)
    assert client.connack.session_present
    network.after(1)
    if not is_heard:
        network["B3"].after(START_S)
    network.is_slow = False
    network.settle()
    network.after(START_S)
    assert not client.closed
    assert "c" in network["B1"].clients.sessions
    assert "c" not in network["B3"].clients.sessions
    network["B2"].connect("p").publish("a", b"1", qos=1)
    assert [packet.payload for packet in client.take()] == [b"1"]
