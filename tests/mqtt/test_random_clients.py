"""Random clients against a model of MQTT's guarantees, with broken connections in between.

Every message is its publisher's number. At QoS 2 each arrives exactly once, at QoS 1 at least once,
at QoS 0 at most once, always in the publisher's order within a topic. Nothing arrives without a
subscription, and nothing subscribed is missing above QoS 0.
"""

from __future__ import annotations

from random import Random

import pytest

from shoal.matching import topic_matches
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Connect, Puback, Pubcomp, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import Properties
from tests.examples import examples
from tests.mqtt.backlogs import counted_again
from tests.mqtt.broker_api import BrokerApi, Client

SEEDS = range(examples(30))
STEPS = 250
TOPICS = ("a", "a/b", "c")
FILTERS = ("a", "a/#", "+", "#", "a/+")
KEPT = Properties(session_expiry_interval_s=1_000_000, receive_maximum=3)


class Subscriber:
    """A client that loses its connection, answers late, and records its messages."""

    def __init__(self, broker_api: BrokerApi, name: str, version: int, chance: Random) -> None:
        self.broker_api, self.name, self.version, self.chance = broker_api, name, version, chance
        self.filters: dict[str, int] = {}
        self.client: Client | None = None
        # In the order of arrival: topic, payload, QoS.
        self.taken: list[tuple[str, bytes, int]] = []
        self.held: set[int] = set()
        self.unanswered: list[object] = []
        self.connect()

    def connect(self) -> None:
        fields = {"properties": KEPT} if self.version == 5 else {}
        self.client = self.broker_api.connect(self.name, self.version, clean_start=False, **fields)

    def lose(self) -> None:
        assert self.client is not None
        self.client.lose()
        self.client, self.unanswered = None, []

    def look(self) -> None:
        """Take the messages; acknowledgements are sent later, or never if the connection breaks."""
        assert self.client is not None
        for packet in self.client.take():
            match packet:
                case Publish(topic, payload, 0):
                    self.taken.append((topic, payload, 0))
                case Publish(topic, payload, 1):
                    self.taken.append((topic, payload, 1))
                    self.unanswered.append(Puback(packet.packet_id))
                case Publish(topic, payload, 2):
                    if packet.packet_id not in self.held:
                        self.held.add(packet.packet_id)
                        self.taken.append((topic, payload, 2))
                    self.unanswered.append(Pubrec(packet.packet_id))
                case Pubrel():
                    self.held.discard(packet.packet_id)
                    self.unanswered.append(Pubcomp(packet.packet_id))

    def answer(self) -> None:
        assert self.client is not None
        unanswered, self.unanswered = self.unanswered, []
        for packet in unanswered:
            self.client.send(packet)  # type: ignore[arg-type]

    def settle(self) -> None:
        if self.client is None:
            self.connect()
        self.look()
        while self.unanswered:
            self.answer()
            self.look()


class Publisher:
    """Publishes numbers; retransmits a QoS 2 publication until it is released."""

    def __init__(self, broker_api: BrokerApi, name: str) -> None:
        self.client = broker_api.connect(name)
        self.name = name
        self.count = 0
        # By topic and QoS: the messages that a subscriber to everything should have received.
        self.sent: list[tuple[str, bytes, int]] = []

    def publish(self, chance: Random) -> tuple[str, bytes, int]:
        topic, qos = chance.choice(TOPICS), chance.randrange(3)
        payload = f"{self.name} {self.count}".encode()
        self.count += 1
        packet_id = self.count % 65_535 + 1
        for again in range(1 + (qos == 2 and chance.random() < 0.3)):
            self.client.send(
                Publish(topic, payload, qos, False, bool(again), packet_id * bool(qos))
            )
        if qos == 2:
            self.client.send(Pubrel(packet_id))
        self.client.take()
        return topic, payload, qos


def number(payload: bytes) -> int:
    return int(payload.split()[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_clients_get_what_mqtt_guarantees(seed: int) -> None:
    chance = Random(seed)
    broker_api = BrokerApi()
    subscribers = [Subscriber(broker_api, f"s{n}", chance.choice((4, 5)), chance) for n in range(3)]
    publishers = [Publisher(broker_api, f"p{n}") for n in range(2)]
    # For each subscriber the messages that it must get, and those that it may get once or not at
    # all.
    due: list[list[tuple[str, bytes, int]]] = [[] for _ in subscribers]
    for _ in range(STEPS):
        subscriber = chance.choice(subscribers)
        match chance.randrange(10):
            case 0 if subscriber.client is not None:
                topic_filter, qos = chance.choice(FILTERS), chance.randrange(3)
                subscriber.look()
                suback = subscriber.client.subscribe(topic_filter, qos=qos)
                assert suback.reason_codes == (qos,)
                subscriber.filters[topic_filter] = qos
            case 1 if subscriber.client is not None and subscriber.filters:
                topic_filter = chance.choice(list(subscriber.filters))
                subscriber.look()
                subscriber.client.unsubscribe(topic_filter)
                del subscriber.filters[topic_filter]
            case 2 if subscriber.client is not None:
                if chance.random() < 0.5:
                    subscriber.look()
                subscriber.lose()
            case 3 if subscriber.client is None:
                subscriber.connect()
            case 4 | 5 if subscriber.client is not None:
                subscriber.look()
            case 6 if subscriber.client is not None:
                subscriber.answer()
            case _:
                topic, payload, qos = chance.choice(publishers).publish(chance)
                for each, expected in zip(subscribers, due, strict=True):
                    asked = [q for f, q in each.filters.items() if topic_matches(f, topic)]
                    if asked:
                        expected.append((topic, payload, min(qos, max(asked))))
        assert broker_api.clients.backlog.bytes == counted_again(broker_api.clients)
    for subscriber, expected in zip(subscribers, due, strict=True):
        subscriber.settle()
        assert subscriber.client is not None
        session = subscriber.client.connection.session
        assert session is not None
        assert (session.inflight, session.queued) == (0, 0)
        check(subscriber, expected)
    assert broker_api.clients.backlog.bytes == 0


def check(subscriber: Subscriber, expected: list[tuple[str, bytes, int]]) -> None:
    taken = subscriber.taken
    assert set(taken) <= set(expected), "a message without a subscription"
    for qos in (0, 1, 2):
        due = [each for each in expected if each[2] == qos]
        got = [each for each in taken if each[2] == qos]
        if qos != 1:
            assert len(got) == len(set(got)), f"twice at QoS {qos}"
        if qos:
            assert set(got) == set(due), f"lost at QoS {qos}"
        first = list(dict.fromkeys(got))
        for topic in TOPICS:
            for publisher in (b"p0", b"p1"):
                numbers = [
                    number(payload)
                    for name, payload, _ in first
                    if name == topic and payload.startswith(publisher)
                ]
                assert numbers == sorted(numbers), f"out of order at QoS {qos}"


@pytest.mark.parametrize("seed", range(examples(20)))
def test_malformed_bytes_disturb_only_their_sender(seed: int) -> None:
    """Damaged packets of many clients beside two with valid ones."""
    chance = Random(seed)
    broker_api = BrokerApi()
    right, other = broker_api.connect("right"), broker_api.connect("other")
    right.subscribe("good/#", qos=2)
    for step in range(60):
        version = chance.choice((4, 5))
        wrong = broker_api.open(version)
        stream = bytearray(
            encode(Connect(f"w{step % 5}", version=version), version)
            + encode(Publish("bad", b"x", 2, packet_id=1), version)
            + encode(Pubrel(1), version)
        )
        for _ in range(chance.randrange(4)):
            stream[chance.randrange(len(stream))] = chance.randrange(256)
        wrong.is_listening = False
        for start in range(0, len(stream), 7):
            wrong.send_bytes(bytes(stream[start : start + 7]))
        if chance.random() < 0.5 and not wrong.closed:
            wrong.lose()
        other.publish("good/x", b"%d" % step, qos=step % 3)
        assert right.take_payloads() == [b"%d" % step]
    assert not right.closed
    assert not other.closed
