"""Conflation at the bounds: full queues, forgotten keys, clocks set back, retained messages."""

from __future__ import annotations

import pytest

from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.messages import PublishedMessage
from tests.mqtt.broker_api import KEPT
from tests.mqtt.remembering import RememberingBrokerApi
from tests.mqtt.sessions.test_conflating import Scene, user


def test_full_queues_of_other_clients_do_not_stop_messages_that_need_no_queue() -> None:
    scene = Scene(maximum_all_queued_bytes=100_000)
    slow = scene.broker_api.connect("slow", **KEPT)
    slow.subscribe("large", 1)
    slow.lose()
    scene.subscriber.subscribe("t", 0, user(every="1s"))
    for _ in range(30):
        scene.publisher.publish("large", b"x" * 10_000, 1)
    assert scene.broker_api.clients.backlog.is_full
    scene.publish(0, "a", qos=0)
    scene.publish(5, "b", qos=0)
    assert scene.got == [(0, "a"), (5, "b")]


@pytest.mark.parametrize("bound", ["maximum_queued_bytes", "maximum_queued_messages"])
def test_a_message_larger_than_the_queue_is_sent_to_a_client_that_waits_for_it(bound: str) -> None:
    scene = Scene(**{bound: 0})
    scene.subscriber.subscribe("t", 1, user(every="1s"))
    scene.publish(0, "a")
    scene.publish(5, "b")
    assert scene.got == [(0, "a"), (5, "b")]


def test_a_full_queue_keeps_the_newest_of_overlapping_subscriptions() -> None:
    scene = Scene(maximum_queued_messages=1, maximum_inflight=1)
    scene.subscriber.subscribe("t", 1, user(every="100ms"))
    scene.subscriber.subscribe("+", 1)
    got = []
    for number in range(20):
        scene.broker_api.after(1)
        scene.publisher.publish("t", b"%d" % number, 1)
        got += scene.subscriber.take()
    scene.subscriber._inbox = got
    scene.until(25)
    assert [payload for _, payload in scene.got] == ["0", "1", "19"]


def test_a_forgotten_key_delivers_its_message_once_for_all_subscriptions() -> None:
    scene = Scene()
    scene.subscriber.subscribe("+", 1, user(every="10s"))
    scene.subscriber.subscribe("#", 1, user(every="20s"))
    first, _ = scene.broker_api.clients.sessions["subscriber"].conflators
    first.most = 1
    for at_s, topic, payload in ((0, "x", "1"), (1, "x", "2"), (2, "y", "3")):
        scene.publish(at_s, payload, topic)
    scene.until(60)
    assert [payload for _, payload in scene.got] == ["1", "2", "3"]


def test_a_forgotten_key_does_not_deliver_an_expired_message() -> None:
    scene = Scene()
    scene.subscriber.subscribe("+", 1, user(every="10s"))
    [conflator] = scene.broker_api.clients.sessions["subscriber"].conflators
    conflator.most = 1
    scene.publish(0, "1", "x")
    scene.publish(1, "2", "x", properties=Properties(message_expiry_interval_s=1))
    scene.publish(3, "3", "y")
    scene.until(30)
    assert [payload for _, payload in scene.got] == ["1", "3"]
    assert not scene.broker_api.clients.sessions["subscriber"].withheld


def test_a_clock_that_is_set_back_makes_no_interval_longer() -> None:
    scene = Scene(RememberingBrokerApi([]))
    scene.subscriber.subscribe("t", 1, user(every="10s"))
    scene.publish(0, "a")
    scene.publish(2, "b")
    assert isinstance(scene.broker_api, RememberingBrokerApi)
    scene.broker_api = scene.broker_api.killed(after_s=-86_400)
    scene.began_us = scene.broker_api.now_us
    scene.back()
    scene.until(11)
    assert scene.got[1:] == [(10, "b")]


def test_a_retained_message_does_not_replace_one_that_came_live() -> None:
    scene = Scene()
    for topic in ("a", "t"):
        scene.publisher.publish(topic, b"retained", 1, retain=True)
    slow = scene.broker_api.connect("slow", properties=Properties(receive_maximum=1))
    slow.subscribe("+", 1, user(every="10s"))
    for payload in (b"live", b"newest"):
        scene.broker_api.after(1)
        scene.publisher.publish("t", payload, 1)
    got = []
    for _ in range(300):
        got += [(each.topic, each.payload) for each in slow.take_publications()]
        scene.broker_api.after(0.1)
    assert got == [("a", b"retained"), ("t", b"live"), ("t", b"newest")]


def test_a_retained_message_does_not_follow_a_later_one_that_was_delivered() -> None:
    scene = Scene()
    scene.subscriber.subscribe("t", 1, user(changed="v"))
    session = scene.broker_api.clients.sessions["subscriber"]
    [subscription] = session.subscriptions.values()
    now_us = scene.broker_api.now_us
    for value, at_us, is_retained in ((2, 0, False), (1, -1, True), (3, 1, True)):
        payload = b'{"v": %d}' % value
        message = PublishedMessage("t", payload, "p", now_us + at_us, 1, retain=is_retained)
        scene.broker_api.clients.conflation.take(
            message, session, [subscription], now_us, is_retained=is_retained
        )
    scene.publish(1, "sends what waits", topic="other")
    assert [payload for _, payload in scene.got] == ['{"v": 2}', '{"v": 3}']


def test_long_values_and_topics_make_keys_of_bounded_size() -> None:
    scene = Scene(RememberingBrokerApi([]))
    scene.subscriber.subscribe("#", 1, user(every="10s BY v", changed="v"))
    text, topic = "x" * 10_000, "t" * 10_000
    for at_s, value in ((0, text), (1, text + "y"), (2, text)):
        scene.publish(at_s, f'{{"v": "{value}"}}', topic)
    scene.until(30)
    assert [at_s for at_s, _ in scene.got] == [0, 1]
    [conflator] = scene.broker_api.clients.sessions["subscriber"].conflators
    assert len(conflator) == 2
    for key in conflator:
        state = conflator.get(key)
        assert state is not None
        assert len(repr((key, state.last))) < 200
    assert isinstance(scene.broker_api, RememberingBrokerApi)
    again = scene.broker_api.killed().clients.sessions["subscriber"]
    assert [*next(iter(again.conflators))] == [*conflator]
