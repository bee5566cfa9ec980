"""A broker leaves during a fault: one tree is left, and only publications over the fault are lost.

A few seeds here, 1,000 by `make soak`; SHOAL_SEEDS="7" or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from unittest.mock import patch

import pytest

from shoal.broker.effects import Effect, Input, LinkChanged
from shoal.broker.machine import Broker
from tests.examples import at_length
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.faults.broken_leaves import LEAVES_US, BrokenLeave
from tests.seeds.networks.random_network import END_US, SECOND_US
from tests.systems import TREES

# 2: it finds brokers that leave at any time, and neighbours that learn too late that one stays.
QUICK = (2,)
# 8: links are exchanged after the order to leave.
WHERE_LINKS_ARE_EXCHANGED = (*QUICK, 8)
SOAK = range(1_000)
# Above the duration of any leave with a fault; a publisher's rows are held for 30 s.
UNTIL_US = END_US + 90 * SECOND_US


def _run(seeds: Iterable[int], system: str, *, lossy: bool = False, patient: bool = False) -> int:
    """Run and judge; the number of leaves with a fault."""
    broken = 0
    for seed in chosen(seeds):

        def network(seed: int = seed) -> BrokenLeave:
            return BrokenLeave(seed, system=system, lossy=lossy, patient=patient)

        whole = network()
        if len(whole.neighbours[whole.leaving_broker]) < 2:
            continue
        at_us = LEAVES_US
        while whole.leaving_broker not in whole.world.departures and at_us < END_US:
            at_us += 10 * SECOND_US
            whole.world.run(at_us)
        faulty = network()
        faulty.break_something(whole.world.departures[whole.leaving_broker])
        problems = faulty.run(UNTIL_US)
        assert not problems, f"SHOAL_SEEDS={seed}: {faulty.fault}: " + "\n".join(problems)
        broken += 1
    return broken


@pytest.mark.parametrize("system", TREES)
@pytest.mark.parametrize("patient", [True, *at_length([False])])
def test_a_leave_with_a_fault_leaves_one_tree(system: str, patient: bool) -> None:
    seeds = WHERE_LINKS_ARE_EXCHANGED if system == "self_organising" else QUICK
    assert _run(seeds, system, patient=patient) == len(seeds) or CHOSEN


@pytest.mark.soak
def test_regression_seeds_with_exchanges_leave_one_tree() -> None:
    # A broker cut off from a relinked neighbour must not close a cycle.
    _run((80018,), "self_organising", patient=True)
    # A broker that was down must not look for a departed one.
    _run((80024,), "self_organising")
    # A successor dies before any other broker knows of it, and remembers its place.
    _run((510,), "self_organising")
    # A restarted leaving broker must not leave before its links are up.
    _run((506,), "self_organising", lossy=True)
    # A greeting over a link that is about to end must not keep the leaving broker waiting.
    _run((228,), "self_organising", lossy=True)
    _run((303,), "self_organising", patient=True)


def test_regression_seeds_over_bad_links_leave_one_tree() -> None:
    # A broker returns before the others have relinked, and sends its tables early.
    _run((362,), "tree", lossy=True)


def test_regression_seeds_with_moves_leave_one_tree() -> None:
    # The successor's count of moves is below the leaving broker's.
    _run((206,), "grape")
    _run((413,), "grape", lossy=True)


@pytest.mark.parametrize("seed", [4, 7])
def test_no_link_flaps_during_a_leave_with_a_fault(seed: int) -> None:
    """If one end wanted it and the other not, it would come and go 30 to 300 times a second.

    4: both ends agreed on it, one because of a leave that failed. 7: a departed broker reopened
    links that its relinked neighbours had ended.
    """
    ups: Counter[tuple[str, str]] = Counter()
    handle = Broker.handle

    def counted(self: Broker, input: Input, now_us: int) -> list[Effect]:
        if isinstance(input, LinkChanged) and input.up:
            ups[self.id, input.neighbour] += 1
        return handle(self, input, now_us)

    whole = BrokenLeave(seed, system="self_organising")
    whole.world.run(LEAVES_US + 20 * SECOND_US)
    with patch.object(Broker, "handle", counted):
        broken = BrokenLeave(seed, system="self_organising")
        broken.break_something(whole.world.departures[whole.leaving_broker])
        assert broken.run(UNTIL_US) == []
    assert max(ups.values()) < 10


@pytest.mark.soak
@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("system", TREES)
def test_a_thousand_leaves_with_faults_leave_one_tree(
    system: str, lossy: bool, patient: bool
) -> None:
    assert _run(SOAK, system, lossy=lossy, patient=patient) > 500 or CHOSEN
