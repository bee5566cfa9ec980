"""What of a batch of publications is handled at once, so that others have their turn.

A publication may match nothing or a hundred thousand subscriptions, and whoever sends it does not
say so.  A batch that could take too long comes in pieces: of so many that no piece can, where there
are few subscriptions; else it is weighed, one publication after the other, and cut where that is
enough for a turn.  To weigh a publication takes about as long as to match it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.broker.effects import Received, Requested
from shoal.broker.machine import Broker
from shoal.broker.messages import Carrier, Publish
from shoal.model import Attributes
from shoal.runtime.driving.clock import Clock

# How long a broker handles what has come before others have their turn: it ends with what is being
# handled then.
TURN_US = 10_000
# A publication that matches nothing takes about so long, and for each subscription at worst so
# much more, here and on its way to local clients.
LEAST_US = 10
EACH_US = 1
# A piece that is not weighed takes no longer, and has at least so many publications.
PIECE_US = 4 * TURN_US
PIECE_LEAST = 8


class Weighing:
    """Of one machine, and of who takes what it delivers."""

    def __init__(self, machine: Broker, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        # Of those who take deliveries: how many subscriptions they have, and how long a publication
        # takes them, in microseconds.
        self.takers: list[tuple[Callable[[], int], Callable[[Attributes], int]]] = []

    def cut(self, input: Received | Requested) -> tuple[Received | Requested, ...]:
        """The input, or as much of it as is a turn's, and the rest."""
        if type(input) is Received:
            message = input.message
            if not isinstance(message, Carrier):
                return (input,)
            carried = message.publications
            at = self._enough(len(carried), (each.publication.attributes for each in carried))
            if at == len(carried):
                return (input,)
            return (
                Received(input.neighbour, message.with_publications(carried[:at])),
                Received(input.neighbour, message.with_publications(carried[at:])),
            )
        assert isinstance(input, Requested)
        if type(input.request) is not Publish:
            return (input,)
        published = input.request.publications
        at = self._enough(len(published), (each.attributes for each in published))
        if at == len(published):
            return (input,)
        return (
            Requested(input.client, Publish(published[:at])),
            Requested(input.client, Publish(published[at:])),
        )

    def _enough(self, count: int, publications: Iterable[Attributes]) -> int:
        """How many of so many publications are enough."""
        if count < 2:
            return count
        strategy = self._machine.strategy
        most = len(strategy.searched) + sum(size() for size, _ in self.takers)
        worst_us = LEAST_US + EACH_US * most
        if worst_us * PIECE_LEAST <= PIECE_US:
            return min(count, PIECE_US // worst_us)
        end_us = self._clock.now_us() + TURN_US
        left_us = TURN_US
        for number, attributes in enumerate(publications, 1):
            left_us -= LEAST_US + EACH_US * strategy.work_of(attributes)
            left_us -= sum(takes_us(attributes) for _, takes_us in self.takers)
            # To weigh one may take long by itself.
            if left_us <= 0 or self._clock.now_us() >= end_us:
                return number
        return count
