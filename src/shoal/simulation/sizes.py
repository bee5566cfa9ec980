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

# Usually more than are under way at once.
REMEMBERED = 4_096
MessageSizes = Callable[[Message], int]
"""Bytes of a message's frame; 0 if it has none."""


def message_sizes(codec: Codec) -> MessageSizes:
    """Sizes of the frames of this codec; 0 for a message that it cannot encode.

    A broker sends one message to several neighbours in turn, and these receive it a little later:
    it is encoded once.
    """
    # By the identity of messages, which are kept so that no others get it.
    known: dict[int, tuple[Message, int]] = {}

    def bytes_of(message: Message) -> int:
        message = content_of(message)
        found = known.get(id(message))
        if found is not None:
            return found[1]
        try:
            size = codec.size_of(message)
        except WireError:
            size = 0
        if len(known) >= REMEMBERED:
            known.clear()
        known[id(message)] = message, size
        return size

    return bytes_of


def content_of(message: Message) -> Message:
    """The message inside a frame of a lossy link; any other message itself."""
    if type(message) is ReliableFrame and message.message is not None:
        return message.message
    return message
