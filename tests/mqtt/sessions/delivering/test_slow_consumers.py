"""A publisher waits for a slow reader, and not for a hanging one."""

from __future__ import annotations

import pytest

from shoal.mqtt.sessions.delivering.slow_consumers import LONGEST_US, READS_US, SHARE
from tests.mqtt.broker_api import SECOND, BrokerApi, Client
from tests.mqtt.network_broker_api import Network

MOST = 100


class Reader:
    """A client that is written to no faster than it reads."""

    def __init__(self, broker_api: BrokerApi, name: str, qos: int = 0) -> None:
        self.client = broker_api.connect(name)
        self.client.subscribe("a", qos=qos)
        self.client.connection.pause()
        self.broker_api = broker_api
        self.taken = 0

    @property
    def queued(self) -> int:
        session = self.client.connection.session
        assert session is not None
        return session.queued

    @property
    def dropped(self) -> int:
        session = self.client.connection.session
        assert session is not None
        return session.dropped

    def read_all(self) -> None:
        if self.client.closed:
            return
        self.broker_api.carry_out(self.client.connection.resume(self.broker_api.now_us))
        self.taken += len(self.client.take_publications())
        self.client.connection.pause()


def publish_until_held(publisher: Client, most: int = 3 * MOST, qos: int = 0) -> int:
    for count in range(most):
        if publisher.connection.must_wait:
            return count
        publisher.publish("a", b"x", qos=qos)
    return most


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publisher_waits_for_a_slow_reader(qos: int) -> None:
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    reader, publisher = Reader(broker_api, "r", qos), broker_api.connect("p")
    sent = 0
    for _ in range(20):
        sent += publish_until_held(publisher, qos=qos)
        assert publisher.connection.must_wait
        broker_api.after(0.1)
        reader.read_all()
        assert not publisher.connection.must_wait
        broker_api.after(0.03)
    assert (reader.dropped, reader.taken) == (0, sent)


def test_a_publisher_waits_for_large_messages_to_be_read() -> None:
    broker_api = BrokerApi(maximum_queued_bytes=100_000)
    reader, publisher = Reader(broker_api, "r"), broker_api.connect("p")
    for _ in range(6):
        publisher.publish("a", bytes(10_000))
    assert publisher.connection.must_wait
    reader.read_all()
    assert not publisher.connection.must_wait


def test_pings_are_answered_meanwhile_and_held_packets_resume() -> None:
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    reader, publisher = Reader(broker_api, "r"), broker_api.connect("p")
    publish_until_held(publisher)
    before = reader.queued
    publisher.publish("a", b"y")
    publisher.send_bytes("c000")
    assert publisher.written.endswith(b"\xd0\0")
    assert reader.queued == before
    assert publisher.connection.holds
    reader.read_all()
    broker_api.carry_out(publisher.connection.take_held(broker_api.now_us))
    reader.read_all()
    assert reader.taken == before + 1


def test_no_publisher_waits_for_a_hanging_reader() -> None:
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    reader, publisher = Reader(broker_api, "r"), broker_api.connect("p")
    publish_until_held(publisher)
    broker_api.after(READS_US / SECOND + 0.1)
    assert not publisher.connection.must_wait
    assert publish_until_held(publisher) == 3 * MOST
    assert reader.dropped > 0
    # Until it reads again.
    reader.read_all()
    assert publish_until_held(publisher) < MOST


def test_a_reader_that_takes_a_little_is_not_hanging() -> None:
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    reader, publisher = Reader(broker_api, "r"), broker_api.connect("p")
    publish_until_held(publisher)
    for _ in range(10):
        broker_api.after(0.5)
        reader.client.connection.took(broker_api.now_us)
    assert publish_until_held(publisher) < MOST


def test_a_publisher_is_slowed_to_a_tenth_at_most() -> None:
    """However many readers take a message now and then and never catch up."""
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    readers = [Reader(broker_api, f"r{number}") for number in range(3)]
    publisher = broker_api.connect("p")
    held_us = longest_us = since_us = 0
    began_us = broker_api.now_us
    for step in range(2_000):
        if publisher.connection.must_wait:
            held_us += 10_000
            since_us += 10_000
            longest_us = max(longest_us, since_us)
        else:
            since_us = 0
            publish_until_held(publisher, 10)
        for reader in readers:
            reader.client.connection.took(broker_api.now_us)
        if step % 50 == 49:
            readers[step // 50 % 3].read_all()
        broker_api.after(0.01)
    assert longest_us <= LONGEST_US + 20_000
    share = held_us / (broker_api.now_us - began_us)
    assert 0.5 < share <= SHARE / (SHARE + 1) + 0.1


def test_only_publishers_to_the_slow_reader_wait() -> None:
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    Reader(broker_api, "r")
    publisher, other = broker_api.connect("p"), broker_api.connect("o")
    publish_until_held(publisher)
    other.publish("b", b"x")
    assert publisher.connection.must_wait
    assert not other.connection.must_wait


def test_a_publisher_does_not_wait_for_itself() -> None:
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    reader = Reader(broker_api, "r")
    assert publish_until_held(reader.client) == 3 * MOST


@pytest.mark.parametrize("end", ["reader", "publisher", "again"])
def test_a_departed_reader_is_not_waited_for(end: str) -> None:
    broker_api = BrokerApi(maximum_queued_messages=MOST)
    reader, publisher = Reader(broker_api, "r"), broker_api.connect("p")
    publish_until_held(publisher)
    if end == "reader":
        reader.client.lose()
    elif end == "publisher":
        publisher.lose()
        publisher = broker_api.connect("p")
    else:
        broker_api.connect("r")
    assert not publisher.connection.must_wait
    reader.read_all()
    assert not list(broker_api.clients.patience.behind)


def test_in_a_network_publishers_of_the_readers_broker_wait() -> None:
    network = Network("B1", "B2", maximum_queued_messages=MOST)
    network.after(1)
    reader = Reader(network["B1"], "r")
    near, far = network["B1"].connect("near"), network["B2"].connect("far")
    sent = publish_until_held(near)
    assert near.connection.must_wait
    assert publish_until_held(far, 10) == 10
    reader.read_all()
    assert not near.connection.must_wait
    assert (reader.dropped, reader.taken) == (0, sent + 10)
