"""Cost and Interest, the paper's worked examples: figure 2, with Eq. 3 to 10 in numbers.

The text fixes c12 + p1 = 3, p2 + c13 + p3 = 7 and c23 = c13 + 1; the rest is chosen here.

  (a) B2 - B1 - B3      (b) B1 - B2 - B3
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.overlays.self_organising.deciding.planner import (
    Cycle,
    Mean,
    NeighbourhoodView,
    UnknownBrokerError,
    cost_vector,
    decide,
    evaluate,
    indirect_costs,
)
from shoal.overlays.self_organising.parameters import Heuristic

CI, MST, MIT = Heuristic.COST_AND_INTEREST, Heuristic.COST, Heuristic.INTEREST
# From B2, which proposes, over B1 to B3; links 12, 13, and the new one 23.
OVER_12, OVER_13, OVER_23 = range(3)
CYCLE = Cycle(brokers=("B2", "B1", "B3"), processing=(2, 2, 2), costs=(1, 3, 4))
Shared = Mapping[frozenset[str], int]


def shared(b12: int, b13: int, b23: int) -> Shared:
    pairs = (("B1", "B2"), ("B1", "B3"), ("B2", "B3"))
    return dict(zip(map(frozenset, pairs), (b12, b13, b23), strict=True))


EXAMPLE_1, EXAMPLE_2 = shared(0, 0, 10), shared(9, 9, 10)


def mean(broker: str, known: Shared) -> Mean:
    (others,) = [{b: known[frozenset({broker, b})] for b in CYCLE.brokers if b != broker}]
    return Mean(others)


def whole_vector(known: Shared) -> list[float]:
    """Eq. 9: the sum of the vectors of all brokers of the cycle."""
    each = [cost_vector(mean(broker, known), CYCLE, broker) for broker in CYCLE.brokers]
    return [sum(costs) for costs in zip(*each, strict=True)]


def basic_costs(view: NeighbourhoodView, cycle: Cycle) -> tuple[float, float]:
    """Eq. 3 and 4: the costs of both trees as the first of three brokers computes them."""
    (_, middle, last), (p_i, p_k, p_j) = cycle.brokers, cycle.processing
    c_ik, c_kj, c_ij = cycle.costs
    i_ik, i_ij = view.shared(middle), view.shared(last)
    assert i_ik is not None
    assert i_ij is not None
    i_ikj = view.shared_by_three(middle, last)
    both = i_ik * (p_i + c_ik + p_k)
    now = both + i_ij * (p_i + c_ik + p_k + c_kj + p_j) - i_ikj * (p_i + c_ik + p_k)
    then = both + i_ij * (p_i + c_ij + p_j) - i_ikj * p_i
    return now, then


def test_the_first_example_by_equations_3_to_5() -> None:
    view = mean("B2", EXAMPLE_1)
    assert basic_costs(view, CYCLE) == (100, 80)
    evaluation = evaluate(CI, view, CYCLE)
    assert evaluation == (6, 4)
    assert evaluation is not None
    assert evaluation.pays


def test_the_second_example_by_equations_3_to_6() -> None:
    view = mean("B2", EXAMPLE_2)
    # The mean is 9.5, and no three share more than the pairs among them.
    assert view.shared_by_three("B1", "B3") == 9
    assert basic_costs(view, CYCLE) == (100, 107)
    evaluation = evaluate(CI, view, CYCLE)
    assert evaluation is not None
    assert evaluation.now == pytest.approx(3.3)
    assert not evaluation.pays


def test_the_first_example_by_equations_8_to_10() -> None:
    assert whole_vector(EXAMPLE_1) == [80, 80, 120]
    # Either old link could go; the more expensive one goes, which leaves tree (b).
    assert decide(CI, CYCLE, whole_vector(EXAMPLE_1)) == (OVER_13, 120, 80)


def test_the_second_example_by_equations_8_to_10() -> None:
    assert whole_vector(EXAMPLE_2) == pytest.approx([197, 143, 120])
    decision = decide(CI, CYCLE, whole_vector(EXAMPLE_2))
    assert (decision.remove, decision.saving) == (OVER_23, 0)


def test_the_trees_of_figure_2_in_the_baselines() -> None:
    # 3.1.2: the minimum spanning tree is (a), and stays.
    assert evaluate(MST, mean("B2", EXAMPLE_1), CYCLE) == (3, 4)
    # The maximum interest tree of the second example is (b), at which `mit` arrives.
    links = (9, 9, 10)
    cycle = Cycle(
        brokers=CYCLE.brokers, processing=CYCLE.processing, costs=CYCLE.costs, shared=links
    )
    evaluation = evaluate(MIT, mean("B2", EXAMPLE_2), cycle)
    assert evaluation is not None
    assert evaluation.pays
    assert decide(MIT, cycle, ()).remove == OVER_13


counts = st.integers(0, 1_000)
costs = st.integers(0, 50)


@given(counts, counts, st.lists(counts, max_size=3), st.lists(costs, min_size=6, max_size=6))
def test_equation_5_holds_if_equation_4_is_less_than_equation_3(
    i_ik: int, i_ij: int, others: list[int], figures: list[int]
) -> None:
    known = {"K": i_ik, "J": i_ij} | {f"X{n}": count for n, count in enumerate(others)}
    cycle = Cycle(brokers=("I", "K", "J"), processing=tuple(figures[:3]), costs=tuple(figures[3:]))
    view = Mean(known)
    now, then = basic_costs(view, cycle)
    evaluation = evaluate(CI, view, cycle)
    if i_ij == 0:  # 4.1: nothing is shared, so nothing is evaluated
        assert evaluation is None
        return
    assert evaluation is not None
    gain = i_ij * (evaluation.now - evaluation.direct)
    assert gain == pytest.approx(now - then, abs=1e-6)
    if abs(now - then) > 1e-6:
        assert evaluation.pays == (then < now)


def test_the_cost_of_a_longer_way_by_equation_7() -> None:
    """Two brokers between; the second shares half of the last one's interest, the first none."""
    view = Mean({"B1": 0, "B2": 5, "B3": 10})
    way = [("B1", 1.0, 2.0), ("B2", 1.0, 3.0), ("B3", 1.0, 4.0)]
    # To B2 all counts (2 + 1 + 3); to B3 half of that, and its processing.
    assert indirect_costs(view, way) == [2, 6, 0.5 * (6 + 1) + 4]


def test_an_unknown_broker_in_between_ends_the_evaluation() -> None:
    with pytest.raises(UnknownBrokerError, match="B1"):
        evaluate(CI, Mean({"B3": 10}), CYCLE)
    with pytest.raises(UnknownBrokerError, match="B3"):
        cost_vector(Mean({"B2": 10}), CYCLE, "B1")


def test_where_links_cost_nothing_the_baseline_of_costs_proposes_nothing() -> None:
    """5.3 with a weight of 1."""
    free = Cycle(brokers=CYCLE.brokers, processing=(20, 3, 9), costs=(0, 0, 0))
    evaluation = evaluate(MST, Mean({"B1": 1, "B3": 10}), free)
    assert evaluation is not None
    assert not evaluation.pays
    assert decide(MST, free, ()).remove == OVER_23
