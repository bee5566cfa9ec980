"""One example of each message between brokers, of every network."""

from __future__ import annotations

import msgspec

from shoal.broker.links.controls import (
    CONTROLS,
    Acknowledge,
    BrokerLocation,
    Echo,
    Ends,
    Heartbeat,
    Hello,
    Lasts,
    LocationAnnounced,
    Over,
    Purpose,
    RefuseConnection,
    Rests,
    Stores,
)
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Ping,
    Pong,
    PublicationBatch,
    Publish,
    Rejected,
    RoutedPublication,
    Subscribe,
    Together,
    Unadvertise,
    Unsubscribe,
)
from shoal.broker.wire import COMMON, Codec
from shoal.language import parse
from shoal.model import Advertisement, MessageId, Publication, Subscription

CODEC = Codec(COMMON + CONTROLS)
THERE = BrokerLocation("B2", 12, "h:1", "h:2", "h:3")
_ID = MessageId("B1", "p", 7)
_FILTER = parse("(x > 1.5 AND s LIKE 'a%') OR NOT b = TRUE")
_PUBLICATION = Publication(
    publisher="p",
    sequence=3,
    published_us=1_700_000_000_000_000,
    attributes={"x": 2, "y": -0.5, "s": "é", "b": True},
    body=b"\x00body",
    assured=True,
)
SAID: tuple[msgspec.Struct, ...] = (
    Hello(PROTOCOL, "net", "B1", (1, 2), (3, 4), 5, Purpose.LINK, 6, False, 8),
    Hello(PROTOCOL, "net", "B1", (1, 2), None, 0, Purpose.FORWARDING_CHANNEL),
    RefuseConnection("why", has_ended=True),
    Acknowledge(9, ((1, 4), (6, 7))),
    Heartbeat(10),
    Echo(10),
    Ends(),
    Lasts(11),
    Rests(),
    Over(),
    Stores(False),
    LocationAnnounced(THERE),
    LocationAnnounced(BrokerLocation("B3", 13, has_left=True)),
    Advertise(Advertisement(id="a1", publisher="p", filter=_FILTER), 2),
    Unadvertise("a1"),
    Subscribe(Subscription(id="s1", client="c", filter=_FILTER)),
    Unsubscribe("s1"),
    Together((Unsubscribe("s1"), Unadvertise("a1"))),
    PublicationBatch((RoutedPublication(_PUBLICATION, _ID, _ID),), 2),
    Publish((_PUBLICATION,)),
    Ping(_ID),
    Pong(_ID),
    Goodbye(),
    Rejected("why"),
)
