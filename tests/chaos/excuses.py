"""Exceptions to the guarantees that docs/background/guarantees.md allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from tests.chaos.history import (
    Asked,
    Cut,
    Died,
    Done,
    Entered,
    Event,
    Got,
    Killed,
    Left,
    Mended,
    Paused,
    Ready,
    Resumed,
    Sent,
)
from tests.chaos.schedule import Plan, SubscriberPlan, clusters_of

# The wait of a moved session for a broker behind it (5 s), with a margin: that broker sends one
# message a second.
WAITED_S = 3.5
# OctopiA: a sequencer may stop waiting for a broker that is disconnected for longer.
DOUBT_S = 3.0
# Before and after a client's disconnection.
BEING_SENT_S = 3.0
UNNOTICED_S = 0.5

Key = tuple[str, int]


class Published(NamedTuple):
    """A publication with its first transmission, and the time of its acknowledgement if there was
    one.
    """

    sent: Sent
    taken_s: float | None


class _Place(NamedTuple):
    """A broker to which a client connected, or tried to."""

    at_s: float
    broker: str
    is_certain: bool


class Excuses:
    """The exceptions of docs/background/guarantees.md, so far as these plans meet them.

    - QoS 2 may be doubled for a publisher that advertises, if its own broker is killed.
    - With "stored", an advertising client that has continued behind the disconnected broker may
      lose kept messages, if the broker that kept them was restarted, too.
    - Two members of a group may receive a QoS 2 message if the publisher's broker and the first
      member's broker die together.
    - A moved session waits 5 s for a broker behind it that was killed, hangs or is cut off.
      Messages of that broker arrive later, out of order; so do the client's own unsettled QoS 2
      publications there.
    - With three OctopiA clusters or more, the successor of a killed entry broker waits 3 s for
      missing publications. Later arrivals are out of order.
    - A member whose session ends with its connection takes its in-flight messages with it. Other
      brokers learn of that after half a second, or when they are reachable again.
    """

    def __init__(self, plan: Plan, history: Sequence[Event]) -> None:
        self._plan = plan
        self._has_detours = plan.system == "octopia" and clusters_of(plan.brokers) > 2
        self._advertisers = {each.name for each in plan.publishers if each.advertises}
        self._down = _downs(history)
        self._away = _aways(history)
        self._cuts = _cuts(history)
        # By client: from which times its session is or may be at which broker, as it connected
        # there.
        self._places: dict[str, list[_Place]] = defaultdict(list)
        self._done: dict[Key, float] = {}
        self._ends: dict[str, list[float]] = defaultdict(list)
        for event in history:
            match event:
                case Asked(client=client, broker=broker) | Entered(client=client, broker=broker):
                    place = _Place(event.at_s, broker, isinstance(event, Entered))
                    self._places[client].append(place)
                case Done(client=client, number=number):
                    self._done[client, number] = event.at_s
                case Left(client=client):
                    self._ends[client].append(event.at_s)

    def loss(self, published: Published, subscriber: SubscriberPlan) -> bool:
        sent, taken_s = published
        if taken_s is None:
            return False
        if not subscriber.lasts:
            return any(
                sent.at_s < self._noticed_s(end_s) and taken_s > end_s - BEING_SENT_S
                for end_s in self._ends[subscriber.name]
            )
        if self._plan.acknowledge == "settled" or sent.client not in self._advertisers:
            return False
        restarted = [
            broker
            for broker, downs in self._down.items()
            if any(sent.at_s <= back_s for _, back_s in downs)
        ]
        return len(restarted) > 1

    def _noticed_s(self, left_s: float) -> float:
        """The time by which every broker knows that a client has gone, brokers that were down
        included.
        """
        noticed_s = left_s + UNNOTICED_S
        told_s = UNNOTICED_S + (DOUBT_S if self._plan.system == "octopia" else 0)
        for killed_s, back_s in sorted(chain.from_iterable(self._down.values())):
            if killed_s < noticed_s:
                noticed_s = max(noticed_s, back_s + told_s)
        return noticed_s

    def double(self, sent: Sent) -> bool:
        """Whether the publisher's own broker was killed before the publication was settled."""
        if sent.client not in self._advertisers:
            return False
        done_s = self._done.get((sent.client, sent.number), float("inf"))
        return self._was_down(sent.client, sent.at_s, done_s)

    def shared_double(self, sent: Sent, brokers: Collection[str]) -> bool:
        """Whether the publisher's broker and one of these were down before the publication was
        settled.
        """
        to_s = self._done.get((sent.client, sent.number), float("inf"))
        return self._was_down(sent.client, sent.at_s, to_s) and any(
            killed_s <= to_s and sent.at_s <= back_s
            for broker in brokers
            for killed_s, back_s in self._down.get(broker, ())
        )

    def disorder(self, got: Got, sent: Sent) -> bool:
        """Whether the publication may come from a former broker of a client that was disconnected.

        It may also have taken a detour round a cluster, longer than others waited.
        """
        left = {place.broker for place in self._places[got.client] if place.at_s <= got.at_s}
        left.discard(got.broker)
        if sent.qos == 2:
            places = [each.broker for each in self._places[sent.client] if each.at_s <= got.at_s]
            left |= set(places) - set(places[-1:])
        if self._were_away(left, WAITED_S, sent, got) or self._were_cut(left, WAITED_S, sent, got):
            return True
        # How long a publication on a detour may wait to be put in order.
        everybody = (*self._plan.brokers, *self._plan.joiners) if self._has_detours else ()
        return self._were_away(everybody, DOUBT_S, sent, got) or self._were_cut(
            everybody, DOUBT_S, sent, got
        )

    def _were_away(self, brokers: Iterable[str], for_s: float, sent: Sent, got: Got) -> bool:
        """Whether a broker was disconnected for so long while a publication was on its way."""
        return any(
            away_s + for_s <= back_s and away_s <= got.at_s and sent.at_s <= back_s
            for broker in brokers
            for away_s, back_s in self._away.get(broker, ())
        )

    def _were_cut(self, brokers: Iterable[str], for_s: float, sent: Sent, got: Got) -> bool:
        """Whether a cable on a possible way from one of these brokers was cut for so long."""
        return any(
            cut_s + for_s <= mended_s
            and cut_s <= got.at_s
            and sent.at_s <= mended_s
            and any(self._is_on_the_way(cable, broker, got.broker) for broker in brokers)
            for cable, cut_s, mended_s in self._cuts
        )

    def _is_on_the_way(self, cable: frozenset[str], broker: str, other: str) -> bool:
        """Whether a link may be on the way: known in a tree that does not change, otherwise
        assumed.
        """
        if self._plan.system not in ("tree", "grape", "pop") or self._plan.joiners:
            return True
        known = {frozenset(link) for link in self._plan.links}
        if cable not in known:
            return False
        reached, new = {broker}, {broker}
        while new:
            new = {end for link in known - {cable} if link & new for end in link} - reached
            reached |= new
        return other not in reached

    def _was_down(self, client: str, from_s: float, to_s: float) -> bool:
        """Whether a broker at which the client was connected was down in this time."""
        brokers: set[str] = set()
        for place in reversed(self._places[client]):
            if place.at_s <= to_s:
                brokers.add(place.broker)
            if place.at_s <= from_s and place.is_certain:
                break
        return any(
            killed_s <= to_s and from_s <= back_s
            for broker in brokers
            for killed_s, back_s in self._down.get(broker, ())
        )


def _downs(history: Sequence[Event]) -> dict[str, list[tuple[float, float]]]:
    """The intervals in which each broker was down: from its end until it was ready."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    since: dict[str, float] = {}
    for event in history:
        match event:
            case Killed(broker=broker) | Died(broker=broker):
                since.setdefault(broker, event.at_s)
            case Ready(broker=broker) if broker in since:
                found[broker].append((since.pop(broker), event.at_s))
    for broker, at_s in since.items():
        found[broker].append((at_s, float("inf")))
    return found


def _aways(history: Sequence[Event]) -> dict[str, list[tuple[float, float]]]:
    """As `_downs`, with the intervals in which a broker was paused, killed meanwhile or not."""
    found = defaultdict(list, _downs(history))
    since: dict[str, float] = {}
    killed: set[str] = set()
    for event in history:
        match event:
            case Paused(broker=broker):
                since[broker] = event.at_s
            case Killed(broker=broker) | Died(broker=broker) if broker in since:
                killed.add(broker)
            case Resumed(broker=broker) if broker in since and broker not in killed:
                found[broker].append((since.pop(broker), event.at_s))
            case Ready(broker=broker) if broker in killed:
                killed.discard(broker)
                found[broker].append((since.pop(broker), event.at_s))
    for broker, at_s in since.items():
        found[broker].append((at_s, float("inf")))
    return found


def _cuts(history: Sequence[Event]) -> list[tuple[frozenset[str], float, float]]:
    """The intervals in which each cable was cut."""
    found = []
    since: dict[frozenset[str], float] = {}
    for event in history:
        match event:
            case Cut(broker=broker, other=other):
                since.setdefault(frozenset((broker, other)), event.at_s)
            case Mended(broker=broker, other=other):
                cable = frozenset((broker, other))
                if cable in since:
                    found.append((cable, since.pop(cable), event.at_s))
    return found + [(cable, at_s, float("inf")) for cable, at_s in since.items()]
