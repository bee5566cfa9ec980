"""Which links make a tree of brokers, and the tree that is made where nobody says which.

`check_tree` is what every overlay from outside (a file) has to pass: known brokers, no broker left
out, no cycle.

>>> balanced_tree(["A", "B", "C", "D"], fan_out=2)
[('A', 'B'), ('A', 'C'), ('B', 'D')]
>>> check_tree(["A", "B", "C"], [("A", "B"), ("B", "A")])
Traceback (most recent call last):
shoal.overlays.tree.shapes.TopologyError: link B - A closes a cycle; an overlay is a tree
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.model import BrokerId

Link = tuple[BrokerId, BrokerId]


class TopologyError(ValueError):
    """Links that are no tree over the brokers, or a parameter that allows none."""


def balanced_tree(brokers: Sequence[BrokerId], fan_out: int) -> list[Link]:
    """Level by level in the given order, the first broker on top (relocation paper, 5.1)."""
    check_brokers(brokers)
    if fan_out < 1:
        raise TopologyError(f"fan_out: {fan_out} is below 1")
    return [(brokers[(n - 1) // fan_out], brokers[n]) for n in range(1, len(brokers))]


def check_tree(brokers: Sequence[BrokerId], links: Sequence[Link]) -> None:
    """TopologyError unless `links` join exactly `brokers` as one tree."""
    check_brokers(brokers)
    group = {broker: broker for broker in brokers}

    def representative(broker: BrokerId) -> BrokerId:
        while group[broker] != broker:
            group[broker] = group[group[broker]]
            broker = group[broker]
        return broker

    for left, right in links:
        for end in (left, right):
            if end not in group:
                raise TopologyError(f"link {left} - {right}: no broker {end!r}")
        one, other = representative(left), representative(right)
        if one == other:
            raise TopologyError(f"link {left} - {right} closes a cycle; an overlay is a tree")
        group[one] = other
    top = representative(brokers[0])
    apart = [broker for broker in brokers if representative(broker) != top]
    if apart:
        raise TopologyError(
            f"{len(apart)} of {len(brokers)} brokers cannot be reached from {brokers[0]}, "
            f"the first is {apart[0]}"
        )


def check_brokers(brokers: Sequence[BrokerId]) -> None:
    """TopologyError unless there is a broker."""
    if not brokers:
        raise TopologyError("no brokers")
    seen = set()
    for broker in brokers:
        if broker in seen:
            raise TopologyError(f"broker {broker!r} is listed twice")
        seen.add(broker)
