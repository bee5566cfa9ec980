"""The tree of a publication: from its entry over links between subscribers only.

>>> links = {"B": {"C", "D"}, "C": {"B"}, "D": {"B", "E"}, "E": {"D"}}
>>> tree_of("A", {"C", "E"}, {"B", "C", "D", "E"}, links, own={"B"}, hub="A")
[('B', -1, False), ('C', 0, True), ('D', 0, False), ('E', 2, True)]

An entry that is no subscriber and has no link to one uses one to a home; a home that the links do
not reach yet, as it has just joined, gets it over the hub.

>>> tree_of("A", {"C", "F"}, {"B", "C", "F"}, links, own=set(), hub="D")
[('C', -1, True), ('D', -1, False), ('F', 1, True)]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set

from shoal.model import BrokerId

# A broker, the number of its previous hop (-1: the entry), and a value: for the entry whether it is
# a home.
Part = tuple[BrokerId, int, int]


def tree_of(
    entry: BrokerId,
    homes: Set[BrokerId],
    subscribers: Set[BrokerId],
    links: Mapping[BrokerId, Set[BrokerId]],
    own: Set[BrokerId],
    hub: BrokerId,
) -> list[Part]:
    """Shortest paths from the entry to homes, which are others; `own` are links that it has."""
    before = {entry: entry}
    _spread(entry, subscribers, {**links, entry: links.get(entry, set()) | own}, before)
    if len(before) == 1 and entry not in subscribers:
        nearest = min(homes)
        before[nearest] = entry
        _spread(nearest, subscribers, links, before)
    for home in sorted(homes):
        if home not in before:
            before.setdefault(hub, entry)
        if home not in before:
            before[home] = hub
    return _cut_back(entry, homes, before)


def _spread(
    start: BrokerId,
    subscribers: Set[BrokerId],
    links: Mapping[BrokerId, Set[BrokerId]],
    before: dict[BrokerId, BrokerId],
) -> None:
    """Note the previous hop of each subscriber."""
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for there in sorted(links.get(here, ())):
            if there in subscribers and there not in before:
                before[there] = here
                queue.append(there)


def _cut_back(
    entry: BrokerId, homes: Set[BrokerId], before: Mapping[BrokerId, BrokerId]
) -> list[Part]:
    """Only paths to homes, each broker behind its previous hop."""
    numbers: dict[BrokerId, int] = {entry: -1}
    found: list[Part] = []
    for home in sorted(homes):
        way = [home]
        while before[way[-1]] not in numbers:
            way.append(before[way[-1]])
        for each in reversed(way) if home not in numbers else ():
            numbers[each] = len(found)
            found.append((each, numbers[before[each]], each in homes))
    return found


def branches(tree: Sequence[Part]) -> list[list[Part]]:
    """The trees behind the entry, each with a first broker, whose previous hop is -1 again."""
    found: list[list[Part]] = []
    # Of each broker which branch it is in, and its number there.
    places: list[tuple[int, int]] = []
    for broker, number, is_home in tree:
        if number < 0:
            places.append((len(found), 0))
            found.append([(broker, -1, is_home)])
        else:
            branch, at = places[number]
            places.append((branch, len(found[branch])))
            found[branch].append((broker, at, is_home))
    return found
