"""The links of the overlay: the hub makes them of who subscribes, and all have what it says.

When subscriptions change the hub looks a moment later which links the changed brokers should have;
those between others stay; it does so bit by bit, each an input of its own, so that it does not
stall.  It says all links to everybody, and what it says last holds.  That
publications arrive does not depend on it (`routing.py`): links make their ways short.

Source: DYNATOPS, section 6.2; that brokers agree on links by a hub is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from shoal.broker.effects import Effect, SetTimer, TimerKey
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.tco.messages import Link, LinksSaid
from shoal.overlays.tco.parameters import Parameters
from shoal.overlays.tco.star import hub_of
from shoal.overlays.tco.subscribers import Subscribers, Topic

if TYPE_CHECKING:  # compiled code
    from shoal.overlays.dynatops.view import Age
    from shoal.overlays.tco.construction import Goal, Relinking

MAKE: TimerKey = ("links", "make")
STEP: TimerKey = ("links", "step")


class _Making(NamedTuple):
    """Links that are being made in a view, of brokers by number, and what these want."""

    age: Age
    names: tuple[BrokerId, ...]
    wanted: Mapping[BrokerId, Set[Topic]]
    work: Relinking


@cache
def _warm_up() -> None:
    """Make the links of two brokers: what is loaded and compiled for that stalls nobody at work."""
    work = relinking_of(("A", "B"), {"t": {"A", "B"}}, {}, "fan-out", set())
    while work.made is None:
        work.go_on()


class Linking:
    """At one broker; `say` takes what the hub says to another member."""

    def __init__(
        self,
        membership: Membership,
        parameters: Parameters,
        subscribers: Subscribers,
        say: Callable[[BrokerId, LinksSaid, list[Effect]], None],
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._parameters = parameters
        self._subscribers = subscribers
        self._say = say
        self._is_timed = False
        self._making: _Making | None = None
        # For which subscriptions links were made, as the version here, and what each wanted then.
        self._version: int | None = None
        self._wanted: Mapping[BrokerId, Set[Topic]] = {}
        # With whom each broker has links.
        self.neighbours: dict[BrokerId, set[BrokerId]] = {}
        # Links that were opened or ended because subscriptions changed, said by this broker.
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
        """In a new view nobody has heard any; who may have to make them is ready for that."""
        self._version = self._making = None
        if self._membership.may_manage:
            _warm_up()

    def look(self, is_complete: bool, now_us: int, out: list[Effect]) -> None:
        """Make links in a moment, if this is the hub and somebody wants something else now."""
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
        if not self._wanted:  # made by somebody else: none has changed that is known
            changed = set()
        goal = cast("Goal", self._parameters.goal)
        names = tuple(sorted(view.members))
        work = relinking_of(names, by_topic, self.neighbours, goal, changed)
        self._making = _Making(view.age, names, wanted, work)
        out.append(SetTimer(STEP, now_us))

    def step(self, now_us: int, out: list[Effect]) -> bool:
        """Go on; once they are made say them.  Whether there are others than before."""
        making = self._making
        if making is None:  # of a view that is over
            return False
        making.work.go_on()
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
        return self.hear(made, now_us, out)

    # --- everybody ----------------------------------------------------------------------------

    def hear(self, links: Iterable[Link], now_us: int, out: list[Effect]) -> bool:
        """The hub has said them; whether there are others than before."""
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
) -> Relinking:
    """Makes links with which the subscribers of each topic reach each other.

    Those of changed brokers are made anew, and those `before` between others stay.
    """
    import numpy as np

    from shoal.overlays.tco.construction import Relinking

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
    return Relinking(wanted, linked, is_changed, goal)
