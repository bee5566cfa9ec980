"""`$every` and `$changed` of simulated subscriptions, at their clients' brokers.

Each subscription decides for itself. State and held publications are those of a session: they
outlast the broker and follow a client that moves. A simulated publication has a topic only if it
has the attribute `$topic`; without it, the values behind BY alone tell keys apart.

>>> from shoal.language.conflation_rules import read_conflation
>>> from shoal.simulation.event_queue import EventQueue
>>> queue, got = EventQueue(), []
>>> conflation = SimulatedConflation(queue)
>>> conflation.add("s1", "c1", read_conflation("10s", ""))
>>> for number in range(3):
...     made = Publication(publisher="p", sequence=number, published_us=0, attributes={})
...     conflation.take(made, ("s1",), 0, lambda names, at_us, made=made: got.append(made.sequence))
>>> queue.run_until(60_000_000)
>>> got, conflation.rows()
([0, 2], [ConflatedSubscription(subscription='s1', delivered=2, superseded=1, suppressed=0)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from shoal.attributes import TOPIC_ATTRIBUTE
from shoal.conflation import Conflator, EndedInterval, KeyName, key_name
from shoal.conflation.conflator import Place, Values
from shoal.language.conflation_rules import ConflationRule
from shoal.model import ClientId, Pace, Publication, SubscriptionId
from shoal.overlays.trace_rows import ConflatedSubscription
from shoal.simulation.event_queue import EventQueue

# Delivers a publication for these subscriptions at this time.
HandOut = Callable[[tuple[SubscriptionId, ...], int], None]


class _Held(NamedTuple):
    publication: Publication
    hand_out: HandOut


class _ConflatedState:
    """The state of one subscription, its counts, and the time for which its timer is set."""

    def __init__(self, name: SubscriptionId, rule: ConflationRule) -> None:
        self.name = name
        self.conflator: Conflator[_Held] = Conflator(rule)
        self.armed_us: int | None = None
        self.delivered = self.superseded = self.suppressed = 0


def pace_of(rule: ConflationRule | None) -> Pace | None:
    """The pace that brokers tell each other; None without an interval."""
    if rule is None or not rule.every_us:
        return None
    return Pace(rule.every_us, tuple([value.text for value in rule.by]))


class SimulatedConflation:
    """All subscriptions with a rule; `clients` are theirs."""

    def __init__(self, queue: EventQueue) -> None:
        self.clients: set[ClientId] = set()
        self._queue = queue
        self._states: dict[SubscriptionId, _ConflatedState] = {}

    def add(self, subscription: SubscriptionId, client: ClientId, rule: ConflationRule) -> None:
        """Conflate a subscription."""
        self.clients.add(client)
        self._states[subscription] = _ConflatedState(subscription, rule)

    def rows(self) -> list[ConflatedSubscription]:
        """The counts of each subscription."""
        return [
            ConflatedSubscription(name, each.delivered, each.superseded, each.suppressed)
            for name, each in self._states.items()
        ]

    def take(
        self,
        publication: Publication,
        subscriptions: Iterable[SubscriptionId],
        now_us: int,
        hand_out: HandOut,
    ) -> None:
        """Hand out a publication to those of the subscriptions that let it pass; others hold it,
        or suppress it.
        """
        held, passing = _Held(publication, hand_out), list[SubscriptionId]()
        for name in subscriptions:
            state = self._states.get(name)
            if state is None or self._passes(state, held, now_us):
                passing.append(name)
        if passing:
            hand_out(tuple(passing), now_us)

    def _passes(self, state: _ConflatedState, held: _Held, now_us: int) -> bool:
        conflator, attributes = state.conflator, held.publication.attributes
        topic = str(attributes.get(TOPIC_ATTRIBUTE, ""))
        key = key_name(conflator.rule.key_of(topic, attributes))
        values = conflator.rule.values_of(attributes)
        place = _place_of(held.publication)
        if conflator.is_outdated(key, place):
            state.superseded += 1
            return False
        ended = conflator.end_interval_of(key, now_us)
        if ended is not None:
            self._end(state, ended, now_us)
        if conflator.is_in_interval(key):
            state.superseded += conflator.hold(key, values, held, now_us, place) is not None
            return False
        if not conflator.has_changed(key, values):
            conflator.suppressed(key, place)
            state.suppressed += 1
            return False
        if conflator.is_full_for(key):
            forgotten = conflator.forget_oldest()
            if forgotten is not None:
                state.delivered += 1
                forgotten.message.hand_out((state.name,), now_us)
        self._note_delivered(state, key, values, place, now_us)
        return True

    def _end(self, state: _ConflatedState, ended: EndedInterval[_Held], now_us: int) -> None:
        """Hand out a held publication whose interval has ended, unless it is unchanged."""
        if not state.conflator.has_changed(ended.key, ended.values):
            state.suppressed += 1
            return
        place = _place_of(ended.message.publication)
        self._note_delivered(state, ended.key, ended.values, place, now_us)
        ended.message.hand_out((state.name,), now_us)

    def _note_delivered(
        self, state: _ConflatedState, key: KeyName, values: Values, place: Place, now_us: int
    ) -> None:
        state.conflator.delivered(key, values, now_us, place)
        state.delivered += 1
        self._arm(state)

    def _end_intervals(self, now_us: int, state: _ConflatedState) -> None:
        """Intervals of a subscription end."""
        state.armed_us = None
        while (ended := state.conflator.end_interval(now_us)) is not None:
            self._end(state, ended, now_us)
        self._arm(state)

    def _arm(self, state: _ConflatedState) -> None:
        at_us = state.conflator.next_us
        if at_us is not None and (state.armed_us is None or at_us < state.armed_us):
            state.armed_us = at_us
            self._queue.push(at_us, self._end_intervals, state)


def _place_of(publication: Publication) -> Place:
    return publication.publisher, publication.sequence
