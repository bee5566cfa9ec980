"""The runs of the evaluation, by scale (IV-C to IV-F), and our additions.

`small` has 1,000 subscriptions, each of which stands for 40 and takes as long to search, and
servers 400 times slower than the paper's, so that a second has some hundred messages instead of a
hundred thousand; `paper` has the paper's 40,000, but 10,000 under other readings and with our
engine's costs, and servers 50 times slower. Every run of one figure has the same of both; if rates
are of another order (our engine, narrow ranges, hundreds of matchers), servers are slower or faster
in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.experiments.bluedove.runs import PAPER_SUBSCRIPTIONS, ClusterRun, Kind, cluster_run
from shoal.experiments.bluedove.testbed.testbed import BlueDoveSetting
from shoal.experiments.bluedove.testbed.workload import Drawing
from shoal.experiments.studies.study import ScaleName
from shoal.overlays.bluedove.cluster.forwarding import Policy

BLUEDOVE, PEERS, FULL = SYSTEMS = ("bluedove", "peer-to-peer", "full replication")
# Peer-to-peer by the attribute that suits it best, in names of runs.
EVENEST_PEERS = "peer-to-peer evenest"
DIMENSIONS = 4
# Policies that do not look at loads.
BLIND = (Policy.RANDOM, Policy.SUBSCRIPTIONS)
# One dispatcher for ten matchers (IV-B).
MATCHERS_PER_DISPATCHER = 10
# With our engine, and where a subscription is at one matcher for each attribute, a message takes a
# fraction of what it takes a linear index of these costs: servers are slower by that (`single`: for
# each matcher), for as many messages per second, and there are as many dispatchers as matchers, to
# keep up.
ENGINE_SPEED, SINGLE_SPEED = 50, 0.5
# Trials are this many times longer if limits still changed by 3 % and more in trials twice as long:
# a policy that follows reports without prediction oscillates, and few ranges meet few matchers.
LONGER = 4


class NamedReading(NamedTuple):
    """A reading of the paper's open points, in whose place all other runs have ranges moved inside
    and no cost for a message.

    name       begins the names of its runs
    in_words   as pages have it
    fixed      time for each message, in searches of one subscription
    """

    name: str
    in_words: str
    drawing: Drawing
    fixed: int = 0


# The drawings; then those that explain most with a cost for a message, and that (`reading_fit`).
READINGS = (
    NamedReading("cut", "ranges cut off, hot spots from end to end", "cut"),
    NamedReading("single", "ranges of 10, one matcher each", "single"),
    NamedReading("ring", "ranges round a ring, hot spots from end to end", "ring"),
    NamedReading("fixed-moved", "ranges moved inside, 2,000 searches a message", "moved", 2_000),
    NamedReading("fixed-single", "ranges of 10, 500 searches a message", "single", 500),
    NamedReading("fixed-ring", "ranges round a ring, 1,000 searches a message", "ring", 1_000),
)
# The attribute with the least skewed subscriptions: peer-to-peer does best by it, and worst by the
# first one.
EVENEST = 1
# Servers are slower than the paper's and loads reported each second, so reports are fresher than
# the paper's by that factor.  Here they come this rarely; as rarely as the factor has it, a trial
# would have millions of messages.
RARELY_S = 10
# Servers of figure 9 are slower by this at most: its first second has five messages, then.
MOST_ELASTIC_SLOWDOWN = 100
# With hundreds of matchers loads are reported as often per matching as with 20 at this slowdown.
REPORTS_SLOWDOWN = 400
# Nothing changes the tables in trials that look for a limit: they are exchanged once in a trial. A
# second of the paper's servers is 400 s of those that are 400 times slower.  The bytes that tables
# take, and changes of the membership, are measured at the paper's interval.
GOSSIP_S = 40
SEARCHES: tuple[Kind, ...] = ("rate", "subscriptions")


class LargerClusters(NamedTuple):
    """Clusters larger than the paper's: alike, but for the number of matchers.

    A trial must be long against the slowest messages' times, and has as many messages as the
    slowdown leaves; this is the compromise. With real data some messages meet most of the
    subscriptions, wherever they go, and there servers are as with 20 matchers.

    sizes           numbers of matchers
    messages        in one trial, for each matcher
    slowdown        of servers, there
    data_sizes      numbers of matchers with real data
    data_slowdown   of servers, there
    """

    subscriptions: int
    sizes: tuple[int, ...]
    messages: int
    slowdown: int
    data_sizes: tuple[int, ...]
    data_slowdown: int


class BlueDoveScale(NamedTuple):
    """Size of the runs.

    sizes                   numbers of matchers
    most                    the number for runs that vary something else
    beyond                  numbers of matchers beyond the paper's
    reading_subscriptions   under other readings, and with our engine's costs
    messages                in one trial, for each matcher
    """

    name: ScaleName
    slowdown: int
    sizes: tuple[int, ...]
    beyond: LargerClusters
    subscriptions: int
    messages: int
    dimensions: tuple[int, ...]
    deviations: tuple[float, ...]
    adverse: tuple[int, ...]
    subscription_sizes: tuple[int, ...]
    reading_subscriptions: int

    @property
    def most(self) -> int:
        return max(self.sizes)

    @property
    def all_sizes(self) -> tuple[int, ...]:
        return (*self.sizes, *self.beyond.sizes)


SCALES: Mapping[ScaleName, BlueDoveScale] = {
    "small": BlueDoveScale(
        name="small",
        slowdown=400,
        sizes=(5, 20),
        beyond=LargerClusters(
            subscriptions=1_000,
            sizes=(100, 500),
            messages=250,
            slowdown=1_600,
            data_sizes=(100,),
            data_slowdown=400,
        ),
        subscriptions=1_000,
        messages=2_000,
        dimensions=(1, 2, 4),
        deviations=(250.0, 500.0, 1_000.0),
        adverse=(0, 2, 4),
        subscription_sizes=(20,),
        reading_subscriptions=1_000,
    ),
    "paper": BlueDoveScale(
        name="paper",
        slowdown=50,
        sizes=(5, 10, 15, 20),
        beyond=LargerClusters(
            subscriptions=1_000,
            sizes=(100, 500),
            messages=1_000,
            slowdown=1_200,
            data_sizes=(100, 500),
            data_slowdown=400,
        ),
        subscriptions=PAPER_SUBSCRIPTIONS,
        messages=4_000,
        dimensions=(1, 2, 3, 4),
        deviations=(250.0, 500.0, 750.0, 1_000.0),
        adverse=(0, 1, 2, 3, 4),
        subscription_sizes=(5, 10, 15, 20),
        reading_subscriptions=10_000,
    ),
}


class DataFile(NamedTuple):
    """Real data for runs: their name, and where their numbers are (`workload.save_points`)."""

    name: str
    file: Path


def grid(
    scale: BlueDoveScale, folder: Path, seed: int, data: Iterable[DataFile] = ()
) -> list[ClusterRun]:
    """All runs of a scale."""
    maker = _Maker(scale, str(folder), seed)
    # By rank: the paper's figures, other readings of them, our additions.
    parts = (
        (*_rates(maker), *_workloads(maker), *_subscriptions(maker), *_changes(maker)),
        (*_readings(maker), *_reports(maker)),
        (*_engine(maker), *_beyond(maker), *_data(maker, data)),
    )
    return [
        msgspec.structs.replace(run, rank=rank) for rank, runs in enumerate(parts) for run in runs
    ]


class _Maker:
    """Makes runs that differ from the scale's usual setting by the given keys."""

    def __init__(self, scale: BlueDoveScale, folder: str, seed: int) -> None:
        self.scale = scale
        self._folder = folder
        self._seed = seed

    def run(self, name: str, kind: Kind, cost: float, **options: object) -> ClusterRun:
        scale = self.scale
        usual = {
            "matchers": scale.most,
            "subscriptions": scale.subscriptions,
            "slowdown": scale.slowdown,
            "gossip_s": GOSSIP_S if kind in SEARCHES else 1,
            "seed": self._seed,
        }
        messages = options.pop("messages", scale.messages)
        chosen = usual | options
        chosen.setdefault("stands_for", PAPER_SUBSCRIPTIONS // chosen["subscriptions"])  # type: ignore[operator]
        setting = BlueDoveSetting(**chosen)  # type: ignore[arg-type]
        return cluster_run(
            name=name,
            kind=kind,
            setting=setting,
            messages=messages,  # type: ignore[arg-type]
            cost=cost,
            folder=self._folder,
        )


def _rates(maker: _Maker) -> Iterator[ClusterRun]:
    scale = maker.scale
    for system in SYSTEMS:
        for matchers in scale.sizes:
            whole = matchers == scale.most and system != FULL
            kind: Kind = "profile" if whole else "rate"
            cost = 6.0 if system == BLUEDOVE else 2.0
            yield maker.run(rate_name(system, matchers), kind, cost, system=system,
                            matchers=matchers)  # fmt: skip
    for matchers in scale.sizes:
        kind = "profile" if matchers == scale.most else "rate"
        yield maker.run(evenest_name(matchers), kind, 2.0, system=PEERS, matchers=matchers,
                        peers_by=EVENEST)  # fmt: skip
    for policy in _blind_or_late():
        longer = LONGER if policy is Policy.RESPONSE_TIME else 1
        yield maker.run(policy_name(policy), "rate", 6.0 * longer, policy=policy,
                        messages=scale.messages * longer)  # fmt: skip


def _blind_or_late() -> Iterable[Policy]:
    return (policy for policy in Policy if policy is not Policy.ADAPTIVE)


def _subscriptions(maker: _Maker) -> Iterator[ClusterRun]:
    scale = maker.scale
    stands_for = PAPER_SUBSCRIPTIONS // scale.subscriptions
    # First guess, from which the search for the system's limit begins.
    start = max(50, scale.subscriptions // 4)
    for system in SYSTEMS:
        for matchers in scale.subscription_sizes:
            yield maker.run(subscriptions_name(system, matchers), "subscriptions", 6.0,
                            system=system, matchers=matchers, subscriptions=start,
                            stands_for=stands_for)  # fmt: skip
    for matchers in scale.subscription_sizes:
        yield maker.run(subscriptions_name(EVENEST_PEERS, matchers), "subscriptions", 6.0,
                        system=PEERS, peers_by=EVENEST, matchers=matchers, subscriptions=start,
                        stands_for=stands_for)  # fmt: skip


def _workloads(maker: _Maker) -> Iterator[ClusterRun]:
    scale = maker.scale
    for dimensions in scale.dimensions:
        if dimensions != DIMENSIONS:
            yield maker.run(dimensions_name(dimensions), "rate", 3.0, dimensions=dimensions)
    for deviation in scale.deviations[1:]:
        yield maker.run(deviation_name(deviation), "rate", 5.0, deviation=deviation)
    for adverse in scale.adverse[1:]:
        yield maker.run(adverse_name(adverse), "rate", 5.0, adverse=adverse)


def _readings(maker: _Maker) -> Iterator[ClusterRun]:
    """The runs of figures 6a, 6b, 7 and 11 under other readings."""
    scale = maker.scale
    few_and_many = (min(scale.sizes), scale.most)
    rates: dict[str, dict[str, object]] = {
        **{
            rate_name(system, matchers): {"system": system, "matchers": matchers}
            for system in SYSTEMS
            for matchers in few_and_many
        },
        **{
            evenest_name(matchers): {"system": PEERS, "matchers": matchers, "peers_by": EVENEST}
            for matchers in few_and_many
        },
        **{policy_name(policy): {"policy": policy} for policy in BLIND},
        dimensions_name(1): {"dimensions": 1},
        deviation_name(max(scale.deviations)): {"deviation": max(scale.deviations)},
        adverse_name(max(scale.adverse)): {"adverse": max(scale.adverse)},
    }
    most: dict[str, dict[str, object]] = {
        BLUEDOVE: {},
        PEERS: {"system": PEERS},
        EVENEST_PEERS: {"system": PEERS, "peers_by": EVENEST},
        FULL: {"system": FULL},
    }
    for reading in READINGS:
        for name, option in rates.items():
            yield maker.run(prefixed(reading.name, name), "rate", 4.0,
                            **_under(reading, scale, option))  # fmt: skip
        for name, option in most.items():
            option = _under(reading, scale, option) | {
                "messages": scale.messages,
                "subscriptions": max(50, scale.reading_subscriptions // 4),
                "stands_for": PAPER_SUBSCRIPTIONS // scale.reading_subscriptions,
            }
            run = prefixed(reading.name, subscriptions_name(name, scale.most))
            yield maker.run(run, "subscriptions", 6.0, **option)


def _under(
    reading: NamedReading, scale: BlueDoveScale, option: Mapping[str, object]
) -> dict[str, object]:
    """A run's options under a reading; narrow ranges take slower servers."""
    found: dict[str, object] = {
        "drawing": reading.drawing,
        "fixed": reading.fixed,
        "subscriptions": scale.reading_subscriptions,
        **option,
    }
    if reading.drawing == "single":
        matchers = int(str(option.get("matchers", scale.most)))
        found["dispatchers"] = matchers
        found["messages"] = scale.messages * (LONGER if matchers < scale.most else 1)
        if option.get("system") != FULL:
            found["slowdown"] = round(scale.slowdown * matchers * SINGLE_SPEED)
    return found


def _reports(maker: _Maker) -> Iterator[ClusterRun]:
    """The policies that look at loads, with loads reported more rarely."""
    for policy in (Policy.ADAPTIVE, Policy.RESPONSE_TIME):
        yield maker.run(reports_name(policy), "rate", 8.0, policy=policy, report_s=RARELY_S)


def _changes(maker: _Maker) -> Iterator[ClusterRun]:
    scale = maker.scale
    yield maker.run("elasticity", "elasticity", 20.0, matchers=min(scale.sizes), spares=4,
                    slowdown=elastic_slowdown(scale))  # fmt: skip
    yield maker.run("faults", "faults", 5.0)


def elastic_slowdown(scale: BlueDoveScale) -> int:
    """The slowdown of servers of figure 9, whose rates are low at first: 500 messages/s."""
    return min(scale.slowdown, MOST_ELASTIC_SLOWDOWN)


def _engine(maker: _Maker) -> Iterator[ClusterRun]:
    """The runs of figures 6a, 7 and 11 with the costs of our own engine."""
    scale = maker.scale
    common: dict[str, object] = {
        "costs": "engine",
        "slowdown": scale.slowdown * ENGINE_SPEED,
        "subscriptions": scale.reading_subscriptions,
        "messages": scale.messages // 2,
    }
    for system in SYSTEMS:
        for matchers in scale.sizes:
            name = engine_name(rate_name(system, matchers))
            yield maker.run(name, "rate", 4.0, system=system, matchers=matchers,
                            dispatchers=matchers, **common)  # fmt: skip
    common["dispatchers"] = scale.most
    for policy in _blind_or_late():
        yield maker.run(engine_name(policy_name(policy)), "rate", 4.0, policy=policy, **common)
    varied: dict[str, dict[str, object]] = {
        dimensions_name(1): {"dimensions": 1},
        deviation_name(max(scale.deviations)): {"deviation": max(scale.deviations)},
        adverse_name(max(scale.adverse)): {"adverse": max(scale.adverse)},
    }
    for name, option in varied.items():
        yield maker.run(engine_name(name), "rate", 4.0, **common, **option)


def _beyond(maker: _Maker) -> Iterator[ClusterRun]:
    for system in (BLUEDOVE, PEERS):
        for matchers in maker.scale.beyond.sizes:
            cost = matchers / (10 if system == BLUEDOVE else 20)
            larger = _larger(maker.scale, matchers, maker.scale.beyond.slowdown)
            yield maker.run(rate_name(system, matchers), "rate", cost, system=system,
                            messages=maker.scale.beyond.messages, **larger)  # fmt: skip


def _larger(scale: BlueDoveScale, matchers: int, slowdown: int) -> dict[str, object]:
    return {
        "matchers": matchers,
        "dispatchers": matchers // MATCHERS_PER_DISPATCHER,
        "subscriptions": scale.beyond.subscriptions,
        "slowdown": slowdown,
        "report_s": max(1, slowdown // REPORTS_SLOWDOWN),
    }


def _data(maker: _Maker, data: Iterable[DataFile]) -> Iterator[ClusterRun]:
    scale = maker.scale
    for name, file in data:
        points = str(file)
        for system in SYSTEMS:
            for quantiles in (False, True):
                if system != FULL or not quantiles:
                    yield maker.run(data_name(name, system, scale.most, quantiles=quantiles),
                                    "rate", 4.0, system=system, points=points,
                                    quantiles=quantiles)  # fmt: skip
        for matchers in scale.beyond.data_sizes:
            larger = _larger(scale, matchers, scale.beyond.data_slowdown)
            for system in (BLUEDOVE, PEERS):
                yield maker.run(data_name(name, system, matchers, quantiles=True), "rate",
                                matchers / 12, system=system, points=points, quantiles=True,
                                messages=scale.beyond.messages, **larger)  # fmt: skip


def rate_name(system: str, matchers: int) -> str:
    return f"rate-{system.replace(' ', '-')}-{matchers}"


def subscriptions_name(system: str, matchers: int) -> str:
    return f"subscriptions-{system.replace(' ', '-')}-{matchers}"


def policy_name(policy: Policy) -> str:
    return f"policy-{policy.value}"


def dimensions_name(count: int) -> str:
    return f"dimensions-{count}"


def deviation_name(deviation: float) -> str:
    return f"deviation-{deviation:g}"


def adverse_name(count: int) -> str:
    return f"adverse-{count}"


def evenest_name(matchers: int) -> str:
    """Peer-to-peer by the attribute that suits it best."""
    return rate_name(EVENEST_PEERS, matchers)


def reports_name(policy: Policy) -> str:
    return f"reports-{policy.value}"


def prefixed(reading: str, name: str) -> str:
    """The name of a run under another reading: a drawing, or our engine's costs."""
    return f"{reading}-{name}"


def engine_name(name: str) -> str:
    return prefixed("engine", name)


def data_name(data: str, system: str, matchers: int, *, quantiles: bool) -> str:
    return f"{data}-{system.replace(' ', '-')}-{matchers}{'-quantiles' if quantiles else ''}"
