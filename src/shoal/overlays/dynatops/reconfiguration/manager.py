"""The manager's part: which brokers should change places, and when.

Roots report what they counted.  A period after the first report the manager looks whether a
change could be worth its price, then takes one step of the greedy search after the other, each an
input of its own, so that no broker stalls; and if what it finds pays, makes a view in which
brokers stand elsewhere.  What is under way goes on in that view: see `members/`.

Source: DYNATOPS, section 5.1, Algorithms 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from shoal.broker.effects import Effect, Record, SetTimer
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.members.view import Age
from shoal.overlays.dynatops.messages import TopicCount
from shoal.overlays.dynatops.parameters import Parameters
from shoal.overlays.dynatops.records import ReconfigurationRecord

if TYPE_CHECKING:  # compiled code: only who plans needs it
    from shoal.overlays.dynatops.planning.greedy import Step
    from shoal.overlays.dynatops.planning.problem import Problem

DECIDE = ("reconfiguration", "decide")
STEP = ("reconfiguration", "step")
# Of the greedy search; what it finds later saves next to nothing.
MAX_STEPS = 200
# A topic of which fewer are expected in a period is forgotten.
LEAST_EXPECTED = 0.01


class _Search:
    """A search that is going on in a view; broker numbers are those of names in their order."""

    def __init__(self, age: Age, problem: Problem, mapping: tuple[int, ...], cost: float) -> None:
        from shoal.overlays.dynatops.planning.greedy import improvements

        self.age = age
        self.problem = problem
        self.mapping = mapping
        self.cost = cost
        self.steps: list[Step] = []
        self.improvements: Iterator[Step] = improvements(problem, mapping)


@cache
def _warm_up() -> None:
    """Plan for four brokers: what is loaded and compiled for that stalls no broker at work."""
    import numpy as np

    from shoal.overlays.dynatops.planning.costs import notification_cost
    from shoal.overlays.dynatops.planning.greedy import best_of, improvements, is_worth_a_look
    from shoal.overlays.dynatops.planning.problem import Problem, trees_of
    from shoal.overlays.dynatops.structures.chord import Chord

    wanted = np.array([[False], [True], [False], [True]])
    problem = Problem(trees_of(Chord(4), [0]), wanted, np.array([1.0]), delay_weight=0.0)
    mapping = (0, 1, 2, 3)
    cost = notification_cost(problem, mapping)
    is_worth_a_look(problem, cost, 0.0)
    best_of(problem, mapping, cost, list(improvements(problem, mapping)), 1.0)


class Manager:
    """At the broker that is the manager, or may come to be it."""

    def __init__(self, membership: Membership, parameters: Parameters) -> None:
        _warm_up()
        self._membership = membership
        self._parameters = parameters
        self._counts: dict[str, float] = {}
        self._homes: dict[str, set[str]] = {}
        self._expected: dict[str, float] = {}
        self._is_timed = False
        self._search: _Search | None = None

    def hear(self, topics: Iterable[TopicCount], now_us: int, out: list[Effect]) -> None:
        """A root reports."""
        for topic in topics:
            self._counts[topic.topic] = self._counts.get(topic.topic, 0) + topic.publications
            self._homes.setdefault(topic.topic, set()).update(topic.homes)
        if not self._is_timed:
            self._is_timed = True
            out.append(SetTimer(DECIDE, now_us + self._parameters.reconfigure_us))

    def timer(self, name: str, now_us: int, out: list[Effect]) -> None:
        if name == "decide":
            self._decide(now_us, out)
        elif self._search is not None:
            self._take_step(self._search, now_us, out)

    def _decide(self, now_us: int, out: list[Effect]) -> None:
        """Algorithm 2, to step 2: estimate, and look whether a change could be worth it."""
        from shoal.overlays.dynatops.planning.costs import notification_cost
        from shoal.overlays.dynatops.planning.greedy import is_worth_a_look, smoothed_rate

        self._is_timed = False
        counts, self._counts = self._counts, {}
        homes, self._homes = self._homes, {}
        self._expected = {
            topic: expected
            for topic in sorted({*self._expected, *counts})
            if (
                expected := smoothed_rate(
                    self._expected.get(topic, float(counts.get(topic, 0))),
                    counts.get(topic, 0),
                    self._parameters.rate_percent / 100,
                )
            )
            >= LEAST_EXPECTED
        }
        view = self._membership.view
        if view is None or not self._membership.is_manager or len(view.members) < 2:
            return
        topics = [topic for topic in self._expected if homes.get(topic)]
        if not topics:
            return
        problem, mapping = self._problem(topics, homes)
        cost = notification_cost(problem, mapping)
        share = self._parameters.threshold_percent * self._parameters.price_percent / 100**2
        if is_worth_a_look(problem, cost, share):
            self._search = _Search(view.age, problem, mapping, cost)
            out.append(SetTimer(STEP, now_us))

    def _problem(
        self, topics: list[str], homes: dict[str, set[str]]
    ) -> tuple[Problem, tuple[int, ...]]:
        import numpy as np

        from shoal.overlays.dynatops.planning.problem import Problem, trees_of

        view, places = self._membership.view, self._membership.places
        assert view is not None
        assert places is not None
        names = sorted(view.members)
        wanted = np.array([[name in homes[topic] for topic in topics] for name in names])
        roots = [places.structure.root(topic) for topic in topics]
        expected = np.array([self._expected[topic] for topic in topics])
        problem = Problem(
            trees_of(places.structure, roots),
            wanted,
            expected,
            delay_weight=self._parameters.delay_weight,
        )
        positions = {name: at for at, name in enumerate(view.members)}
        return problem, tuple(positions[name] for name in names)

    def _take_step(self, search: _Search, now_us: int, out: list[Effect]) -> None:
        view = self._membership.view
        if view is None or view.age != search.age:
            self._search = None
            self._record("dropped", now_us, out)
            return
        step = next(search.improvements, None) if len(search.steps) < MAX_STEPS else None
        if step is not None:
            search.steps.append(step)
            out.append(SetTimer(STEP, now_us))
        else:
            self._search = None
            self._finish(search, now_us, out)

    def _finish(self, search: _Search, now_us: int, out: list[Effect]) -> None:
        """Algorithm 4, then step 4 of Algorithm 2."""
        from shoal.overlays.dynatops.planning.costs import moved
        from shoal.overlays.dynatops.planning.greedy import best_of
        from shoal.overlays.dynatops.planning.problem import inverse

        weight = self._parameters.price_percent / 100
        found = best_of(search.problem, search.mapping, search.cost, search.steps, weight)
        if not found.steps:
            self._record("kept", now_us, out)
            return
        assert self._membership.view is not None
        names = sorted(self._membership.view.members)
        members = tuple(names[number] for number in inverse(found.mapping))
        self._membership.rearrange(members, now_us, out)
        count = len(moved(search.mapping, found.mapping))
        self._record("done", now_us, out, count, found.benefit, found.cost)

    def _record(
        self,
        outcome: str,
        now_us: int,
        out: list[Effect],
        moved: int = 0,
        benefit: float = 0.0,
        price: float = 0.0,
    ) -> None:
        view = self._membership.view
        row = ReconfigurationRecord(
            broker=self._membership.broker,
            at_us=now_us,
            outcome=outcome,
            version=0 if view is None else view.version,
            moved=moved,
            benefit=benefit,
            price=price,
        )
        out.append(Record(row))
