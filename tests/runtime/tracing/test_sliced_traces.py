"""A traced message whose fan-out takes several time slices."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import Properties
from shoal.runtime.tracing.tracer import Tracer
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.sessions.slices import finish, small

FLAGGED = Properties(user_properties=(("$trace", "mine"),))


def traced(broker_api: BrokerApi) -> Tracer:
    tracer = Tracer(broker_api.clients, "auto", lambda: broker_api.now_us)
    broker_api.clients.tracer = tracer
    return tracer


@pytest.mark.parametrize("topic", ["a", "a?x>0"])
@pytest.mark.parametrize("qos", [0, 1])
def test_each_subscriber_has_one_span_with_its_fate(qos: int, topic: str) -> None:
    broker_api = small(BrokerApi(), 2)
    tracer = traced(broker_api)
    for number in range(5):
        broker_api.connect(f"c{number}").subscribe(topic, qos=qos)
    writer = broker_api.connect("w")
    writer.send(Publish("a", b'{"x": 1}', qos, packet_id=qos, properties=FLAGGED))
    assert broker_api.clients.spreading.is_on
    finish(broker_api, writer)
    (found,) = tracer._traced.values()
    assert [span.client for span in found.clients] == [f"c{number}" for number in range(5)]
    assert {span.state for span in found.clients} == {"sent" if qos else "delivered"}


def test_a_message_behind_another_fan_out_has_one_span_for_each_subscriber() -> None:
    broker_api = small(BrokerApi(), 2)
    tracer = traced(broker_api)
    for number in range(5):
        broker_api.connect(f"c{number}").subscribe("a", qos=1)
    writer = broker_api.connect("w")
    writer.send(Publish("a", b"1", 1, packet_id=1))
    writer.send(Publish("a", b"2", 1, packet_id=2, properties=FLAGGED))
    finish(broker_api, writer)
    (found,) = tracer._traced.values()
    assert [span.state for span in found.clients] == ["sent"] * 5
