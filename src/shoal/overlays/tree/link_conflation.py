"""Conflation at the first broker of a publication, so that links carry less.

If all subscriptions behind a link that a publication matches have a pace (`$every`), the first
broker may hold the publication for that link. A key is the topic with the values of all their BY;
its period is half of their least interval. The edge brokers of the subscribers conflate again, so
deliveries keep their distance, and the newest is at most one and a half intervals late.

| publication, for one link | effect |
| --- | --- |
| no period of its key runs | sent; a period starts |
| a period runs | held, at most until its end |
| ... and it matches all that a held one matches | that one is superseded |
| ... and it does not | both are held, at most `MOST_OF_KEY`, and go in order |
| a matching subscription behind the link has no pace | sent, after the held ones of its topic |
| it is assured, traced or marked for the system | the same |
| the period ends, some are held | they are sent; the next period starts |
| a link comes up, fails or ends | held ones are sent, or dropped with a neighbour that is gone |
| this broker quiesces, as links change | held ones are sent first: none may go while tables turn |

Why not otherwise: assured publications (QoS 1 and 2) are not held, because this broker would have
to keep them on its disk until they are superseded, and their publisher would await the settlement;
a kill of the broker must not lose the newest. Later brokers do not hold, as their periods would add
up. `$changed` spares nothing here: an unchanged publication repairs the loss of the last change,
which a link at QoS 0 or a broker without a disk may cause.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple, Protocol

from shoal.attributes import TOPIC_ATTRIBUTE
from shoal.broker.effects import Effect, Send, SetTimer, TimerKey
from shoal.broker.messages import PublicationBatch, RoutedPublication
from shoal.conflation import KeyName, key_name
from shoal.language import FilterSyntaxError, parse_value
from shoal.language.conflation_rules import (
    LEAST_EVERY_US,
    MOST_CHARACTERS,
    MOST_COST,
    ConflatedValue,
)
from shoal.ledger import remembered
from shoal.model import Attributes, BrokerId, Subscription

TIMER: TimerKey = ("conflation",)
# Publications of one key that are held for one link, as they match different subscriptions.
MOST_OF_KEY = 8
# Keys of all links, and bytes of all that is held; beyond them publications are sent at once.
MOST_KEYS, MOST_BYTES = 100_000, 16 * 2**20
# Periods that end in one turn, some 5 ms.
MOST_AT_ONCE = 2_000
# Values that tell keys of one link apart.
MOST_VALUES = 64


class PacedEntry(Protocol):
    """A row of the routing table."""

    subscription: Subscription


class LinkPace(NamedTuple):
    """The pace of a link for publications that match these `entries` behind it."""

    period_us: int
    by: tuple[ConflatedValue, ...]
    entries: frozenset[PacedEntry]


def link_pace(entries: Collection[PacedEntry]) -> LinkPace | None:
    """The pace of a link, None if a neighbour's cannot be read, or costs too much to work out.

    All entries have one.
    """
    paces = [each.subscription.pace for each in entries]
    texts = dict.fromkeys(text for pace in paces if pace is not None for text in pace.by)
    least_us = min([pace.every_us for pace in paces if pace is not None])
    if len(texts) > MOST_VALUES or least_us < LEAST_EVERY_US:
        return None
    if sum(map(len, texts)) > MOST_CHARACTERS:
        return None
    values = list(map(_read_value, texts))
    by = tuple([value for value in values if value is not None])
    if len(by) < len(values) or sum([value.cost for value in by]) > MOST_COST:
        return None
    return LinkPace(least_us // 2, by, frozenset(entries))


def _parse(text: str) -> ConflatedValue | None:
    try:
        return ConflatedValue(text, parse_value(text))
    except FilterSyntaxError:
        return None


# Parsing takes milliseconds, and each set of matching subscriptions has a pace of its own.
_read_value = remembered("values of paces", most=4_096, bytes_each=4_000)(_parse)


# A neighbour, and a topic.
_Topic = tuple[BrokerId, object]


class _HeldPublication(NamedTuple):
    number: int
    routed: RoutedPublication
    entries: frozenset[PacedEntry]


class _LinkKey:
    """One key of one link: the end of its period, and what is held until then.

    `place` and `name` are its keys in the tables of `LinkConflation`.
    """

    __slots__ = ("ends_us", "held", "name", "period_us", "place")

    def __init__(self, place: _Topic, name: KeyName, period_us: int) -> None:
        self.place = place
        self.name = name
        self.ends_us = 0
        self.period_us = period_us
        self.held: list[_HeldPublication] = []


class LinkConflation:
    """The publications that one broker holds for its links."""

    def __init__(self) -> None:
        self._topics: dict[_Topic, dict[KeyName, _LinkKey]] = {}
        # Those of them that hold publications: few, so that a topic with many keys is sent fast.
        self._holding: dict[_Topic, dict[KeyName, _LinkKey]] = {}
        self._ends: list[tuple[int, int, _Topic, KeyName]] = []
        self._numbers = count()
        # The keys whose periods run, of all links.
        self.keys = 0
        self._bytes = 0
        self._timer_us: int | None = None
        # Publications that were superseded, and so did not pass a link.
        self.superseded = 0

    @property
    def is_on(self) -> bool:
        """Whether a period runs."""
        return self.keys > 0

    def hold_back(
        self,
        routed: RoutedPublication,
        neighbours: Iterable[BrokerId],
        paced: Mapping[BrokerId, LinkPace] | None,
        now_us: int,
        out: list[Effect],
    ) -> Container[BrokerId]:
        """Hold a publication for some of its neighbours, and return these.

        Appends what must go before it.
        """
        publication, held = routed.publication, set[BrokerId]()
        topic = publication.attributes.get(TOPIC_ATTRIBUTE)
        is_held = not (publication.assured or publication.traced or routed.mark is not None)
        for neighbour in neighbours:
            pace = paced.get(neighbour) if paced is not None and is_held else None
            place = (neighbour, topic)
            if pace is None:
                self._send_all(place, out)
            elif self._holds(place, routed, pace, now_us, out):
                held.add(neighbour)
        self._set_interval_timer(now_us, out)
        return held

    def _holds(
        self,
        place: _Topic,
        routed: RoutedPublication,
        pace: LinkPace,
        now_us: int,
        out: list[Effect],
    ) -> bool:
        """Hold a publication for one link; returns False if it is to be sent at once."""
        key = _key(pace, routed.publication.attributes)
        keys = self._topics.get(place)
        state = keys.get(key) if keys is not None else None
        if state is not None and state.ends_us <= now_us:  # its timer is late
            is_idle = not state.held
            self._send_held(place[0], state, out)
            state.period_us = pace.period_us
            self._begin_interval(place, key, state, now_us + pace.period_us)
            if is_idle:
                return False
        if state is None:
            if self.keys < MOST_KEYS:
                state = _LinkKey(place, key, pace.period_us)
                self._topics.setdefault(place, {})[key] = state
                self.keys += 1
                self._begin_interval(place, key, state, now_us + pace.period_us)
            return False
        size = _size(routed)
        if self._bytes + size > MOST_BYTES:
            self._send_all(place, out)
            return False
        if now_us + pace.period_us < state.ends_us:
            self._begin_interval(place, key, state, now_us + pace.period_us)
        self._supersede(state, pace.entries)
        if len(state.held) >= MOST_OF_KEY:
            self._send_one(place[0], state.held.pop(0), out)
        state.held.append(_HeldPublication(next(self._numbers), routed, pace.entries))
        self._holding.setdefault(place, {})[key] = state
        self._bytes += size
        return True

    def _supersede(self, state: _LinkKey, entries: frozenset[PacedEntry]) -> None:
        """Drop the held ones whose subscriptions all get a newer one."""
        kept: list[_HeldPublication] = []
        for each in state.held:
            if each.entries <= entries:
                self.superseded += 1
                self._bytes -= _size(each.routed)
            else:
                kept.append(each)
        state.held = kept

    def _begin_interval(self, place: _Topic, key: KeyName, state: _LinkKey, ends_us: int) -> None:
        state.ends_us = ends_us
        heappush(self._ends, (ends_us, next(self._numbers), place, key))

    # --- what goes out ------------------------------------------------------------------------

    def timer(self, now_us: int, out: list[Effect], neighbours: Container[BrokerId]) -> None:
        """End the periods that are over; beyond MOST_AT_ONCE, the rest in the next turn."""
        self._timer_us = None
        left = MOST_AT_ONCE
        while left and self._ends and self._ends[0][0] <= now_us:
            left -= 1
            ends_us, _, place, key = heappop(self._ends)
            keys = self._topics.get(place)
            state = keys.get(key) if keys is not None else None
            if keys is None or state is None or state.ends_us != ends_us:
                continue
            if state.held and place[0] in neighbours:
                self._send_held(place[0], state, out)
                self._begin_interval(place, key, state, now_us + state.period_us)
            else:
                self._drop_key(state)
                del keys[key]
                self.keys -= 1
                if not keys:
                    del self._topics[place]
        self._set_interval_timer(now_us, out)

    def flush(self, out: list[Effect], neighbours: Container[BrokerId]) -> None:
        """Send all that is held: links change."""
        for place in tuple(self._holding):
            if place[0] in neighbours:
                self._send_all(place, out)
        self._topics.clear()
        self._holding.clear()
        self._bytes = 0
        self._ends.clear()
        self.keys = 0

    def _send_all(self, place: _Topic, out: list[Effect]) -> None:
        """Send all held ones of a topic, in their order."""
        held: list[_HeldPublication] = []
        for state in tuple(self._holding.get(place, {}).values()):
            held += state.held
            self._drop_key(state)
        out += [Send(place[0], PublicationBatch((each.routed,), 1)) for each in sorted(held)]

    def _send_held(self, neighbour: BrokerId, state: _LinkKey, out: list[Effect]) -> None:
        out += [Send(neighbour, PublicationBatch((each.routed,), 1)) for each in state.held]
        self._drop_key(state)

    def _send_one(self, neighbour: BrokerId, held: _HeldPublication, out: list[Effect]) -> None:
        self._bytes -= _size(held.routed)
        out.append(Send(neighbour, PublicationBatch((held.routed,), 1)))

    def _drop_key(self, state: _LinkKey) -> None:
        if not state.held:
            return
        self._bytes -= sum([_size(each.routed) for each in state.held])
        state.held = []
        holding = self._holding[state.place]
        del holding[state.name]
        if not holding:
            del self._holding[state.place]

    def _set_interval_timer(self, now_us: int, out: list[Effect]) -> None:
        ends = self._ends
        if ends and (self._timer_us is None or ends[0][0] < self._timer_us):
            self._timer_us = max(ends[0][0], now_us + 1)
            out.append(SetTimer(TIMER, self._timer_us))


def _key(pace: LinkPace, attributes: Attributes) -> KeyName:
    return key_name([value.evaluate(attributes) for value in pace.by])


def _size(routed: RoutedPublication) -> int:
    return 1_000 + len(routed.publication.body)
