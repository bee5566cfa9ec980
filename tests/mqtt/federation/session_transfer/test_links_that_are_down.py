"""Messages for a session wait at a broker that lost its link to the former broker."""

from __future__ import annotations

from typing import Any

from shoal.broker.effects import Deliver
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.federation.session_transfer.test_deduplication import KEPT
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import Memory


class LateDeliveries:
    """Delays one machine's deliveries until its links are up."""

    def __init__(self, broker_api: BrokerApi) -> None:
        self._broker_api, self._deliver = broker_api, broker_api.clients.deliver
        self._kept: list[Deliver] = []
        broker_api.clients.deliver = self._keep  # type: ignore[method-assign]
        assert broker_api.clients.front_end is not None
        broker_api.clients.front_end.waits_for_links = lambda: True

    def _keep(self, deliveries: Any, now_us: int) -> Any:
        """Messages between MQTT sides take another way."""
        late = [each for each in deliveries if b"late" in each.routed.publication.body]
        self._kept += late
        return self._deliver([each for each in deliveries if each not in late], now_us)

    def comes(self) -> None:
        broker_api, kept = self._broker_api, self._kept
        self._kept = []
        broker_api.clients.deliver = self._deliver  # type: ignore[method-assign]
        assert broker_api.clients.front_end is not None
        broker_api.clients.front_end.waits_for_links = lambda: False
        broker_api.carry_out(self._deliver(kept, broker_api.now_us))


def test_messages_for_a_moved_session_arrive_when_the_link_is_back() -> None:
    network = Network("B1", "B2", "B3")
    Memory(network)
    network.after(20)
    publisher = network["B1"].connect("p")
    subscriber = network["B3"].connect("s", **KEPT)
    subscriber.subscribe("a", qos=2)
    late = LateDeliveries(network["B3"])
    publisher.publish("a", b"late", qos=2)
    subscriber.lose()
    subscriber = network["B2"].connect("s", **KEPT)
    assert subscriber.connack.session_present
    network.after(30)
    publisher.publish("a", b"new", qos=2)
    assert subscriber.take_payloads() == [b"new"]  # no broker waits for the link for ever
    late.comes()
    assert subscriber.take_payloads() == [b"late"]
    network.after(10)
    assert network["B3"].clients.sessions.get("s") is None
    publisher.publish("a", b"last", qos=2)
    assert subscriber.take_payloads() == [b"last"]
