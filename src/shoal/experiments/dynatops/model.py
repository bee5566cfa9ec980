"""The study's slot model: assignments of users to brokers and their costs, hour by hour, without
messages.

The brokers' own functions place users and swap brokers. The trees determine the messages: a
broker's first subscription to a topic, or the last one's end, goes to the topic's root along the
overlay's routes, and down the tree again; a publication goes from its root to all subscribing
brokers.

Source: DYNATOPS, sections 4 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.experiments.dynatops.crowds.users import CrowdChange, StudyCrowd, Topics
from shoal.experiments.dynatops.placing import ClusterKnowledge
from shoal.experiments.dynatops.setting import PLACED, RECONFIGURED, DynatopsSetting
from shoal.overlays.dynatops.planning.advising.prices import change_messages, predicted_prices
from shoal.overlays.dynatops.planning.advising.swapping import SwapRules, after, plan_swaps
from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.costs import (
    distances,
    moved,
    standing,
)
from shoal.overlays.dynatops.planning.greedy import is_worth_a_look, propose
from shoal.overlays.dynatops.planning.placement import HashRing
from shoal.overlays.dynatops.planning.problem import Amounts, PlacementProblem, trees_of
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.gateways import Gateways
from shoal.overlays.dynatops.structures.prefixes import QuadGrid, tapestry
from shoal.overlays.dynatops.structures.structure import Structure
from shoal.overlays.tco.construction import TopicConnected

# beta of Algorithm 2.
WORTH = 0.1

Counts = npt.NDArray[np.int32]


class Slot(NamedTuple):
    """Results of one hour.

    subscribing    messages that change trees, and those that brokers of a cluster exchange
    changes        topics that brokers began or ceased to subscribe to
    handovers      users that changed brokers
    session transfer        of these, those that had themselves come to another cell
    events         publications
    messages       forwarded for them, from the roots on
    waiting        their delays to the brokers of all receiving users, added up
    deliveries     to users
    reconfiguring  messages for changing brokers' places, as the machines send them, or links
    moved          brokers that changed places
    deviation      of brokers' loads, as a part of their mean
    reaching       delay from these brokers to the users, if they have places, added up
    bound          Eq. 7's messages for changing brokers' places as they changed
    """

    subscribing: float = 0.0
    changes: int = 0
    handovers: int = 0
    session_transfer: int = 0
    events: float = 0.0
    messages: float = 0.0
    waiting: float = 0.0
    deliveries: float = 0.0
    reconfiguring: float = 0.0
    moved: int = 0
    deviation: float = 0.0
    reaching: float = 0.0
    bound: float = 0.0


class DynatopsGeography(NamedTuple):
    """The brokers' distances.

    round_trips  (brokers, brokers) in units of their mean
    to_cells     (cells, brokers) those to users in the middle of each cell, in the same unit
    """

    round_trips: Amounts
    to_cells: Amounts


class DynatopsModel:
    """One system with one crowd."""

    def __init__(self, setting: DynatopsSetting, crowd: StudyCrowd) -> None:
        self.setting = setting
        self._crowd = crowd
        self._geography = _geography(setting) if setting.has_places else None
        self._structure, self._roots = _structure(setting, self._geography)
        brokers = self._structure.size
        topics = setting.topics if self._geography is None else setting.columns * setting.rows
        self._random = np.random.default_rng([setting.seed, 2])
        # Consistent hashing gives the first places: they are drawn, as Tapestry's identifiers are.
        self.mapping = list(range(brokers))
        if isinstance(self._structure, Chord | Gateways):
            self.mapping = self._random.permutation(brokers).tolist()
        self._trees = trees_of(self._structure, [self._roots(topic) for topic in range(topics)])
        self._ups = trees_of(self._structure, range(brokers))
        # (brokers, topics): how many users of the broker want the topic.
        self.users = np.zeros((brokers, topics), np.int32)
        self.loads = np.zeros(brokers, np.int64)
        # (topics): round trips between all subscribed users and their brokers, added up.
        self.legs = np.zeros(topics)
        self._wanted = list(crowd.wanted)
        self._cells = list(crowd.cells)
        self._clusters = self._make_clusters()
        self._served = ClusterKnowledge(self.users, self.loads)
        self._ring = HashRing(range(brokers)) if setting.what == "chash" else None
        self.broker_of = [self._first_broker(user) for user in range(len(crowd.wanted))]
        for user, broker in enumerate(self.broker_of):
            self._count(broker, self._wanted[user], 1, self._cells[user])
        self._overlay = (
            TopicConnected(self.users > 0, setting.goal) if setting.what == "tco" else None
        )
        self._refresh_knowledge()
        if setting.what in PLACED:
            # Users have come one by one: each where it was best then.
            self._settle()

    # --- users --------------------------------------------------------------------------------

    def _first_broker(self, user: int) -> int:
        """By hash, or by place where there are places; else, and in Bayeux, drawn, once."""
        if self._ring is not None:
            return self._ring.broker_of(f"user/{user}")
        # "Statically assigned" users are drawn in 6.3.1.
        if self._geography is None or self.setting.what == "bayeux":
            return int(self._random.integers(len(self.users)))
        return self._at(self._crowd.cells[user])

    def _at(self, cell: int) -> int:
        """The broker of a cell; of the grid's cell that it is in, in GeoPS."""
        if isinstance(self._structure, QuadGrid):
            return self._structure.at(*_grid_cell(self.setting, cell))
        return cell

    def _make_clusters(self) -> list[npt.NDArray[np.int64]]:
        """Of each broker those that it sees, itself included: its neighbours, if it has a place."""
        if self.setting.what not in PLACED:
            return []
        brokers, size = len(self.users), self.setting.cluster
        order = list(range(brokers)) if self._geography is None else _in_blocks(self.setting)
        found = [np.zeros(0, np.int64)] * brokers
        for start in range(0, brokers, size):
            cluster = np.array(order[start : start + size], np.int64)
            for broker in cluster.tolist():
                found[broker] = cluster
        return found

    def _settle(self) -> None:
        """Let each user choose again until few change brokers: the beginning is not judged."""
        for _ in range(3):
            for user in range(len(self._wanted)):
                self._place(user, self._crowd.cells[user])
            self._refresh_knowledge()

    def _refresh_knowledge(self) -> None:
        """Refresh the brokers' knowledge of their cluster; it stays until the next refresh."""
        if self.setting.what in PLACED:
            self._served = ClusterKnowledge(self.users, self.loads)

    def _place(self, user: int, cell: int) -> int:
        """Move a user to where it should be; whether it moved."""
        setting, present = self.setting, self.broker_of[user]
        wanted = self._wanted[user]
        home = present
        if self._geography is not None and setting.what not in ("bayeux", "chash"):
            home = self._at(cell)
        best = home
        if setting.what in PLACED:
            best = self._best_broker(wanted, present, home)
        if best == present:
            return 0
        self._count(present, wanted, -1, cell)
        self._count(best, wanted, 1, cell)
        self.broker_of[user] = best
        return 1

    def _best_broker(self, wanted: Topics, present: int, home: int) -> int:
        setting, cluster = self.setting, self._clusters[home]
        asked, least = -1, 1
        if setting.own != "last":
            # The asked broker knows its own current state: the user's broker, or that of the user's
            # cell. Perhaps what the user itself wants does not count there.
            asked = present if self._clusters[present] is cluster else home
            least = 2 if setting.own == "others" and asked == present else 1
        return self._served.best(
            np.fromiter(wanted, np.int64, len(wanted)),
            cluster,
            present=present,
            asked=asked,
            least=least,
            load_weight=setting.load_weight,
        )

    def _count(self, broker: int, topics: Iterable[int], step: int, cell: int) -> None:
        """A user in a cell wants so many more, or fewer, topics at a broker."""
        leg = self._leg(cell, broker)
        for topic in topics:
            self.users[broker, topic] += step
            self.loads[broker] += step
            self.legs[topic] += step * leg

    def _leg(self, cell: int, broker: int) -> float:
        return 0.0 if self._geography is None else float(self._geography.to_cells[cell, broker])

    # --- slots --------------------------------------------------------------------------------

    def run(self) -> list[Slot]:
        return list(self.slots())

    def slots(self) -> Iterator[Slot]:
        """Hour by hour; users and brokers are then where they are at its end."""
        rates = np.full(self.users.shape[1], self.setting.rate)
        if self._crowd.rates is not None:
            rates = rates * self._crowd.rates
        for hour, changes in enumerate(self._crowd.slots):
            before = self.users > 0
            handovers, session_transfer = self._change(changes)
            after = self.users > 0
            slot = self._cost(rates)._replace(
                handovers=handovers, session_transfer=session_transfer
            )
            slot = slot._replace(
                changes=int((before != after).sum()),
                subscribing=self._subscribing(before, after),
            )
            if self._overlay is not None:
                slot = slot._replace(reconfiguring=float(self._overlay.change(after)))
            elif self.setting.what in RECONFIGURED and hour % self.setting.free_hours == 0:
                count, messages, bound = self._reconfigure(rates)
                slot = slot._replace(moved=count, reconfiguring=messages, bound=bound)
            if (hour + 1) % self.setting.update_hours == 0:
                self._refresh_knowledge()
            yield slot

    def _change(self, changes: Sequence[CrowdChange]) -> tuple[int, int]:
        """Return the number of users that changed brokers, and of these those that had changed
        cells.
        """
        handovers = session_transfer = 0
        for user, wanted, cell in changes:
            broker, before = self.broker_of[user], self._cells[user]
            self._count(broker, self._wanted[user] - wanted, -1, before)
            self._count(broker, wanted - self._wanted[user], 1, cell)
            if cell != before:
                farther = self._leg(cell, broker) - self._leg(before, broker)
                for topic in wanted & self._wanted[user]:
                    self.legs[topic] += farther
            self._wanted[user] = wanted
            has_changed = self._place(user, cell)
            handovers += has_changed
            session_transfer += has_changed and cell != self._cells[user]
            self._cells[user] = cell
        return handovers, session_transfer

    def _subscribing(self, before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_]) -> float:
        """Return the messages to the root by its routes, down the tree, and within the cluster."""
        told = 0.0
        if self.setting.what in PLACED:
            told = sum(len(cluster) - 1 for cluster in self._clusters) / self.setting.update_hours
        if self._overlay is not None:
            return told
        brokers, topics = np.nonzero(before != after)
        positions = np.array(self.mapping)[brokers]
        rows = self._trees.of[topics]
        up = self._ups.depths[positions, self._trees.roots[rows]]
        return float(up.sum() + self._trees.depths[rows, positions].sum()) + told

    def _problem(self, rates: Amounts, hours: float) -> PlacementProblem:
        return PlacementProblem(
            trees=self._trees,
            wanted=self.users > 0,
            publications=rates * hours,
            round_trips=None if self._geography is None else self._geography.round_trips,
            delay_weight=self.setting.delay_weight,
        )

    def _reconfigure(self, rates: Amounts) -> tuple[int, float, float]:
        """Algorithm 2; how many brokers change places, the messages for it, and their bound."""
        problem = self._problem(rates, self.setting.free_hours)
        cost = standing(problem, self.mapping).cost(problem.delay_weight)
        if not is_worth_a_look(problem, cost, WORTH):
            return 0, 0.0, 0.0
        start, found = self.mapping, None
        if self.setting.planner == "paper":
            proposal = propose(problem, start)
            if not proposal.steps:
                return 0, 0.0, 0.0
            found = proposal.mapping
        prices = predicted_prices(self._structure, problem, start, self._ups.depths)
        if found is None:
            found = after(start, plan_swaps(problem, start, prices, SwapRules()))
        self.mapping = list(found)
        messages = change_messages(self._structure, start, found)
        count = len(moved(start, found))
        bound = reconfiguration_cost(problem.brokers, problem.topics, count)
        return count, float(messages), bound

    def _cost(self, rates: Amounts) -> Slot:
        """Return the costs of an hour's publications."""
        mean = self.loads.mean()
        slot = Slot(
            events=float(rates.sum()),
            deliveries=float(rates @ self.users.sum(axis=0)),
            deviation=float(self.loads.std() / mean) if mean else 0.0,
            reaching=float(rates @ self.legs),
        )
        if self._overlay is not None:
            wanted = self.users > 0
            hops = self._overlay.distances()
            return slot._replace(
                messages=float(rates @ np.maximum(wanted.sum(axis=0) - 1, 0)),
                waiting=float(rates @ (hops * self.users.T).sum(axis=1)),
            )
        problem = self._problem(rates, 1.0)
        found = standing(problem, self.mapping)
        in_tree = found.below > 0
        roots = self._trees.roots[self._trees.of]
        edges = in_tree.sum(axis=1) - in_tree[np.arange(len(roots)), roots]
        apart = distances(problem, found.brokers)[self._trees.of]
        waiting = (apart * self.users[found.brokers].T).sum(axis=1)
        return slot._replace(messages=float(rates @ edges), waiting=float(rates @ waiting))


def _structure(
    setting: DynatopsSetting, geography: DynatopsGeography | None
) -> tuple[Structure, Callable[[int], int]]:
    """The positions, and which of them is the root of each topic."""
    brokers = setting.brokers if geography is None else len(geography.round_trips)
    structure: Structure
    if setting.what == "geops":
        grid = QuadGrid(_side(setting))
        return grid, lambda topic: grid.at(*_grid_cell(setting, topic))
    if setting.what in ("bayeux", "bayeux-location"):
        structure = tapestry(brokers, setting.seed, setting.base)
    elif setting.what == "bayeux-near":
        assert geography is not None
        apart = geography.round_trips
        structure = tapestry(
            brokers, setting.seed, setting.base, lambda one, other: float(apart[one, other])
        )
    elif setting.what == "hybrid":
        structure = Gateways(brokers, setting.per_gateway)
    else:
        structure = Chord(brokers)
    return structure, lambda topic: structure.root(f"topic/{topic}")


def _side(setting: DynatopsSetting) -> int:
    """Of the grid of GeoPS: a power of two, so that it has about as many cells as there are."""
    return 1 << round(math.log2(math.sqrt(setting.columns * setting.rows)))


def _grid_cell(setting: DynatopsSetting, cell: int) -> tuple[int, int]:
    side = _side(setting)
    x, y = cell % setting.columns, cell // setting.columns
    return x * side // setting.columns, y * side // setting.rows


def _geography(setting: DynatopsSetting) -> DynatopsGeography:
    """A broker in the middle of each cell, of the grid's in GeoPS; round trips go by distance."""
    columns, rows = setting.columns, setting.rows
    cells = np.arange(columns * rows)
    middles = np.stack([cells % columns + 0.5, cells // columns + 0.5], axis=1)
    places = middles
    if setting.what == "geops":
        grid = QuadGrid(_side(setting))
        places = np.empty((grid.size, 2))
        for x in range(grid.side):
            for y in range(grid.side):
                middle = (x + 0.5) * columns / grid.side, (y + 0.5) * rows / grid.side
                places[grid.at(x, y)] = middle
    west, south, east, north = setting.area
    # Ratio of a degree of longitude to one of latitude.
    width = round(math.cos(math.radians((south + north) / 2)), 2)
    scale = np.array([width * (east - west) / columns, (north - south) / rows])

    def between(some: Amounts, others: Amounts) -> Amounts:
        found: Amounts = np.sqrt((((some[:, None] - others[None]) * scale) ** 2).sum(axis=2))
        return found

    apart = between(places, places)
    mean = apart.sum() / (len(apart) * (len(apart) - 1))
    return DynatopsGeography(apart / mean, between(middles, places) / mean)


def _in_blocks(setting: DynatopsSetting) -> list[int]:
    """The cells such that those that follow each other are close: in strips of a block's height."""
    height = max(1, round(math.sqrt(setting.cluster)))
    cells = range(setting.columns * setting.rows)
    return sorted(
        cells,
        key=lambda cell: (
            cell // setting.columns // height,
            cell % setting.columns,
            cell // setting.columns,
        ),
    )
