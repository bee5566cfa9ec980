"""The topic-connected overlay: every topic's subscribers reach each other, and links are few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from shoal.experiments.dynatops.tco import TopicConnected


def hops(linked: npt.NDArray[np.bool_], members: list[int]) -> dict[int, int]:
    """From the first member to those that are reached over members."""
    found, edge = {members[0]: 0}, [members[0]]
    while edge:
        here = edge.pop(0)
        for there in members:
            if linked[here, there] and there not in found:
                found[there] = found[here] + 1
                edge.append(there)
    return found


def check(overlay: TopicConnected, wanted: npt.NDArray[np.bool_]) -> None:
    assert (overlay.linked == overlay.linked.T).all()
    distances = overlay.distances()
    for topic in range(wanted.shape[1]):
        members = np.flatnonzero(wanted[:, topic]).tolist()
        if members:
            found = hops(overlay.linked, members)
            assert set(found) == set(members)
            assert [distances[topic, each] for each in members] == [found[each] for each in members]


@pytest.mark.parametrize("seed", range(10))
def test_topics_are_connected_whatever_changes(seed: int) -> None:
    random = np.random.default_rng(seed)
    wanted = random.random((20, 15)) < random.uniform(0.05, 0.6)
    overlay = TopicConnected(wanted)
    check(overlay, wanted)
    for _ in range(5):
        before = overlay.linked.copy()
        wanted[random.integers(20, size=2)] = random.random(15) < 0.3
        changed = overlay.change(wanted)
        check(overlay, wanted)
        assert changed == (before != overlay.linked).sum() // 2


def test_what_stays_costs_nothing() -> None:
    wanted = np.random.default_rng(1).random((20, 15)) < 0.3
    assert TopicConnected(wanted).change(wanted) == 0


def test_the_link_that_joins_most_topics_comes_first() -> None:
    """Brokers that want the same are one line, not a link for each topic."""
    wanted = np.ones((5, 40), np.bool_)
    assert TopicConnected(wanted).linked.sum() // 2 == 4
