"""The runs of the evaluation as tasks: each builds clusters and measures.

Rates and numbers of subscriptions are given in the paper's units: times the slowdown of the
servers, and times the share of the paper's subscriptions that a run has.

Source: Li et al., BlueDove, sections IV-C to IV-F.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.experiments.bluedove.testbed.engine_costs import measured
from shoal.experiments.bluedove.testbed.saturation import (
    LEAST_TRIAL_S,
    RULE,
    expected_rate,
    highest,
    limit_by_arithmetic,
    looks_at_loads,
    lowered,
    saturation_rate,
    sustains,
    trial_s,
)
from shoal.experiments.bluedove.testbed.testbed import (
    SECOND_US,
    BlueDoveSetting,
    LoadedCluster,
    Responses,
)
from shoal.experiments.bluedove.testbed.workload import points_digest
from shoal.experiments.studies.runs import VERSION, RecordedRun, digest
from shoal.overlays.bluedove.records import DeathRecord, ScaleRecord

PAPER_SUBSCRIPTIONS = 40_000
# Messages per second at which the most subscriptions are looked for (figure 6b).
PAPER_RATE_PER_S = 100_000
# Below and above saturation in figure 5: 100,000 and 150,000 of 114,000 messages a second.
BELOW, ABOVE = 100 / 114, 150 / 114
# Work grows with subscriptions nearly in proportion, so that a guess is right after so many steps.
REFITTED = 3
# A response is back to normal at this multiple of its value before the load rose.
NORMAL = 2.0

Kind = Literal["rate", "profile", "subscriptions", "elasticity", "faults"]
Series = list[tuple[float, float | None]]


class BlueDoveResult(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of a run."""

    key: str
    name: str
    values: dict[str, float]
    series: dict[str, Series]


class ClusterRun(RecordedRun[BlueDoveResult], frozen=True, kw_only=True):
    """A run of clusters.

    messages   for each matcher, in one trial of a rate
    """

    name: str
    kind: Kind
    setting: BlueDoveSetting
    messages: int
    cost: float
    rank: int = 0

    summary_type = BlueDoveResult

    def measure(self) -> BlueDoveResult:
        values, series = _KINDS[self.kind](self.setting, self.messages)
        return BlueDoveResult(key=self.key, name=self.name, values=values, series=series)


def cluster_run(
    name: str, kind: Kind, setting: BlueDoveSetting, *, messages: int, cost: float, folder: str
) -> ClusterRun:
    """A run with its file in `folder`, and its key: a digest of all that it depends on."""
    changes = [FIRST_PER_S, STEP_PER_S, MOST_STEPS, ADDITIONS, SEEN_S]
    trial = [*RULE, *changes, KILL_EVERY_S, KILLS]
    used: list[object] = []
    if setting.points:
        used.append(points_digest(Path(setting.points)))
    if setting.costs == "engine":
        used.append(measured())
    described = msgspec.structs.replace(setting, points=Path(setting.points).name)
    return ClusterRun(
        key=digest([VERSION, [kind, described, messages, trial, used]]),
        file=str(Path(folder) / f"{name}.json"),
        name=name,
        kind=kind,
        setting=setting,
        messages=messages,
        cost=cost,
    )


Measured = tuple[dict[str, float], dict[str, Series]]


# --- rates ------------------------------------------------------------------------------------


def measure_rate(setting: BlueDoveSetting, messages: int) -> Measured:
    """The saturation rate."""
    rate = saturation_rate(LoadedCluster(setting), messages)
    return {"rate_per_s": rate * setting.slowdown}, {}


def measure_profile(setting: BlueDoveSetting, messages: int) -> Measured:
    """The saturation rate; responses below and above it; loads and overhead just below it."""
    testbed = LoadedCluster(setting)
    rate = saturation_rate(testbed, messages)
    series: dict[str, Series] = {}
    for name, share in (("below", BELOW), ("above", ABOVE)):
        testbed.responses()
        testbed.publish(share * rate, LEAST_TRIAL_S)
        testbed.drain()
        series[name] = response_series(testbed.responses(), 1.0)
    testbed.count_overhead()
    worked, told, from_us = testbed.work_us(), testbed.overhead_bytes(), testbed.now_us
    testbed.publish(BELOW * rate, trial_s(setting, rate, messages))
    passed_us = testbed.now_us - from_us
    loads = [
        (done - worked[name]) / passed_us / setting.cores
        for name, done in testbed.work_us().items()
    ]
    matchers = testbed.parameters.matchers
    received = sum(testbed.overhead_bytes()[name] - told[name] for name in matchers)
    reported = sum(
        testbed.overhead_bytes()[name] - told[name] for name in testbed.parameters.dispatchers
    )
    series["load"] = [(number + 1.0, load) for number, load in enumerate(loads)]
    per_matcher = 1e6 / passed_us / len(matchers)
    values = {
        "rate_per_s": rate * setting.slowdown,
        "load_spread": float(np.std(loads) / np.mean(loads)),
        "overhead_bytes_per_s": (received + reported) * per_matcher,
        "dispatcher_bytes_per_s": reported * per_matcher / len(testbed.parameters.dispatchers),
    }
    return values, series


def measure_subscriptions(setting: BlueDoveSetting, messages: int) -> Measured:
    """The most subscriptions that are sustained at the paper's rate."""
    rate = PAPER_RATE_PER_S / setting.slowdown
    first = LoadedCluster(setting)
    guess = setting.subscriptions * expected_rate(first) / rate
    if not looks_at_loads(first):
        return {"subscriptions": _fitting(setting, rate, guess) * setting.stands_for}, {}
    testbeds: dict[int, LoadedCluster] = {}

    def holds(count: float, share: float = 0.5) -> bool:
        smaller = [size for size in testbeds if size <= count]
        size = round(count)
        if smaller:
            testbed = testbeds.pop(max(smaller))
            testbed.store(size - testbed.setting.subscriptions)
            testbed.setting = msgspec.structs.replace(testbed.setting, subscriptions=size)
        else:
            testbed = LoadedCluster(msgspec.structs.replace(setting, subscriptions=size))
        held = sustains(testbed, rate, share * messages)
        if held:
            testbeds[size] = testbed  # to be filled further
        return held

    most = lowered(lambda count: holds(count, 1.0), highest(holds, guess))
    return {"subscriptions": most * setting.stands_for}, {}


def _fitting(setting: BlueDoveSetting, rate: float, guess: float) -> float:
    """Return how many subscriptions fill the busiest matcher at a rate, by arithmetic."""
    for _ in range(REFITTED):
        size = max(1, round(guess))
        testbed = LoadedCluster(msgspec.structs.replace(setting, subscriptions=size))
        guess = size * limit_by_arithmetic(testbed) / rate
    return guess


# --- changes over time -------------------------------------------------------------------------

# The paper begins with 500 messages per second, and adds 500 every five minutes.
FIRST_PER_S = STEP_PER_S = 500
# Until the last of so many additions was a step ago, or so many steps in all.
ADDITIONS, MOST_STEPS = 3, 160
# Responses are looked at for so long after an addition.
SEEN_S = 40.0


def measure_elasticity(setting: BlueDoveSetting, messages: int) -> Measured:
    """The load rises step by step; matchers are added; how soon responses fall."""
    testbed = LoadedCluster(setting)
    start_us, rates = testbed.now_us, []
    for step in range(MOST_STEPS):
        rate = (FIRST_PER_S + step * STEP_PER_S) / setting.slowdown
        rates.append((float(step * setting.step_s), rate * setting.slowdown))
        testbed.publish(rate, setting.step_s)
        added_us = _added_us(testbed)
        late_us = testbed.now_us - setting.step_s * SECOND_US
        if len(added_us) >= ADDITIONS and added_us[ADDITIONS - 1] < late_us:
            break
    testbed.drain()
    responses = testbed.responses()
    shifted = Responses(responses.published_us - start_us, responses.took_us)
    added_s = [(at_us - start_us) / 1e6 for at_us in added_us]
    fallen = [fall_s(shifted, at_s, SEEN_S) for at_s in added_s]
    recovered = [recovery_s(shifted, at_s, SEEN_S) for at_s in added_s]
    values = {
        "added": float(len(added_s)),
        "fallen": float(len(fallen) - fallen.count(None)),
        "recovered": float(len(recovered) - recovered.count(None)),
        "lost": float(np.isinf(responses.took_us).sum()),
    }
    for name, found in (("fall_s", fallen), ("recovery_s", recovered)):
        known = [seconds for seconds in found if seconds is not None]
        if known:
            values[name] = float(np.mean(known))
    return values, {
        "response": response_series(shifted, 1.0),
        "added": [(at_s, 0.0) for at_s in added_s],
        "improvement": [(at_s, improvement_ms(shifted, at_s, SEEN_S)) for at_s in added_s],
        "rate": list(rates),
    }


def _added_us(testbed: LoadedCluster) -> list[int]:
    """Return when matchers were added."""
    return [
        row.at_us
        for row in testbed.world.trace.records
        if isinstance(row, ScaleRecord)
        and (row.action, row.step) == ("add", "begun")
        and row.matcher is not None
    ]


KILLS = 3
# As in the paper.
KILL_EVERY_S = 300.0


def measure_faults(setting: BlueDoveSetting, messages: int) -> Measured:
    """Matchers die one after the other, at the paper's rate of figure 6b.

    The paper does not say figure 10's, without saturation; so it is half of the limit at most.
    """
    testbed = LoadedCluster(setting)
    rate = min(PAPER_RATE_PER_S / setting.slowdown, expected_rate(testbed) / 2)
    start_us = testbed.now_us
    victims = testbed.parameters.matchers[2::5][:KILLS]
    for number, name in enumerate(victims):
        testbed.world.crash(start_us + round((number + 0.5) * KILL_EVERY_S * 1e6), name)
    testbed.publish(rate, KILL_EVERY_S * len(victims) + 10)
    testbed.drain()
    published_us, took_us = testbed.responses()
    responses = Responses(published_us - start_us, took_us)
    lost = np.isinf(took_us)
    before = responses.took_us[responses.published_us < KILL_EVERY_S / 2 * 1e6]
    normal_us = float(np.mean(before))
    slow = [
        time_s
        for time_s, mean_ms in response_series(responses, 1.0)
        if mean_ms is not None and mean_ms > NORMAL * normal_us / 1e3
    ]
    deaths = [row for row in testbed.world.trace.records if isinstance(row, DeathRecord)]
    return {
        "lost_share": float(lost.mean()),
        "slow_s_per_kill": len(slow) / len(victims),
        "worst_s": float(np.max(took_us)) / 1e6,
        "missed": float(len({row.dead for row in deaths})),
        "killed": float(len(victims)),
    }, {
        "response": response_series(responses, 1.0),
        "loss": loss_series(responses, 1.0),
        "killed": [((number + 0.5) * KILL_EVERY_S, 0.0) for number in range(len(victims))],
    }


def response_series(responses: Responses, window_s: float) -> Series:
    """The mean response in each window, ms, over time from the first window, s."""
    return _by_window(responses, window_s, lambda took_us: float(np.mean(took_us)) / 1e3)


def loss_series(responses: Responses, window_s: float) -> Series:
    """The share of messages that never came through, in each window."""
    return _by_window(responses, window_s, lambda took_us: float(np.isinf(took_us).mean()))


def _by_window(
    responses: Responses, window_s: float, measure: Callable[[npt.NDArray[np.float64]], float]
) -> Series:
    """Windows from the first message on; messages are in the order they came."""
    published_us, took_us = responses
    if not len(published_us):
        return []
    window_us = window_s * SECOND_US
    count = int((published_us[-1] - published_us[0]) // window_us) + 1
    edges = np.searchsorted(published_us, published_us[0] + np.arange(count + 1) * window_us)
    return [
        (number * window_s, measure(took_us[start:end]) if end > start else None)
        for number, (start, end) in enumerate(pairwise(edges.tolist()))
    ]


def fall_s(responses: Responses, added_s: float, within_s: float) -> float | None:
    """Return how long after a matcher is added responses have fallen: when they were longest.

    None when they were so at the end of the time looked at, or the matcher came before the load.
    """
    after = [
        (time_s, mean)
        for time_s, mean in response_series(responses, 0.5)
        if mean is not None and added_s <= time_s < added_s + within_s
    ]
    if not after:
        return None
    longest = max(range(len(after)), key=lambda number: after[number][1])
    return None if longest == len(after) - 1 else after[longest + 1][0] - added_s


def improvement_ms(responses: Responses, added_s: float, within_s: float) -> float | None:
    """By how much responses fall from their longest after a matcher is added; None without any."""
    after = [
        mean
        for time_s, mean in response_series(responses, 0.5)
        if mean is not None and added_s <= time_s < added_s + within_s
    ]
    longest = max(range(len(after)), key=after.__getitem__) if after else 0
    return after[longest] - min(after[longest:]) if after else None


def recovery_s(responses: Responses, added_s: float, within_s: float) -> float | None:
    """Return how long after a matcher is added responses fall to normal; None when they do not.

    Normal is up to twice the median of the calm quarter of all windows.
    """
    rows = [(time_s, mean) for time_s, mean in response_series(responses, 0.5) if mean is not None]
    calm = float(np.quantile([mean for _, mean in rows], 0.25))
    for time_s, mean in rows:
        if added_s <= time_s < added_s + within_s and mean <= NORMAL * calm:
            return time_s - added_s
    return None


_KINDS: Mapping[Kind, Callable[[BlueDoveSetting, int], Measured]] = {
    "rate": measure_rate,
    "profile": measure_profile,
    "subscriptions": measure_subscriptions,
    "elasticity": measure_elasticity,
    "faults": measure_faults,
}
