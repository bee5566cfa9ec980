"""`$every` and `$changed` in sessions: what clients get, when, and what outlasts their absence."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import NO_PROPERTIES, Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.broker_api import KEPT, BrokerApi, Client
from tests.mqtt.remembering import RememberingBrokerApi

SECOND = 1_000_000


def user(**pairs: str) -> Properties:
    return Properties(user_properties=tuple((f"${name}", text) for name, text in pairs.items()))


class Scene:
    """A publisher and a subscriber, and the times and payloads that the subscriber got."""

    def __init__(self, broker_api: BrokerApi | None = None, **limits: Any) -> None:
        self.broker_api = broker_api or BrokerApi(**limits)
        self.began_us = self.broker_api.now_us
        self.publisher = self.broker_api.connect("publisher")
        self.subscriber = self.broker_api.connect("subscriber", **KEPT)
        self.got: list[tuple[float, str]] = []

    @property
    def at_s(self) -> float:
        return (self.broker_api.now_us - self.began_us) / SECOND

    def look(self) -> None:
        for packet in self.subscriber.take_publications():
            self.got.append((self.at_s, packet.payload.decode()))

    def until(self, at_s: float) -> None:
        """Let time pass, a tenth of a second at a time."""
        while self.at_s < at_s:
            self.broker_api.after(min(0.1, at_s - self.at_s))
            if not self.subscriber.closed:
                self.look()

    def publish(
        self, at_s: float, payload: str, topic: str = "t", qos: int = 1, **more: Any
    ) -> None:
        self.until(at_s)
        self.publisher.publish(topic, payload.encode(), qos, **more)
        if not self.subscriber.closed:
            self.look()

    def back(self) -> None:
        self.subscriber = self.broker_api.connect("subscriber", **KEPT)
        self.look()

    @property
    def statistics(self) -> Any:
        return self.broker_api.clients.statistics


def value(number: float) -> str:
    return f'{{"v": {number}}}'


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_newest_message_goes_out_at_the_end_of_an_interval(qos: int) -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", qos, user(every="10s"))
    for at_s, payload in ((0, "a"), (3, "b"), (7, "c"), (12, "d"), (25, "e"), (41, "f")):
        scene.publish(at_s, payload, qos=qos)
    scene.until(60)
    assert scene.got == [(0, "a"), (10, "c"), (20, "d"), (30, "e"), (41, "f")]
    assert scene.statistics.superseded == 1


def test_unchanged_messages_are_suppressed() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t?$changed=v BY 0.5", 1)
    for at_s, number in enumerate((20.0, 20.3, 20.4, 20.5, 20.1)):
        scene.publish(at_s, value(number))
    scene.publish(5, "{}")
    assert scene.got == [(0, value(20.0)), (3, value(20.5)), (5, "{}")]
    assert scene.statistics.suppressed == 3


def test_both_decide_at_the_end_of_the_interval() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(every="10s", changed="v"))
    for at_s, number in ((0, 1), (2, 5), (6, 1), (13, 7), (15, 8)):
        scene.publish(at_s, value(number))
    scene.until(40)
    assert scene.got == [(0, value(1)), (13, value(7)), (23, value(8))]


def test_each_topic_and_each_by_value_is_a_key() -> None:
    scene = Scene()
    scene.subscriber.subscribe("+", 1, user(every="10s BY v"))
    for at_s, topic, number in ((0, "x", 1), (1, "x", 2), (2, "y", 1), (3, "x", 1), (4, "x", 2)):
        scene.publish(at_s, value(number), topic)
    scene.until(30)
    assert [at_s for at_s, _ in scene.got] == [0, 1, 2, 10, 11]


def test_filter_first_then_the_interval() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t?v>5&$every=10s", 1)
    for at_s, number in ((0, 9), (1, 7), (2, 3)):
        scene.publish(at_s, value(number))
    scene.until(30)
    assert scene.got == [(0, value(9)), (10, value(7))]


def test_a_client_that_returns_gets_the_newest_of_each_key() -> None:
    scene = Scene()
    scene.subscriber.subscribe("+", 1, user(every="10s"))
    scene.publish(0, "a")
    scene.subscriber.lose()
    for at_s, topic, payload in ((1, "t", "b"), (12, "t", "c"), (13, "u", "d"), (14, "u", "e")):
        scene.publish(at_s, payload, topic)
    scene.publish(15, "lost", "t", qos=0)
    scene.until(50)
    scene.back()
    scene.until(51)
    assert [payload for _, payload in scene.got] == ["a", "c", "e"]
    assert scene.subscriber.connack.session_present


def test_changes_are_decided_when_the_client_returns() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(changed="v"))
    scene.publish(0, value(1))
    scene.subscriber.lose()
    scene.publish(1, value(2))
    scene.publish(2, value(1))
    scene.back()
    scene.publish(4, value(1))
    scene.publish(5, value(2))
    assert [payload for _, payload in scene.got] == [value(1), value(2)]


def test_a_full_queue_keeps_the_newest() -> None:
    scene = Scene(maximum_queued_messages=1, maximum_inflight=1)
    scene.subscriber.subscribe("t", 1, user(every="100ms"))
    got: list[Publish] = []
    for number in range(20):
        scene.broker_api.after(1)
        scene.publisher.publish("t", b"%d" % number, 1)
        got += scene.subscriber.take()
    assert [packet.payload for packet in got] == [b"0"]
    assert scene.statistics.publications_dropped == 0
    assert not scene.broker_api.clients.sessions["subscriber"].dropped
    scene.subscriber._inbox = list(got)
    scene.until(25)
    assert [payload for _, payload in scene.got] == ["0", "1", "19"]


def test_a_message_that_expires_while_it_is_held_is_dropped() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(every="10s"))
    scene.publish(0, "a")
    scene.publish(1, "b", properties=Properties(message_expiry_interval_s=5))
    scene.publish(12, "c")
    scene.until(30)
    assert scene.got == [(0, "a"), (12, "c")]


def test_the_expiry_of_a_held_message_runs_on() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(every="10s"))
    scene.publish(0, "a")
    scene.publish(1, "b", properties=Properties(message_expiry_interval_s=15))
    scene.broker_api.after(9.5)
    (packet,) = scene.subscriber.take_publications()
    assert packet.properties.message_expiry_interval_s == 6


def test_retained_messages_pass_conflation_as_others() -> None:
    scene = Scene()
    scene.publish(0, "kept", retain=True)
    scene.subscriber.subscribe("t", 1, user(every="10s"))
    scene.look()
    scene.publish(1, "b")
    scene.until(20)
    assert scene.got == [(0, "kept"), (10, "b")]


def test_one_copy_for_overlapping_subscriptions() -> None:
    scene = Scene()
    for identifier, every in ((1, "10s"), (2, "30s")):
        pairs = user(every=every).user_properties
        properties = Properties(subscription_identifiers=(identifier,), user_properties=pairs)
        scene.subscriber.subscribe("t" if identifier == 1 else "+", 1, properties)
    got: list[tuple[float, bytes, set[int]]] = []
    for at_s in range(0, 45, 5):
        scene.broker_api.after(at_s - scene.at_s)
        if at_s < 35:
            scene.publisher.publish("t", b"%d" % at_s, 1)
        for packet in scene.subscriber.take_publications():
            identifiers = set(packet.properties.subscription_identifiers)
            got.append((at_s, packet.payload, identifiers))
    # Each delivery counts for both subscriptions: the longer interval begins anew with each.
    assert got == [
        (0, b"0", {1, 2}),
        (10, b"5", {1, 2}),
        (20, b"15", {1, 2}),
        (30, b"25", {1, 2}),
        (40, b"30", {1, 2}),
    ]


def test_a_subscription_without_conflation_delivers_at_once() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(every="10s"))
    scene.subscriber.subscribe("#", 0)
    for at_s, payload in ((0, "a"), (1, "b"), (2, "c")):
        scene.publish(at_s, payload)
    scene.until(30)
    assert scene.got == [(0, "a"), (1, "b"), (2, "c")]


@pytest.mark.parametrize(
    ("again", "payloads"),
    [(user(every="10s"), ["a", "c"]), (user(every="20s"), ["a", "b", "c"])],
)
def test_the_same_subscribe_keeps_the_state_another_resets_it(
    again: Properties, payloads: list[str]
) -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(every="10s"))
    scene.publish(0, "a")
    scene.publish(1, "b")
    scene.subscriber.subscribe("t", 1, again)
    scene.publish(2, "c")
    scene.until(40)
    assert [payload for _, payload in scene.got] == payloads


def test_unsubscribing_drops_held_messages() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(every="10s"))
    scene.publish(0, "a")
    scene.publish(1, "b")
    scene.subscriber.unsubscribe("t")
    scene.until(20)
    assert scene.got == [(0, "a")]
    assert scene.broker_api.clients.backlog.bytes == 0


def test_no_conflation_of_shared_subscriptions() -> None:
    scene = Scene()
    suback = scene.subscriber.subscribe("$share/g/t", 1, user(every="10s"))
    assert suback.reason_codes == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
    assert "subscribe without $share" in (suback.properties.reason_string or "")


@pytest.mark.parametrize(
    ("topic_filter", "properties", "advice"),
    [
        ("t", user(every="10"), "write 500ms, 10s, 5m or 1h"),
        ("t?$every=25h", NO_PROPERTIES, "from 100ms to 24h"),
        ("t?$every=1s&$every=2s", NO_PROPERTIES, "$every stands once"),
        ("t?$changed=", NO_PROPERTIES, "no text after $changed="),
        ("t?$every=1s", user(every="2s"), "two texts"),
        ("t", Properties(user_properties=(("$every", "1s"),) * 2), "stands once"),
        ("t", Properties(user_properties=(("$changed", ""),)), "is not empty"),
    ],
)
def test_refusals_say_what_to_write(topic_filter: str, properties: Properties, advice: str) -> None:
    suback = Scene().subscriber.subscribe(topic_filter, 1, properties)
    assert suback.reason_codes == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert advice in (suback.properties.reason_string or "")


def test_values_that_cost_too_much_are_refused() -> None:
    changed = ", ".join(["upper(lower(a))"] * 5)
    suback = Scene().subscriber.subscribe("t", 1, user(changed=changed))
    assert suback.reason_codes == (ReasonCode.QUOTA_EXCEEDED,)


@pytest.mark.parametrize("topic_filter", ["t?$every=10s", "$where/$every=10s/t"])
def test_clients_of_3_1_1_write_topic_queries(topic_filter: str) -> None:
    broker_api = BrokerApi()
    scene = Scene(broker_api)
    scene.subscriber = broker_api.connect("old", version=4)
    scene.subscriber.subscribe(topic_filter, 1)
    for at_s, payload in ((0, "a"), (1, "b"), (2, "c")):
        scene.publish(at_s, payload)
    scene.until(20)
    assert scene.got == [(0, "a"), (10, "c")]


def test_messages_of_one_read_go_through_conflation_in_order() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 0, user(every="10s"))
    scene.subscriber.subscribe("u", 0)
    names = (("t", b"1"), ("u", b"2"), ("t", b"3"), ("u", b"4"))
    scene.publisher.send(*[Publish(topic, payload) for topic, payload in names])
    scene.look()
    scene.until(20)
    assert [payload for _, payload in scene.got] == ["1", "2", "4", "3"]


def test_the_oldest_key_is_forgotten_for_a_new_one() -> None:
    scene = Scene()
    scene.subscriber.subscribe("+", 1, user(every="10s"))
    session = scene.broker_api.clients.sessions["subscriber"]
    (conflator,) = session.conflators
    conflator.most = 2
    for at_s, topic, payload in ((0, "x", "1"), (1, "y", "2"), (2, "x", "3"), (3, "z", "4")):
        scene.publish(at_s, payload, topic)
    scene.publish(4, "5", "x")
    assert [payload for _, payload in scene.got] == ["1", "2", "3", "4", "5"]
    assert scene.statistics.forgotten_keys == 2


def keys_of(client: Client) -> int:
    session = client.broker_api.clients.sessions["subscriber"]
    return sum(map(len, session.conflators))


def test_a_restart_keeps_intervals_values_and_held_messages() -> None:
    broker_api = RememberingBrokerApi([])
    scene = Scene(broker_api)
    scene.subscriber.subscribe("t", 1, user(every="10s", changed="v"))
    scene.publish(0, value(1))
    scene.publish(2, value(2))
    scene.publish(3, value(3))
    began_us = scene.began_us
    scene = Scene.__new__(Scene)
    scene.broker_api = broker_api.killed(after_s=1)
    scene.began_us, scene.got = began_us, []
    scene.publisher = scene.broker_api.connect("publisher")
    scene.back()
    scene.publish(5, value(4))
    scene.until(12)
    assert scene.got == [(10, value(4))]
    scene.publish(21, value(4))
    scene.until(30)
    assert len(scene.got) == 1


def test_all_is_counted_out_when_a_session_ends() -> None:
    scene = Scene()
    scene.subscriber.subscribe("+", 1, user(every="10s"))
    for number in range(10):
        scene.publish(0, "x", f"{number % 3}")
    assert keys_of(scene.subscriber) == 3
    scene.subscriber.take_publications()
    scene.subscriber.disconnect(session_expiry_interval_s=0)
    assert scene.broker_api.clients.backlog.bytes == 0
    assert "subscriber" not in scene.broker_api.clients.sessions
