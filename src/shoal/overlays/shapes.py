"""Shapes of overlays: checks of given links, and default links.

A shape checks input from outside (a file): known brokers, no broker left out, and for a tree no
cycle.

>>> balanced_tree(["A", "B", "C", "D"], fan_out=2)
[('A', 'B'), ('A', 'C'), ('B', 'D')]
>>> check_tree(["A", "B", "C"], [("A", "B"), ("B", "A")])
Traceback (most recent call last):
shoal.overlays.shapes.TopologyError: link B - A closes a cycle; an overlay is a tree
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from shoal.model import BrokerId

Link = tuple[BrokerId, BrokerId]


class TopologyError(ValueError):
    """Links that do not have an overlay's shape, or a parameter that allows none."""


class Shape(NamedTuple):
    """The shape of a system's links.

    check         raises TopologyError for links over brokers that are not of this shape
    make          default links over brokers
    has_cycles    there may be several paths between two brokers
    opens_links   brokers open links to each other themselves, beside the given ones
    mends         brokers open links in the place of broken ones
    """

    name: str
    check: Callable[[Sequence[BrokerId], Sequence[Link]], None]
    make: Callable[[Sequence[BrokerId]], Sequence[Link]]
    has_cycles: bool = False
    opens_links: bool = False
    mends: bool = False


def balanced_tree(brokers: Sequence[BrokerId], fan_out: int) -> list[Link]:
    """Level by level in the given order, the first broker on top (relocation paper, 5.1)."""
    check_brokers(brokers)
    if fan_out < 1:
        raise TopologyError(f"fan_out: {fan_out} is below 1")
    return [(brokers[(n - 1) // fan_out], brokers[n]) for n in range(1, len(brokers))]


def ring(brokers: Sequence[BrokerId]) -> list[Link]:
    """Each broker linked to the next, the last to the first."""
    links = balanced_tree(brokers, 1)
    return [*links, (brokers[-1], brokers[0])] if len(brokers) > 2 else links


def check_tree(brokers: Sequence[BrokerId], links: Sequence[Link]) -> None:
    """TopologyError unless `links` join exactly `brokers` as one tree."""
    groups = _Groups(brokers)
    for left, right in links:
        if not groups.join(left, right):
            raise TopologyError(f"link {left} - {right} closes a cycle; an overlay is a tree")
    groups.check_whole()


def check_connected(brokers: Sequence[BrokerId], links: Sequence[Link]) -> None:
    """TopologyError unless `links` join exactly `brokers`, each two at most once."""
    groups = _Groups(brokers)
    seen = set()
    for left, right in links:
        if left == right:
            raise TopologyError(f"link {left} - {right} joins a broker to itself")
        if frozenset((left, right)) in seen:
            raise TopologyError(f"link {left} - {right} is listed twice")
        seen.add(frozenset((left, right)))
        groups.join(left, right)
    groups.check_whole()


def check_known(brokers: Sequence[BrokerId], links: Sequence[Link]) -> None:
    """TopologyError unless `links` join some of `brokers`."""
    groups = _Groups(brokers)
    for left, right in links:
        groups.join(left, right)


class _Groups:
    """Brokers, with the groups that links have joined so far."""

    def __init__(self, brokers: Sequence[BrokerId]) -> None:
        check_brokers(brokers)
        self._brokers = brokers
        self._group = {broker: broker for broker in brokers}

    def join(self, left: BrokerId, right: BrokerId) -> bool:
        """Whether the two were apart; TopologyError when one is no broker."""
        for end in (left, right):
            if end not in self._group:
                raise TopologyError(f"link {left} - {right}: no broker {end!r}")
        one, other = self._representative(left), self._representative(right)
        self._group[one] = other
        return one != other

    def check_whole(self) -> None:
        """TopologyError when some broker is apart from the first."""
        brokers = self._brokers
        top = self._representative(brokers[0])
        apart = [broker for broker in brokers if self._representative(broker) != top]
        if apart:
            raise TopologyError(
                f"{len(apart)} of {len(brokers)} brokers cannot be reached from {brokers[0]}, "
                f"the first is {apart[0]}"
            )

    def _representative(self, broker: BrokerId) -> BrokerId:
        group = self._group
        while group[broker] != broker:
            group[broker] = group[group[broker]]
            broker = group[broker]
        return broker


def check_brokers(brokers: Sequence[BrokerId]) -> None:
    """TopologyError unless there is a broker."""
    if not brokers:
        raise TopologyError("no brokers")
    seen = set()
    for broker in brokers:
        if broker in seen:
            raise TopologyError(f"broker {broker!r} is listed twice")
        seen.add(broker)


TREE = Shape("a tree", check_tree, partial(balanced_tree, fan_out=2))
CONNECTED = Shape("a connected graph", check_connected, ring, has_cycles=True)
PRODUCT = Shape(
    "a product of a tree and a complete graph", check_connected, ring, has_cycles=True, mends=True
)
SELF_LINKED = Shape(
    "links of its own", check_known, lambda brokers: (), has_cycles=True, opens_links=True
)
