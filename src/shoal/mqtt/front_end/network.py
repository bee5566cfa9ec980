"""The front end: how topics and messages of MQTT clients travel the broker network.

All clients of a broker that publish without advertising are one client of its machine, the broker's
front end, which advertises everything. A client that advertises, in SQL as user property
`$advertise` of its CONNECT, publishes under its own name, and only what it advertised. The front
end subscribes for all clients, and to every retained message.

The attributes of a publication are those of the message (see `content`). A topic filter becomes
tests of the topic attributes. The body is the client identifier and a PUBLISH of MQTT 5.

>>> from shoal.language import format_filter
>>> format_filter(network_filter("flights/+/delays/#", EVERYTHING))
"`$topic.0` = 'flights' AND `$topic.2` = 'delays' AND `$levels` >= 3"
>>> format_filter(network_filter("flights/UA", EVERYTHING))
"`$topic` = 'flights/UA'"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b

import msgspec

from shoal.attributes import (
    LEVELS_ATTRIBUTE,
    MAX_LEVEL_ATTRIBUTES,
    RETAIN_ATTRIBUTE,
    TOPIC_ATTRIBUTE,
    level_attribute,
)
from shoal.broker.effects import Requested
from shoal.broker.messages import Advertise, Publish, Subscribe, Unsubscribe
from shoal.broker.messages import Message as Request
from shoal.ledger import Ledger, LedgerMeasure, remembered
from shoal.matching.topics.filters import ALL_LEVELS, ONE_LEVEL
from shoal.model import (
    EVERYTHING,
    And,
    Attributes,
    BrokerId,
    ClientId,
    Filter,
    Operator,
    Or,
    Pace,
    Predicate,
    Publication,
    Subscription,
    SubscriptionId,
    predicate,
)
from shoal.mqtt.codec.decoder import decode_publish
from shoal.mqtt.codec.encoder import encode_publish_halves
from shoal.mqtt.codec.errors import MqttError
from shoal.mqtt.codec.fields import REMEMBERED_TOPIC_BYTES, read_string, write_string
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.content import AttributeReader
from shoal.mqtt.front_end.advertising import ClientAdvertisements
from shoal.mqtt.front_end.covering import SubscriptionCovering
from shoal.mqtt.front_end.pending_acks import OwedAck
from shoal.mqtt.messages import PublishedMessage

# The prefix of the brokers' own client identifiers.
RESERVED_CLIENT_IDS = "$mqtt/"
# The attribute with the receiving broker of a control message between front ends, or this.
TO_ATTRIBUTE = "$to"
EVERY_BROKER = "*"
# The bounds of one request to the machine: links limit the size of frames.
MAX_BATCH = 512
MAX_BATCH_BYTES = 1_048_576
# Messages kept until the machine returns them; dropped ones are decoded again.
MAX_RECENT = 4_096
MAX_RECENT_BYTES = 16 * 2**20
# A longer delay means that the message was spooled for a disconnected broker, and counts for its
# expiry; a shorter one may be a difference of the machines' clocks.
MAX_ON_THE_WAY_US = 60_000_000
# The number of cached publisher names, by their bytes and the reverse; short ones only.
MAX_REMEMBERED_PUBLISHERS = 1_024

# The size of the publisher's name, the topic levels, and other fields written with a publication.
OVERHEAD_BYTES = 1_048_576

# A PUBLISH above QoS 0 needs a packet identifier; this one has no meaning.
_ANY_PACKET_ID = b"\0\1"


def network_filter(topic_filter: str, content: Filter) -> Filter:
    """A network filter that matches at least the publications of a subscription."""
    levels = topic_filter.split("/")
    tests: list[Predicate] = []
    if ONE_LEVEL not in levels and ALL_LEVELS not in levels:
        tests.append(predicate(TOPIC_ATTRIBUTE, Operator.EQ, topic_filter))
    else:
        open_end = levels[-1] == ALL_LEVELS
        if open_end:
            del levels[-1]
        tests += (
            predicate(level_attribute(number), Operator.EQ, level)
            for number, level in enumerate(levels[:MAX_LEVEL_ATTRIBUTES])
            if level != ONE_LEVEL
        )
        count = len(levels) or 1
        test = Operator.GE if open_end else Operator.EQ
        tests.append(predicate(LEVELS_ATTRIBUTE, test, count))
    if content != EVERYTHING:
        return Filter.joined(tests, content)
    return Filter(tests[0] if len(tests) == 1 else And(tuple(tests)))


class FrontEnd:
    """One broker's MQTT clients, as clients of its machine. `take` returns the requests.

    The time numbers publications, so that no number is used twice, and a client that continues at
    another broker continues above its last number.
    """

    def __init__(
        self, broker_id: BrokerId, started_us: int, reader: AttributeReader | None = None
    ) -> None:
        self._broker_id = broker_id
        self.reader = reader or AttributeReader()
        # Whether a link of this broker is down, in systems with direct links: publications that
        # others hold for this broker may come over that link only. A tree finds clients that have
        # moved.
        self.waits_for_links: Callable[[], bool] = lambda: False
        self.client: ClientId = f"{RESERVED_CLIENT_IDS}{broker_id}"
        self._requests: list[Requested] = []
        self._batch: list[Publication] = []
        self._batch_bytes = 0
        self.asking = SubscriptionCovering(self._subscribe, self._unsubscribe)
        # Subscriptions that a publication may still miss, because the machine is not done with
        # them; with the number of open requests for each.
        self.unsettled: dict[SubscriptionId, int] = {}
        # The count of subscriptions and advertisements requested; a repeated one costs no messages.
        self.asked = 0
        # Marks sent before this request are void.
        self._forgotten = 0
        self._sequence = started_us
        self.promising = ClientAdvertisements(broker_id, self._append_request)
        self._recent: dict[tuple[ClientId, int], PublishedMessage] = {}
        self._recent_bytes = 0
        # Pending acknowledgements of clients, by the number of the publication.
        self._owed: dict[int, OwedAck] = {}
        self._noticed: dict[int, Callable[[int], None]] = {}
        # Publications whose acknowledgement waits for more than settling, with the number of
        # conditions; and those of them that are settled.
        self._deferred: dict[int, int] = {}
        self._settled: set[int] = set()
        self._ask_for_itself()

    def _ask_for_itself(self) -> None:
        self._append_request(
            self.client, Advertise(self.promising.made(self.client, 0, EVERYTHING))
        )
        everyone = Or(
            (
                predicate(RETAIN_ATTRIBUTE, Operator.EQ, True),
                predicate(TO_ATTRIBUTE, Operator.IN, (self._broker_id, EVERY_BROKER)),
            )
        )
        self._append_request(
            self.client, Subscribe(self._subscription("brokers", Filter(everyone)))
        )

    def ask_again(self) -> None:
        """Make all requests again: the machine has lost its state."""
        self._ask_for_itself()
        self.asking.ask_again()
        self.forget_known()

    def register(self, ledger: Ledger) -> None:
        def recent() -> LedgerMeasure:
            return LedgerMeasure(
                len(self._recent), self._recent_bytes, MAX_RECENT, MAX_RECENT_BYTES
            )

        ledger.register("messages under way to the machine", recent)

    def take(self) -> list[Requested]:
        """The requests to the machine, in order."""
        self._end_batch()
        requests, self._requests = self._requests, []
        return requests

    # --- what clients want --------------------------------------------------------------------

    def added(self, topics: str, content: Filter, pace: Pace | None = None) -> None:
        """A client subscribed; a subscription that exists already is not requested again."""
        self.asking.added(topics, content, pace)

    def removed(self, topics: str, content: Filter, pace: Pace | None = None) -> None:
        """A client's subscription has ended."""
        self.asking.removed(topics, content, pace)

    def asked_for(
        self, topics: str, content: Filter, pace: Pace | None = None
    ) -> SubscriptionId | None:
        """The subscription that stands for a client's filters; None if there is none.

        After `asking.ask_for_all` every pair of filters has one.
        """
        key = (topics, content, pace)
        return self._id(_digest(*key)) if key in self.asking else None

    def is_known(self, marked: int) -> None:
        """Every broker knows the requests up to this number."""
        if marked >= self._forgotten:
            self.asking.known = max(self.asking.known, marked)

    def forget_known(self) -> None:
        """Links have changed: the requests that every broker knows must be found out again."""
        self.asked += 1
        self._forgotten, self.asking.known = self.asked, 0

    def say(self, request: Request) -> None:
        """Send a request about clients, behind the earlier ones."""
        self._append_request(self.client, request)

    def stored(self, subscription_id: SubscriptionId) -> bool:
        """The machine has installed a subscription; returns whether no request for it is open."""
        left = self.unsettled.pop(subscription_id) - 1
        if left:
            self.unsettled[subscription_id] = left
        return not left

    # --- what clients promise and publish -----------------------------------------------------

    def advertise(self, client_id: ClientId, filters: tuple[Filter, ...]) -> None:
        """Let a client publish under its own name, within these advertisements."""
        self.promising.begin(client_id, filters)
        self.asked += bool(filters)

    def publish(self, message: PublishedMessage, *, assured: bool = False) -> None:
        """Publish a client's message in the network, and so to this broker's clients.

        The network reports when it is settled, if it is `assured` or above QoS 0.
        """
        publisher = message.publisher
        client = publisher if publisher in self.promising else self.client
        publication = self._publication(
            client,
            message.published_us,
            self.reader.attributes_of(message),
            write_body(message),
            assured=assured or message.qos > 0,
            traced=message.traced,
        )
        message.key = publication.key
        size = message.size
        # Messages without a subscriber on this broker do not return.
        if len(self._recent) >= MAX_RECENT or self._recent_bytes + size > MAX_RECENT_BYTES:
            self._recent.clear()
            self._recent_bytes = 0
        self._recent[publication.key] = message
        self._recent_bytes += size
        self._add(publication)

    def publish_again(self, owed: OwedAck) -> None:
        """Retransmit a message that was not settled at the stop; receivers drop duplicates."""
        message = owed.message
        assert message is not None
        assert message.key is not None
        publisher, sequence = message.key
        self._sequence = max(self._sequence, sequence)
        self._owed[sequence] = owed
        self._add(
            Publication(
                publisher=publisher,
                sequence=sequence,
                published_us=message.published_us,
                attributes=self.reader.attributes_of(message),
                body=write_body(message),
                assured=True,
                again=True,
            )
        )

    @property
    def sequence(self) -> int:
        """The greatest number of a publication so far."""
        return self._sequence

    def retransmitted_above(self, number: int) -> list[PublishedMessage]:
        """Messages that a restart has sent again, with greater numbers than this, in order.

        A log may lack them: a kill came between the journal's write and the log's.
        """
        found = sorted(each for each in self._owed if each > number)
        messages = [self._owed[each].message for each in found]
        return [each for each in messages if each is not None]

    def owe(self, number: int, owed: OwedAck) -> None:
        """Acknowledge to a client when this publication is settled."""
        self._owed[number] = owed

    def notice(self, number: int, settled: Callable[[int], None]) -> None:
        """Call `settled` when this publication is settled."""
        self._noticed[number] = settled

    def settled(self, publications: Iterable[Publication]) -> None:
        """Handle settled publications: send the acknowledgements that wait for them."""
        for publication in publications:
            tell = self._noticed.pop(publication.sequence, None)
            if tell is not None:
                tell(publication.sequence)
            if publication.sequence in self._deferred:
                self._settled.add(publication.sequence)
            else:
                self._settle_owed(publication.sequence)

    def _settle_owed(self, number: int) -> None:
        owed = self._owed.pop(number, None)
        if owed is not None:
            owed.incoming.settled(owed)

    def note(self, number: int) -> None:
        """Record the brokers chosen for a publication's groups while it is not settled."""
        owed = self._owed.get(number)
        if owed is not None and owed.message is not None:
            owed.incoming.note(owed)

    def defer_ack(self, number: int) -> None:
        """Add a condition: no acknowledgement before as many calls of `release_ack`."""
        self._deferred[number] = self._deferred.get(number, 0) + 1

    def release_ack(self, number: int) -> None:
        """Remove a condition."""
        self._deferred[number] -= 1
        if not self._deferred[number]:
            del self._deferred[number]
            if number in self._settled:
                self._settled.discard(number)
                self._settle_owed(number)

    def send(self, to: str, body: bytes, now_us: int) -> int:
        """Send a control message to the front end of a broker, or of EVERY_BROKER; its number."""
        attributes = {TO_ATTRIBUTE: to}
        said = self._publication(self.client, now_us, attributes, body, assured=True)
        self._add(said)
        return said.sequence

    def message(self, publication: Publication, now_us: int) -> PublishedMessage | None:
        """The message of a publication, from this broker or another."""
        message = self._recent.pop(publication.key, None)
        if message is None:
            return read_publication(publication, now_us)
        self._recent_bytes -= message.size
        return message

    def _publication(
        self,
        client: ClientId,
        published_us: int,
        attributes: Attributes,
        body: bytes,
        *,
        assured: bool,
        traced: bool = False,
    ) -> Publication:
        self._sequence = max(self._sequence + 1, published_us)
        return Publication(
            publisher=client,
            sequence=self._sequence,
            published_us=published_us,
            attributes=attributes,
            body=body,
            assured=assured,
            traced=traced,
        )

    def _add(self, publication: Publication) -> None:
        if self._batch and (
            self._batch[0].publisher != publication.publisher
            or len(self._batch) >= MAX_BATCH
            or self._batch_bytes + len(publication.body) > MAX_BATCH_BYTES
        ):
            self._end_batch()
        if publication.traced:  # it travels alone, so that a look at the first one is enough
            self._end_batch()
        self._batch.append(publication)
        self._batch_bytes += len(publication.body)
        if publication.traced:
            self._end_batch()

    def _end_batch(self) -> None:
        if self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            self._requests.append(Requested(batch[0].publisher, Publish(tuple(batch))))

    def _append_request(self, client: ClientId, request: Request) -> None:
        self._end_batch()
        self._requests.append(Requested(client, request))

    def _subscribe(self, topics: str, content: Filter, pace: Pace | None) -> int:
        name = _digest(topics, content, pace)
        asked = self._subscription(name, network_filter(topics, content), pace)
        self._append_request(self.client, Subscribe(asked))
        return self.asked

    def _unsubscribe(self, topics: str, content: Filter, pace: Pace | None) -> None:
        self._append_request(self.client, Unsubscribe(self._id(_digest(topics, content, pace))))

    def _id(self, name: str) -> SubscriptionId:
        return f"{self.client}/{name}"

    def _subscription(self, name: str, filter: Filter, pace: Pace | None = None) -> Subscription:
        # The name is the same after a restart, so that the state of other brokers about it stays
        # valid.
        id = self._id(name)
        self.asked += 1
        self.unsettled[id] = self.unsettled.get(id, 0) + 1
        return Subscription(id=id, client=self.client, filter=filter, pace=pace)


def _digest(topics: str, content: Filter, pace: Pace | None) -> str:
    """A deterministic name of a pair of filters, and the pace of their subscribers."""
    rest = b"" if content == EVERYTHING else msgspec.msgpack.encode(content.expression)
    if pace is not None:
        rest += b"\0" + msgspec.msgpack.encode(pace)
    return blake2b(topics.encode() + b"\0" + rest, digest_size=16).hexdigest()


def travels_in(packet_bytes: int) -> int:
    """The largest size of a PUBLISH of `packet_bytes` between brokers.

    Its bytes travel unchanged, with its fields as attributes beside them.
    """
    return 2 * packet_bytes + OVERHEAD_BYTES


def write_body(message: PublishedMessage) -> bytes:
    """Encode the publisher and its message."""
    before, after = encode_publish_halves(
        message.topic,
        message.payload,
        MQTT_5,
        message.qos,
        message.retain,
        properties=message.properties,
        written=message.written,
    )
    publisher = message.publisher
    is_short = len(publisher) <= REMEMBERED_TOPIC_BYTES
    name = _known_publisher_bytes(publisher) if is_short else write_string(publisher)
    return name + before + _ANY_PACKET_ID + after if message.qos else name + before + after


_known_publisher_bytes = remembered(
    "publishers written", most=MAX_REMEMBERED_PUBLISHERS, bytes_each=300
)(write_string)


def _read_publisher(data: bytes) -> str:
    publisher, _ = read_string(data, 0, len(data), "client identifier")
    return publisher


# Most messages have one of few publishers.
_known_publisher = remembered("publishers read", most=MAX_REMEMBERED_PUBLISHERS, bytes_each=300)(
    _read_publisher
)


def read_body(body: bytes, published_us: int) -> PublishedMessage | None:
    """Decode a message that `write_body` encoded; None for anything else."""
    try:
        start = 2 + int.from_bytes(body[:2], "big")
        read = _known_publisher if start <= REMEMBERED_TOPIC_BYTES else _read_publisher
        publisher = read(body[:start])
        packet = decode_publish(body, start, MQTT_5)
    except MqttError:
        return None
    return PublishedMessage(
        packet.topic,
        packet.payload,
        publisher,
        published_us,
        packet.qos,
        packet.retain,
        packet.properties,
        packet.written,
    )


def read_publication(publication: Publication, now_us: int) -> PublishedMessage | None:
    """The message of a publication; None if it is not of MQTT, or has expired."""
    message = read_body(publication.body, publication.published_us)
    if message is not None:
        message.attributes = publication.attributes
        message.key = publication.key
        message.traced = publication.traced
        is_late = now_us - publication.published_us > MAX_ON_THE_WAY_US
        message.expires_from(publication.published_us if is_late else now_us)
        if is_late and message.has_expired(now_us):
            return None
    return message
