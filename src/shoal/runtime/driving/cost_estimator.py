"""Splits batches of publications so that one batch does not delay other input.

A publication may match nothing or a hundred thousand subscriptions, and its sender does not know. A
batch that could take too long is split: with few subscriptions into pieces of a fixed safe size;
else each publication's cost is estimated, and the piece ends once it fills a time slice. Estimating
a publication takes about as long as matching it. Other messages that arrive together are handled in
pieces that fill a time slice, by the recent time per message.

One publication with a long text that thousands of subscriptions search takes more than a time slice
by itself, and so does one with thousands of costly expressions. So the subscriptions search it, and
evaluate them, before it is handled, some of them in each slice, and the results are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from shoal.broker.effects import Input, Received, Requested
from shoal.broker.machine import Broker
from shoal.broker.messages import Carrier, Message, Publish, Together
from shoal.broker.together import enough
from shoal.matching.filed.search_costs import longest_text
from shoal.model import Attributes, Publication
from shoal.runtime.driving.timing.clock import Clock

# A broker handles input this long before it serves other tasks; the input at the end of the slice
# is finished.
TURN_US = 10_000
# A publication that matches nothing takes about so long, and for each subscription at worst so
# much more, here and on its way to local clients.
LEAST_US = 10
EACH_US = 1
# Additional time per delivery if the consumer may retain publications.
TAKEN_US = 20
# Additional time per publication that a consumer must process and answer.
HEAVY_US = 400
# Delivery of an assured publication to a session takes so much longer.
EACH_ASSURED = 4
# A piece without an estimate takes at most this time, and has at least so many publications.
PIECE_US = 4 * TURN_US
PIECE_LEAST = 8
# First estimate of a message's time; then the last ones' time counts, or this share of the former
# estimate, so that one long message is not forgotten at once.
ONE_US, REMEMBERED = 5_000.0, 0.5
# A subscription searches so many bytes of text in the time of all its other work; searched texts
# have at most LONGEST bytes.
SHORT, LONGEST = 512, 65_536


# So many turns a publication is prepared in at most.
MOST_TURNS = 200


# As `ConsumerLimits.prepare`.
Look: TypeAlias = Callable[[Attributes, float], bool]


class ConsumerLimits(NamedTuple):
    """Limits of the consumer of a machine's deliveries.

    most        most of its subscriptions that a publication may be tested against, or match
    takes_us    time that a publication with these takes it, in microseconds, if it is not assured
    prepare     looks through a publication's texts and expressions for some microseconds; whether
                that is all; without time, whether they need none
    heavy       an attribute of publications that take it HEAVY_US longer each; empty without such
    """

    most: Callable[[], int]
    takes_us: Callable[[Attributes], int]
    prepare: Look
    heavy: str = ""


class CostEstimator:
    """Estimator for one machine and the consumer of its deliveries."""

    def __init__(self, machine: Broker, clock: Clock) -> None:
        self._machine = machine
        self._clock = clock
        self.takers: list[ConsumerLimits] = []
        self._one_us = ONE_US
        # The next input, if it is prepared: the number of slices, and of subscriptions that search.
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
        """Search long texts, and costly expressions, of the next input; return whether to continue
        in the next slice.
        """
        if self._prepared is not input:
            self._prepared, self._turns, self._looked = input, 0, 0
        if published := _published(input):
            looks = (self._machine.strategy.prepare, *(each.prepare for each in self.takers))
            most = self._most
            long = [each.attributes for each in published if self._is_long(each, most, looks)]
            if long and self._looked < len(looks) and self._turns < MOST_TURNS:
                self._turns += 1
                look = looks[self._looked]
                self._looked += all(look(attributes, TURN_US) for attributes in long)
                return True
        self._prepared = None
        return False

    def _is_long(self, publication: Publication, most: int, looks: Sequence[Look]) -> bool:
        """Return whether searches of its texts, or the evaluation of expressions, may take more
        than a time slice.
        """
        attributes = publication.attributes
        is_text = len(publication.body) >= SHORT
        if is_text and EACH_US * most * longest_text(attributes) > TURN_US * SHORT:
            return True
        return EACH_US * most > TURN_US and not all(look(attributes, 0) for look in looks)

    @property
    def _most(self) -> int:
        """Return how many subscriptions a publication may be tested against, and match."""
        return self._machine.strategy.most_candidates + self._taken

    @property
    def _taken(self) -> int:
        """Return how many of them are those of takers."""
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
        """Return how many of the publications are enough."""
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
    """Return how many are enough for a piece if each of so many subscriptions looks through their
    texts.

    A text is in the body, too.
    """
    left_us = PIECE_US
    for number, each in enumerate(publications):
        left_us -= LEAST_US + EACH_US * most * (1 + min(len(each.body), LONGEST) // SHORT)
        if left_us < 0:
            return max(1, number)
    return len(publications)
