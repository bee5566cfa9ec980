"""The cached receivers of a topic, with overlapping subscriptions."""

from __future__ import annotations

from shoal.mqtt.codec.packets import Subscribe, SubscriptionRequest
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.sessions.session import ClientSubscription
from tests.mqtt.broker_api import BrokerApi


def receivers_of(broker_api: BrokerApi, topic: str) -> tuple[ClientSubscription, ...] | None:
    known = broker_api.clients.subscriptions.look(topic)
    assert known is not None
    return known.all


def test_overlapping_subscriptions_of_one_client_are_one() -> None:
    """2^16 subscriptions of one client would take 60 ms for each publication."""
    broker_api = BrokerApi()
    client, other = broker_api.connect("c"), broker_api.connect("o")
    texts = {"a/b": 0, "a/+": 2, "+/b": 1, "#": 1}
    for number, (text, qos) in enumerate(texts.items(), 1):
        asked = Properties(subscription_identifiers=(number,))
        client.send(Subscribe(number, (SubscriptionRequest(text, qos=qos),), asked))
    other.subscribe("#")
    client.take(), other.take()
    receivers = receivers_of(broker_api, "a/b")
    assert receivers is not None
    assert {each.session.client_id: each.qos for each in receivers} == {"c": 2, "o": 0}
    broker_api.connect("p").publish("a/b", b"x", qos=2)
    [got] = client.take()
    assert got.qos == 2
    assert sorted(got.properties.subscription_identifiers) == [1, 2, 3, 4]
    assert len(other.take()) == 1
    # None of them ends with another.
    client.unsubscribe("a/+")
    broker_api.connect("q").publish("a/b", b"y", qos=2)
    got = client.take()[-1]
    assert got.qos == 1
    assert sorted(got.properties.subscription_identifiers) == [1, 3, 4]


def test_no_local_of_one_subscription_is_checked_per_message() -> None:
    broker_api = BrokerApi()
    client = broker_api.connect("c")
    client.send(Subscribe(1, (SubscriptionRequest("a", no_local=True),)))
    client.send(Subscribe(2, (SubscriptionRequest("+"),)))
    assert receivers_of(broker_api, "a") is None
    client.unsubscribe("+")
    client.take()
    assert receivers_of(broker_api, "a") is not None
    client.publish("a", b"mine")
    broker_api.connect("p").publish("a", b"hers")
    assert client.take_payloads() == [b"hers"]
