"""What a session has had of who publishes under its own name does not come again elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.broker.custody import marked
from shoal.broker.effects import Deliver
from shoal.mqtt.codec.properties import Properties
from tests.mqtt.network_house import Network
from tests.mqtt.remembering import Memory

KEPT: dict[str, Any] = {
    "clean_start": False,
    "properties": Properties(session_expiry_interval_s=1_000),
}


def test_a_copy_that_was_kept_for_a_broker_while_it_was_dead_is_a_repeat() -> None:
    network = Network("B1", "B2", "B3")
    Memory(network)
    network.after(20)
    promises = Properties(user_properties=(("$advertise", "`$levels` >= 1"),))
    publisher = network["B1"].connect("p", properties=promises)
    subscriber = network["B3"].connect("s", **KEPT)
    subscriber.subscribe("a", qos=2)
    delivered: list[Deliver] = []
    deliver = network["B3"].clients.deliver

    def noticing(deliveries: Any, now_us: int) -> Any:
        delivered.extend(deliveries)
        return deliver(deliveries, now_us)

    network["B3"].clients.deliver = noticing  # type: ignore[method-assign]
    publisher.publish("a", b"1", qos=2)
    assert subscriber.take_payloads() == [b"1"]
    (first,) = (each for each in delivered if each.routed.publication.publisher == "p")
    subscriber.lose()
    subscriber = network["B2"].connect("s", **KEPT)
    assert subscriber.connack.session_present
    network.after(10)
    copy = msgspec.structs.replace(first.routed, publication=marked(first.routed.publication))
    again = msgspec.structs.replace(first, routed=copy)
    site = network["B2"]
    site.carry_out(site.clients.deliver([again], site.now_us))
    assert subscriber.take_payloads() == []
    publisher.publish("a", b"2", qos=2)
    assert subscriber.take_payloads() == [b"2"]
