"""The topic-connected overlay: every topic's subscribers are connected, with few links."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from shoal.overlays.tco.construction import MOST_AT_ONCE, Goal, TcoRelinking, TopicConnected


def hops(linked: npt.NDArray[np.bool_], members: list[int]) -> dict[int, int]:
    """Hops from the first member to the members reachable over members."""
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
    check_trees(overlay, wanted)


def check_trees(overlay: TopicConnected, wanted: npt.NDArray[np.bool_]) -> None:
    """Each subscriber but one receives a topic's publications from another, a hop nearer."""
    distances, parents = overlay.distances(), overlay.parents()
    for topic, broker in np.ndindex(parents.shape):
        parent = parents[topic, broker]
        if parent >= 0:
            assert overlay.linked[parent, broker]
            assert wanted[parent, topic]
            assert wanted[broker, topic]
            assert distances[topic, broker] == distances[topic, parent] + 1
    receivers = (parents >= 0).sum(axis=1)
    assert receivers.tolist() == np.maximum(wanted.sum(axis=0) - 1, 0).tolist()


@pytest.mark.parametrize("goal", ["fan-out", "links"])
@pytest.mark.parametrize("seed", range(8))
def test_topics_stay_connected_through_changes(seed: int, goal: Goal) -> None:
    random = np.random.default_rng(seed)
    wanted = random.random((20, 15)) < random.uniform(0.05, 0.6)
    overlay = TopicConnected(wanted, goal)
    check(overlay, wanted)
    for _ in range(5):
        before = overlay.linked.copy()
        wanted[random.integers(20, size=2)] = random.random(15) < 0.3
        changed = overlay.change(wanted)
        check(overlay, wanted)
        assert changed == (before != overlay.linked).sum() // 2


def test_unchanged_subscriptions_change_no_links() -> None:
    wanted = np.random.default_rng(1).random((20, 15)) < 0.3
    assert TopicConnected(wanted).change(wanted) == 0


def plain(wanted: npt.NDArray[np.bool_], goal: Goal) -> set[tuple[int, int]]:
    """The greedy choice by its definition: all links are compared each time."""
    brokers, topics = wanted.shape
    parts = [{b: {b} for b in range(brokers) if wanted[b, topic]} for topic in range(topics)]
    links: set[tuple[int, int]] = set()

    def degree(broker: int) -> int:
        return sum(broker in link for link in links)

    def gain(one: int, other: int) -> int:
        both = (each for each in parts if one in each and other in each)
        return sum(each[one] is not each[other] for each in both)

    while True:
        most = max(map(degree, range(brokers)))
        found = []
        for one in range(brokers):
            for other in range(one):
                raised = max(0, max(degree(one), degree(other)) + 1 - most)
                joined = gain(one, other)
                if joined:
                    found.append((raised if goal == "fan-out" else 0, -joined, one, other))
        if not found:
            return links
        _, _, one, other = min(found)
        links.add((one, other))
        for each in parts:
            if one in each and other in each and each[one] is not each[other]:
                joint = each[one] | each[other]
                each.update(dict.fromkeys(joint, joint))


@pytest.mark.parametrize("goal", ["fan-out", "links"])
def test_the_choice_is_the_greedy_one(goal: Goal) -> None:
    """As many links and neighbours as by definition; the choice among equals differs."""
    for seed in range(6):
        random = np.random.default_rng(seed)
        wanted = random.random((10, 8)) < 0.4
        links = plain(wanted, goal)
        linked = TopicConnected(wanted, goal).linked
        assert abs(linked.sum() // 2 - len(links)) <= 2
        highest = max(sum(broker in link for link in links) for broker in range(10))
        assert abs(linked.sum(axis=1).max() - highest) <= 1


def test_equal_subscriptions_need_few_links_and_neighbours() -> None:
    wanted = np.ones((9, 40), np.bool_)
    for goal, most in (("fan-out", 2), ("links", 8)):
        linked = TopicConnected(wanted, goal).linked  # type: ignore[arg-type]
        assert linked.sum() // 2 == 8
        assert linked.sum(axis=1).max() == most


@pytest.mark.parametrize("goal", ["fan-out", "links"])
def test_links_are_made_incrementally(goal: Goal) -> None:
    wanted = np.random.default_rng(2).random((30, 10_000)) < 0.02
    everybody, nothing = np.ones(30, np.bool_), np.zeros((30, 30), np.bool_)
    relinking, bits = TcoRelinking(wanted, nothing, everybody, goal), 0
    while relinking.made is None:
        relinking.step()
        bits += 1
    assert bits > wanted.size * 15 // MOST_AT_ONCE
    assert (relinking.made == TopicConnected(wanted, goal).linked).all()
