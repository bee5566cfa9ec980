"""Workload drawn from a seed: publications, subscriptions, and costs of brokers and links.

A workload does not depend on the brokers' decisions. Brokers are numbers from 0; so are types of
notifications, each with one publisher.

>>> from shoal.experiments.self_organising.modelling.setting import SelfOrganisingSetting
>>> found = draw(SelfOrganisingSetting(what="static", seed=1, brokers=12, types=3, subscribers=2,
...     ticks=1_000,
...                      changes_at=(500,)), apart=np.ones((12, 12)))
>>> [len(members) for members in found.members], len(found.costs)
([3, 3, 3], 2)

Source: Cost and Interest, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.experiments.networks.transit_stub import distances, normalised, place, transit_stub
from shoal.experiments.run_files import read_columns
from shoal.experiments.self_organising.modelling.departures import departures
from shoal.experiments.self_organising.modelling.setting import SelfOrganisingSetting

Floats = npt.NDArray[np.float64]


class InterestMove(NamedTuple):
    """A subscription to a type ends at one broker, and one begins at another."""

    at: float
    type: int
    old: int
    new: int


class ModelLinkCosts(NamedTuple):
    """Cost of a message at each broker, and over a link between each two."""

    brokers: list[float]
    links: list[list[float]]


class ModelWorkload(NamedTuple):
    """All that happens to the brokers.

    publishers     the broker of each type's publisher
    members        the brokers of each type at first: its publisher's and its subscribers'
    moves          of subscriptions, in order
    publications   when each publisher publishes, in order
    costs          from the start, and from each change on
    """

    publishers: list[int]
    members: list[frozenset[int]]
    moves: list[InterestMove]
    publications: list[list[float]]
    costs: list[ModelLinkCosts]


def draw(setting: SelfOrganisingSetting, apart: Floats) -> ModelWorkload:
    """The workload; `apart` is how far routers are from each other, more than brokers if need be.

    Brokers stand at the first places at first, and at others when links' costs are drawn anew.
    """
    random = np.random.default_rng([setting.seed, 5])
    eras = [_Era(random, setting, apart, n) for n in range(len(setting.changes_at) + 1)]
    publishers, members = [], []
    for _ in range(setting.types):
        first = eras[0].broker(random, frozenset())
        inside, beyond = frozenset({first}), eras[0].beyond(first, setting.near)
        for _ in range(setting.subscribers):
            inside |= {eras[0].broker(random, inside | beyond)}
        publishers.append(first)
        members.append(inside)
    publications = [
        np.sort(random.uniform(0, setting.ticks, random.poisson(_expected(setting)))).tolist()
        for _ in range(setting.types)
    ]
    if setting.departures:
        publications = departures(Path(setting.departures), setting)
    moves = _moves(random, setting, eras, publishers, members)
    return ModelWorkload(publishers, members, moves, publications, _costs(setting, eras))


def _expected(setting: SelfOrganisingSetting) -> float:
    return setting.publication_rate * setting.ticks


class _Era:
    """Between two changes: loads of brokers, costs of brokers and of links."""

    def __init__(
        self,
        random: np.random.Generator,
        setting: SelfOrganisingSetting,
        apart: Floats,
        number: int,
    ) -> None:
        load = random.uniform(0, 1, setting.brokers)
        self.shares: Floats = np.cumsum(load / load.sum())
        self.brokers: list[float] = random.uniform(0, 1, setting.brokers).tolist()
        places = random.choice(len(apart), setting.brokers, replace=False)
        found = normalised(apart[np.ix_(places, places)], 1)
        if setting.links == "drawn":
            # By themselves, so that all else is as it is where links' costs follow from ways.
            above = np.triu(np.random.default_rng([setting.seed, 7, number]).random(found.shape), 1)
            found = above + above.T
        self.links: list[list[float]] = found.tolist()

    def broker(self, random: np.random.Generator, but: frozenset[int]) -> int:
        """One by its load, other than those."""
        while (found := int(np.searchsorted(self.shares, random.uniform(), "right"))) in but:
            pass
        return min(found, len(self.shares) - 1)

    def beyond(self, broker: int, near: int) -> frozenset[int]:
        """The brokers that are not among the nearest ones; none if `near` is 0."""
        costs = self.links[broker]
        by_cost = sorted(range(len(costs)), key=lambda other: (other != broker, costs[other]))
        return frozenset(by_cost[near + 1 :]) if near else frozenset()


def _costs(setting: SelfOrganisingSetting, eras: Sequence[_Era]) -> list[ModelLinkCosts]:
    found = []
    for number in range(len(eras)):
        of_links, of_brokers = _drawn(setting, number)
        brokers = [setting.most_of_broker * cost for cost in eras[of_brokers].brokers]
        links = [[setting.most_of_link * cost for cost in row] for row in eras[of_links].links]
        found.append(ModelLinkCosts(brokers, links))
    return found


def _drawn(setting: SelfOrganisingSetting, changes: int) -> tuple[int, int]:
    """After so many changes: by which links' costs were drawn last, and by which brokers'."""
    if setting.changes != "links, then brokers":
        return changes, changes
    # The first, third, ... is of links, the others of brokers.
    return max(0, (changes + 1) // 2 * 2 - 1), changes // 2 * 2


def _moves(
    random: np.random.Generator,
    setting: SelfOrganisingSetting,
    eras: Sequence[_Era],
    publishers: Sequence[int],
    members: Sequence[frozenset[int]],
) -> list[InterestMove]:
    moves = []
    if setting.end_rate:
        rate = setting.end_rate * setting.subscribers
        for type in range(setting.types):
            inside, at, changes = members[type], 0.0, 0
            beyond = eras[0].beyond(publishers[type], setting.near)
            while True:
                at += float(random.exponential(1 / rate))
                while changes < len(setting.changes_at) and setting.changes_at[changes] <= at:
                    changes += 1
                    if setting.changes == "costs and loads":
                        inside, moved = _all_elsewhere(
                            random, setting.changes_at[changes - 1], type,
                            inside, publishers[type], eras[changes],
                        )  # fmt: skip
                        moves += moved
                if at >= setting.ticks:
                    break
                # All are as likely to end next, however long they have been there.
                leaving = sorted(inside - {publishers[type]})
                old = leaving[int(random.integers(len(leaving)))]
                new = eras[_drawn(setting, changes)[1]].broker(random, inside | beyond)
                inside = inside - {old} | {new}
                moves.append(InterestMove(at, type, old, new))
    return sorted(moves)


def _all_elsewhere(
    random: np.random.Generator,
    at: float,
    type: int,
    inside: frozenset[int],
    publisher: int,
    era: _Era,
) -> tuple[frozenset[int], list[InterestMove]]:
    """Every subscription to a type ends, and one begins at a broker by the loads of an era."""
    moves = []
    for old in sorted(inside - {publisher}):
        new = era.broker(random, inside)
        inside = inside - {old} | {new}
        moves.append(InterestMove(at, type, old, new))
    return inside, moves


def places_apart(setting: SelfOrganisingSetting, folder: Path) -> Floats:
    """Return how far places for brokers are from each other: more than there are brokers.

    Those of a transit-stub network are kept in a file below `folder`, as they take a while.
    """
    if setting.rtt:
        return measured_apart(Path(setting.rtt))
    count = min(2 * setting.brokers, 200)
    file = folder / f"transit-stub-{setting.seed}-{count}.npy"
    if not file.is_file():
        network = transit_stub(setting.seed)
        found = distances(network, place(network, count, setting.seed))
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{np.random.default_rng().integers(1 << 62)}")
        with partial.open("wb") as opened:
            np.save(opened, found)
        partial.rename(file)
    apart: Floats = np.load(file)
    return apart


def measured_apart(path: Path) -> Floats:
    """Round trips between all hosts of a table (src, dst, rtt_ms) that have one to every other."""
    sources, targets, rtt_ms = read_columns(path, ("src", "dst", "rtt_ms"), numbers=("rtt_ms",))
    hosts = sorted({*sources, *targets}, key=str)
    number = {host: place for place, host in enumerate(hosts)}
    found: Floats = np.full((len(hosts), len(hosts)), np.nan)
    for source, target, rtt in zip(sources, targets, rtt_ms, strict=True):
        found[number[source], number[target]] = rtt
    found = np.fmin(found, found.T)
    np.fill_diagonal(found, 0)
    # The brokers that lack most go first, until none lacks any.
    while (missing := np.isnan(found).sum(axis=1)).any():
        kept = np.arange(len(found)) != int(missing.argmax())
        found = found[np.ix_(kept, kept)]
    return found


def check_measured(path: Path, brokers: int) -> None:
    """ValueError when there are not as many hosts as brokers, before hours of work."""
    hosts = len(measured_apart(path))
    if hosts < brokers:
        raise ValueError(
            f"{path}: {hosts} hosts have a round trip to each other, and {brokers} are needed"
        )
