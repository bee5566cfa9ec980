"""What came of one input: whether all that it caused is where nothing can take it any more.

A broker that takes a publication whose publisher waits for word keeps it until its neighbours say
that theirs is settled: handled, in the sessions of their local clients, and settled at their
neighbours in turn.  One `Custody` counts the frames that one input caused.

>>> custody = Custody(lambda: print("settled"))
>>> custody.extend()  # a frame for a neighbour
>>> custody.settle()  # the input is handled
>>> custody.settle()  # the neighbour has said so
settled
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from shoal.broker.messages import Carrier, Message, Publish, RoutedPublication
from shoal.model import BrokerId, Publication


class Custody:
    """Calls `settled` once, when it was settled as often as it was extended, and once more.

    `source` is the neighbour from which the input came, if it came from one.
    """

    __slots__ = ("_left", "_settled", "source")

    def __init__(self, settled: Callable[[], None], source: BrokerId | None = None) -> None:
        self.source = source
        self._settled = settled
        self._left = 1

    def extend(self) -> None:
        """One more frame is under way."""
        self._left += 1

    def settle(self) -> None:
        """A frame is settled, or the input itself is handled."""
        self._left -= 1
        if not self._left:
            self._settled()

    def lose(self) -> None:
        """What is on disk for a neighbour that counts as gone by now will never be settled."""
        self.settle()


class Errand(Custody):
    """For what is asked again elsewhere when it is lost, so that nobody must be told."""

    __slots__ = ()

    def lose(self) -> None:
        """It is not settled here any more."""


def is_assured(message: Message) -> bool:
    """Whether somebody waits to hear what became of this: its publisher, or who subscribed."""
    if message.is_awaited:
        return True
    if isinstance(message, Carrier):
        return any(routed.publication.assured for routed in message.publications)
    return type(message) is Publish and any(each.assured for each in message.publications)


def repeated(carrier: Carrier) -> Carrier:
    """Those of the publications that somebody waits for, marked as sent before.

    The others are sent at most once; and what their first broker has marked is marked no more.
    """
    return carrier.with_publications(
        tuple(
            RoutedPublication(marked(routed.publication), routed.message_id)
            for routed in carrier.publications
            if routed.publication.assured
        )
    )


def marked(publication: Publication) -> Publication:
    """The publication, marked as sent before."""
    return msgspec.structs.replace(publication, again=True)
