"""The links of the overlay: the hub computes them from the subscriptions, and all members use them.

When subscriptions change the hub waits a moment, and then computes the links of the changed
brokers; those between others stay. It does so in small steps, each an input of its own, so that it
does not stall. It sends all links to all members, and the last ones are valid. The arrival of
publications does not depend on links (`routing.py`): links only shorten their paths.

Source: DYNATOPS, section 6.2; agreement on links by a hub is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from shoal.broker.effects import Effect, SetTimer, TimerKey
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.tco.messages import Link, LinksSaid
from shoal.overlays.tco.parameters import TcoParameters
from shoal.overlays.tco.star import hub_of
from shoal.overlays.tco.subscribers import TcoSubscribers, Topic

if TYPE_CHECKING:  # compiled code
    from shoal.overlays.dynatops.view import Age
    from shoal.overlays.tco.construction import Goal, TcoRelinking

MAKE: TimerKey = ("links", "make")
STEP: TimerKey = ("links", "step")


class _Making(NamedTuple):
    """A computation of links in a view, with brokers by number, and their topics."""

    age: Age
    names: tuple[BrokerId, ...]
    wanted: Mapping[BrokerId, Set[Topic]]
    work: TcoRelinking


@cache
def _warm_up() -> None:
    """Compute the links of two brokers once, so that imports and compilation do not stall a broker
    later.
    """
    work = relinking_of(("A", "B"), {"t": {"A", "B"}}, {}, "fan-out", set())
    while work.made is None:
        work.step()


class Linking:
    """The links at one broker; `say` sends a message of the hub to another member."""

    def __init__(
        self,
        membership: ViewMembership,
        parameters: TcoParameters,
        subscribers: TcoSubscribers,
        say: Callable[[BrokerId, LinksSaid, list[Effect]], None],
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._parameters = parameters
        self._subscribers = subscribers
        self._say = say
        self._is_timed = False
        self._making: _Making | None = None
        # The version of the subscriptions that links were computed for, and each broker's topics
        # then.
        self._version: int | None = None
        self._wanted: Mapping[BrokerId, Set[Topic]] = {}
        # The neighbours of each broker.
        self.neighbours: dict[BrokerId, set[BrokerId]] = {}
        # Links that were opened or ended because subscriptions changed, by this broker's
        # announcements.
        self.changes = 0
        self.begin()

    @property
    def _is_hub(self) -> bool:
        view = self._membership.view
        return view is not None and hub_of(view) == self._broker

    @property
    def links(self) -> tuple[Link, ...]:
        """Each once, by name."""
        rows = sorted(self.neighbours.items())
        return tuple(
            (one, other) for one, others in rows for other in sorted(others) if one < other
        )

    # --- the hub ------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new view has no links yet; brokers that may have to compute them warm up."""
        self._version = self._making = None
        if self._membership.may_manage:
            _warm_up()

    def look(self, is_complete: bool, now_us: int, out: list[Effect]) -> None:
        """Compute links in a moment, if this is the hub and subscriptions have changed."""
        is_due = is_complete and self._is_hub and self._version != self._subscribers.version
        if is_due and not self._is_timed and self._making is None:
            self._is_timed = True
            out.append(SetTimer(MAKE, now_us + self._parameters.gather_us))

    def make(self, is_complete: bool, now_us: int, out: list[Effect]) -> None:
        """Begin to make them."""
        self._is_timed = False
        view = self._membership.view
        if view is None or not is_complete or not self._is_hub:
            return
        self._version = self._subscribers.version
        by_topic = self._subscribers.by_topic()
        wanted: dict[BrokerId, set[Topic]] = {each: set() for each in view.members}
        for topic, brokers in by_topic.items():
            for broker in brokers:
                wanted[broker].add(topic)
        changed = {each for each in view.members if wanted[each] != self._wanted.get(each)}
        if not self._wanted:  # computed by another broker: there is no known change
            changed = set()
        goal = cast("Goal", self._parameters.goal)
        names = tuple(sorted(view.members))
        work = relinking_of(names, by_topic, self.neighbours, goal, changed)
        self._making = _Making(view.age, names, wanted, work)
        out.append(SetTimer(STEP, now_us))

    def step(self, now_us: int, out: list[Effect]) -> bool:
        """Continue; once they are computed announce them.  Returns whether they have changed."""
        making = self._making
        if making is None:  # of a view that is over
            return False
        making.work.step()
        if making.work.made is None:
            out.append(SetTimer(STEP, now_us))
            return False
        import numpy as np

        self._making, self._wanted = None, making.wanted
        pairs, names = np.argwhere(np.triu(making.work.made)).tolist(), making.names
        made = tuple((names[one], names[other]) for one, other in pairs)
        self.changes += len({*made} ^ {*self.links})
        for other in self._membership.others:
            self._say(other, LinksSaid(making.age, made), out)
        return self.on_links(made, now_us, out)

    # --- all members --------------------------------------------------------------------------

    def on_links(self, links: Iterable[Link], now_us: int, out: list[Effect]) -> bool:
        """The hub has announced the links; returns whether they have changed."""
        neighbours: dict[BrokerId, set[BrokerId]] = {}
        for one, other in links:
            if one != other:
                neighbours.setdefault(one, set()).add(other)
                neighbours.setdefault(other, set()).add(one)
        if neighbours == self.neighbours:
            return False
        self.neighbours = neighbours
        self._membership.ask(neighbours.get(self._broker, ()), now_us, out)
        return True


def relinking_of(
    names: tuple[BrokerId, ...],
    by_topic: Mapping[Topic, Set[BrokerId]],
    before: Mapping[BrokerId, Set[BrokerId]],
    goal: Goal,
    changed: Set[BrokerId],
) -> TcoRelinking:
    """Makes links with which the subscribers of each topic reach each other.

    Those of changed brokers are made anew, and those `before` between others stay.
    """
    import numpy as np

    from shoal.overlays.tco.construction import TcoRelinking

    # A topic that one broker wants needs no link.
    topics = [brokers for brokers in by_topic.values() if len(brokers) > 1]
    wanted = np.zeros((len(names), len(topics)), np.bool_)
    linked = np.zeros((len(names), len(names)), np.bool_)
    numbers = {name: number for number, name in enumerate(names)}
    for at, brokers in enumerate(topics):
        wanted[[numbers[each] for each in brokers], at] = True
    for one, others in before.items():
        for other in others:
            if one in numbers and other in numbers:
                linked[numbers[one], numbers[other]] = True
    is_changed = np.array([each in changed for each in names])
    return TcoRelinking(wanted, linked, is_changed, goal)
