"""Which runs the evaluation has, by scale (IV-C to IV-F).

`small` has 1,000 subscriptions that take 40 times as long to search, and servers 400 times slower
than the paper's, so that a second has some hundred messages instead of a hundred thousand; `paper`
has the paper's 40,000, and servers 50 times slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shoal.experiments.bluedove.runs import PAPER_SUBSCRIPTIONS, Kind, Run
from shoal.experiments.bluedove.testbed import SEARCH_NS, Setting
from shoal.overlays.bluedove.forwarding import Policy

SYSTEMS = ("bluedove", "peer-to-peer", "full replication")
DIMENSIONS = 4


class Scale(NamedTuple):
    """How much is run.

    sizes        numbers of matchers
    most         the number for all that varies something else
    messages     in one trial, at least
    """

    name: str
    slowdown: int
    sizes: tuple[int, ...]
    subscriptions: int
    messages: int
    dimensions: tuple[int, ...]
    deviations: tuple[float, ...]
    adverse: tuple[int, ...]
    subscription_sizes: tuple[int, ...]

    @property
    def most(self) -> int:
        return max(self.sizes)


SCALES = {
    "small": Scale(
        "small", 400, (5, 20), 1_000, 5_000, (1, 2, 4), (250.0, 500.0, 1_000.0), (0, 2, 4), (20,)
    ),
    "paper": Scale(
        "paper",
        50,
        (5, 10, 15, 20),
        PAPER_SUBSCRIPTIONS,
        20_000,
        (1, 2, 3, 4),
        (250.0, 500.0, 750.0, 1_000.0),
        (0, 1, 2, 3, 4),
        (5, 10, 15, 20),
    ),
}


def grid(scale: Scale, folder: Path, seed: int) -> list[Run]:
    """All runs of a scale."""
    return list(_runs(scale, str(folder), seed))


def _runs(scale: Scale, folder: str, seed: int) -> Iterator[Run]:
    def run(name: str, kind: Kind, cost: float, **options: object) -> Run:
        search_ns = SEARCH_NS * PAPER_SUBSCRIPTIONS // scale.subscriptions
        common = {
            "subscriptions": scale.subscriptions,
            "search_ns": search_ns,
            "slowdown": scale.slowdown,
            "seed": seed,
        }
        setting = Setting(**common | {"matchers": scale.most} | options)  # type: ignore[arg-type]
        return Run(
            name=name,
            kind=kind,
            setting=setting,
            messages=scale.messages,
            cost=cost * setting.matchers,
            folder=folder,
        )

    for system in SYSTEMS:
        for matchers in scale.sizes:
            whole = matchers == scale.most and system != "full replication"
            kind: Kind = "profile" if whole else "rate"
            cost = 4.0 if system == "bluedove" else 1.0
            yield run(rate_name(system, matchers), kind, cost, system=system, matchers=matchers)
        for matchers in scale.subscription_sizes:
            name = subscriptions_name(system, matchers)
            # Where to start from: what the system can hold is found from there.
            start = max(50, scale.subscriptions // 4)
            yield run(
                name,
                "subscriptions",
                6.0,
                system=system,
                matchers=matchers,
                subscriptions=start,
            )
    for policy in Policy:
        if policy is not Policy.ADAPTIVE:
            yield run(policy_name(policy), "rate", 3.0, policy=policy)
    for dimensions in scale.dimensions:
        if dimensions != DIMENSIONS:
            yield run(dimensions_name(dimensions), "rate", 2.0, dimensions=dimensions)
    for deviation in scale.deviations[1:]:
        yield run(deviation_name(deviation), "rate", 3.0, deviation=deviation)
    for adverse in scale.adverse[1:]:
        yield run(adverse_name(adverse), "rate", 3.0, adverse=adverse)
    yield run("elasticity", "elasticity", 12.0, matchers=min(scale.sizes), spares=4)
    yield run("faults", "faults", 5.0)


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
