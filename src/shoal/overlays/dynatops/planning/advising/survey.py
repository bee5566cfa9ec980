"""An operator's input to a plan: brokers, users, and constraints.

Source: ours; DYNATOPS has no budgets, pins, regions or capacities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from shoal.model import BrokerId

Pair = tuple[BrokerId, BrokerId]


class SurveyedBroker(msgspec.Struct, frozen=True):
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


class SurveyedClient(msgspec.Struct, frozen=True):
    """A user: its broker, and its topics."""

    broker: BrokerId
    topics: Sequence[str]


class UserSurvey(msgspec.Struct, frozen=True):
    """The network to be planned.

    users        by name
    rates        publications a second of each topic
    round_trips  in ms between any two brokers, both directions; none: all brokers are as far apart
    system       the system with the structure that they stand on
    per_gateway  this many brokers, in the order of positions, are a cluster with one gateway
    """

    brokers: Sequence[SurveyedBroker]
    users: Mapping[str, SurveyedClient]
    rates: Mapping[str, float]
    round_trips: Mapping[Pair, float] = {}
    system: str = "dynatops"
    per_gateway: int = 1


class SurveyedInterests(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's constraints on a plan.

    hours         the period in which it must pay
    most_swaps    the most swaps of brokers; none: any number
    most_moves    the most moves of users
    least_gain    the least saving of each beyond its price, in messages over the period
    pinned        brokers that stay at their positions
    pinned_users  users that stay at their brokers
    load_weight   w_l of section 4
    delay_weight  w_d of Eq. 5
    price         of swaps: messages as they are predicted, or the paper's bound, Eq. 7
    gateways      also compute figures with clusters of this size; 0: not
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
