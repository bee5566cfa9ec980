"""What of a batch of publications is handled at once, so that others have their turn.

A publication may match nothing or a hundred thousand subscriptions, and whoever sends it does not
say so.  A batch that could take too long comes in pieces: of so many that no piece can, where there
are few subscriptions; else it is weighed, one publication after the other, and cut where that is
enough for a turn.  To weigh a publication takes about as long as to match it.  Of other messages
that came together as many are handled at once as take a turn, by what one took of late.

One publication with a long text, which thousands of subscriptions look through, is more than a
turn by itself.  So they look through it before it is handled, some of them in each turn, and what
they found is known then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.broker.effects import Input, Received, Requested
from shoal.broker.machine import Broker
from shoal.broker.messages import Carrier, Message, Publish, Together
from shoal.broker.together import enough
from shoal.matching.filed.filters import longest_text
from shoal.model import Attributes, Publication
from shoal.runtime.driving.timing.clock import Clock

# How long a broker handles what has come before others have their turn: it ends with what is being
# handled then.
TURN_US = 10_000
# A publication that matches nothing takes about so long, and for each subscription at worst so
# much more, here and on its way to local clients.
LEAST_US = 10
EACH_US = 1
# And so much longer where somebody takes what is delivered, who may retain it.
TAKEN_US = 20
# And that much longer what is for somebody to hear and to answer.
HEAVY_US = 400
# To be in the session of each takes what is assured so much longer.
EACH_ASSURED = 4
# A piece that is not weighed takes no longer, and has at least so many publications.
PIECE_US = 4 * TURN_US
PIECE_LEAST = 8
# One of several messages takes so long before any has come; then as long as the last ones, or so
# much of what was thought before, so that one that was long is not forgotten at once.
ONE_US, REMEMBERED = 5_000.0, 0.5
# Where a subscription looks through a text, so many bytes take as long as all else; texts that are
# looked through have at most so many.
SHORT, LONGEST = 512, 65_536


# So many turns a publication is prepared in at most.
MOST_TURNS = 200


class Taker(NamedTuple):
    """Who takes what a machine delivers.

    most        how many of its subscriptions a publication may be tested against, or match
    takes_us    how long a publication with these takes it, in microseconds, if it is not assured
    prepare     looks through a publication's texts for some microseconds; whether that is all
    heavy       an attribute of publications that take it HEAVY_US longer each; empty without such
    """

    most: Callable[[], int]
    takes_us: Callable[[Attributes], int]
    prepare: Callable[[Attributes, float], bool]
    heavy: str = ""


class Weighing:
    """Of one machine, and of who takes what it delivers."""

    def __init__(self, machine: Broker, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        self.takers: list[Taker] = []
        self._one_us = ONE_US
        # What comes next and is prepared: for how many turns, and by how many of those who look.
        self._prepared: Input | None = None
        self._turns = self._looked = 0

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

    def prepares(self, input: Input) -> bool:
        """Look through long texts of what is to be handled next; whether to go on next turn."""
        if self._prepared is not input:
            self._prepared, self._turns, self._looked = input, 0, 0
        long = [each.attributes for each in _published(input) if self._is_long(each)]
        looks = (self._machine.strategy.prepare, *(each.prepare for each in self.takers))
        if long and self._looked < len(looks) and self._turns < MOST_TURNS:
            self._turns += 1
            look = looks[self._looked]
            self._looked += all(look(attributes, TURN_US) for attributes in long)
            return True
        self._prepared = None
        return False

    def _is_long(self, publication: Publication) -> bool:
        """Whether what looks through its texts may be more than a turn."""
        if len(publication.body) < SHORT:
            return False
        return EACH_US * self._most * longest_text(publication.attributes) > TURN_US * SHORT

    @property
    def _most(self) -> int:
        """How many subscriptions a publication may be tested against, and match."""
        return self._machine.strategy.most_candidates + self._taken

    @property
    def _taken(self) -> int:
        """How many of them are those of takers."""
        return sum(each.most() for each in self.takers)

    def _cut_together(
        self, input: Received | Requested, messages: Sequence[Message]
    ) -> tuple[Received | Requested, ...]:
        most = enough(messages, max(1, int(TURN_US / max(self._one_us, 1))))
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
        strategy, most = self._machine.strategy, self._most
        factor = EACH_ASSURED if any(each.assured for each in publications) else 1
        worst_us = LEAST_US + EACH_US * (most + (factor - 1) * self._taken)
        if self.takers:
            worst_us += TAKEN_US
        heavy = [each.heavy for each in self.takers if each.heavy]
        if any(name in each.attributes for name in heavy for each in publications):
            worst_us += HEAVY_US
        if worst_us * PIECE_LEAST <= PIECE_US:
            if max(len(each.body) for each in publications) < SHORT:
                return min(count, PIECE_US // worst_us)
            return _enough_of_long(publications, most)
        end_us = self._clock.now_us() + TURN_US
        left_us = TURN_US
        for number, each in enumerate(publications, 1):
            attributes = each.attributes
            left_us -= LEAST_US + EACH_US * strategy.work_of(attributes)
            factor = EACH_ASSURED if each.assured else 1
            left_us -= factor * sum(taker.takes_us(attributes) for taker in self.takers)
            left_us -= HEAVY_US * sum(name in attributes for name in heavy)
            # To weigh one may take long by itself.
            if left_us <= 0 or self._clock.now_us() >= end_us:
                return number
        return count


def _published(input: Input) -> Sequence[Publication]:
    if type(input) is Received and isinstance(input.message, Carrier):
        return [each.publication for each in input.message.publications]
    if type(input) is Requested and type(input.request) is Publish:
        return input.request.publications
    return ()


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
