"""From a scenario's tables about changes to what happens in its run, and when.

The tables `[membership]`, `[mobility]`, `[churn]` and `[bursts]` are checked here against the
workload and the links; `generated_changes.py` draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from shoal.experiments.run_files import BrokerRow, SubscriptionRow, WorkloadFiles
from shoal.experiments.scenarios.changes import Bursts, ClientMove, Join
from shoal.experiments.scenarios.generated_changes import (
    BrokerTimes,
    Spell,
    broker_at,
    burst_times,
    client_moves,
    moved_time,
    subscription_spells,
)
from shoal.experiments.scenarios.scenario import Scenario
from shoal.experiments.scenarios.sections import PAGE, ScenarioError
from shoal.model import BrokerId, ClientId
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.shapes import Link, TopologyError
from shoal.simulation.links.underlay import Underlay

# From a broker's start until clients come to it.
JOINING_US = 5_000_000


def with_bursts(workload: WorkloadFiles, bursts: Bursts, seed: int) -> WorkloadFiles:
    """The workload with bursts; subscriptions come and go between the same events as before."""
    before = workload.events.times_us
    after = burst_times(bursts, before, seed)
    if after is before:
        return workload
    different, first = np.unique(before, return_index=True)
    moved = after[first]
    subscriptions = [
        msgspec.structs.replace(
            row,
            from_us=moved_time(row.from_us, different, moved),
            to_us=moved_time(row.to_us, different, moved),
        )
        for row in workload.subscriptions
    ]
    return workload._replace(subscriptions=subscriptions, events=workload.events.at_times(after))


class PlannedChanges:
    """Changes of one run; ScenarioError names a key that cannot be.

    links     of the brokers from the start
    """

    def __init__(
        self, scenario: Scenario, workload: WorkloadFiles, links: Sequence[Link], underlay: Underlay
    ) -> None:
        self._scenario = scenario
        self._workload = workload
        self._links = links
        self._underlay = underlay
        self._rows = {row.broker: row for row in workload.brokers}
        system = SYSTEMS[scenario.system]
        self._parameters = system.complete(scenario.parameters, list(self._rows))
        self._homes: dict[ClientId, BrokerId] = {
            **{row.client: row.broker for row in reversed(workload.subscriptions)},
            **{row.publisher: row.broker for row in workload.publishers},
        }
        self._keep_moves(scenario.mobility.moves)
        self.spells = subscription_spells(
            scenario.churn,
            [
                row.subscription
                for row in workload.subscriptions
                if row.from_us is None and row.to_us is None
            ],
            end_us=workload.events.last_replay_us,
            least_us=scenario.run.settle_us + scenario.withdrawal_us + 1,
            seed=scenario.seed,
        )
        self._check_joins()
        self._check_leaves()
        members = scenario.membership
        self._times = BrokerTimes(
            filter(self.takes_clients, self._rows),
            {
                each.broker: each.at_us + JOINING_US
                for each in members.joins
                if self.takes_clients(each.broker)
            },
            {each.broker: each.at_us for each in members.leaves},
        )
        self._check_moves()

    def takes_clients(self, broker: BrokerId) -> bool:
        """Whether clients connect to a broker."""
        return SYSTEMS[self._scenario.system].takes_clients(self._parameters, broker)

    def place_of(self, join: Join) -> BrokerId:
        """The broker at whose place a joining one stands."""
        beside = join.beside or join.links[0]
        for other in self._scenario.membership.joins:
            if other.broker == beside:
                return self.place_of(other)
        return beside

    @property
    def broker_rows(self) -> list[BrokerRow]:
        """The brokers that join, with their places."""
        return [
            msgspec.structs.replace(self._rows[self.place_of(each)], broker=each.broker, name=None)
            for each in self._scenario.membership.joins
        ]

    @property
    def joined_links(self) -> list[Link]:
        """The links with which brokers join, unless the system has links of its own."""
        system, joins = SYSTEMS[self._scenario.system], self._scenario.membership.joins
        if system.shape.opens_links:
            return []
        return [(link, each.broker) for each in joins for link in each.links]

    def spells_of(self, row: SubscriptionRow) -> Sequence[Spell]:
        """When a subscription is there, in the replay's time."""
        return self.spells.get(row.subscription, ((row.from_us or 0, row.to_us),))

    def draw_moves(self, start_us: int, end_us: int) -> None:
        """Draw the moves of a replay between these times of the run."""
        mobility, workload = self._scenario.mobility, self._workload
        drawn = client_moves(
            mobility,
            {row.client for row in workload.subscriptions},
            {row.publisher for row in workload.publishers},
            self._homes,
            self._times,
            self._nearest() if mobility.subscribers or mobility.publishers else {},
            from_us=start_us,
            until_us=end_us,
            seed=self._scenario.seed,
        )
        self._keep_moves([*mobility.moves, *drawn])

    def _keep_moves(self, moves: Iterable[ClientMove]) -> None:
        self.moves = sorted(moves, key=lambda move: (move.at_us, move.client))
        self._moves_of: dict[ClientId, list[ClientMove]] = {}
        for move in self.moves:
            self._moves_of.setdefault(move.client, []).append(move)

    def broker_of(self, client: ClientId, home: BrokerId, at_us: int) -> BrokerId:
        """The broker at which a client subscribes at a time of the run; before `draw_moves` by the
        listed moves.
        """
        return broker_at(self._moves_of.get(client, ()), home, at_us)

    def _nearest(self) -> Mapping[BrokerId, list[BrokerId]]:
        """Each broker's others, the nearest first."""
        places = {name: name for name in self._rows}
        places |= {each.broker: self.place_of(each) for each in self._scenario.membership.joins}
        found = {}
        for broker, here in places.items():
            others = [
                (self._underlay.latency_us(here, there), other)
                for other, there in places.items()
                if other != broker
            ]
            found[broker] = [other for _, other in sorted(others)]
        return found

    # --- checks -------------------------------------------------------------------------------

    def _check_joins(self) -> None:
        scenario, shape = self._scenario, SYSTEMS[self._scenario.system].shape
        since_us: dict[BrokerId, int] = dict.fromkeys(self._rows, 0)
        leaves = {each.broker: each.at_us for each in scenario.membership.leaves}
        links = list(self._links)
        for number, join in enumerate(scenario.membership.joins):
            key = f"membership.joins[{number}]"
            if join.broker in since_us:
                _refuse(f"{key}.broker: {join.broker!r} is there already; take another name")
            for of, names in (("links", join.links), ("beside", filter(None, (join.beside,)))):
                for name in names:
                    if name not in since_us:
                        _refuse(
                            f"{key}.{of}: no broker {name!r} in the workload, and no join of it "
                            f"before this one"
                        )
            for link in join.links:
                if since_us[link] > join.at_us or leaves.get(link, join.at_us + 1) <= join.at_us:
                    _refuse(f"{key}.links: {link!r} is not there at {join.at_us} us")
            since_us[join.broker] = join.at_us
            links += [(link, join.broker) for link in join.links]
            try:
                if not shape.opens_links:
                    shape.check(list(since_us), links)
            except TopologyError as error:
                _refuse(f"{key}.links: {error}")

    def _check_leaves(self) -> None:
        members = self._scenario.membership
        joined = {each.broker: each.at_us for each in members.joins}
        names = [each.broker for each in members.leaves]
        staying = {*self._rows, *joined} - set(names)
        for number, leave in enumerate(members.leaves):
            key = f"membership.leaves[{number}]"
            if leave.broker not in self._rows and leave.broker not in joined:
                _refuse(f"{key}.broker: no broker {leave.broker!r}")
            if leave.broker in names[:number]:
                _refuse(f"{key}.broker: {leave.broker!r} leaves twice")
            least_us = joined[leave.broker] + JOINING_US if leave.broker in joined else 0
            if leave.at_us < least_us:
                _refuse(
                    f"{key}.at_us: {leave.broker!r} leaves within 5 s of its join; take {least_us} "
                    f"or more"
                )
        if names and not any(map(self.takes_clients, staying)):
            _refuse("membership.leaves: no broker for clients stays; leave one out")

    def _check_moves(self) -> None:
        clients = {*self._homes}
        joined = {each.broker for each in self._scenario.membership.joins}
        for number, move in enumerate(self._scenario.mobility.moves):
            key = f"mobility.moves[{number}]"
            if move.client not in clients:
                _refuse(f"{key}.client: the workload has no client {move.client!r}")
            if move.broker not in self._rows and move.broker not in joined:
                _refuse(f"{key}.broker: no broker {move.broker!r}")
            if not self.takes_clients(move.broker):
                _refuse(f"{key}.broker: {move.broker!r} takes no clients")
            if move.broker not in self._times.present(move.at_us, move.at_us):
                _refuse(
                    f"{key}.at_us: {move.broker!r} takes no clients at {move.at_us} us: it has not "
                    f"joined 5 s before, or leaves"
                )


def _refuse(problem: str) -> None:
    raise ScenarioError(f"{problem} ({PAGE})")
