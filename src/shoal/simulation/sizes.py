"""Sizes of control messages, as shares of a publication's.

A trace result has two fields and an answer about a trace session may have thousands, so one price
for all control messages is wrong by a factor for each of them.

>>> from shoal.broker.messages import Unsubscribe
>>> from shoal.broker.wire import COMMON, Codec
>>> sizes = message_sizes(Codec(COMMON), 290)
>>> sizes(Unsubscribe("s1"))
0.1
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.messages import Message
from shoal.broker.wire import Codec, WireError
from shoal.simulation.links.reliable import ReliableFrame

MessageSizes = Callable[[Message], float]
"""Size of a message's frame, as a multiple of a publication's."""


def message_sizes(codec: Codec, publication_bytes: int) -> MessageSizes:
    """Sizes by the frames of this codec, of which a publication's has so many bytes.

    A message that the codec cannot encode counts as a publication.
    """

    def share(message: Message) -> float:
        if type(message) is ReliableFrame and message.message is not None:
            message = message.message
        try:
            return len(codec.encode(message)) / publication_bytes
        except WireError:
            return 1.0

    return share
