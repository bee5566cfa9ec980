"""The links of a simulated network: which are to be there, which are, and how they come and go.

A link is *lasting* when it belongs to the overlay as it is now: it comes up again when its ends
are there again.  Brokers change that (`OpenLink`, `EndLink`), and faults do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from shoal.broker.effects import Departed, LinkChanged, LinkState
from shoal.broker.holding import is_from
from shoal.model import BrokerId
from shoal.simulation.event_queue import EventQueue
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.nodes import DETECTION_US, BrokerNode

Ends = tuple[BrokerId, BrokerId]
# Interval of checks of a link that is to end, once no message is on the way.
LOOK_US = 10_000


class Wiring:
    """Links between `brokers`; `make_link` makes one direction of one."""

    def __init__(
        self,
        queue: EventQueue,
        brokers: dict[BrokerId, BrokerNode],
        make_link: Callable[[BrokerId, BrokerId], SimulatedLink],
        latency_us: Callable[[BrokerId, BrokerId], int],
    ) -> None:
        self._queue = queue
        self._brokers = brokers
        self._make_link = make_link
        self._latency_us = latency_us
        self._lasting: dict[BrokerId, list[BrokerId]] = {}
        # Links that are cut, and whether they come up again when they are healed.
        self._cuts: dict[Ends, bool] = {}
        self._ending: set[Ends] = set()
        # Number of each link's state changes: only the newest change counts.
        self._changes: Counter[Ends] = Counter()
        # When the ends of a broken link notice, where they are told.
        self._noticed_us: dict[Ends, int] = {}
        # Ends of links that are down which wait until these are there, and are told nothing before.
        self._waiting: set[Ends] = set()

    @property
    def lasting(self) -> list[Ends]:
        """The overlay as it is now, each link once."""
        rows = self._lasting.items()
        return [(one, other) for one, others in rows for other in others if one < other]

    def neighbours(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Those to which this broker has lasting links."""
        return tuple(self._lasting.get(broker, ()))

    def forget(self, broker: BrokerId, linked: Iterable[BrokerId]) -> None:
        """The broker has left: none of its links comes up again.

        Its present and future neighbours learn that after the notice that the link is down.
        """
        lasting = self._lasting.pop(broker, [])
        for neighbour in lasting:
            self._lasting[neighbour].remove(broker)
        noticed_us = self._queue.now_us + DETECTION_US
        for neighbour in dict.fromkeys((*linked, *lasting)):
            self._queue.push(noticed_us, self._notify_departed, (neighbour, broker))

    def make_lasting(self, ends: Ends) -> None:
        for source, target in (ends, ends[::-1]):
            others = self._lasting.setdefault(source, [])
            if target not in others:
                others.append(target)

    def connect(self, ends: Ends) -> None:
        """Have a link, at once and without a word."""
        for source, target in (ends, ends[::-1]):
            self._brokers[source].connect(target, self._make_link(source, target))

    # --- requests of brokers ------------------------------------------------------------------

    def open(self, source: BrokerId, target: BrokerId, *, is_lasting: bool = False) -> None:
        """A broker asks for a link: a round trip later it is there, or later it is not.

        One that is about to end does so all the same.
        """
        now_us, ends = self._queue.now_us, (source, target)
        if _either_way(ends) in self._ending:
            return
        if target not in self._brokers:
            self._queue.push(now_us + DETECTION_US, self._notify_missing, ends)
            self._queue.push(now_us + DETECTION_US, self._notify_departed, ends)
            return
        if is_lasting:
            self.make_lasting(ends)
        if target in self._brokers[source].links:
            return
        if not self._brokers[target].running or _either_way(ends) in self._cuts:
            self._queue.push(now_us + DETECTION_US, self._notify_missing, ends)
            return
        up_us = now_us + 2 * self._latency_us(source, target)
        up_us = max(up_us, self._noticed_us.get(_either_way(ends), 0) + 1)
        self._waiting.add(ends)
        self._bring_up_at(up_us, ends)

    def reset(self, source: BrokerId, target: BrokerId) -> None:
        """A broker gives a link up: it comes up anew, unless it was to end."""
        ends = source, target
        if target not in self._brokers[source].links:
            return  # it is down already, and about to be noticed
        is_ending = _either_way(ends) in self._ending
        self._sever(ends)
        if not is_ending:
            self._bring_up_at(self._queue.now_us + 2 * DETECTION_US, ends)

    def end(self, source: BrokerId, target: BrokerId) -> None:
        """A broker asks that a link ends when nothing is in it any more.

        One that is broken fails instead, at both ends.  One that is down has ended; the other end
        hears that, too, if it waits for the link.
        """
        ends, now_us = (source, target), self._queue.now_us
        for one, other in (ends, ends[::-1]):
            if other in self._lasting.get(one, ()):
                self._lasting[one].remove(other)
        if _either_way(ends) in self._cuts:
            self._cuts[_either_way(ends)] = False
        if target not in self._brokers[source].links:
            self._changes[_either_way(ends)] += 1
            if now_us >= self._noticed_us.get(_either_way(ends), 0):
                ended = LinkChanged(target, LinkState.ENDED)
                self._queue.push(now_us, self._brokers[source].bring, ended)
            far = self._brokers.get(target)
            if (target, source) in self._waiting and far is not None and far.running:
                self._waiting.discard((target, source))
                self._queue.push(now_us, far.bring, LinkChanged(source, LinkState.ENDED))
        elif _either_way(ends) not in self._ending:
            self._ending.add(_either_way(ends))
            self._try_to_end(now_us, (ends, self._changes[_either_way(ends)]))

    def _try_to_end(self, now_us: int, argument: tuple[Ends, int]) -> None:
        ends, change = argument
        if change != self._changes[_either_way(ends)] or _either_way(ends) not in self._ending:
            return  # it has failed meanwhile, or stays
        nodes = [(self._brokers[one], other) for one, other in (ends, ends[::-1])]
        empty_us = max(node.links[other].empty_us for node, other in nodes)
        if empty_us > now_us or any(node.owes(other) for node, other in nodes):
            again_us = empty_us if empty_us > now_us else now_us + LOOK_US
            self._queue.push(again_us, self._try_to_end, argument)
            return
        self._take_down(ends)
        for node, other in nodes:
            node.bring(now_us, LinkChanged(other, LinkState.ENDED))

    # --- faults -------------------------------------------------------------------------------

    def cut(self, now_us: int, ends: Ends) -> None:
        """Break a link, until it is healed."""
        key = _either_way(ends)
        if not all(end in self._brokers for end in ends):
            return  # one has left
        is_wanted = ends[1] in self._brokers[ends[0]].links and key not in self._ending
        self._cuts[key] = self._cuts.get(key, False) or is_wanted
        self._sever(ends)

    def heal(self, now_us: int, ends: Ends) -> None:
        is_wanted = self._cuts.pop(_either_way(ends), False)
        if is_wanted or self._is_lasting(ends):
            self._bring_up_at(now_us + DETECTION_US, ends)

    def crash(self, broker: BrokerId, *, is_told: bool) -> None:
        """A broker is gone, with all messages in its links.

        Its neighbours are told, unless detection waits until the link is up again.
        """
        for neighbour in list(self._brokers[broker].links):
            ends = broker, neighbour
            comes_back = self._is_lasting(ends) and _either_way(ends) not in self._ending
            self._sever(ends, is_told=is_told or not comes_back)
        self._drop_arrivals(broker, lambda input: True)

    def restart(self, now_us: int, broker: BrokerId, *, is_told: bool) -> None:
        """A broker is back, and so are its lasting links, a little later.

        It is told which of them are not, unless it waits until they are.
        """
        for neighbour in self.neighbours(broker):
            ends = broker, neighbour
            self._bring_up_at(now_us + DETECTION_US, ends)
            if is_told:
                self._queue.push(now_us + DETECTION_US, self._notify_missing, ends)

    def _is_lasting(self, ends: Ends) -> bool:
        return ends[1] in self._lasting.get(ends[0], ())

    def _sever(self, ends: Ends, *, is_told: bool = True) -> None:
        noticed_us = self._queue.now_us + DETECTION_US
        for source, target in self._take_down(ends):
            if is_told:
                change = LinkChanged(target, LinkState.FAILED, self._is_lasting(ends))
                self._queue.push(noticed_us, self._brokers[source].bring, change)
                self._noticed_us[_either_way(ends)] = noticed_us
            else:
                self._waiting.add((source, target))

    def _take_down(self, ends: Ends) -> list[Ends]:
        """Drop a link and its messages; return the ends at which it was up."""
        self._changes[_either_way(ends)] += 1
        self._ending.discard(_either_way(ends))
        found = []
        for source, target in (ends, ends[::-1]):
            if self._brokers[source].disconnect(target):
                self._drop_arrivals(target, partial(is_from, source))
                found.append((source, target))
        return found

    def _bring_up_at(self, at_us: int, ends: Ends) -> None:
        self._changes[_either_way(ends)] += 1
        self._queue.push(at_us, self._bring_up, (ends, self._changes[_either_way(ends)]))

    def _bring_up(self, now_us: int, argument: tuple[Ends, int]) -> None:
        """Both ends learn of it in one moment, so that nothing sent before is in the link."""
        ends, change = argument
        if change != self._changes[_either_way(ends)] or _either_way(ends) in self._cuts:
            return  # it went down again meanwhile, or comes up later
        if not all(end in self._brokers and self._brokers[end].running for end in ends):
            return
        left, right = (self._brokers[end] for end in ends)
        if right.id in left.links:
            return
        self.connect(ends)
        for source, target in (ends, ends[::-1]):
            self._waiting.discard((source, target))
            up = LinkChanged(target, LinkState.UP, self._is_lasting(ends))
            self._brokers[source].bring(now_us, up)

    def _notify_missing(self, now_us: int, ends: Ends) -> None:
        """Tell a broker that a link it waits for is not there, unless it has come meanwhile."""
        source, target = ends
        node = self._brokers.get(source)
        if node is not None and target not in node.links:
            node.bring(now_us, LinkChanged(target, LinkState.FAILED, self._is_lasting(ends)))

    def _notify_departed(self, now_us: int, ends: Ends) -> None:
        """Tell a broker, which knows that a link is down, that its other end has left."""
        source, target = ends
        node = self._brokers.get(source)
        if node is not None:
            node.bring(now_us, Departed(target))

    def _drop_arrivals(self, broker: BrokerId, doomed: Callable[[Any], bool]) -> None:
        node = self._brokers[broker]
        front_ends = node.receive, node.receive_one
        self._queue.drop(lambda action, argument: action in front_ends and doomed(argument))


def _either_way(ends: Ends) -> Ends:
    return min(ends, ends[::-1])
