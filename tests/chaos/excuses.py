"""What docs/background/guarantees.md says may happen, and so is no violation."""

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

# A session that has moved waits 5 s for a broker behind it, which links to others, and then has a
# word for it each second.
WAITED_S = 3.5
# OctopiA's: who is away for so long may not be waited for by who puts in order.
DOUBT_S = 3.0
# Before a client goes, and after.
BEING_SENT_S = 3.0
UNNOTICED_S = 0.5

Key = tuple[str, int]


class Published(NamedTuple):
    """A publication: when it was sent first, and when it was taken, if it was."""

    sent: Sent
    taken_s: float | None


class _Place(NamedTuple):
    """Where a client connected, or tried to."""

    at_s: float
    broker: str
    is_certain: bool


class Excuses:
    """What docs/background/guarantees.md says may happen, so far as these plans do it.

    - QoS 2 "is exactly once through kills, too, except for a publisher that advertises and whose
      own broker is killed".
    - With "stored" a publisher "that advertises and goes on at the far side of the broker that is
      away may lose what was kept, if the broker that kept it was restarted, too".
    - "What was handed to a broker" for a group: "only if that broker and the publisher's die
      together, when the member has it already, can two have it".
    - "For 5 s a session that has moved waits for a broker that died behind it, stands still, or is
      cut off; what that one still has comes when it is back, out of order"; so does what a
      publisher had published there at QoS 2.
    - "With three clusters or more, publications go round a congested link". If the broker "by which
      a cluster is entered is killed, the one that takes its place" waits for what is missing "for
      3 s. What comes later comes out of order".
    - "A member whose session ends with its connection takes with it what it was being sent": for
      half a second the others do not know that it has gone, nor while they cannot be told.
    """

    def __init__(self, plan: Plan, history: Sequence[Event]) -> None:
        self._plan = plan
        self._has_detours = plan.system == "octopia" and clusters_of(plan.brokers) > 2
        self._advertisers = {each.name for each in plan.publishers if each.advertises}
        self._down = _downs(history)
        self._away = _aways(history)
        self._cuts = _cuts(history)
        # Where each client's session is from when on, or may be: it asked for it there.
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
        """When all know that a client has gone: also who was down then, and who was to tell."""
        noticed_s = left_s + UNNOTICED_S
        told_s = UNNOTICED_S + (DOUBT_S if self._plan.system == "octopia" else 0)
        for killed_s, back_s in sorted(chain.from_iterable(self._down.values())):
            if killed_s < noticed_s:
                noticed_s = max(noticed_s, back_s + told_s)
        return noticed_s

    def double(self, sent: Sent) -> bool:
        """Whether its publisher's own broker was killed before all was said about it."""
        if sent.client not in self._advertisers:
            return False
        done_s = self._done.get((sent.client, sent.number), float("inf"))
        return self._was_down(sent.client, sent.at_s, done_s)

    def shared_double(self, sent: Sent, brokers: Collection[str]) -> bool:
        """Whether its publisher's broker and one of these were down before all was said."""
        to_s = self._done.get((sent.client, sent.number), float("inf"))
        return self._was_down(sent.client, sent.at_s, to_s) and any(
            killed_s <= to_s and sent.at_s <= back_s
            for broker in brokers
            for killed_s, back_s in self._down.get(broker, ())
        )

    def disorder(self, got: Got, sent: Sent) -> bool:
        """Whether it may come from a broker that one of its clients left, and that was away.

        Or round a cluster, which others could not wait for.
        """
        left = {place.broker for place in self._places[got.client] if place.at_s <= got.at_s}
        left.discard(got.broker)
        if sent.qos == 2:
            places = [each.broker for each in self._places[sent.client] if each.at_s <= got.at_s]
            left |= set(places) - set(places[-1:])
        if self._were_away(left, WAITED_S, sent, got) or self._were_cut(left, WAITED_S, sent, got):
            return True
        # What goes round a cluster is put in order for so long.
        everybody = self._plan.brokers if self._has_detours else ()
        return self._were_away(everybody, DOUBT_S, sent, got) or self._were_cut(
            everybody, DOUBT_S, sent, got
        )

    def _were_away(self, brokers: Iterable[str], for_s: float, sent: Sent, got: Got) -> bool:
        """Whether one was away for so long while a publication was on its way."""
        return any(
            away_s + for_s <= back_s and away_s <= got.at_s and sent.at_s <= back_s
            for broker in brokers
            for away_s, back_s in self._away.get(broker, ())
        )

    def _were_cut(self, brokers: Iterable[str], for_s: float, sent: Sent, got: Got) -> bool:
        """Whether a cable that may be on the way from one of these was cut for so long."""
        return any(
            cut_s + for_s <= mended_s
            and cut_s <= got.at_s
            and sent.at_s <= mended_s
            and any(self._is_on_the_way(cable, broker, got.broker) for broker in brokers)
            for cable, cut_s, mended_s in self._cuts
        )

    def _is_on_the_way(self, cable: frozenset[str], broker: str, other: str) -> bool:
        """In a tree that stays one of its links may be; elsewhere any may."""
        if self._plan.system not in ("tree", "grape", "pop"):
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
        """Whether a broker was down, at any time between these, at which the client was."""
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
    """When each broker was down: from its end until it was ready again."""
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
    """As `_downs`, and when it stood still, whether it was killed meanwhile or not."""
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
    """Which cables were cut, from when to when."""
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
