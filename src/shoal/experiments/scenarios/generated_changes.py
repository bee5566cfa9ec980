"""Changes during a replay that a scenario has drawn: bursts, times of subscriptions, moves.

Pure functions of the scenario's tables and the seed; each table draws by itself, and each
subscription and client by its name, so that another of them changes none of its draws.

>>> spells = subscription_spells(Churn(subscriptions=1.0), ["s1"], end_us=200_000_000,
...                              least_us=10_000_000, seed=1)
>>> [(from_us // 1_000_000, (until_us or 0) // 1_000_000) for from_us, until_us in spells["s1"]]
[(0, 49), (60, 97), (115, 139), (160, 193)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from shoal.experiments.scenarios.changes import MOVE_US, Bursts, Churn, ClientMove, Mobility
from shoal.model import BrokerId, ClientId, SubscriptionId

# From when until when a subscription is there, in the replay's time; None: to the end.
Spell = tuple[int, int | None]
Times = npt.NDArray[np.int64]
# Cycles of coming and going before the replay, after which the start has no influence.
_EARLIER_CYCLES = 10


def burst_starts(bursts: Bursts, end_us: int, seed: int) -> list[int]:
    """When bursts begin, in the time of the run's replay, until `end_us`."""
    random = Random(f"bursts/{seed}")
    found: list[int] = []
    at_us = random.expovariate(1 / bursts.every_us)
    while at_us < end_us:
        found.append(round(at_us))
        at_us += bursts.length_us + random.expovariate(1 / bursts.every_us)
    return found


def burst_times(bursts: Bursts, replay_us: Times, seed: int) -> Times:
    """The times of events with bursts: a burst has its factor of the workload's time.

    `replay_us` are the events' times in the workload, sorted. Events of different times keep
    different times, in their order.
    """
    if bursts.factor <= 1 or not len(replay_us):
        return replay_us
    # Corners of the piecewise linear map from the workload's time to the run's.
    starts = np.array(burst_starts(bursts, int(replay_us[-1]) + 1, seed), dtype=np.float64)
    gained_us = bursts.length_us * (bursts.factor - 1)
    begins = starts + gained_us * np.arange(len(starts))
    given = np.stack([begins, begins + bursts.length_us * bursts.factor], axis=1).ravel()
    ours = np.stack([starts, starts + bursts.length_us], axis=1).ravel()
    last = float(replay_us[-1]) + 1
    given, ours = np.append(np.insert(given, 0, 0.0), 0.0), np.append(np.insert(ours, 0, 0.0), 0.0)
    given[-1] = max(given[-2], last) + 1
    ours[-1] = ours[-2] + given[-1] - given[-2]
    different, place = np.unique(replay_us, return_inverse=True)
    moved = np.floor(np.interp(different, given, ours)).astype(np.int64)
    number = np.arange(len(moved))
    # At least one microsecond apart.
    apart = np.maximum.accumulate(moved - number) + number
    found: Times = apart[place]
    return found


def moved_time(time_us: int | None, before: Times, after: Times) -> int | None:
    """A time of the workload among events whose times were moved: between the same events.

    >>> before, after = np.array([10, 20, 30]), np.array([10, 12, 14])
    >>> [moved_time(time_us, before, after) for time_us in (10, 11, 20, 31, None)]
    [10, 12, 12, 15, None]
    """
    if time_us is None or not len(before):
        return time_us
    place = int(np.searchsorted(before, time_us))
    return int(after[place]) if place < len(after) else int(after[-1]) + 1


def subscription_spells(
    churn: Churn,
    subscriptions: Iterable[SubscriptionId],
    *,
    end_us: int,
    least_us: int,
    seed: int,
) -> dict[SubscriptionId, list[Spell]]:
    """The times of the subscriptions that come and go, of a replay with its last event at `end_us`.

    A stay is exponentially distributed. So is the time away beyond `least_us`, which is less than
    `away_us`.
    """
    found = {}
    cycle_us = churn.stay_us + churn.away_us
    for name in subscriptions:
        random = Random(f"churn/{seed}/{name}")
        if random.random() >= churn.subscriptions:
            continue
        spells: list[Spell] = []
        at_us = -_EARLIER_CYCLES * cycle_us - random.randrange(cycle_us)
        while at_us <= end_us:
            until_us = at_us + round(random.expovariate(1 / churn.stay_us))
            if until_us > max(at_us, 0):
                spells.append((max(at_us, 0), until_us if until_us <= end_us else None))
            more_us = churn.away_us - least_us
            at_us = until_us + least_us + round(random.expovariate(1 / more_us) if more_us else 0)
        found[name] = spells
    return found


class BrokerTimes:
    """When each broker takes clients, in the run's time.

    joins    when each joining broker does
    leaves   when each leaving broker's clients go
    """

    def __init__(
        self,
        brokers: Iterable[BrokerId],
        joins: Mapping[BrokerId, int],
        leaves: Mapping[BrokerId, int],
    ) -> None:
        self._brokers = (*brokers, *joins)
        self._joins = joins
        self._leaves = leaves

    def present(self, at_us: int, until_us: int) -> list[BrokerId]:
        """The brokers that take clients in the whole of that time."""
        return [
            broker
            for broker in self._brokers
            if self._joins.get(broker, 0) <= at_us
            and until_us < self._leaves.get(broker, until_us + 1)
        ]


def client_moves(
    mobility: Mobility,
    subscribers: Iterable[ClientId],
    publishers: Iterable[ClientId],
    homes: Mapping[ClientId, BrokerId],
    brokers: BrokerTimes,
    nearest: Mapping[BrokerId, Sequence[BrokerId]],
    *,
    from_us: int,
    until_us: int,
    seed: int,
) -> list[ClientMove]:
    """The drawn moves in order of time, of a replay in this time of the run.

    `homes` has each client's first broker, and `nearest` each broker's others, the nearest first.
    The times between a client's moves are exponentially distributed beyond the time of a move.
    """
    found = []
    shares = dict.fromkeys(publishers, mobility.publishers)
    for client in subscribers:
        shares[client] = max(mobility.subscribers, shares.get(client, 0.0))
    for client, share in sorted(shares.items()):
        random = Random(f"mobility/{seed}/{client}")
        if random.random() >= share:
            continue
        broker, rest_us = homes[client], mobility.stay_us - MOVE_US
        # Its first stay began before the replay.
        at_us = from_us + random.randrange(mobility.stay_us)
        while at_us < until_us:
            there = {*brokers.present(at_us, at_us + MOVE_US)} - {broker}
            near = [each for each in nearest[broker] if each in there]
            if near:
                broker = random.choice(near[: mobility.reach or None])
                found.append(ClientMove(client=client, broker=broker, at_us=at_us))
            at_us += MOVE_US + round(random.expovariate(1 / rest_us) if rest_us else 0)
    return sorted(found, key=lambda move: (move.at_us, move.client))


def broker_at(moves: Sequence[ClientMove], home: BrokerId, at_us: int) -> BrokerId:
    """The broker of a client with these moves, in order, at a time of the run."""
    before = [move.broker for move in moves if move.at_us <= at_us]
    return before[-1] if before else home
