"""The runs of the study: section VIII's three experiments, and our additions.

>>> settings = grid(SCALES["small"], 1)
>>> len(settings) == len({setting.name for setting in settings})
True

Source: OctopiA, section VIII. A scale divides the burst and all publications beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from shoal.experiments.studies.study import ScaleName

Part = Literal[
    "publishers",
    "subscribers",
    "uneven",
    "loaded",
    "churn",
    "burst",
    "sources",
    "output",
    "links",
    "matched",
    "clusters",
    "failures",
]
# TID, static and dynamic; OctopiA's static routing (SNR); its inter-cluster dynamic routing (IDR)
# with equation 10 as in the paper; and, ours, without flapping, in order, and spread over trees.
Way = Literal["tid", "tid-dynamic", "snr", "idr", "steady", "ordered", "spread"]
PAPERS: tuple[Way, ...] = ("tid", "tid-dynamic", "snr", "idr")
OURS: tuple[Way, ...] = ("steady", "ordered", "spread")
# Per minute, of the publisher with the high rate (VIII).
RATES = (100_000, 80_000, 60_000)
CLUSTERS = 5
PUBLISHERS, SUBSCRIBERS = 100, 2_000
BURST, BESIDE = 100_000, 2_000
# A broker sends its copies one after the other: it has one of the 72 cores of the paper's six
# machines, and copies are serialised Java objects, while links are 10 Gb/s.  The host of a burst
# makes five of each notification, so that the paper's 17 minutes for 100,000 are 2 ms for a copy.
OUTPUT_US = 2_000
# One way over a link; where links differ at random, up to their greatest.
LATENCY_US = 200
# Beside it: each link sends by itself.  Then the same 17 minutes are 10 ms.
OUTPUT_BY_ITSELF_US = 10_000
# In the paper 300,000 notifications, each of which 40 subscriptions overlap, are 6 million
# deliveries: half of those that overlap match.
MATCHED = 50
# Time between two advertisements: each has spread before the next, or several spread at a time, so
# that each finds load on the links (II).
ADVERTISING_US = 20_000
LOADED_US = (2_000, 3_000, 5_000)


class OctopiaSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    count      advertisements, or subscriptions, that there are in the end
    rate       publications per minute of each publisher in a burst, of `burst` each
    sources    number of publishers with a burst
    beside     publications, one a second, of each of the other publishers
    clusters   k
    output_us  time of a copy on an output
    shared     a broker sends one copy at a time; otherwise each of its links does
    latency_us one way over a link; above 200 at random, from 200 to this
    matched    percentage of a publisher's notifications that match a subscription to them
    advertising_us  time between two advertisements
    """

    part: Part
    way: Way
    seed: int
    count: int = SUBSCRIBERS
    rate: int = RATES[0]
    burst: int = 0
    sources: int = 1
    beside: int = 0
    clusters: int = CLUSTERS
    output_us: int = OUTPUT_US
    shared: bool = True
    matched: int = MATCHED
    latency_us: int = LATENCY_US
    advertising_us: int = ADVERTISING_US

    @property
    def name(self) -> str:
        """Unique within a data set; also the path of its summary."""
        varied = {
            "publishers": self.count,
            "subscribers": self.count,
            "uneven": self.latency_us,
            "loaded": self.advertising_us,
            "churn": self.count,
            "burst": self.rate,
            "sources": self.sources,
            "output": self.output_us,
            "links": self.output_us,
            "matched": self.matched,
            "clusters": self.clusters,
            "failures": self.clusters,
        }[self.part]
        return f"{self.part}/{varied:06}-{self.way}"

    @property
    def cost(self) -> float:
        """About how long it takes, in seconds."""
        if self.part in ("publishers", "subscribers", "uneven", "loaded", "churn"):
            return self.count / 500
        return (self.burst * self.sources + 100 * self.beside) / 600


class OctopiaScale(NamedTuple):
    """Size of the runs.

    share    the burst and all beside it are so much shorter than the paper's
    varied   other varied runs have a burst of this share
    """

    name: ScaleName
    advertisements: tuple[int, ...]
    subscriptions: tuple[int, ...]
    latencies_us: tuple[int, ...]
    share: int
    varied: int
    outputs_us: tuple[int, ...]
    matched: tuple[int, ...]
    sources: tuple[int, ...]
    clusters: tuple[int, ...]
    failures: tuple[int, ...]


SCALES: Mapping[ScaleName, OctopiaScale] = {
    "small": OctopiaScale(
        name="small",
        advertisements=(100, 500),
        subscriptions=(500, 2_000),
        latencies_us=(2_000, 10_000),
        share=100,
        varied=200,
        outputs_us=(500, 1_000, 4_000),
        matched=(25, 100),
        sources=(2, 4),
        clusters=(2, 3, 4, 6),
        failures=(2, 3, 5),
    ),
    "paper": OctopiaScale(
        name="paper",
        advertisements=(100, 200, 300, 400, 500),
        subscriptions=(500, 1_000, 2_000, 3_000, 4_000, 5_000),
        latencies_us=(1_000, 2_000, 5_000, 10_000, 50_000),
        share=1,
        varied=20,
        outputs_us=(200, 500, 1_000, 4_000),
        matched=(10, 25, 75, 100),
        sources=(2, 3, 4, 5),
        clusters=(2, 3, 4, 6),
        failures=(2, 3, 4, 5, 6),
    ),
}


def grid(scale: OctopiaScale, seed: int) -> list[OctopiaSetting]:
    """Every run, in the order of the figures."""
    return list(_settings(scale, seed))


def _settings(scale: OctopiaScale, seed: int) -> Iterator[OctopiaSetting]:
    ends: tuple[Way, ...] = ("tid", "ordered")
    for count in scale.advertisements:
        for way in ends:
            yield OctopiaSetting(part="publishers", way=way, seed=seed, count=count)
    for count in scale.subscriptions:
        for way in ends:
            yield OctopiaSetting(part="subscribers", way=way, seed=seed, count=count)
    for latency_us in scale.latencies_us:
        for way in ends:
            count = scale.subscriptions[0]
            yield OctopiaSetting(
                part="uneven", way=way, seed=seed, count=count, latency_us=latency_us
            )
    for advertising_us in LOADED_US:
        for way in ends:
            count = scale.subscriptions[0]
            yield OctopiaSetting(
                part="loaded", way=way, seed=seed, count=count, advertising_us=advertising_us
            )
    for way in ends:
        yield OctopiaSetting(part="churn", way=way, seed=seed, count=scale.subscriptions[0])
    whole = OctopiaSetting(
        part="burst", way="snr", seed=seed, burst=BURST // scale.share, beside=BESIDE // scale.share
    )
    for rate in RATES:
        for way in (*PAPERS, *OURS):
            yield msgspec.structs.replace(whole, way=way, rate=rate)
    less = msgspec.structs.replace(
        whole, burst=BURST // scale.varied, beside=BESIDE // scale.varied
    )
    for way in ("snr", "idr"):
        for sources in (1, *scale.sources):
            yield msgspec.structs.replace(less, part="sources", way=way, sources=sources)
    for output_us in scale.outputs_us:
        for way in ("snr", "idr", *OURS):
            yield msgspec.structs.replace(less, part="output", way=way, output_us=output_us)
    for way in ("tid", "snr", "idr", *OURS):
        yield msgspec.structs.replace(
            less, part="links", way=way, shared=False, output_us=OUTPUT_BY_ITSELF_US
        )
    for matched in scale.matched:
        for way in ("tid", "snr", "idr", "ordered"):
            yield msgspec.structs.replace(less, part="matched", way=way, matched=matched)
    for clusters in scale.clusters:
        for way in ("snr", *OURS):
            yield msgspec.structs.replace(less, part="clusters", way=way, clusters=clusters)
    for clusters in scale.failures:
        yield OctopiaSetting(
            part="failures", way="ordered", seed=seed, clusters=clusters, beside=40, output_us=200
        )
