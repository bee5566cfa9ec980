"""The deduplication window of a session moves with it."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.broker.ack_tracker import marked
from shoal.broker.effects import Deliver
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.properties import Properties
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import Memory

KEPT: dict[str, Any] = {
    "clean_start": False,
    "properties": Properties(session_expiry_interval_s=1_000),
}


class RepeatingSite:
    """Records one machine's deliveries, and can repeat them as after a kill."""

    def __init__(self, broker_api: BrokerApi) -> None:
        self._broker_api, self._deliver = broker_api, broker_api.clients.deliver
        self.delivered: list[Deliver] = []
        broker_api.clients.deliver = self._noticing  # type: ignore[method-assign]
        broker_api.clients.arrivals.begin_deduplication({})

    def _noticing(self, deliveries: Any, now_us: int) -> Any:
        self.delivered.extend(deliveries)
        return self._deliver(deliveries, now_us)

    def repeat(self, broker_api: BrokerApi, payload: bytes) -> None:
        """A copy of the delivery with that payload reaches a broker."""
        first = next(each for each in self.delivered if payload in each.routed.publication.body)
        publication = marked(first.routed.publication)
        copy = msgspec.structs.replace(first.routed, publication=publication)
        again = msgspec.structs.replace(first, routed=copy)
        broker_api.carry_out(broker_api.clients.deliver([again], broker_api.now_us))


def test_a_copy_spooled_for_a_dead_broker_is_a_duplicate() -> None:
    network = Network("B1", "B2", "B3")
    Memory(network)
    network.after(20)
    promises = Properties(user_properties=(("$advertise", "`$levels` >= 1"),))
    publisher = network["B1"].connect("p", properties=promises)
    subscriber = network["B3"].connect("s", **KEPT)
    subscriber.subscribe("a", qos=2)
    repeating = RepeatingSite(network["B3"])
    publisher.publish("a", b"first", qos=2)
    assert subscriber.take_payloads() == [b"first"]
    subscriber.lose()
    subscriber = network["B2"].connect("s", **KEPT)
    assert subscriber.connack.session_present
    network.after(10)
    repeating.repeat(network["B2"], b"first")
    assert subscriber.take_payloads() == []
    publisher.publish("a", b"2", qos=2)
    assert subscriber.take_payloads() == [b"2"]


def test_a_message_held_for_a_returning_session_does_not_come_twice() -> None:
    """It came to B1 while the session was on its way from there, and on its way back."""
    network = Network("B1", "B2")
    Memory(network)
    network.after(20)
    publisher = network["B1"].connect("p")
    subscriber = network["B1"].connect("s", **KEPT)
    subscriber.subscribe("a", qos=2)
    publisher.publish("a", b"before", qos=2)
    subscriber.take()
    subscriber.lose()
    repeating = RepeatingSite(network["B1"])
    subscriber = network["B2"].connect("s", **KEPT)
    network.is_slow = True
    subscriber.lose()
    subscriber = network["B1"].open()
    subscriber.send(Connect("s", **KEPT))
    publisher.publish("a", b"meanwhile", qos=2)
    network.is_slow = False
    network.settle()
    for _ in range(20):
        network.after(1)
    connack, *_ = subscriber.take()
    assert connack.session_present
    repeating.repeat(network["B1"], b"meanwhile")
    assert subscriber.take() == []


def test_a_forwarded_message_does_not_come_twice() -> None:
    """B2 received it before the session, which got it from B1, its former broker."""
    network = Network("B1", "B2")
    Memory(network)
    network.after(20)
    publisher = network["B2"].connect("p")
    subscriber = network["B1"].connect("s", **KEPT)
    subscriber.subscribe("a", qos=2)
    subscriber.lose()
    network["B2"].connect("t").subscribe("a", qos=2)
    repeating = RepeatingSite(network["B2"])
    network.is_slow = True
    subscriber = network["B2"].open()
    subscriber.send(Connect("s", **KEPT))
    publisher.publish("a", b"meanwhile", qos=2)
    network.is_slow = False
    network.settle()
    for _ in range(20):
        network.after(1)
    connack, *_ = subscriber.take()
    assert connack.session_present
    repeating.repeat(network["B2"], b"meanwhile")
    assert subscriber.take() == []
