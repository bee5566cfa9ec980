"""Oracle: trees and bindings from the global picture, however the trees have grown.

On a stable network each publisher with advertisements has one tree, which all brokers know, with
paths to its host, and every overlapping subscription is bound to it from its edge broker to the
host.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.matching import overlaps
from shoal.model import BrokerId
from shoal.overlays.system import Picture
from shoal.overlays.tid.protocol import Tid


def problems(picture: Picture, brokers: Mapping[BrokerId, Tid]) -> list[str]:
    """One line for each tree or binding that differs from the expected one."""
    found = []
    publishers = {(home, each.publisher) for each, home in picture.advertisements}
    subscribed = list(picture.subscriptions)
    living = {
        id: name
        for name, broker in brokers.items()
        for id, tree in broker.trees.all.items()
        if tree.advertisements and tree.last_hop is None
    }
    if len(living) != len(publishers):
        found.append(f"{len(living)} trees for {len(publishers)} publishers")
    for id, root in living.items():
        advertisements = list(brokers[root].trees.all[id].advertisements.values())
        expected: dict[BrokerId, set[tuple[str, BrokerId | None]]] = {
            each: set() for each in brokers
        }
        for subscription, home in subscribed:
            if any(overlaps(subscription.filter, each.filter) for each in advertisements):
                here: BrokerId | None = home
                before: BrokerId | None = None
                steps = 0
                while here is not None and here in expected and steps <= len(brokers):
                    expected[here].add((subscription.id, before))
                    tree = brokers[here].trees.all.get(id)
                    here, before = (tree.last_hop if tree else None), here
                    steps += 1
                if before != root:
                    found.append(f"{id}: the way of {subscription.id} ends at {before}")
        for name, broker in brokers.items():
            tree = broker.trees.all.get(id)
            have = set(tree.entries) if tree is not None else None
            if have != expected[name]:
                found.append(f"{name}: {id} binds {have}, should be {expected[name]}")
    return found
