"""Random networks with exchanges of links, under churn, bad links, crashes and cuts.

Without faults nothing is lost; with them only publications over the fault. Nothing arrives twice,
unwanted or out of order, and in the end there is one tree that every broker knows. SHOAL_SEEDS="7"
or "0-999" replays chosen seeds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shoal.overlays.self_organising.moves.reserved_paths import ReservedPaths
from tests.examples import at_length
from tests.seeds.chosen import CHOSEN, chosen
from tests.seeds.faults.random_exchanges import RandomExchanges

# Of one and four in which links are exchanged often, one covers.
QUICK = (0, 3)
SOAK = range(1_000)
# Few publications, so that there is time for many seeds; many, so that some are always under way.
SELDOM_US, OFTEN_US = 4_000_000, 400_000
# Regression cases: announcements of moves that an exchange turned (17), a link that ends as another
# fault comes (268), a late decision (30069), a decision already known (40887).
FOUND = (17, 268, 30069, 40887)
# A link that neither restarted end remembers must not count as the tree's.
FOUND_WITHOUT_MOVES = (44448,)
# A relinked broker must be asked about the exchange; brokers that aborted it learn late (49448;
# with moves 49787); messages before both greetings (49225).
FOUND_PATIENT = (49225, 49448)
# A restarted broker must not take one link for all of its links.
FOUND_AT_ANY_TIME = (49218,)
# A right announcement before a wrong one must not be withdrawn (20182); a subscription that another
# one covers while an exchange is under way must reach the far side (15).
FOUND_LOSSY = (20182, 15)
# A restarted broker must not void a decision of which it has seen a part.
FOUND_LOSSY_WITH_MOVES = (995,)
WIRES, BAD_LINKS, PATIENT, OTHER_CLOCKS = (
    pytest.param(kind, id=name)
    for name, kind in {
        "wires": {},
        "bad links": {"lossy": True},
        "patient": {"patient": True},
        "clocks that differ": {"clocks": True},
    }.items()
)


def _exchange(seeds: Iterable[int], kind: dict[str, bool], interval_us: int) -> int:
    """Run without faults, then with faults at the exchanges; the number of exchanges."""
    count = 0
    for seed in chosen(seeds):
        network = RandomExchanges(seed, interval_us=interval_us, **kind)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
        count += len(network.exchanged)
        faulty = RandomExchanges(seed, interval_us=interval_us, **kind)
        faulty.break_exchanges(network.exchanged, 4)
        problems = faulty.run()
        assert not problems, f"SHOAL_SEEDS={seed}, with faults: " + "\n".join(problems)
    return count


@pytest.mark.parametrize("kind", [BAD_LINKS, PATIENT, *at_length([WIRES, OTHER_CLOCKS])])
def test_faults_at_exchanges_leave_one_tree(kind: dict[str, bool]) -> None:
    count = _exchange(QUICK, kind, SELDOM_US)
    assert CHOSEN or count > 40


def test_regression_seeds_without_moves() -> None:
    _exchange(FOUND_WITHOUT_MOVES, {}, SELDOM_US)


@pytest.mark.soak
def test_regression_seeds_with_patient_neighbours() -> None:
    for interval_us in (SELDOM_US, OFTEN_US):
        _exchange(FOUND_PATIENT, {"patient": True}, interval_us)
    _exchange((49787,), {"patient": True, "moves": True}, OFTEN_US)
    _at_any_time(FOUND_AT_ANY_TIME, moves=True)


def test_regression_seeds_over_bad_links() -> None:
    _exchange(FOUND_LOSSY, {"lossy": True}, SELDOM_US)


@pytest.mark.soak
def test_held_input_over_bad_links_counts_as_under_way() -> None:
    """Brokers are quiesced for 6 s, and a client unsubscribes meanwhile."""
    _exchange((42933, 43285), {"lossy": True}, OFTEN_US)


def test_exchanges_under_load_lose_nothing() -> None:
    _exchange(range(100, 102), {}, OFTEN_US)


def test_moves_during_exchanges_lose_nothing() -> None:
    moves = sum(_moves(seed, OFTEN_US) for seed in chosen(QUICK))
    assert CHOSEN or moves > 40


@pytest.mark.soak
def test_regression_seeds_with_moves() -> None:
    _exchange(FOUND, {"moves": True}, SELDOM_US)
    _exchange(FOUND_LOSSY_WITH_MOVES, {"moves": True, "lossy": True}, OFTEN_US)


def _moves(seed: int, interval_us: int) -> int:
    network = RandomExchanges(seed, moves=True, interval_us=interval_us)
    problems = network.run()
    assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)
    return network.moves


def test_the_judges_notice_moves_that_cross_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReservedPaths, "reserve", lambda self, *move: self._send_away(*move))
    networks = (RandomExchanges(seed, moves=True) for seed in range(20))
    assert any("lost=((" in problem for network in networks for problem in network.run())


@pytest.mark.soak
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("interval_us", [SELDOM_US, OFTEN_US])
@pytest.mark.parametrize("kind", [WIRES, BAD_LINKS, PATIENT, OTHER_CLOCKS])
def test_many_exchanges_lose_nothing(kind: dict[str, bool], interval_us: int, moves: bool) -> None:
    _exchange(SOAK, kind | {"moves": moves}, interval_us)


def _at_any_time(seeds: Iterable[int], *, moves: bool = False) -> None:
    for seed in chosen(seeds):
        network = RandomExchanges(seed, moves=moves, interval_us=SELDOM_US)
        network.break_anything(6)
        problems = network.run()
        assert not problems, f"SHOAL_SEEDS={seed}: " + "\n".join(problems)


@pytest.mark.parametrize("moves", [False, True])
def test_faults_at_any_time_leave_one_tree(moves: bool) -> None:
    _at_any_time(QUICK, moves=moves)


@pytest.mark.soak
@pytest.mark.parametrize("moves", [False, True])
def test_many_faults_at_any_time_leave_one_tree(moves: bool) -> None:
    _at_any_time(SOAK, moves=moves)
