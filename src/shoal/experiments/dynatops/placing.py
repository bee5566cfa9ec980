"""Users at brokers in the slot model, compiled: changes, and the choice of a broker for each.

`best_of_cluster` is the brokers' own `best_broker` over arrays:

>>> users = np.array([[1, 1, 0], [0, 0, 1]], np.int32)
>>> loads = np.array([2, 1])
>>> known = KnownArrays(users > 0, loads)
>>> cluster = np.array([0, 1])
>>> best_of_cluster(np.array([0, 2]), cluster, known, users, loads, 1, 1, 1, 1.0)
1
>>> best_of_cluster(np.array([0, 1]), cluster, known, users, loads, 1, 1, 1, 0.0)
0

Source: DYNATOPS, section 4 (Algorithm 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.experiments.dynatops.crowds.changes import NO_TOPIC
from shoal.matching.compiled.kernels.compiler import kernel

Counts = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.float64]

_END = NO_TOPIC


class UserArrays(NamedTuple):
    """Users, and what they come to at their brokers.

    wanted     (users, most of any) topics of each, `NO_TOPIC` behind the last
    cells      (users) where each is
    broker_of  (users) the broker of each
    counts     (brokers, topics) how many users of the broker want the topic
    loads      (brokers) their subscriptions
    legs       (topics) round trips between all subscribed users and their brokers, added up
    """

    wanted: Counts
    cells: Counts
    broker_of: Numbers
    counts: Counts
    loads: Numbers
    legs: Amounts

    def with_room(self, most: int) -> UserArrays:
        """The same with room for so many topics of a user."""
        more = most - self.wanted.shape[1]
        if more <= 0:
            return self
        return self._replace(
            wanted=np.pad(self.wanted, ((0, 0), (0, more)), constant_values=NO_TOPIC)
        )


class KnownArrays(NamedTuple):
    """Brokers' topics (brokers, topics) and loads (brokers) as others know them."""

    is_served: Flags
    loads: Numbers


class ChoiceArrays(NamedTuple):
    """The rules by which a user has a broker.

    to_cells     (cells, brokers) round trips; empty without places
    home_of      (cells) the broker of a user there; empty: a user's home is its present broker
    cluster_of   (brokers) the cluster of each; empty: users are at home
    clusters     (brokers) those of the first cluster, then of the next
    size         brokers of a cluster; the last one may have fewer
    load_weight  w_l
    asks         whether the asked broker knows its own state: the user's broker, or that of its
                 home, if the present one is in another cluster
    is_apart     whether what the user itself wants does not count there
    """

    to_cells: Amounts
    home_of: Numbers
    cluster_of: Numbers
    clusters: Numbers
    size: int
    load_weight: float
    asks: bool
    is_apart: bool


@kernel
def count_all(at: UserArrays, rules: ChoiceArrays) -> None:
    """Count all users where they are."""
    for user in range(len(at.broker_of)):
        for topic in at.wanted[user]:
            if topic != _END:
                _count(at, rules, at.broker_of[user], topic, 1, at.cells[user])


@kernel
def place_all(at: UserArrays, rules: ChoiceArrays, known: KnownArrays) -> None:
    """Let each user choose its broker again."""
    for user in range(len(at.broker_of)):
        _place(at, rules, known, user, at.cells[user])


@kernel
def change_all(
    at: UserArrays,
    rules: ChoiceArrays,
    known: KnownArrays,
    users: Counts,
    cells: Counts,
    wanted: Counts,
) -> tuple[int, int]:
    """Users want other topics, or come to other cells, one after the other.

    Returns the number of users that changed brokers, and of these those that had changed cells.
    """
    handovers = transfers = 0
    for number in range(len(users)):
        user, cell, new = users[number], cells[number], wanted[number]
        broker, before, old = at.broker_of[user], at.cells[user], at.wanted[user]
        for topic in old:
            if topic != _END and not _has(new, topic):
                _count(at, rules, broker, topic, -1, before)
        farther = _leg(rules, cell, broker) - _leg(rules, before, broker)
        for topic in new:
            if topic == _END:
                continue
            if not _has(old, topic):
                _count(at, rules, broker, topic, 1, cell)
            elif cell != before:
                at.legs[topic] += farther
        old[: len(new)] = new
        old[len(new) :] = _END
        if _place(at, rules, known, user, cell):
            handovers += 1
            transfers += cell != before
        at.cells[user] = cell
    return handovers, transfers


@kernel
def _has(topics: Counts, topic: int) -> bool:
    found = False
    for each in topics:
        found = found or each == topic
    return found


@kernel
def _leg(rules: ChoiceArrays, cell: int, broker: int) -> float:
    return rules.to_cells[cell, broker] if rules.to_cells.size else 0.0


@kernel
def _count(
    at: UserArrays, rules: ChoiceArrays, broker: int, topic: int, step: int, cell: int
) -> None:
    """A user in a cell wants a topic more at a broker, or less."""
    at.counts[broker, topic] += step
    at.loads[broker] += step
    at.legs[topic] += step * _leg(rules, cell, broker)


@kernel
def _place(at: UserArrays, rules: ChoiceArrays, known: KnownArrays, user: int, cell: int) -> bool:
    """Move a user to where it should be; whether it moved."""
    present = at.broker_of[user]
    home = rules.home_of[cell] if len(rules.home_of) else present
    best = home
    wanted = at.wanted[user]
    count = len(wanted)
    while count and wanted[count - 1] == _END:
        count -= 1
    if len(rules.cluster_of):
        number = rules.cluster_of[home]
        asked, least = -1, 1
        if rules.asks:
            asked = present if rules.cluster_of[present] == number else home
            if rules.is_apart and asked == present:
                least = 2
        begin = number * rules.size
        best = best_of_cluster(
            wanted[:count],
            rules.clusters[begin : begin + rules.size],
            known,
            at.counts,
            at.loads,
            present,
            asked,
            least,
            rules.load_weight,
        )
    if best == present:
        return False
    for topic in wanted[:count]:
        _count(at, rules, present, topic, -1, cell)
        _count(at, rules, best, topic, 1, cell)
    at.broker_of[user] = best
    return True


@kernel
def best_of_cluster(
    wanted: Counts | Numbers,
    cluster: Numbers,
    known: KnownArrays,
    counts: Counts,
    loads: Numbers,
    present: int,
    asked: int,
    least: int,
    load_weight: float,
) -> int:
    """The broker of a cluster with the highest utility for a user (`placement.best_broker`).

    counts, loads  those of the moment
    asked   this broker knows what it serves at this moment; -1 for none
    least   so many users must want a topic there; with 2, the user itself does not count
    """
    now = 0
    if asked >= 0:
        now = loads[asked] - (len(wanted) if least > 1 else 0)
    total = 0
    for broker in cluster:
        total += now if broker == asked else known.loads[broker]
    if total == 0:
        total = 1
    best, highest, at_present, is_visible = -1, 0.0, 0.0, False
    for broker in cluster:
        count = 0
        for topic in wanted:
            if broker == asked:
                count += counts[broker, topic] >= least
            else:
                count += known.is_served[broker, topic]
        similarity = count / len(wanted) if len(wanted) else 1.0
        utility = (
            similarity - load_weight * (now if broker == asked else known.loads[broker]) / total
        )
        if best < 0 or utility > highest or (utility == highest and broker < best):
            best, highest = broker, utility
        if broker == present:
            at_present, is_visible = utility, True
    if is_visible and highest - at_present <= 0:
        return present
    return best
