"""The runs of the relocation paper's evaluation: a pure list, at two scales.

A run is one simulated network: a data set, a testbed, a spread of subscribers, and a setting (no
relocation, POP, or GRAPE with a priority and a weight). Beside the paper's grid there are probes:
networks without relocation, in which every publisher has another broker each time, until all have
been everywhere; they find the best broker.

>>> [run.name for run in grid("quotes", SCALES["small"])][:2]
['quotes/grid/wide-clustered-1/baseline', 'quotes/grid/wide-clustered-1/pop']
>>> len(grid("quotes", SCALES["paper"]))
519

Beside it stands load as an axis (`load_runs`): brokers whose work takes so long that one with all
publications would be busy for 10, 50 and 105 per cent of its time, with each publisher's
high-rated subscribers at a broker of their own or all of them at one, the main office (5.1).

A compiled loop takes most publications from broker to broker. A few networks are run again with
whole machines (`whole_runs`), and have to give the same figures.

The cost of control messages is a share of all messages, and so depends on the number of
subscribers: at every scale it is judged by runs with `CROWD` subscribers of each publisher.

Source: Cheung and Jacobsen, publisher relocation, section 5.1 (set-up) and 5.2 (varied parameters).
The figure that lists their numbers of clients is not in the text, nor are rates; ours are in
`SCALES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from shoal.experiments.studies.study import ScaleName

Testbed = Literal["wide", "cluster"]
Distribution = Literal["clustered", "random"]
System = Literal["tree", "pop", "grape"]
Priority = Literal["load", "delay"]

BROKERS: dict[Testbed, int] = {"wide": 63, "cluster": 127}
SPREADS = (1, 2, 4, 8, 16, 32, 63)
# The spreads of those runs that only some spreads have.
SOME_SPREADS = (1, 4, 16, 63)
# Subscribers of each publisher where the share of control messages is judged, at every scale; and
# the spreads there: the more brokers a publication passes, the larger that share.
CROWD = 100
CROWD_SPREADS = (16, 63)
WEIGHTS = (100, 75, 50, 25, 1)
THRESHOLDS = (10, 50, 100, 200, 500)
# "The enterprise scenario on the cluster testbed with subscribers among 16 brokers" (5.2); the
# paper does not say which priority its figures 6d to 6g have.
THRESHOLD_SPREAD = 16
# Per cent of the time for which a broker with all publications and subscriptions would be busy.
# Brokers of the grid are so for about 2 per cent; in the last case the busiest one is near
# saturation before any publisher moves, as no broker has all subscriptions.
LOADS = (10, 50, 105)
# The spread for which probes search the best broker.
PROBED_SPREAD = 16
# The rank of runs that no claim of the paper depends on (`Task.rank`).
LAST = 4
# Publishers start to publish a whole window after the clients have settled.
WINDOW_US = 10_000_000
PUBLISHING_FROM_US = 2 * WINDOW_US
SUBSCRIBING_FROM_US = 2_000_000


class RelocationSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers' relocation of publishers; `threshold` None is the system's default.

    `knows_room`: decisions know brokers' capacity, and tracing backs off; the paper's do not.
    """

    system: System
    priority: Priority | None = None
    weight: int | None = None
    threshold: int | None = None
    knows_room: bool = False

    @property
    def label(self) -> str:
        """As the paper calls it: baseline, pop, load100, delay1."""
        if self.system == "tree":
            return "baseline"
        name = self.system if self.priority is None else f"{self.priority}{self.weight}"
        if self.knows_room:
            name += "-room"
        return name if self.threshold is None else f"{name}-threshold-{self.threshold}"


BASELINE, POP = RelocationSetting(system="tree"), RelocationSetting(system="pop")


def grape(priority: Priority, weight: int) -> RelocationSetting:
    """GRAPE with one priority and weight."""
    return RelocationSetting(system="grape", priority=priority, weight=weight)


LOAD, DELAY = grape("load", 100), grape("delay", 100)
EXTREMES = (BASELINE, POP, LOAD, DELAY)
# The runs that are made with whole machines, too.
WHOLE: tuple[tuple[Testbed, Distribution, int, RelocationSetting], ...] = (
    ("wide", "clustered", 16, POP),
    ("wide", "clustered", 16, LOAD),
    ("cluster", "clustered", 16, POP),
    ("cluster", "random", 16, DELAY),
)
EVERY_WEIGHT = (
    BASELINE,
    POP,
    *(grape("load", weight) for weight in WEIGHTS),
    *(grape("delay", weight) for weight in WEIGHTS),
)


class RelocationScale(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a study; times in virtual µs.

    publishers, subscriptions   at most this many publishers, and subscriptions of each
    interval_us                 from one publication of a publisher to its next
    duration_us                 of publishing; the paper measures 18 minutes after the start
    threshold_duration_us       the same where thresholds are varied: the highest needs more time
    probe_duration_us           the same for probes
    narrowed                    true if the cluster repeats only a part of the grid
    network_sizes               brokers of the networks that show how far it scales
    """

    name: ScaleName
    publishers: int
    subscriptions: int
    duration_us: int
    threshold_duration_us: int
    probe_duration_us: int
    narrowed: bool
    network_sizes: tuple[int, ...]
    interval_us: int = 1_000_000

    def publications(self, duration_us: int) -> int:
        """Return how many publications a publisher makes in that time."""
        return duration_us // self.interval_us


_MINUTE_US = 60_000_000
SCALES: dict[ScaleName, RelocationScale] = {
    "small": RelocationScale(
        name="small",
        publishers=20,
        subscriptions=20,
        duration_us=6 * _MINUTE_US,
        threshold_duration_us=18 * _MINUTE_US,
        probe_duration_us=2 * _MINUTE_US,
        narrowed=True,
        network_sizes=(7, 15, 31, 63),
    ),
    "paper": RelocationScale(
        name="paper",
        publishers=40,
        subscriptions=100,
        duration_us=18 * _MINUTE_US,
        threshold_duration_us=18 * _MINUTE_US,
        probe_duration_us=6 * _MINUTE_US,
        narrowed=False,
        network_sizes=(15, 63, 255, 1_023),
    ),
}


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the grid.

    subscriptions   of each publisher
    probe           n: every publisher stands n brokers after its own
    busy            costs are such that a broker with everything is busy for so many per cent
    office          all high-rated subscribers are at one broker
    publishers      of the workload, where costs depend on their number
    """

    study: Literal["grid", "overhead", "threshold", "probe", "load", "whole"]
    dataset: str
    testbed: Testbed
    distribution: Distribution
    spread: int
    setting: RelocationSetting
    duration_us: int
    publications: int
    subscriptions: int
    probe: int | None = None
    busy: int | None = None
    office: bool = False
    publishers: int = 0

    @property
    def brokers(self) -> int:
        """Return how many brokers the testbed has."""
        return BROKERS[self.testbed]

    @property
    def workload(self) -> str:
        """The variant of the data set's workloads that it runs on."""
        network = f"{self.testbed}-{self.distribution}-{self.spread}"
        return f"{network}-{self.publications}-{self.subscriptions}"

    @property
    def name(self) -> str:
        """Unique within a study; also the path of its summary."""
        setting = self.setting.label if self.probe is None else f"{self.probe:02}"
        network = f"{self.testbed}-{self.distribution}-{self.spread}"
        if self.busy is not None:
            network += f"-{self.busy}-office" if self.office else f"-{self.busy}"
        return f"{self.dataset}/{self.study}/{network}/{setting}"

    @property
    def cost(self) -> float:
        """About how long it takes, in any unit."""
        weight = 1.0 if self.distribution == "clustered" else 1.3
        if self.study == "whole":
            weight *= 6
        return self.duration_us * weight * (20 + self.subscriptions)

    @property
    def rank(self) -> int:
        """First the extremes at some spreads, then thresholds, then all spreads, then all weights.

        No claim of the paper depends on probes.
        """
        if self.probe is not None:
            return LAST
        if self.study != "grid":
            return 1
        if self.setting not in EXTREMES:
            return 3
        return 0 if self.spread in SOME_SPREADS else 2


def grid(dataset: str, scale: RelocationScale) -> list[RunSpec]:
    """Every run on one data set, in the order of the figures."""

    def run(
        testbed: Testbed, distribution: Distribution, spread: int, setting: RelocationSetting
    ) -> RunSpec:
        return RunSpec(
            study="grid",
            dataset=dataset,
            testbed=testbed,
            distribution=distribution,
            spread=spread,
            setting=setting,
            duration_us=scale.duration_us,
            publications=scale.publications(scale.duration_us),
            subscriptions=scale.subscriptions,
        )

    found = [run(*point) for point in _points(scale)]
    found += overhead_runs(found, scale)
    found += threshold_runs(dataset, scale)
    found += load_runs(dataset, scale)
    found += whole_runs(found)
    found += probe_runs(dataset, scale)
    return found


def _points(
    scale: RelocationScale,
) -> Iterator[tuple[Testbed, Distribution, int, RelocationSetting]]:
    distributions: Sequence[Distribution] = ("clustered", "random")
    if not scale.narrowed:
        for testbed in BROKERS:
            for distribution in distributions:
                for spread in SPREADS:
                    for setting in EVERY_WEIGHT:
                        yield testbed, distribution, spread, setting
        return
    for distribution in distributions:
        for spread in SPREADS:
            # The paper times selections with delay1 (figures 6a and 6b).
            timed = (grape("delay", 1),) if spread in SOME_SPREADS else ()
            for setting in (*EXTREMES, *timed):
                yield "wide", distribution, spread, setting
    for distribution in distributions:
        for spread in SOME_SPREADS:
            whole = distribution == "clustered" or spread == THRESHOLD_SPREAD
            for setting in EVERY_WEIGHT if whole else EXTREMES:
                yield "cluster", distribution, spread, setting


def overhead_runs(main: Sequence[RunSpec], scale: RelocationScale) -> list[RunSpec]:
    """Return the grid's runs about the costs of POP and GRAPE, with `CROWD` subscribers.

    The baseline's, too, for subscribers at random: claims about these are judged there.

    None where the grid itself has as many.
    """
    if scale.subscriptions >= CROWD:
        return []
    return [
        msgspec.structs.replace(run, study="overhead", subscriptions=CROWD)
        for run in main
        if run.spread in CROWD_SPREADS
        and run.setting in EXTREMES
        and (run.setting != BASELINE or run.distribution == "random")
    ]


def whole_runs(main: Sequence[RunSpec]) -> list[RunSpec]:
    """Return a few of the grid's runs again, in which machines handle all publications."""
    return [
        msgspec.structs.replace(run, study="whole")
        for run in main
        if run.study == "grid" and (run.testbed, run.distribution, run.spread, run.setting) in WHOLE
    ]


def threshold_runs(dataset: str, scale: RelocationScale) -> list[RunSpec]:
    """Figures 6d to 6h: how often the algorithms decide, and the baseline for as long."""
    settings = [
        BASELINE,
        *(
            RelocationSetting(system="grape", priority="delay", weight=100, threshold=threshold)
            for threshold in THRESHOLDS
        ),
        *(RelocationSetting(system="pop", threshold=threshold) for threshold in THRESHOLDS),
    ]
    duration_us = scale.threshold_duration_us
    return [
        _on_the_cluster("threshold", dataset, scale, setting, duration_us) for setting in settings
    ]


def load_runs(dataset: str, scale: RelocationScale) -> list[RunSpec]:
    """Load as an axis: the extremes in the paper's way, and with decisions that know capacity."""
    knowing = [msgspec.structs.replace(setting, knows_room=True) for setting in (POP, LOAD, DELAY)]
    return [
        msgspec.structs.replace(
            _on_the_cluster("load", dataset, scale, setting, scale.duration_us),
            busy=busy,
            office=office,
            publishers=scale.publishers,
        )
        for office in (False, True)
        for busy in LOADS
        for setting in (*EXTREMES, *knowing)
    ]


def _on_the_cluster(
    study: Literal["threshold", "load"],
    dataset: str,
    scale: RelocationScale,
    setting: RelocationSetting,
    duration_us: int,
) -> RunSpec:
    """A run with clustered subscribers on the cluster."""
    return RunSpec(
        study=study,
        dataset=dataset,
        testbed="cluster",
        distribution="clustered",
        spread=THRESHOLD_SPREAD,
        setting=setting,
        duration_us=duration_us,
        publications=scale.publications(duration_us),
        subscriptions=scale.subscriptions,
    )


def probe_runs(dataset: str, scale: RelocationScale) -> list[RunSpec]:
    """Return the runs in which every publisher is at every broker once, for both distributions on
    the wide-area testbed.
    """
    distributions: Sequence[Distribution] = ("clustered", "random")
    return [
        RunSpec(
            study="probe",
            dataset=dataset,
            testbed="wide",
            distribution=distribution,
            spread=PROBED_SPREAD,
            setting=BASELINE,
            duration_us=scale.probe_duration_us,
            # The grid's own workload: the same filters, of which the probes see the beginning.
            publications=scale.publications(scale.duration_us),
            subscriptions=scale.subscriptions,
            probe=probe,
        )
        for distribution in distributions
        for probe in range(BROKERS["wide"])
    ]
