"""The study's slot model: assignments of users to brokers and their costs, hour by hour, without
messages.

The brokers' own functions place users and swap brokers. The trees determine the messages: a
broker's first subscription to a topic, or the last one's end, goes to the topic's root along the
overlay's routes, and down the tree again; a publication goes from its root to all subscribing
brokers.

Source: DYNATOPS, sections 4 to 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.experiments.dynatops.crowds.changes import CrowdChange, CrowdChanges, topic_rows
from shoal.experiments.dynatops.crowds.users import StudyCrowd
from shoal.experiments.dynatops.delivering import edges_and_waiting
from shoal.experiments.dynatops.paths import grid_cell, in_blocks, paths_of
from shoal.experiments.dynatops.placing import (
    ChoiceArrays,
    KnownArrays,
    UserArrays,
    change_all,
    count_all,
    place_all,
)
from shoal.experiments.dynatops.setting import PLACED, RECONFIGURED, DynatopsSetting
from shoal.overlays.dynatops.planning.advising.prices import change_messages, predicted_prices
from shoal.overlays.dynatops.planning.advising.swapping import SwapRules, after, plan_swaps
from shoal.overlays.dynatops.planning.bound import reconfiguration_cost
from shoal.overlays.dynatops.planning.costs import distances, moved, standing
from shoal.overlays.dynatops.planning.greedy import is_worth_a_look, propose
from shoal.overlays.dynatops.planning.placement import HashRing
from shoal.overlays.dynatops.planning.problem import (
    Amounts,
    Mapping,
    PlacementProblem,
    inverse,
)
from shoal.overlays.dynatops.structures.chord import Chord
from shoal.overlays.dynatops.structures.gateways import Gateways
from shoal.overlays.dynatops.structures.prefixes import QuadGrid
from shoal.overlays.tco.construction import TopicConnected

# beta of Algorithm 2.
WORTH = 0.1


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


class DynatopsModel:
    """One system with one crowd."""

    def __init__(self, setting: DynatopsSetting, crowd: StudyCrowd) -> None:
        self.setting = setting
        self._crowd = crowd
        self._geography, self._structure, self._roots, self._ups = paths_of(setting)
        brokers = self._structure.size
        topics = setting.topics if self._geography is None else setting.columns * setting.rows
        self._random = np.random.default_rng([setting.seed, 2])
        # Consistent hashing gives the first places: they are drawn, as Tapestry's identifiers are.
        self.mapping = list(range(brokers))
        if isinstance(self._structure, Chord | Gateways):
            self.mapping = self._random.permutation(brokers).tolist()
        self._trees = self._ups.of_roots([self._roots(topic) for topic in range(topics)])
        # (topics, positions) by a mapping: distances from the root.
        self._apart: tuple[Mapping, Amounts] | None = None
        self._rules = self._choice_rules()
        ring = HashRing(range(brokers)) if setting.what == "chash" else None
        first = [self._first_broker(user, ring) for user in range(len(crowd.wanted))]
        self._at = UserArrays(
            wanted=topic_rows(crowd.wanted),
            cells=np.array(crowd.cells, np.int32),
            broker_of=np.array(first, np.int64),
            # Costs are worked out topic by topic.
            counts=np.zeros((brokers, topics), np.int32, order="F"),
            loads=np.zeros(brokers, np.int64),
            legs=np.zeros(topics),
        )
        count_all(self._at, self._rules)
        self._overlay = (
            TopicConnected(self.users > 0, setting.goal) if setting.what == "tco" else None
        )
        self._known = self._refreshed()
        if setting.what in PLACED:
            # Users have come one by one: each where it was best then.
            self._settle()

    @property
    def users(self) -> npt.NDArray[np.int32]:
        """(brokers, topics): how many users of the broker want the topic."""
        return self._at.counts

    @property
    def loads(self) -> npt.NDArray[np.int64]:
        """(brokers): subscriptions of their users."""
        return self._at.loads

    @property
    def broker_of(self) -> npt.NDArray[np.int64]:
        """(users): the broker of each."""
        return self._at.broker_of

    # --- users --------------------------------------------------------------------------------

    def _first_broker(self, user: int, ring: HashRing[int] | None) -> int:
        """By hash, or by place where there are places; else, and in Bayeux, drawn, once."""
        if ring is not None:
            return ring.broker_of(f"user/{user}")
        # "Statically assigned" users are drawn in 6.3.1.
        if self._geography is None or self.setting.what == "bayeux":
            return int(self._random.integers(self._structure.size))
        return self._home_of(self._crowd.cells[user])

    def _home_of(self, cell: int) -> int:
        """The broker of a cell; of the grid's cell that it is in, in GeoPS."""
        if isinstance(self._structure, QuadGrid):
            return self._structure.at(*grid_cell(self.setting, cell))
        return cell

    def _choice_rules(self) -> ChoiceArrays:
        """The rules by which users have their brokers."""
        setting, brokers = self.setting, self._structure.size
        has_homes = self._geography is not None and setting.what not in ("bayeux", "chash")
        cells = range(setting.columns * setting.rows if has_homes else 0)
        # A cluster are brokers that see each other: neighbours, if they have places.
        order = np.arange(brokers)
        if self._geography is not None and setting.what in PLACED:
            order = np.array(in_blocks(setting))
        cluster_of = np.zeros(brokers, np.int64)
        cluster_of[order] = np.arange(brokers) // setting.cluster
        return ChoiceArrays(
            to_cells=np.zeros((0, 0)) if self._geography is None else self._geography.to_cells,
            home_of=np.array([self._home_of(cell) for cell in cells], np.int64),
            cluster_of=cluster_of if setting.what in PLACED else cluster_of[:0],
            clusters=order,
            size=setting.cluster,
            load_weight=setting.load_weight,
            # The asked broker knows its own current state: perhaps what the user itself wants
            # does not count there.
            asks=setting.own != "last",
            is_apart=setting.own == "others",
        )

    def _settle(self) -> None:
        """Let each user choose again until few change brokers: the beginning is not judged."""
        for _ in range(3):
            place_all(self._at, self._rules, self._known)
            self._known = self._refreshed()

    def _refreshed(self) -> KnownArrays:
        """The brokers' knowledge of their cluster now; it stays until the next refresh."""
        if self.setting.what not in PLACED:
            return KnownArrays(np.zeros((0, 0), np.bool_), self.loads[:0])
        return KnownArrays(self.users > 0, self.loads.copy())

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
                self._known = self._refreshed()
            yield slot

    def _change(self, changes: Sequence[CrowdChange] | CrowdChanges) -> tuple[int, int]:
        """Return the number of users that changed brokers, and of these those that had changed
        cells.
        """
        rows = changes if isinstance(changes, CrowdChanges) else CrowdChanges.of(changes)
        self._at = self._at.with_room(rows.wanted.shape[1])
        return change_all(self._at, self._rules, self._known, rows.users, rows.cells, rows.wanted)

    def _subscribing(self, before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_]) -> float:
        """Return the messages to the root by its routes, down the tree, and within the cluster."""
        told = 0.0
        if self.setting.what in PLACED:
            sizes = np.bincount(self._rules.cluster_of)
            told = float((sizes * (sizes - 1)).sum()) / self.setting.update_hours
        if self._overlay is not None:
            return told
        # Both lie topic by topic.
        topics, brokers = np.divmod(np.flatnonzero((before != after).T), len(before))
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
        start = self.mapping
        if self.setting.planner == "paper":
            proposal = propose(problem, start)
            if not proposal.steps:
                return 0, 0.0, 0.0
            found = proposal.mapping
        else:
            prices = predicted_prices(self._structure, problem, start, self._ups.depths)
            found = after(start, plan_swaps(problem, start, prices, SwapRules()))
        self.mapping = list(found)
        messages = change_messages(self._structure, start, found, self._ups.depths)
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
            reaching=float(rates @ self._at.legs),
        )
        if self._overlay is not None:
            wanted = self.users > 0
            hops = self._overlay.distances()
            return slot._replace(
                messages=float(rates @ np.maximum(wanted.sum(axis=0) - 1, 0)),
                waiting=float(rates @ (hops * self.users.T).sum(axis=1)),
            )
        trees = self._trees
        edges, waiting = edges_and_waiting(
            trees.of,
            trees.parents,
            np.array(inverse(self.mapping)),
            self.users,
            self._distances(rates),
        )
        return slot._replace(messages=float(rates @ edges), waiting=float(rates @ waiting))

    def _distances(self, rates: Amounts) -> Amounts:
        """(rows, positions): distance of each from its root, as brokers stand now."""
        if self._apart is None or self._apart[0] != self.mapping:
            brokers = np.array(inverse(self.mapping), np.int32)
            apart = distances(self._problem(rates, 1.0), brokers)
            self._apart = list(self.mapping), apart
        return self._apart[1]
