"""The tables of a scenario about changes during the replay: of brokers, clients, subscriptions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from shoal.clients.subscriber import SPREAD_US
from shoal.experiments.scenarios.sections import NotNegative, Positive, ScenarioSection, Share
from shoal.model import BrokerId, ClientId
from shoal.simulation.refuge import PAUSE_US

# A move, and the time in which the client forgets its duplicates, is over after this.
MOVE_US = 2 * SPREAD_US
# A publisher that moves holds its publications back for less than this.
HELD_BACK_US = 3 * PAUSE_US + 1_000_000


class Join(ScenarioSection, frozen=True, kw_only=True):
    """One broker that joins the running network.

    broker   its name, which no broker of the workload has
    links    brokers that it links to; a system with links of its own learns the network from them
    beside   the broker of the workload at whose place it stands; without, the first of `links`
    at_us    at this time of the run
    """

    broker: Annotated[BrokerId, msgspec.Meta(min_length=1)]
    links: Annotated[tuple[BrokerId, ...], msgspec.Meta(min_length=1)]
    at_us: NotNegative
    beside: BrokerId = ""


class LeavingBroker(ScenarioSection, frozen=True, kw_only=True):
    """One broker that leaves the running network.

    broker   the broker
    at_us    from this time of the run on its clients move, then it leaves
    """

    broker: BrokerId
    at_us: NotNegative


class Membership(ScenarioSection, frozen=True, kw_only=True):
    """Brokers that join and leave, by the protocol of live brokers. No delivery is lost.

    The clients of a leaving broker move to the nearest broker that stays: subscribers without a
    loss, which takes 10 s, publishers with a pause of 15 s, in which they hold publications back.
    Then the broker leaves. Example: `joins = [{ broker = "N1", links = ["B2"], at_us = 20_000_000
    }]`. A joined broker has no clients until some move to it, from a leaving broker or by
    `[mobility]`.

    joins    brokers that join
    leaves   brokers that leave
    """

    joins: tuple[Join, ...] = ()
    leaves: tuple[LeavingBroker, ...] = ()


class ClientMove(ScenarioSection, frozen=True, kw_only=True):
    """One client moves to another broker, with all its subscriptions and advertisements.

    client   a publisher or subscriber of the workload
    broker   the broker that it moves to, and stands beside from then on
    at_us    at this time of the run
    """

    client: ClientId
    broker: BrokerId
    at_us: NotNegative


class Mobility(ScenarioSection, frozen=True, kw_only=True):
    """Clients that move from broker to broker during the replay. No delivery is lost.

    A subscriber subscribes at the new broker, and unsubscribes at the old one 10 s later; each
    publication counts once. A publisher holds its publications back for 15 s. Clients that move
    are drawn by the seed, and each broker is drawn among those present. Example: with
    `subscribers = 0.2` and `stay_us = 60_000_000` a fifth of the subscribers move once a minute on
    average.

    subscribers   share of the clients with subscriptions that move
    publishers    share of the publishers that move
    stay_us       mean time between two moves of a client, at least 20 s: a move takes that long
    reach         a client moves to one of so many nearest brokers; 0: to any
    moves         moves of single clients
    """

    subscribers: Share = 0.0
    publishers: Share = 0.0
    stay_us: Annotated[int, msgspec.Meta(ge=MOVE_US)] = 60_000_000
    reach: NotNegative = 0
    moves: tuple[ClientMove, ...] = ()


class Churn(ScenarioSection, frozen=True, kw_only=True):
    """Subscriptions that come and go during the replay, drawn by the seed.

    Only publications in the time of a subscription are expected. A subscription is made
    `run.settle_us` ahead of its time and withdrawn as long after it, or 16 s later still where
    publishers move, so that each publication is clearly in or out; a subscription is therefore away
    for longer than both times together. Example:
    `subscriptions = 0.5`, `stay_us = 60_000_000` and `away_us = 20_000_000`: at any time an eighth
    of the subscriptions is away. Subscriptions to which the workload gives a time keep it.

    subscriptions   share of the subscriptions that come and go
    stay_us         mean time for which one stays
    away_us         mean time for which one is away
    """

    subscriptions: Share = 0.0
    stay_us: Positive = 60_000_000
    away_us: Positive = 30_000_000


class Bursts(ScenarioSection, frozen=True, kw_only=True):
    """Times in which publications come faster, drawn by the seed.

    The publications are the workload's, in its order. Example: with `factor = 5`, `every_us =
    60_000_000` and `length_us = 2_000_000` the publications of 10 s come in 2 s, about once a
    minute; the replay ends earlier.

    factor      publications in a burst come so many times as fast; 1: no bursts
    every_us    mean time from the end of a burst to the next one
    length_us   of a burst
    """

    factor: Annotated[float, msgspec.Meta(ge=1, le=1_000_000)] = 1.0
    every_us: Positive = 60_000_000
    length_us: Positive = 1_000_000
