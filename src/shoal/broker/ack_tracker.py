"""Acknowledgement tracking: counts the frames of one input until all are settled.

A broker keeps an assured publication until its neighbours report their copies settled: handled, in
the sessions of their local clients, and settled at their neighbours in turn. One `AckTracker`
counts the frames that one input caused.

>>> ack_tracker = AckTracker(lambda: print("settled"))
>>> ack_tracker.extend()  # a frame for a neighbour
>>> ack_tracker.settle()  # the input is handled
>>> ack_tracker.settle()  # the neighbour has said so
settled
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from shoal.broker.messages import Carrier, Message, Publish, RoutedPublication
from shoal.model import BrokerId, Publication


class AckTracker:
    """Calls `settled` after as many calls of `settle` as of `extend`, and one more.

    `source` is the neighbour from which the input came, if it came from one.
    """

    __slots__ = ("_left", "_settled", "source")

    def __init__(self, settled: Callable[[], None], source: BrokerId | None = None) -> None:
        self.source = source
        self._settled = settled
        self._left = 1

    def extend(self) -> None:
        """Count a frame that was sent."""
        self._left += 1

    def settle(self) -> None:
        """Count a settled frame, or the handled input itself."""
        self._left -= 1
        if not self._left:
            self._settled()

    def lose(self) -> None:
        """Count a frame that is dropped: it is on disk for a neighbour that counts as dead."""
        self.settle()


class Errand(AckTracker):
    """For requests that are repeated elsewhere after a loss, which is therefore not reported."""

    __slots__ = ()

    def lose(self) -> None:
        """Do nothing: the request is settled elsewhere."""


def is_assured(message: Message) -> bool:
    """Whether a publisher or a subscriber waits for the settling of this message."""
    if message.is_awaited:
        return True
    if isinstance(message, Carrier):
        return any(routed.publication.assured for routed in message.publications)
    return type(message) is Publish and any(each.assured for each in message.publications)


def repeated(carrier: Carrier) -> Carrier:
    """The assured publications of a carrier, marked as repeated.

    Others are sent at most once; the mark of their first broker is removed.
    """
    return carrier.with_publications(
        tuple(
            RoutedPublication(marked(routed.publication), routed.message_id)
            for routed in carrier.publications
            if routed.publication.assured
        )
    )


def marked(publication: Publication) -> Publication:
    """The publication, marked as repeated."""
    return msgspec.structs.replace(publication, again=True)
