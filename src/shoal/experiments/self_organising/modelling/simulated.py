"""The same workload through the machines themselves, in the simulator: the judge of the fast model.

Links are so fast that a broadcast and all that comes of it take no tick. Every message that a
broker takes in is counted with its cost at that moment.

Source: Cost and Interest, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shoal.broker import effects
from shoal.broker.effects import Effect
from shoal.broker.messages import Message, PublicationBatch, Publish
from shoal.broker.strategy import BrokerContext
from shoal.experiments.self_organising.modelling.model import KINDS, LinkSwap
from shoal.experiments.self_organising.modelling.setting import (
    TICK_US,
    WINDOW,
    SelfOrganisingSetting,
)
from shoal.experiments.self_organising.modelling.workload import ModelLinkCosts, ModelWorkload
from shoal.language import parse
from shoal.model import (
    Advertisement,
    BrokerId,
    ClientId,
    Publication,
    Subscription,
)
from shoal.overlays.self_organising.exchanges import LinkExchange
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    Drained,
    ExchangeDecision,
    Halt,
    Halted,
)
from shoal.overlays.self_organising.messages import Broadcast, ExchangeProposal
from shoal.overlays.self_organising.parameters import (
    Heuristic,
    InterestMeasure,
    Mode,
    SelfOrganisingParameters,
    ThreeWay,
)
from shoal.overlays.self_organising.protocol import SelfOrganising
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.world import World

LATENCY_US = 1


class Simulated(NamedTuple):
    """Results of a run, as far as the model has the same; `broadcasts_at` is for the model.

    broadcasts_at   when each broker broadcast, in ticks
    """

    costs: dict[str, list[float]]
    swaps: list[LinkSwap]
    links: list[tuple[int, int]]
    broadcasts_at: list[list[float]]


def parameters_of(setting: SelfOrganisingSetting) -> SelfOrganisingParameters:
    """Those of the brokers of a run."""
    return SelfOrganisingParameters(
        heuristic=Heuristic(setting.what),
        mode=Mode.EXCHANGE,
        neighbourhood_hops=setting.hops,
        interval_us=setting.interval * TICK_US,
        rest_intervals=1,
        interest=InterestMeasure.PASSING if setting.passing else InterestMeasure.LOCAL,
        exact_when_smaller=False,
        three_way=ThreeWay.COUNTED if setting.counted else ThreeWay.MEAN,
        least_gain_percent=setting.least_gain,
        returns_any_time=True,
    )


class _Tally:
    """Adds up costs of messages, by kind and window."""

    def __init__(self, setting: SelfOrganisingSetting, workload: ModelWorkload) -> None:
        self._setting = setting
        self._costs = workload.costs
        windows = setting.ticks // WINDOW
        self.costs = {kind: [0.0] * windows for kind in KINDS}
        self.swaps: list[LinkSwap] = []
        self.broadcasts: dict[int, list[float]] = {}

    def add(self, kind: str, receiver: int, sender: int | None, now_us: int) -> None:
        at = now_us / TICK_US
        era = sum(change <= at for change in self._setting.changes_at)
        costs: ModelLinkCosts = self._costs[era]
        cost = costs.brokers[receiver]
        if sender is not None:
            cost += costs.links[sender][receiver]
        windows = self.costs[kind]
        windows[min(int(at // WINDOW), len(windows) - 1)] += cost


class _CountedRun(SelfOrganising):
    """A broker that counts its incoming messages."""

    def __init__(
        self, context: BrokerContext, parameters: SelfOrganisingParameters, tally: _Tally
    ) -> None:
        super().__init__(context, parameters)
        self._tally = tally

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        here, there, tally = int(self.broker), int(neighbour), self._tally
        match message:
            case PublicationBatch():
                for _ in message.publications:
                    tally.add("notifications", here, there, now_us)
            case Broadcast():
                tally.add("broadcasts", here, there, now_us)
                origin = int(message.way[0].broker)
                times, at = tally.broadcasts.setdefault(origin, []), (now_us - LATENCY_US) / TICK_US
                if len(message.way) == 1 and at not in times[-1:]:
                    times.append(at)
            case ExchangeProposal():
                tally.add("requests", here, there, now_us)
            case Halt() | Halted() | Drained() | ExchangeDecision():
                tally.add("exchanges", here, there, now_us)
        super().receive(neighbour, message, now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        if type(request) is Publish:
            for _ in request.publications:
                self._tally.add("notifications", int(self.broker), None, now_us)
        super().request(client, request, now_us, out)

    def done(self, exchange: LinkExchange, now_us: int, out: list[Effect]) -> None:
        if exchange.cycle[-1] == self.broker:
            cycle = tuple(map(int, exchange.cycle))
            self._tally.swaps.append(LinkSwap(now_us / TICK_US, cycle, exchange.remove))
        super().done(exchange, now_us, out)


def simulate(
    setting: SelfOrganisingSetting, workload: ModelWorkload, links: Iterable[tuple[int, int]]
) -> Simulated:
    """Run the machines on a workload; publishing begins after the first ticks, while clients
    connect.
    """
    names = [_name(broker) for broker in range(setting.brokers)]
    parameters, tally = parameters_of(setting), _Tally(setting, workload)
    world = World(
        [(_name(left), _name(right)) for left, right in links],
        lambda context: _CountedRun(context, parameters, tally),
        ConstantUnderlay(LATENCY_US, local_latency_us=LATENCY_US),
        brokers=names,
        message_costs=_table(workload.costs[0], names),
        seed=setting.seed,
    )
    for number, at in enumerate(setting.changes_at, start=1):
        world.change_costs(round(at * TICK_US), _table(workload.costs[number], names))
    for type, publisher in enumerate(workload.publishers):
        _add_clients(world, type, publisher, workload)
    world.run(setting.ticks * TICK_US)
    return Simulated(
        tally.costs,
        tally.swaps,
        [(int(left), int(right)) for left, right in world.links],
        [tally.broadcasts[broker] for broker in range(setting.brokers)],
    )


def _name(broker: int) -> BrokerId:
    """In the order of the numbers."""
    return f"{broker:04}"


def _table(costs: ModelLinkCosts, names: list[str]) -> dict[BrokerId, effects.Costs]:
    return {
        name: effects.Costs(
            here, {other: cost for other, cost in zip(names, row, strict=True) if other != name}
        )
        for name, here, row in zip(names, costs.brokers, costs.links, strict=True)
    }


def _add_clients(world: World, type: int, publisher: int, workload: ModelWorkload) -> None:
    client = f"P{type}"
    wanted = parse(f"type = {type}")
    world.add_publisher(client, _name(publisher), _name(publisher))
    world.advertise(0, Advertisement(id=f"{client}.A", publisher=client, filter=wanted))
    for sequence, at in enumerate(workload.publications[type]):
        at_us = round(at * TICK_US)
        publication = Publication(
            publisher=client, sequence=sequence, published_us=at_us, attributes={"type": type}
        )
        world.request(at_us, client, Publish((publication,)))

    def subscription(broker: int) -> Subscription:
        name = f"S{type}.{broker}"
        world.add_subscriber(name, _name(broker))
        return Subscription(id=name, client=name, filter=wanted)

    for broker in workload.members[type] - {publisher}:
        world.subscribe(1_000, _name(broker), subscription(broker))
    for move in workload.moves:
        if move.type == type:
            at_us = round(move.at * TICK_US)
            world.unsubscribe(at_us, _name(move.old), subscription(move.old))
            world.subscribe(at_us, _name(move.new), subscription(move.new))
