"""Cost of a tree, the best tree there is, and the distance of another tree from it.

Brokers are numbers from 0. A notification passes the smallest subtree with its publisher's broker
and all its subscribers' (the choice of publisher among them does not matter), and costs the sum of
its brokers and links. The problem is NP-hard: up to eight brokers all trees are tried, beyond them
links are exchanged as long as one exchange makes the tree cheaper.

>>> problem = OptimumProblem([2, 2, 2], [[0, 1, 3], [1, 0, 4], [3, 4, 0]], [({1, 2}, 10)])
>>> problem.cost([(0, 1), (0, 2)])  # figure 2 (a)
100.0
>>> optimum(problem)
Best(links=[(0, 1), (1, 2)], cost=80.0)
>>> regret(100, 80)
0.25

Source: Cost and Interest, 3.1 (Eq. 1 and 2, PSOOP); Prüfer, "Neuer Beweis eines Satzes über
Permutationen" (1918): sequences that name each labelled tree once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Link = tuple[int, int]

# 262,144 trees; with nine brokers there are 4,782,969.
MAX_BROKERS_FOR_ALL = 8
# An exchange that saves less than this part of the cost may be rounding.
_ROUNDING = 1e-12
_AT_ONCE = 1 << 16


class Best(NamedTuple):
    """A tree, and its cost."""

    links: list[Link]
    cost: float


class OptimumProblem:
    """Costs of brokers and links, and the demands.

    processing   cost of a notification at each broker
    links        cost between each two; symmetric, the diagonal has no meaning
    demands      sets of brokers that a notification has as publisher or subscribers, and how many
                 such notifications there are
    """

    def __init__(
        self,
        processing: Sequence[float] | Floats,
        links: Sequence[Sequence[float]] | Floats,
        demands: Iterable[tuple[Collection[int], float]],
    ) -> None:
        self.processing: Floats = np.asarray(processing, dtype=np.float64)
        self.links: Floats = np.asarray(links, dtype=np.float64)
        self.size = len(self.processing)
        if self.links.shape != (self.size, self.size):
            raise ValueError(f"links: {self.links.shape} for {self.size} brokers")
        counts: dict[frozenset[int], float] = {}
        for members, count in demands:
            if members:
                counts[frozenset(members)] = counts.get(frozenset(members), 0.0) + count
        self.counts: Floats = np.array(list(counts.values()), dtype=np.float64)
        # Brokers by demands.
        self.members: Bools = np.zeros((self.size, len(counts)), dtype=np.bool_)
        for number, members in enumerate(counts):
            self.members[list(members), number] = True

    def cost(self, tree: Sequence[Link]) -> float:
        """Return the cost of all notifications in a tree (Eq. 2); ValueError if it is no tree."""
        order, parents = _walk(tree, 0, self.size)
        if len(order) != self.size or len(tree) != self.size - 1:
            raise ValueError("the links are no tree over all brokers")
        below = _members_below(self.members, order, parents)
        crossing = (below > 0) & (below < below[0])
        children = order[1:]
        above = parents[children]
        reached = self.members.copy()
        reached[children] |= crossing[children]
        np.logical_or.at(reached, above, crossing[children])
        over_links = self.links[children, above] @ crossing[children]
        return float((self.processing @ reached + over_links) @ self.counts)


def regret(cost: float, best: float) -> float:
    """Return by which part of the best a cost is above it."""
    return cost / best - 1 if best else 0.0


# --- all trees ----------------------------------------------------------------------------------


def optimum(problem: OptimumProblem) -> Best:
    """The cheapest tree of all; ValueError for more than eight brokers."""
    size = problem.size
    if size > MAX_BROKERS_FOR_ALL:
        raise ValueError(f"{size} brokers have too many trees; at most {MAX_BROKERS_FOR_ALL}")
    if size == 1:
        return Best([], problem.cost([]))
    best = Best([], np.inf)
    within = _counts_within(problem)
    for number in range(0, _trees(size), _AT_ONCE):
        sequences = _sequences(size, number, min(number + _AT_ONCE, _trees(size)))
        trees = _Trees(sequences)
        costs = _costs(problem, trees, within)
        cheapest = int(costs.argmin())
        if costs[cheapest] < best.cost:
            best = Best(trees.links(cheapest), float(costs[cheapest]))
    return Best(best.links, problem.cost(best.links))


def _trees(size: int) -> int:
    return int(size ** (size - 2))


def _sequences(size: int, first: int, end: int) -> Ints:
    """Prüfer's sequences by their numbers: a row each."""
    numbers = np.arange(first, end)
    return numbers[:, None] // size ** np.arange(size - 2) % size


class _Trees:
    """Many trees at once: for each of their links both ends, and the brokers on the first end's
    side.
    """

    def __init__(self, sequences: Ints) -> None:
        trees, places = sequences.shape
        size = places + 2
        rows = np.arange(trees)
        degrees = np.ones((trees, size), dtype=np.int64)
        for place in range(places):
            degrees[rows, sequences[:, place]] += 1
        hanging = np.tile(1 << np.arange(size), (trees, 1))
        self.ends: list[tuple[Ints, Ints]] = []
        self.sides: list[Ints] = []
        for place in range(places + 1):
            leaves = (degrees == 1).argmax(axis=1)
            degrees[rows, leaves] = 0
            others = sequences[:, place] if place < places else (degrees == 1).argmax(axis=1)
            degrees[rows, others] -= 1
            self.ends.append((leaves, others))
            self.sides.append(hanging[rows, leaves])
            hanging[rows, others] |= hanging[rows, leaves]

    def links(self, tree: int) -> list[Link]:
        """Those of one tree, in order."""
        ends = [(int(left[tree]), int(right[tree])) for left, right in self.ends]
        return sorted((min(link), max(link)) for link in ends)


def _counts_within(problem: OptimumProblem) -> Floats:
    """Return, for each set of brokers, as bits, the number of notifications within it."""
    sets = np.arange(1 << problem.size)
    bits = (1 << np.arange(problem.size)) @ problem.members
    is_within = (bits[None, :] & ~sets[:, None]) == 0
    found: Floats = is_within @ problem.counts
    return found


def _costs(problem: OptimumProblem, trees: _Trees, within: Floats) -> Floats:
    """Return the costs of trees.

    A link is passed by all notifications but those for one side of it only, a broker by all but
    those for one of the parts only that the tree falls into without it.
    """
    total, whole = problem.counts.sum(), (1 << problem.size) - 1
    costs: Floats = np.full(len(trees.sides[0]), total * problem.processing.sum())
    for (left, right), side in zip(trees.ends, trees.sides, strict=True):
        on_left, on_right = within[side], within[whole ^ side]
        costs += problem.links[left, right] * (total - on_left - on_right)
        costs -= problem.processing[right] * on_left + problem.processing[left] * on_right
    return costs


def best_known(problem: OptimumProblem, trees: Iterable[Sequence[Link]]) -> Best:
    """The best tree of all, or, for more than eight brokers, the best that local search finds.

    It starts from each of some trees, and from that of the cheapest links, brokers counted.
    """
    if problem.size <= MAX_BROKERS_FOR_ALL:
        return optimum(problem)
    starts = [*trees, _cheapest_links(problem)]
    return min((local_optimum(problem, tree) for tree in starts), key=lambda best: best.cost)


def _cheapest_links(problem: OptimumProblem) -> list[Link]:
    """The tree of the links that cost least, with the brokers at both ends."""
    costs = problem.links + problem.processing[:, None] + problem.processing[None, :]
    nearest, before = costs[0].copy(), np.zeros(problem.size, dtype=np.int64)
    is_in = np.arange(problem.size) == 0
    links = []
    for _ in range(problem.size - 1):
        new = int(np.where(is_in, np.inf, nearest).argmin())
        links.append((int(before[new]), new))
        is_in[new] = True
        is_nearer = costs[new] < nearest
        nearest[is_nearer], before[is_nearer] = costs[new][is_nearer], new
    return links


# --- exchanges ----------------------------------------------------------------------------------


def local_optimum(problem: OptimumProblem, tree: Sequence[Link]) -> Best:
    """A tree that no exchange of one link makes cheaper, from `tree` on.

    Each link in turn is exchanged for the best in its place, until none has a better one.
    """
    links = [(min(link), max(link)) for link in tree]
    cost = problem.cost(links)
    kept = 0
    while kept < len(links):
        removed = links.pop(0)
        found, saving = _best_in_place(problem, links, removed)
        is_better = saving > _ROUNDING * cost
        links.append(found if is_better else removed)
        kept = 0 if is_better else kept + 1
        cost -= saving if is_better else 0
    return Best(sorted(links), problem.cost(links))


def _best_in_place(
    problem: OptimumProblem, links: Sequence[Link], removed: Link
) -> tuple[Link, float]:
    """Return the link that joins the two parts best, and its saving."""
    left, right = removed
    sides = [_walk(links, end, problem.size) for end in removed]
    here = problem.members[sides[0][0]].any(axis=0)
    crossing = here & problem.members[sides[1][0]].any(axis=0)
    counts = problem.counts[crossing]
    if not counts.any():
        return removed, 0.0
    members = problem.members[:, crossing]
    one, other = (
        _ways_to_all(problem, members, order, parents) @ counts for order, parents in sides
    )
    costs = problem.links * counts.sum() + one[:, None] + other[None, :]
    among = costs[np.ix_(sides[0][0], sides[1][0])]
    row, column = np.unravel_index(int(among.argmin()), among.shape)
    new = int(sides[0][0][row]), int(sides[1][0][column])
    return (min(new), max(new)), float(costs[left, right] - costs[new])


def _ways_to_all(problem: OptimumProblem, members: Bools, order: Ints, parents: Ints) -> Floats:
    """Return costs from each broker of a part to the subtree of each demand's members in it.

    Brokers by demands; the broker counts, those of the subtree do not.
    """
    below = _members_below(members, order, parents)
    all_of_them = below[order[0]]
    costs: Floats = np.zeros(members.shape)
    for broker in order[:0:-1]:
        parent = parents[broker]
        step = problem.links[broker, parent] + problem.processing[parent]
        costs[parent] = np.where(below[broker] == all_of_them, costs[broker] + step, costs[parent])
    for broker in order[1:]:
        parent = parents[broker]
        step = problem.links[broker, parent] + problem.processing[broker]
        costs[broker] = np.where(below[broker] > 0, costs[broker], costs[parent] + step)
    return costs


def _members_below(members: Bools, order: Ints, parents: Ints) -> Ints:
    """Return how many members of each demand are at each broker and behind it, seen from the
    first.
    """
    below: Ints = members.astype(np.int64)
    for broker in order[:0:-1]:
        below[parents[broker]] += below[broker]
    return below


def _walk(links: Sequence[Link], start: int, size: int) -> tuple[Ints, Ints]:
    """All that `start` is joined to, nearest first, and the broker before each."""
    neighbours: list[list[int]] = [[] for _ in range(size)]
    for left, right in links:
        neighbours[left].append(right)
        neighbours[right].append(left)
    parents = np.full(size, -1, dtype=np.int64)
    order = list(_breadth_first(neighbours, start, parents))
    return np.array(order, dtype=np.int64), parents


def _breadth_first(neighbours: Sequence[Sequence[int]], start: int, parents: Ints) -> Iterator[int]:
    waiting, seen = [start], {start}
    for broker in waiting:  # grows while it is read
        yield broker
        for neighbour in neighbours[broker]:
            if neighbour not in seen:
                seen.add(neighbour)
                parents[neighbour] = broker
                waiting.append(neighbour)
