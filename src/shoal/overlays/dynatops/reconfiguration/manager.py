"""The manager's plans: which brokers should change places, and when.

Roots report their counts. A period after the first report the manager checks whether a change could
be worth its price, then searches the swaps of one broker after the other, each an input of its own,
so that the broker does not stall. If the result pays, it makes a view with the new positions.
Publications in transit continue in that view: see `members/`. The price of a change is learned from
the messages that brokers report to have sent for earlier ones.

Source: DYNATOPS, section 5.1, Algorithms 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Set
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from shoal.broker.effects import Effect, Record, SetTimer
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import TopicCount
from shoal.overlays.dynatops.parameters import DynatopsParameters, PriceParameters
from shoal.overlays.dynatops.reconfiguration.counting import Estimate, SentPrice
from shoal.overlays.dynatops.records import ReconfigurationRecord
from shoal.overlays.dynatops.view import Age, View

if TYPE_CHECKING:  # compiled code: only the planning broker needs it
    from shoal.overlays.dynatops.planning.advising.swapping import SwapRules
    from shoal.overlays.dynatops.planning.greedy import GreedyProposal, GreedyStep
    from shoal.overlays.dynatops.planning.problem import Amounts, Flags
    from shoal.overlays.dynatops.structures.structure import Structure

DECIDE = ("reconfiguration", "decide")
STEP = ("reconfiguration", "step")
# Bound of the greedy search; later steps save next to nothing.
MAX_STEPS = 200


class _Search(NamedTuple):
    """A running search in a view; broker numbers are those of names in their order.

    `work` yields the result at last, None if no change could be worth its price.
    """

    age: Age
    start: tuple[int, ...]
    work: Generator[None, None, GreedyProposal | None]


def _work(
    structure: Structure,
    roots: list[int],
    wanted: Flags,
    expected: Amounts,
    start: tuple[int, ...],
    parameters: DynatopsParameters,
    rules: SwapRules,
    price: Callable[[int, int], float] | None = None,
) -> Generator[None, None, GreedyProposal | None]:
    """Algorithm 2 to step 2, whether a change could be worth it, then Algorithms 3 and 4."""
    from shoal.overlays.dynatops.planning.costs import notification_cost
    from shoal.overlays.dynatops.planning.greedy import best_of, is_worth_a_look, searched
    from shoal.overlays.dynatops.planning.problem import PlacementProblem, growing_trees

    growing = growing_trees(structure, roots)
    while (trees := next(growing)) is None:
        yield
    problem = PlacementProblem(trees, wanted, expected, delay_weight=parameters.delay_weight)
    cost = notification_cost(problem, start)
    share = parameters.threshold_percent * parameters.price_percent / 100**2
    price_of = None if price is None else partial(price, problem.brokers)
    if not is_worth_a_look(problem, cost, share, price_of):
        return None
    yield
    steps: list[GreedyStep] = []
    for step in searched(problem, start, rules):
        if step is not None:
            steps.append(step)
        if len(steps) == MAX_STEPS:
            break
        yield
    return best_of(problem, start, cost, steps, parameters.price_percent / 100, price_of)


def _rules(names: list[BrokerId], parameters: DynatopsParameters) -> SwapRules:
    """Constraints on swaps of these brokers."""
    import numpy as np

    from shoal.overlays.dynatops.planning.advising.swapping import SwapRules

    regions = {name: number for number, row in enumerate(parameters.regions, 1) for name in row}
    return SwapRules(
        parameters.search.value,
        pinned=np.array([name in parameters.pinned for name in names]) if names else None,
        regions=[regions.get(name, 0) for name in names] if parameters.regions else None,
    )


@cache
def _warm_up() -> None:
    """Plan for four brokers once, so that imports and compilation do not stall a broker later."""
    import numpy as np

    from shoal.overlays.dynatops.structures.chord import Chord

    wanted = np.array([[False], [True], [False], [True]])
    parameters = DynatopsParameters(delay_weight=0.0, threshold_percent=0)
    rules = _rules([], parameters)
    for _ in _work(Chord(4), [0], wanted, np.array([1.0]), (0, 1, 2, 3), parameters, rules):
        pass


class Manager:
    """Planning at the manager, or at a broker that may become it."""

    def __init__(self, membership: ViewMembership, parameters: DynatopsParameters) -> None:
        self._membership = membership
        self._parameters = parameters
        self._estimate = Estimate(parameters.rate_percent)
        self._is_timed = False
        self._search: _Search | None = None
        self._price = SentPrice()
        self.began()

    def began(self) -> None:
        """In each view: brokers that may have to plan warm up, and others save that memory."""
        if self._membership.may_manage:
            _warm_up()

    @property
    def expected(self) -> Mapping[str, float]:
        """Publications of each topic that are expected in a period."""
        return self._estimate.expected

    def on_counts(
        self, topics: Iterable[TopicCount], now_us: int, out: list[Effect], spent: int = 0
    ) -> None:
        """A root reports."""
        self._price.add(spent)
        self._estimate.on_counts(topics)
        if not self._is_timed:
            self._is_timed = True
            out.append(SetTimer(DECIDE, now_us + self._parameters.reconfigure_us))

    def timer(self, name: str, now_us: int, out: list[Effect]) -> None:
        if name == "decide":
            self._estimate_and_search(now_us, out)
        elif self._search is not None:
            self._take_step(self._search, now_us, out)

    def _estimate_and_search(self, now_us: int, out: list[Effect]) -> None:
        """Algorithm 2, step 1: estimate; then begin to search."""
        self._is_timed = False
        self._price.add(self._membership.take_spent())
        self._price.learn()
        expected, homes = self._estimate.renew()
        view = self._membership.view
        if view is None or not self._membership.is_manager or len(view.members) < 2:
            return
        if view.is_held:
            return
        expected = {topic: each for topic, each in expected.items() if homes.get(topic)}
        if expected:
            self._search = self._begin_search(view, expected, homes)
            out.append(SetTimer(STEP, now_us))

    def _begin_search(
        self, view: View, expected: Mapping[str, float], homes: Mapping[str, Set[BrokerId]]
    ) -> _Search:
        import numpy as np

        places = self._membership.places
        assert places is not None
        numbers, topics = {name: at for at, name in enumerate(sorted(view.members))}, list(expected)
        wanted = np.zeros((len(numbers), len(topics)), np.bool_)
        for at, topic in enumerate(topics):
            wanted[[numbers[home] for home in homes[topic] if home in numbers], at] = True
        roots = [places.structure.root(topic) for topic in topics]
        amounts = np.array([expected[topic] for topic in topics])
        positions = {name: at for at, name in enumerate(view.members)}
        start = tuple(positions[name] for name in numbers)
        rules = _rules(list(numbers), self._parameters)
        is_sent = self._parameters.price is PriceParameters.SENT
        price = self._price.of if is_sent else None
        work = _work(
            places.structure, roots, wanted, amounts, start, self._parameters, rules, price
        )
        return _Search(view.age, start, work)

    def _take_step(self, search: _Search, now_us: int, out: list[Effect]) -> None:
        view = self._membership.view
        if view is None or view.age != search.age:
            self._search = None
            self._record("dropped", now_us, out)
            return
        try:
            next(search.work)
        except StopIteration as end:
            self._search = None
            if end.value is not None:
                self._finish(view, search, end.value, now_us, out)
            return
        out.append(SetTimer(STEP, now_us))

    def _finish(
        self, view: View, search: _Search, found: GreedyProposal, now_us: int, out: list[Effect]
    ) -> None:
        """Step 4 of Algorithm 2."""
        from shoal.overlays.dynatops.planning.costs import moved
        from shoal.overlays.dynatops.planning.problem import inverse

        if not found.steps:
            self._record("kept", now_us, out)
            return
        names = sorted(view.members)
        members = tuple(names[number] for number in inverse(found.mapping))
        if not self._membership.rearrange(members, now_us, out, is_held=False):
            self._record("dropped", now_us, out)
            return
        count = len(moved(search.start, found.mapping))
        self._price.done(len(names), count)
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
