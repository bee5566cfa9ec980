"""Oracle: the state of brokers on a stable structured overlay, from the global picture.

All are in the same view, with exactly the connected brokers; each filter of a home's clients is
known at the roots of its topics, a filter for any topic everywhere, and no others are known.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.model import BrokerId, Filter
from shoal.overlays.dynatops.protocol import Dynatops
from shoal.overlays.dynatops.topics.keys import keys_of
from shoal.overlays.system import Picture


def problems(picture: Picture, brokers: Mapping[BrokerId, Dynatops]) -> list[str]:
    """One line for each broker, row or publication that differs from the expected one."""
    found = []
    subscriptions = [(each.filter, home) for each, home in picture.subscriptions]
    for name, broker in sorted(brokers.items()):
        places = broker.membership.places
        members = () if places is None else places.members
        if sorted(members) != sorted(brokers):
            found.append(f"{name}: the members are {members}, should be {sorted(brokers)}")
            continue
        assert places is not None
        view, others = broker.membership.view, [each.membership.view for each in brokers.values()]
        if any(each != view for each in others):
            found.append(f"{name}: {view} differs from other brokers' view")
        wanted = {
            (home, filter) for filter, home in subscriptions if name in _targets(broker, filter)
        }
        have = sorted((home, repr(filter)) for (home, _), filter in broker.interests.rows.items())
        should = sorted((home, repr(filter)) for home, filter in wanted)
        if have != should:
            found.append(f"{name}: {have}, should be {should}")
        if broker.interests.missing or len(broker.outbox) or broker.routing.held:
            found.append(f"{name}: {dict(broker.description)} is not at rest")
    return found


def _targets(broker: Dynatops, filter: Filter) -> set[BrokerId]:
    places = broker.membership.places
    assert places is not None
    keys = keys_of(filter, broker.parameters.topic, broker.parameters.keys)
    return set(places.members) if keys is None else {places.root(key) for key in keys}
