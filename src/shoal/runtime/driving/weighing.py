"""What of a batch of publications is handled at once, so that others have their turn.

A publication may match nothing or a hundred thousand subscriptions, and whoever sends it does not
say so.  A batch that could take too long comes in pieces: of so many that no piece can, where there
are few subscriptions; else it is weighed, one publication after the other, and cut where that is
enough for a turn.  To weigh a publication takes about as long as to match it.  Of other messages
that came together as many are handled at once as take a turn, by what one took of late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shoal.broker.effects import Input, Received, Requested
from shoal.broker.machine import Broker
from shoal.broker.messages import Carrier, Message, Publish, Together
from shoal.model import Attributes, Publication
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
# One of several messages takes so long before any has come; then as long as the last ones, or so
# much of what was thought before, so that one that was long is not forgotten at once.
ONE_US, REMEMBERED = 5_000.0, 0.5
# Where a subscription looks through a text, so many bytes take as long as all else; texts that are
# looked through have at most so many.
SHORT, LONGEST = 512, 65_536


class Weighing:
    """Of one machine, and of who takes what it delivers."""

    def __init__(self, machine: Broker, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        # Of those who take deliveries: how many subscriptions they have, and how long a publication
        # takes them, in microseconds.
        self.takers: list[tuple[Callable[[], int], Callable[[Attributes], int]]] = []
        self._one_us = ONE_US

    def handled(self, input: Input, since_us: int) -> None:
        """This was handled, from then until now."""
        together = _together(input)
        if together is not None:
            one_us = (self._clock.now_us() - since_us) / len(together.messages)
            self._one_us = max(one_us, REMEMBERED * self._one_us)

    def cut(self, input: Received | Requested) -> tuple[Received | Requested, ...]:
        """The input, or as much of it as is a turn's, and the rest."""
        together = _together(input)
        if together is not None:
            return self._cut_together(input, together.messages)
        if type(input) is Received:
            message = input.message
            if not isinstance(message, Carrier):
                return (input,)
            carried = message.publications
            at = self._enough([each.publication for each in carried])
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
        at = self._enough(published)
        if at == len(published):
            return (input,)
        return (
            Requested(input.client, Publish(published[:at])),
            Requested(input.client, Publish(published[at:])),
        )

    def _cut_together(
        self, input: Received | Requested, messages: Sequence[Message]
    ) -> tuple[Received | Requested, ...]:
        most = max(1, int(TURN_US / max(self._one_us, 1)))
        if len(messages) <= most:
            return (input,)
        parts = Together(tuple(messages[:most])), Together(tuple(messages[most:]))
        if type(input) is Received:
            return tuple(Received(input.neighbour, part) for part in parts)
        assert isinstance(input, Requested)
        return tuple(Requested(input.client, part) for part in parts)

    def _enough(self, publications: Sequence[Publication]) -> int:
        """How many of the publications are enough."""
        count = len(publications)
        if count < 2:
            return count
        strategy = self._machine.strategy
        most = len(strategy.searched) + sum(size() for size, _ in self.takers)
        worst_us = LEAST_US + EACH_US * most
        if worst_us * PIECE_LEAST <= PIECE_US:
            if max(len(each.body) for each in publications) < SHORT:
                return min(count, PIECE_US // worst_us)
            return _enough_of_long(publications, most)
        end_us = self._clock.now_us() + TURN_US
        left_us = TURN_US
        for number, each in enumerate(publications, 1):
            attributes = each.attributes
            left_us -= LEAST_US + EACH_US * strategy.work_of(attributes)
            left_us -= sum(takes_us(attributes) for _, takes_us in self.takers)
            # To weigh one may take long by itself.
            if left_us <= 0 or self._clock.now_us() >= end_us:
                return number
        return count


def _together(input: Input) -> Together | None:
    if type(input) is Received:
        message = input.message
    elif type(input) is Requested:
        message = input.request
    else:
        return None
    return message if type(message) is Together else None


def _enough_of_long(publications: Sequence[Publication], most: int) -> int:
    """How many are enough for a piece if each of so many subscriptions looks through their texts.

    A text is in the body, too.
    """
    left_us = PIECE_US
    for number, each in enumerate(publications):
        left_us -= LEAST_US + EACH_US * most * (1 + min(len(each.body), LONGEST) // SHORT)
        if left_us < 0:
            return max(1, number)
    return len(publications)
