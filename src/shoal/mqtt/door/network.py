"""What MQTT clients are to the broker machine: how their topics and messages travel the network.

All clients of one broker that publish without advertising are one client of its machine, the
broker's door; it advertises everything.  A client that names what it will publish, in SQL as user
property `$advertise` of its CONNECT, publishes under its own name, and only what it promised.  The
door subscribes for all clients: to what any of them asks for, and to every retained message.

A publication's attributes are the message's (see `content`).  A topic filter becomes tests of
those that its topic has.
The body is the client identifier and a PUBLISH as MQTT 5 writes it.

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
    TOPIC_ATTRIBUTE,
    level_attribute,
)
from shoal.broker.effects import Requested
from shoal.broker.messages import Advertise, Publish, Subscribe, Unsubscribe
from shoal.broker.messages import Message as Request
from shoal.ledger import Ledger, Measure, remembered
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
from shoal.mqtt.content import RETAIN_ATTRIBUTE, AttributeReader
from shoal.mqtt.door.asking import Asking
from shoal.mqtt.door.owed import Owed
from shoal.mqtt.door.promising import Promising
from shoal.mqtt.messages import Message

# Client identifiers that begin so are the broker's own.
RESERVED_CLIENT_IDS = "$mqtt/"
# What brokers' MQTT sides say to each other carries the name of the one it is for, or this.
TO_ATTRIBUTE = "$to"
EVERY_BROKER = "*"
# What one request to the machine holds: the wire between brokers has a limit for its frames.
MAX_BATCH = 512
MAX_BATCH_BYTES = 1_048_576
# Messages remembered until they come back from the machine; those forgotten are read again.
MAX_RECENT = 4_096
MAX_RECENT_BYTES = 16 * 2**20
# What took longer lay on a disk for a broker that was away, and that counts for its expiry; what
# took less may only seem to, as clocks of machines differ.
MAX_ON_THE_WAY_US = 60_000_000
# Publishers whose names are known by their bytes, and bytes by their names; short ones only.
MAX_REMEMBERED_PUBLISHERS = 1_024

# The publisher's name, the topic and its levels, and what else is written with a publication.
OVERHEAD_BYTES = 1_048_576

# A PUBLISH above QoS 0 needs an identifier; this one means nothing.
_ANY_PACKET_ID = b"\0\1"


def network_filter(topic_filter: str, content: Filter) -> Filter:
    """What matches at least the publications that a subscription gets."""
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


class Door:
    """One broker's MQTT clients, as clients of its machine.  `take` has what to ask of it.

    Publications are numbered by the time, so that no number ever comes again, and a client that
    goes on at another broker goes on above what it had reached.
    """

    def __init__(
        self, broker_id: BrokerId, started_us: int, reader: AttributeReader | None = None
    ) -> None:
        self._broker_id = broker_id
        self.reader = reader or AttributeReader()
        # Whether a link of this broker is down, where publications go straight to it: what others
        # had for it may come over that one only.  In a tree they find clients that have moved.
        self.waits_for_links: Callable[[], bool] = lambda: False
        self.client: ClientId = f"{RESERVED_CLIENT_IDS}{broker_id}"
        self._requests: list[Requested] = []
        self._batch: list[Publication] = []
        self._batch_bytes = 0
        self.asking = Asking(self._subscribe, self._unsubscribe)
        # Those that the machine is not done with, a publication may still miss them; how often each
        # was asked for since.
        self.unsettled: dict[SubscriptionId, int] = {}
        # How often it has subscribed, or a client has advertised: what it had asked for already
        # costs nobody anything.
        self.asked = 0
        # Marks that were sent before this say nothing any more.
        self._forgotten = 0
        self._sequence = started_us
        self.promising = Promising(broker_id, self._ask)
        self._recent: dict[tuple[ClientId, int], Message] = {}
        self._recent_bytes = 0
        # What clients wait for, by the number of the publication.
        self._owed: dict[int, Owed] = {}
        self._noticed: dict[int, Callable[[int], None]] = {}
        # Publications that are not done with when they are settled, how often; and those that are.
        self._kept_back: dict[int, int] = {}
        self._settled: set[int] = set()
        self._ask_for_itself()

    def _ask_for_itself(self) -> None:
        self._ask(self.client, Advertise(self.promising.made(self.client, 0, EVERYTHING)))
        everyone = Or(
            (
                predicate(RETAIN_ATTRIBUTE, Operator.EQ, True),
                predicate(TO_ATTRIBUTE, Operator.IN, (self._broker_id, EVERY_BROKER)),
            )
        )
        self._ask(self.client, Subscribe(self._subscription("brokers", Filter(everyone))))

    def ask_again(self) -> None:
        """The machine has forgotten this client, and takes it in anew."""
        self._ask_for_itself()
        self.asking.ask_again()
        self.forget_known()

    def register(self, ledger: Ledger) -> None:
        def recent() -> Measure:
            return Measure(len(self._recent), self._recent_bytes, MAX_RECENT, MAX_RECENT_BYTES)

        ledger.register("messages under way to the machine", recent)

    def take(self) -> list[Requested]:
        """What to ask the machine, in this order."""
        self._end_batch()
        requests, self._requests = self._requests, []
        return requests

    # --- what clients want --------------------------------------------------------------------

    def added(self, topics: str, content: Filter) -> None:
        """A client subscribed; what the door has already asked for is not asked again."""
        self.asking.added(topics, content)

    def removed(self, topics: str, content: Filter) -> None:
        """A client's subscription is gone."""
        self.asking.removed(topics, content)

    def asked_for(self, topics: str, content: Filter) -> SubscriptionId | None:
        """Its subscription that stands for what a client asked for; None if there is none.

        With `asking.ask_for_all` there is one for each.
        """
        key = (topics, content)
        return self._id(_digest(*key)) if key in self.asking else None

    def is_known(self, marked: int) -> None:
        """Every broker knows what had been asked for up to this number."""
        if marked >= self._forgotten:
            self.asking.known = max(self.asking.known, marked)

    def forget_known(self) -> None:
        """Brokers have come, or gone for a time: who knows what is to be asked again."""
        self.asked += 1
        self._forgotten, self.asking.known = self.asked, 0

    def say(self, request: Request) -> None:
        """Tell the machine something about clients, behind what was asked for before."""
        self._ask(self.client, request)

    def stored(self, subscription_id: SubscriptionId) -> bool:
        """The machine is done with what was asked; whether with all that was under this name."""
        left = self.unsettled.pop(subscription_id) - 1
        if left:
            self.unsettled[subscription_id] = left
        return not left

    # --- what clients promise and publish -----------------------------------------------------

    def advertise(self, client_id: ClientId, filters: tuple[Filter, ...]) -> None:
        """From now on a client publishes under its own name, and only what these promise."""
        self.promising.begin(client_id, filters)
        self.asked += bool(filters)

    def publish(self, message: Message, *, assured: bool = False) -> None:
        """Send a client's message through the network, and so back to this broker's clients.

        The network says when that is settled, if it is `assured` or above QoS 0.
        """
        publisher = message.publisher
        client = publisher if publisher in self.promising else self.client
        publication = self._publication(
            client,
            message.published_us,
            self.reader.of(message),
            write_body(message),
            assured=assured or message.qos > 0,
        )
        message.key = publication.key
        size = message.size
        # What nobody here gets does not come back.
        if len(self._recent) >= MAX_RECENT or self._recent_bytes + size > MAX_RECENT_BYTES:
            self._recent.clear()
            self._recent_bytes = 0
        self._recent[publication.key] = message
        self._recent_bytes += size
        self._add(publication)

    def publish_again(self, owed: Owed) -> None:
        """Send a message on that was under way when the broker stopped; who has it, drops it."""
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
                attributes=self.reader.of(message),
                body=write_body(message),
                assured=True,
                again=True,
            )
        )

    def owe(self, number: int, owed: Owed) -> None:
        """A client waits for this publication to be settled."""
        self._owed[number] = owed

    def notice(self, number: int, settled: Callable[[int], None]) -> None:
        """Tell when this publication is settled."""
        self._noticed[number] = settled

    def settled(self, publications: Iterable[Publication]) -> None:
        """These are where nothing can take them any more: answer those who wait for it."""
        for publication in publications:
            tell = self._noticed.pop(publication.sequence, None)
            if tell is not None:
                tell(publication.sequence)
            if publication.sequence in self._kept_back:
                self._settled.add(publication.sequence)
            else:
                self._answer(publication.sequence)

    def _answer(self, number: int) -> None:
        owed = self._owed.pop(number, None)
        if owed is not None:
            owed.incoming.settled(owed)

    def note(self, number: int) -> None:
        """Who was chosen for a publication's groups is remembered as long as it is."""
        owed = self._owed.get(number)
        if owed is not None and owed.message is not None:
            owed.incoming.note(owed)

    def keep_back(self, number: int) -> None:
        """Do not answer for this publication until it is let go as often."""
        self._kept_back[number] = self._kept_back.get(number, 0) + 1

    def let_go(self, number: int) -> None:
        """One thing less to wait for."""
        self._kept_back[number] -= 1
        if not self._kept_back[number]:
            del self._kept_back[number]
            if number in self._settled:
                self._settled.discard(number)
                self._answer(number)

    def send(self, to: str, body: bytes, now_us: int) -> int:
        """Say something to the MQTT side of another broker, or of EVERY_BROKER; its number."""
        attributes = {TO_ATTRIBUTE: to}
        said = self._publication(self.client, now_us, attributes, body, assured=True)
        self._add(said)
        return said.sequence

    def message(self, publication: Publication, now_us: int) -> Message | None:
        """The message that a publication carries, from here or elsewhere."""
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
    ) -> Publication:
        self._sequence = max(self._sequence + 1, published_us)
        return Publication(
            publisher=client,
            sequence=self._sequence,
            published_us=published_us,
            attributes=attributes,
            body=body,
            assured=assured,
        )

    def _add(self, publication: Publication) -> None:
        if self._batch and (
            self._batch[0].publisher != publication.publisher
            or len(self._batch) >= MAX_BATCH
            or self._batch_bytes + len(publication.body) > MAX_BATCH_BYTES
        ):
            self._end_batch()
        self._batch.append(publication)
        self._batch_bytes += len(publication.body)

    def _end_batch(self) -> None:
        if self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            self._requests.append(Requested(batch[0].publisher, Publish(tuple(batch))))

    def _ask(self, client: ClientId, request: Request) -> None:
        self._end_batch()
        self._requests.append(Requested(client, request))

    def _subscribe(self, topics: str, content: Filter) -> int:
        name = _digest(topics, content)
        asked = self._subscription(name, network_filter(topics, content))
        self._ask(self.client, Subscribe(asked))
        return self.asked

    def _unsubscribe(self, topics: str, content: Filter) -> None:
        self._ask(self.client, Unsubscribe(self._id(_digest(topics, content))))

    def _id(self, name: str) -> SubscriptionId:
        return f"{self.client}/{name}"

    def _subscription(self, name: str, filter: Filter) -> Subscription:
        # What the broker asked for before it was killed has the same name when it asks again: what
        # others still have of it means the same.
        id = self._id(name)
        self.asked += 1
        self.unsettled[id] = self.unsettled.get(id, 0) + 1
        return Subscription(id=id, client=self.client, filter=filter)


def _digest(topics: str, content: Filter) -> str:
    """A name for what is asked for, always the same."""
    rest = b"" if content == EVERYTHING else msgspec.msgpack.encode(content.expression)
    return blake2b(topics.encode() + b"\0" + rest, digest_size=16).hexdigest()


def travels_in(packet_bytes: int) -> int:
    """How many bytes a PUBLISH of so many takes between brokers, at most.

    It goes as it came, and beside it what it says as attributes.
    """
    return 2 * packet_bytes + OVERHEAD_BYTES


def write_body(message: Message) -> bytes:
    """The publisher, and what it published, as bytes."""
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


# Most messages are of few publishers.
_known_publisher = remembered("publishers read", most=MAX_REMEMBERED_PUBLISHERS, bytes_each=300)(
    _read_publisher
)


def read_body(body: bytes, published_us: int) -> Message | None:
    """The message that `write_body` wrote; None for anything else."""
    try:
        start = 2 + int.from_bytes(body[:2], "big")
        read = _known_publisher if start <= REMEMBERED_TOPIC_BYTES else _read_publisher
        publisher = read(body[:start])
        packet = decode_publish(body, start, MQTT_5)
    except MqttError:
        return None
    return Message(
        packet.topic,
        packet.payload,
        publisher,
        published_us,
        packet.qos,
        packet.retain,
        packet.properties,
        packet.written,
    )


def read_publication(publication: Publication, now_us: int) -> Message | None:
    """The message that a publication carries; None if it is none of MQTT's, or came too late."""
    message = read_body(publication.body, publication.published_us)
    if message is not None:
        message.attributes = publication.attributes
        message.key = publication.key
        is_late = now_us - publication.published_us > MAX_ON_THE_WAY_US
        message.expires_from(publication.published_us if is_late else now_us)
        if is_late and message.has_expired(now_us):
            return None
    return message
