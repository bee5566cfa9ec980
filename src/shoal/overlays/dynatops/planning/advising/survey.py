"""What an operator of topic trees says: which brokers and users there are, and what it wishes.

Source: ours; DYNATOPS knows no budgets, pins, regions or capacities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from shoal.model import BrokerId

Pair = tuple[BrokerId, BrokerId]


class Broker(msgspec.Struct, frozen=True):
    """One broker.

    position  where it stands; none: all stand in the order of the hashes of their names
    region    it swaps with those of the same, and its users stay there
    room      how many subscriptions of users it can hold
    capacity  how many messages of publications a second it can handle
    """

    name: BrokerId
    position: int | None = None
    region: str = ""
    room: float = math.inf
    capacity: float = math.inf


class Client(msgspec.Struct, frozen=True):
    """A user: where it is, and what it wants."""

    broker: BrokerId
    topics: Sequence[str]


class Survey(msgspec.Struct, frozen=True):
    """What is known.

    users        by name
    rates        publications a second of each topic
    round_trips  in ms between any two brokers, either way round; none: all brokers are as far apart
    system       whose structure they stand on
    per_gateway  so many brokers, in the order of positions, are a cluster with one gateway
    """

    brokers: Sequence[Broker]
    users: Mapping[str, Client]
    rates: Mapping[str, float]
    round_trips: Mapping[Pair, float] = {}
    system: str = "dynatops"
    per_gateway: int = 1


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator wants of a plan.

    hours         the period in which it must pay
    most_swaps    so many swaps of brokers at most; none: any number
    most_moves    so many moves of users
    least_gain    what each must save beyond its price, in messages over the period
    pinned        brokers that stay where they stand
    pinned_users  users that stay where they are
    load_weight   w_l of section 4
    delay_weight  w_d of Eq. 5
    price         of swaps: messages as they are predicted, or the paper's bound, Eq. 7
    gateways      also say what clusters of so many brokers would come to; 0: not
    """

    hours: float = 10.0
    most_swaps: int | None = None
    most_moves: int | None = None
    least_gain: float = 0.0
    pinned: frozenset[BrokerId] = frozenset()
    pinned_users: frozenset[str] = frozenset()
    load_weight: float = 1.0
    delay_weight: float = 1.0
    price: Literal["predicted", "bound"] = "predicted"
    gateways: int = 0
