"""Messages of two brokers about a client of one that publishes at the other.

The client's edge broker (its front end) forwards the client's requests to the broker where it
publishes, and gets back that broker's messages to the client.

>>> from shoal.broker.messages import Ping
>>> from shoal.model import MessageId
>>> from shoal.broker.wire import Codec, FrameReader
>>> codec = Codec(FORWARDING_CHANNELS)
>>> frame = codec.encode(ClientRequest("c", Ping(MessageId("B1", "p", 0))))
>>> [codec.decode(body).client for body in FrameReader().feed(frame)]
['c']
"""

from __future__ import annotations

from shoal.broker.links.controls import CONTROLS
from shoal.broker.messages import (
    Advertise,
    Goodbye,
    Message,
    Ping,
    Pong,
    Publish,
    Rejected,
    Unadvertise,
)
from shoal.broker.wire import Form, Vocabulary, check_publish
from shoal.clients.messages import (
    MigrationAdvertisement,
    Paused,
    PingRequest,
    PingTimes,
    Relocate,
    Resume,
)
from shoal.model import ClientId


class ClientRequest(Message, frozen=True):
    """From a front end: a client's request."""

    client: ClientId
    request: (
        Advertise
        | Unadvertise
        | Publish
        | Ping
        | PingTimes
        | Paused
        | MigrationAdvertisement
        | Goodbye
    )


class ClientNotice(Message, frozen=True):
    """To a front end: the broker's message to its client."""

    client: ClientId
    notice: PingRequest | Pong | Relocate | Resume | Rejected


def _as_it_is(message: ClientRequest) -> ClientRequest:
    return message


def _check(message: ClientRequest) -> ClientRequest:
    if isinstance(message.request, Publish):
        check_publish(message.request)
    return message


FORWARDING_CHANNELS: Vocabulary = (
    *CONTROLS,
    Form(ClientRequest, ClientRequest, _as_it_is, _check),
    ClientNotice,
)
