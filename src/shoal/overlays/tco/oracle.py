"""Oracle: the state of brokers on a stable topic-connected overlay, from the global picture.

All are in the same view, with exactly the connected brokers; each knows all subscriptions, and the
same links; over these the subscribers of each topic reach each other, and they are up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from shoal.model import BrokerId
from shoal.overlays.system import Picture
from shoal.overlays.tco.protocol import Tco


def problems(picture: Picture, brokers: Mapping[BrokerId, Tco]) -> list[str]:
    """One line for each broker, row, link or publication that differs from the expected one."""
    found = []
    should = sorted({(home, repr(each.filter)) for each, home in picture.subscriptions})
    views = [broker.membership.view for broker in brokers.values()]
    for name, broker in sorted(brokers.items()):
        view = broker.membership.view
        if view is None or sorted(view.members) != sorted(brokers) or view not in views[:1]:
            found.append(f"{name}: {view} differs from other brokers' view of {sorted(brokers)}")
            continue
        have = sorted((home, repr(filter)) for (home, _), filter in broker.interests.rows.items())
        if have != should:
            found.append(f"{name}: {have}, should be {should}")
        if broker.interests.missing or len(broker.outbox) or broker.routing.held:
            found.append(f"{name}: {dict(broker.description)} is not at rest")
        links = broker.linking.links
        if any(links != each.linking.links for each in brokers.values()):
            found.append(f"{name}: {links} differ from other brokers' links")
        beside = broker.linking.neighbours.get(name, set())
        missing = sorted(beside - broker.membership.links.linked.keys())
        found += [f"{name}: the link to {other} is not up" for other in missing]
        for topic, subscribers in broker.subscribers.by_topic().items():
            if not _are_connected(subscribers, broker.linking.neighbours):
                found.append(f"{name}: {sorted(subscribers)} of {topic} are apart in {links}")
    return found


def _are_connected(
    brokers: Iterable[BrokerId], neighbours: Mapping[BrokerId, Set[BrokerId]]
) -> bool:
    left = set(brokers)
    found = {left.pop()}
    while found:
        here = found.pop()
        reached = left & neighbours.get(here, set())
        left -= reached
        found |= reached
    return not left
