"""A simulated cluster under load: subscriptions stored, messages at a rate, response times.

The matchers' cost is that of a linear index, a time per subscription searched, or that of our own
engine, as measured; a run may be slower than the paper's servers by a factor, and then messages
come slower by the same. A message's response time runs from its arrival at a dispatcher until that
learns of the match, when the subscribers' dispatchers have it, too (IV-B); so messages without a
match have one as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.broker.effects import Effect, MatchingWork
from shoal.broker.messages import Message
from shoal.broker.strategy import BrokerContext
from shoal.experiments.bluedove.testbed.compiled.layout import matcher_of
from shoal.experiments.bluedove.testbed.compiled.plain import SimulatedCluster
from shoal.experiments.bluedove.testbed.compiled.running import CompiledRun
from shoal.experiments.bluedove.testbed.engine_costs import EngineCosts
from shoal.experiments.bluedove.testbed.linear_index import LinearIndex
from shoal.experiments.bluedove.testbed.stream import MessageStream, publisher_of
from shoal.experiments.bluedove.testbed.workload import (
    BlueDoveWorkload,
    Drawing,
    PointsWorkload,
    StudyTraffic,
    load_points,
)
from shoal.matching.segments import Dimension
from shoal.model import BrokerId, Subscription
from shoal.overlays.bluedove.cluster.forwarding import Policy
from shoal.overlays.bluedove.cluster.gossip import encoded_bytes
from shoal.overlays.bluedove.cluster.planner import Elasticity
from shoal.overlays.bluedove.messages import Digest, GossipNews, LoadReport, MatchAnswer, Pull
from shoal.overlays.bluedove.parameters import (
    BlueDoveParameters,
    DeliveryOrder,
    full_replication,
    peer_to_peer,
)
from shoal.overlays.bluedove.protocol import Bluedove
from shoal.overlays.bluedove.serving.matcher import Matcher
from shoal.overlays.bluedove.serving.queues import Index
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import World

SECOND_US = 1_000_000
# One way in a data centre, and to its clients.
LATENCY_US = 250
# A matcher of the paper takes about 0.7 ms for a message: 80 cores, 114,000 messages a second
# (IV-C, figure 5).  That is 100 ns for each subscription if there are 7,000 in the least of four
# sets, which takes a wider drawing than any here: ours have 3,400 (2,500 cut off, 530 at one
# matcher each), and so sustain more messages for the same time.  Ratios do not depend on it.
SEARCH_NS = 100
# Dispatching is almost two orders of magnitude faster (IV-B).
DISPATCH_NS = 1_000
SUBSCRIBERS = 10
# As in the paper.
STEP_S = 300
# Messages that keep a dispatcher's and a matcher's tables and loads up to date (IV-C).
OVERHEAD = (Digest, GossipNews, Pull, LoadReport)


class BlueDoveSetting(msgspec.Struct, frozen=True, kw_only=True):
    """Setting of a test bed.

    system          bluedove, or a baseline
    matchers        numbers of both, with `cores` each; `spares` wait to be added
    subscriptions   number of subscriptions that are stored before the first message
    stands_for      each of them stands for so many of the paper's
    costs           cost of a message: that of a linear index, or of our engine
    search_ns       of a linear index, to search one of the paper's subscriptions
    fixed           for a message, whatever is searched, in searches of one of them
    slowdown        servers are slower than the paper's by this factor
    dimensions      so many of the four attributes are searchable (IV-F)
    peers_by        the attribute, counted from 0, that divides peer-to-peer's subscriptions
    drawing         position of subscriptions' ranges (`workload.py`)
    points          a file of real data (`save_points`) instead of the evaluation's workload
    quantiles       segments by the quantiles of those data
    report_s        matchers report their loads so often
    gossip_s        they exchange tables so often
    step_s          the rate of figure 9 rises so often
    """

    system: str = "bluedove"
    matchers: int = 20
    dispatchers: int = 2
    cores: int = 4
    spares: int = 0
    subscriptions: int = 4_000
    stands_for: int = 1
    costs: Literal["linear", "engine"] = "linear"
    search_ns: int = SEARCH_NS
    fixed: int = 0
    slowdown: int = 100
    dimensions: int = 4
    policy: Policy = Policy.ADAPTIVE
    deviation: float = 250.0
    adverse: int = 0
    peers_by: int = 0
    drawing: Drawing = "moved"
    points: str = ""
    quantiles: bool = False
    report_s: int = 1
    gossip_s: int = 1
    step_s: int = STEP_S
    seed: int = 1


def parameters_of(
    setting: BlueDoveSetting, dimensions: tuple[Dimension, ...]
) -> BlueDoveParameters:
    """Return every node's parameters; the dispatchers are D1 and so on, the matchers M001."""
    report_us, gossip_us = setting.report_s * SECOND_US, setting.gossip_s * SECOND_US
    options = {
        "dispatchers": tuple(f"D{number + 1}" for number in range(setting.dispatchers)),
        "matchers": tuple(f"M{number + 1:03}" for number in range(setting.matchers)),
        "cores": setting.cores,
        "order": DeliveryOrder.FREE,
        "publications_per_job": 1,
        "gossip_interval_us": gossip_us,
        "load_interval_us": report_us,
        "rate_window_us": 5 * report_us,
        "failure_us": 10 * gossip_us,
        "elastic": setting.spares > 0,
        # Those that are there at first stay, as idle as they are before the first message.
        "elasticity": Elasticity(least=setting.matchers),
    }
    if setting.system == "peer-to-peer":
        return peer_to_peer(dimensions[setting.peers_by], **options)
    if setting.system == "full replication":
        return full_replication(msgspec.structs.replace(dimensions[0], boundaries=()), **options)
    searchable = dimensions[: setting.dimensions]
    return BlueDoveParameters(dimensions=searchable, policy=setting.policy, **options)  # type: ignore[arg-type]


def costs_of(setting: BlueDoveSetting) -> ServiceCosts:
    """Return the costs of a message at a dispatcher, and at a matcher."""
    processing_us = DISPATCH_NS * setting.slowdown // 1_000
    if setting.costs == "engine":
        return EngineCosts(
            processing_us=processing_us, stands_for=setting.stands_for, slowdown=setting.slowdown
        )
    search_ns = setting.search_ns * setting.stands_for * setting.slowdown
    fixed_ns = setting.fixed * setting.search_ns * setting.slowdown
    return LinearCosts(
        processing_us=processing_us, matching_per_subscription_ns=search_ns, fixed_ns=fixed_ns
    )


def traffic_of(setting: BlueDoveSetting, random: Random) -> StudyTraffic:
    """Filters and messages, as the setting has them."""
    if setting.points:
        points = load_points(Path(setting.points))
        return PointsWorkload(points, random, quantiles=setting.quantiles)
    return BlueDoveWorkload(
        random,
        deviation=setting.deviation,
        adverse=setting.adverse,
        drawing=setting.drawing,
        segments=setting.matchers,
    )


class LinearCosts(ServiceCosts, frozen=True, kw_only=True):
    """Costs of a matcher with a linear index: a time per subscription, and `fixed_ns` a message."""

    fixed_ns: int = 0

    def work_us(self, work: MatchingWork) -> int:
        return super().work_us(work) + work.publications * self.fixed_ns // 1_000


class Responses(NamedTuple):
    """When messages came, and how long each took; both µs, in the order they came.

    A message that never came through took infinitely long.
    """

    published_us: npt.NDArray[np.float64]
    took_us: npt.NDArray[np.float64]


class _Watched(Bluedove):
    """Counts the bytes that come for tables and loads, and notes when messages were matched."""

    def __init__(
        self,
        context: BrokerContext,
        parameters: BlueDoveParameters,
        make_index: Callable[[], Index],
    ) -> None:
        super().__init__(context, parameters, make_index)
        self.is_counting = False
        self.overhead_bytes = 0
        self.answered_us: dict[tuple[str, int], int] = {}

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        kind = type(message)
        if self.is_counting and kind in OVERHEAD:
            self.overhead_bytes += encoded_bytes(message)
        elif kind is MatchAnswer and self.dispatcher is not None:
            for message_id in message.message_ids:  # type: ignore[attr-defined]
                publication = self.dispatcher.outbox.publication(message_id)
                if publication is not None:
                    self.answered_us.setdefault(publication.key, now_us)
        super().receive(neighbour, message, now_us, out)


class LoadedCluster:
    """One cluster; time goes on from one measurement to the next.

    Its messages are handled by compiled code while nothing else changes (`compiled/`), with the
    same results; `is_whole`: by its machines, all the time.
    """

    def __init__(self, setting: BlueDoveSetting, *, is_whole: bool = False) -> None:
        self.setting = setting
        # Subscriptions are stored by the machines.
        self._is_whole = True
        self._random = Random(setting.seed)
        self.traffic = traffic_of(setting, self._random)
        self.parameters = parameters_of(setting, self.traffic.dimensions(setting.matchers))
        self.costs = costs_of(setting)
        self.strategies: dict[BrokerId, _Watched] = {}
        spares = [f"S{number + 1}" for number in range(setting.spares)]
        self.world = World(
            [],
            self._system,
            ConstantUnderlay(LATENCY_US, local_latency_us=LATENCY_US),
            brokers=[*self.parameters.dispatchers, *self.parameters.matchers, *spares],
            seed=setting.seed,
            costs=self.costs,
        )
        self._stored = 0
        homes = self.parameters.dispatchers
        self._stream = MessageStream(self.world, homes, self.traffic, LATENCY_US)
        parts = SimulatedCluster(
            self.world,
            self.strategies,
            homes,
            self.costs,
            self._stream,
            self.traffic.attributes,
            LATENCY_US,
            self._note_answers,
        )
        self._compiled = CompiledRun(parts)
        self._add_clients()
        self.store(setting.subscriptions)
        self._is_whole = is_whole

    def _system(self, context: BrokerContext) -> _Watched:
        made = _Watched(context, self.parameters, lambda: LinearIndex(self.traffic.attributes))
        self.strategies[context.broker] = made
        return made

    @property
    def now_us(self) -> int:
        return self.world.queue.now_us

    # --- subscriptions ------------------------------------------------------------------------

    def _add_clients(self) -> None:
        homes = self.parameters.dispatchers
        for number in range(SUBSCRIBERS):
            self.world.add_subscriber(f"C{number}", "clients")
        for home in homes:
            self.world.add_publisher(publisher_of(home), home, "clients")
        self._run_until(4 * SECOND_US, self._knows_all_matchers)

    def _knows_all_matchers(self) -> bool:
        """Return whether every dispatcher knows that every matcher is there."""
        count = len(self.parameters.matchers)
        tables = (self.strategies[home].node.table for home in self.parameters.dispatchers)
        return all(len(table.serving()) >= count for table in tables)

    def _run_until(
        self, at_us: int, is_reached: Callable[[], bool], latest_us: float = math.inf
    ) -> int:
        """Run to a time, and on by seconds until something is so, or it is late; the time then.

        By a clock of its own: where all brokers are busy, nothing may happen for seconds.
        """
        self._run(at_us)
        while at_us < latest_us and not is_reached():
            at_us += SECOND_US
            self._run(at_us)
        return at_us

    def _run(self, until_us: int) -> None:
        if self._is_whole:
            self._compiled.run_whole(until_us)
        else:
            self._compiled.run(until_us)

    def store(self, count: int) -> None:
        """Have so many more subscriptions, all stored when this returns."""
        homes, world = self.parameters.dispatchers, self.world
        # Every matcher may answer; dispatchers are to be half idle meanwhile.
        answers = -(-len(self.parameters.matchers) // len(homes))
        spacing_us = 2 * answers * DISPATCH_NS * self.setting.slowdown // 1_000
        is_whole, self._is_whole = self._is_whole, True
        self._compiled.run_whole()
        at_us = self.now_us
        for _ in range(count):
            number = self._stored = self._stored + 1
            subscription = Subscription(
                id=f"s{number}", client=f"C{number % SUBSCRIBERS}", filter=self.traffic.filter()
            )
            at_us += spacing_us
            world.subscribe(at_us, homes[number % len(homes)], subscription)
        at_us = self._run_until(at_us + SECOND_US, self._is_all_stored)
        # Loads are reported before the first message.
        self._run(at_us + 2 * self.setting.report_s * SECOND_US)
        self._is_whole = is_whole

    def _is_all_stored(self) -> bool:
        dispatchers = (strategy.dispatcher for strategy in self.strategies.values())
        return not any(one.home.unstored for one in dispatchers if one is not None)

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code has the messages now."""
        return self._compiled.is_compiled

    def give_to_machines(self) -> None:
        """Move all state to the machines; compiled code has the messages again a little later."""
        self._compiled.run_whole()

    # --- messages -----------------------------------------------------------------------------

    def publish(self, rate_per_s: float, duration_s: float) -> None:
        """Let messages come at an even rate, the next from the next dispatcher."""
        from_us = self.now_us
        self._stream.begin(from_us, rate_per_s, round(rate_per_s * duration_s))
        self._run(from_us + round(duration_s * 1e6))

    def drain(self, most_s: float = 600.0) -> None:
        """Let time pass until every message has its response, or for so long."""
        latest_us = self.now_us + most_s * 1e6
        self._run_until(self.now_us, lambda: not self.backlog, latest_us)

    @property
    def backlog(self) -> int:
        """Messages that dispatchers keep."""
        return self._compiled.pending + sum(
            len(strategy.dispatcher.outbox)
            for strategy in self.strategies.values()
            if strategy.dispatcher is not None
        )

    def responses(self) -> Responses:
        """Return the responses since the last call, and drop them."""
        self._note_answers()
        published_us, took_us = self._stream.take()
        self._compiled.responses_taken(len(published_us))
        for strategy in self.strategies.values():
            strategy.answered_us.clear()
        self.world.trace.deliveries.clear()
        return Responses(published_us, took_us)

    def _note_answers(self) -> None:
        self._stream.note(strategy.answered_us for strategy in self.strategies.values())

    def matcher(self, name: BrokerId) -> Matcher:
        """The matcher of a broker that has one."""
        return matcher_of(self.strategies[name])

    # --- load ---------------------------------------------------------------------------------

    def work_us(self) -> dict[BrokerId, int]:
        """Return how long each matcher's cores have matched so far, together."""
        self._compiled.write_figures()
        return {
            name: strategy.matcher.work_us
            for name, strategy in self.strategies.items()
            if strategy.matcher is not None
        }

    def count_overhead(self) -> None:
        """Count messages about tables and loads from now on."""
        for strategy in self.strategies.values():
            strategy.is_counting = True

    def overhead_bytes(self) -> dict[BrokerId, int]:
        """Return the bytes that each node has received for tables and loads since counting
        began.
        """
        return {name: strategy.overhead_bytes for name, strategy in self.strategies.items()}
