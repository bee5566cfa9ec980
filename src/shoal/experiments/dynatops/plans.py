"""Figure 10 and table 1: gains of plans over consistent hashing, their time, and their distance
from the best.

Source: DYNATOPS, section 6.3.3.  Subscriptions are of brokers; how many a broker has the paper does
not say: here a tenth of the topics, either modes of ten or any; those of one mode at least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from shoal.experiments.studies.runs import RecordedRun, run_key
from shoal.experiments.studies.study import ScaleName
from shoal.overlays.dynatops.planning.costs import notification_cost
from shoal.overlays.dynatops.planning.greedy import improvements
from shoal.overlays.dynatops.planning.pairwise import rounds
from shoal.overlays.dynatops.planning.problem import Mapping as Places
from shoal.overlays.dynatops.planning.problem import PlacementProblem, trees_of
from shoal.overlays.dynatops.planning.search import annealed, by_any_swap, cheapest, regret
from shoal.overlays.dynatops.structures.chord import Chord

Pattern = Literal["uniform", "multimodal"]
# Reference: none, the best of all mappings, or the best that a longer search finds.
Judge = Literal["", "all", "search"]
PATTERNS: tuple[Pattern, ...] = ("uniform", "multimodal")
SHARE, TOPICS_PER_MODE = 0.1, 10
ROUNDS = 30
# Brokers that each knows beside its neighbours, where they plan in pairs.
HEARD_OF = 10


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers that subscribe to topics, and stand where consistent hashing put them."""

    brokers: int
    topics: int
    pattern: Pattern
    seed: int
    judge: Judge = ""

    @property
    def name(self) -> str:
        judge = f"-{self.judge}" if self.judge else ""
        return f"plans/{self.pattern}-{self.brokers}-{self.topics}{judge}-{self.seed}"


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """Costs before and after, in how many swaps and seconds, and above the best if that is known.

    `others` are plans of ours by name, above the best.
    """

    key: str
    case: Case
    before: float
    after: float
    swaps: int
    seconds: float
    regret: float | None = None
    others: dict[str, float] = {}

    @property
    def saving(self) -> float:
        return 1 - self.after / self.before if self.before else 0.0


class PlanRun(RecordedRun[Planned], frozen=True, kw_only=True):
    """One case."""

    name: str
    cost: float
    case: Case

    summary_type = Planned

    def measure(self) -> Planned:
        problem, mapping = draw_problem(self.case)
        # The kernels are compiled once for all.
        next(improvements(problem, mapping), None)
        began = time.process_time()
        steps = list(improvements(problem, mapping))
        seconds = time.process_time() - began
        before = notification_cost(problem, mapping)
        after = steps[-1].cost if steps else before
        best, others = None, dict[str, float]()
        if self.case.judge:
            others = {name: plan(problem, mapping) for name, plan in OTHERS.items()}
            if self.case.judge == "all":
                _, best = cheapest(problem)
            else:
                _, best = annealed(problem, mapping, self.case.seed, ROUNDS)
                best = min(best, after, *others.values())
            others = {name: regret(cost, best) for name, cost in others.items()}
        return Planned(
            key=self.key,
            case=self.case,
            before=before,
            after=after,
            swaps=len(steps),
            seconds=seconds,
            regret=None if best is None else regret(after, best),
            others=others,
        )


def _by_next(problem: PlacementProblem, mapping: Places) -> float:
    *_, cost = (
        notification_cost(problem, mapping),
        *(step.cost for step in improvements(problem, mapping, "next")),
    )
    return cost


def _by_any(problem: PlacementProblem, mapping: Places) -> float:
    return by_any_swap(problem, mapping)[1]


def _in_pairs(problem: PlacementProblem, mapping: Places) -> float:
    ring = Chord(problem.brokers)
    *_, cost = (
        notification_cost(problem, mapping),
        *(each.cost for each in rounds(ring, problem, mapping, HEARD_OF)),
    )
    return cost


# Costs of notifications by each plan.
OTHERS: Mapping[str, Callable[[PlacementProblem, Places], float]] = {
    "next": _by_next, "any": _by_any, "pairs": _in_pairs,
}  # fmt: skip


def draw_problem(case: Case) -> tuple[PlacementProblem, Places]:
    """The problem, and the mapping that consistent hashing gives."""
    random = np.random.default_rng([case.seed, case.brokers, case.topics])
    ring = Chord(case.brokers)
    wanted = np.zeros((case.brokers, case.topics), np.bool_)
    modes = max(1, case.topics // TOPICS_PER_MODE)
    own = max(1, round(SHARE * modes))
    for broker in range(case.brokers):
        if case.pattern == "multimodal":
            for mode in random.choice(modes, own, replace=False):
                wanted[broker, mode * TOPICS_PER_MODE : (mode + 1) * TOPICS_PER_MODE] = True
        else:
            count = min(own * TOPICS_PER_MODE, case.topics)
            wanted[broker, random.choice(case.topics, count, replace=False)] = True
    roots = [ring.root(f"{case.seed}/{topic}") for topic in range(case.topics)]
    problem = PlacementProblem(trees_of(ring, roots), wanted, np.ones(case.topics))
    return problem, random.permutation(case.brokers).tolist()


class PlanScale(NamedTuple):
    """Sizes, and the number of cases of each for which the optimum is searched."""

    sizes: Sequence[tuple[int, int]]
    judged: int


PLAN_SCALES: Mapping[ScaleName, PlanScale] = {
    "small": PlanScale(
        ((10, 100), (100, 100), (1_000, 100), (100, 50), (100, 500), (100, 5_000), (1_000, 1_000)),
        10,
    ),
    "paper": PlanScale(
        ((10, 100), (100, 100), (1_000, 100), (100, 50), (100, 500), (100, 5_000), (1_000, 1_000)),
        25,
    ),
}


def plan_runs(scale: PlanScale, seed: int, root: Path) -> list[PlanRun]:
    """All cases as tasks, below a study's folder."""
    return [
        PlanRun(
            key=run_key([case]),
            file=str(root / "runs" / f"{case.name}.json"),
            name=case.name,
            cost=case.brokers * case.topics / 100_000,
            case=case,
        )
        for case in _cases(scale, seed)
    ]


def _cases(scale: PlanScale, seed: int) -> Iterator[Case]:
    for pattern in PATTERNS:
        for brokers, topics in scale.sizes:
            yield Case(brokers=brokers, topics=topics, pattern=pattern, seed=seed)
        for number in range(seed, seed + scale.judged):
            few = Case(brokers=8, topics=50, pattern=pattern, seed=number, judge="all")
            yield few
            yield msgspec.structs.replace(few, brokers=50, judge="search")
