"""Sizes of control messages: of the frames that carry them over a link.

A trace result has two fields and an answer about a trace session may have thousands, so one price
for all control messages is wrong by a factor for each of them.

>>> from shoal.broker.messages import Unsubscribe
>>> from shoal.broker.wire import COMMON, Codec
>>> message_sizes(Codec(COMMON))(Unsubscribe("s1"))
29
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.messages import Message
from shoal.broker.wire import Codec, WireError
from shoal.simulation.links.reliable import ReliableFrame

MessageSizes = Callable[[Message], int]
"""Bytes of a message's frame; 0 if it has none."""


def message_sizes(codec: Codec) -> MessageSizes:
    """Sizes of the frames of this codec; 0 for a message that it cannot encode.

    A broker sends one message to several neighbours in turn: it is encoded once.
    """
    last: Message | None = None
    size = 0

    def bytes_of(message: Message) -> int:
        nonlocal last, size
        message = content_of(message)
        if message is last:
            return size
        try:
            size = len(codec.encode(message))
        except WireError:
            size = 0
        last = message
        return size

    return bytes_of


def content_of(message: Message) -> Message:
    """The message inside a frame of a lossy link; any other message itself."""
    if type(message) is ReliableFrame and message.message is not None:
        return message.message
    return message
