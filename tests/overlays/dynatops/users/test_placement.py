"""The best broker for a user: similar users there, and capacity."""

from __future__ import annotations

from collections import Counter

from shoal.overlays.dynatops.planning.placement import HashRing, Served, best_broker, utilities


def served(**brokers: tuple[str, int]) -> dict[str, Served]:
    return {name: Served(frozenset(topics), count) for name, (topics, count) in brokers.items()}


def test_the_value_is_similarity_less_load() -> None:
    found = utilities(frozenset("abcd"), served(B1=("ab", 30), B2=("abcd", 60), B3=("", 10)), 0.5)
    assert found == {"B1": 0.5 - 0.15, "B2": 1 - 0.3, "B3": -0.05}


def test_similar_users_join() -> None:
    assert best_broker(frozenset("ab"), served(B1=("ab", 1), B2=("c", 1)), 0.0) == "B1"
    assert best_broker(frozenset("c"), served(B1=("ab", 1), B2=("c", 1)), 0.0) == "B2"


def test_at_equal_values_a_user_stays_and_a_new_one_goes_by_name() -> None:
    brokers = served(B1=("a", 5), B2=("a", 5), B3=("", 5))
    assert best_broker(frozenset("a"), brokers, 1.0, present="B2") == "B2"
    assert best_broker(frozenset("a"), brokers, 1.0, present="B3") == "B1"
    assert best_broker(frozenset("a"), brokers, 1.0) == "B1"


def test_a_small_gain_moves_no_user() -> None:
    brokers = served(B1=("abcde", 5), B2=("abcd", 5))
    assert best_broker(frozenset("abcde"), brokers, 0.0, present="B2", least_gain=0.2) == "B2"
    assert best_broker(frozenset("abcde"), brokers, 0.0, present="B2", least_gain=0.1) == "B1"


def test_a_user_without_topics_goes_to_the_least_loaded_broker() -> None:
    assert best_broker(frozenset(), served(B1=("a", 5), B2=("", 0)), 1.0) == "B2"


def test_brokers_without_users_are_equal() -> None:
    assert best_broker(frozenset("a"), served(B2=("", 0), B1=("", 0)), 1.0) == "B1"


def test_a_new_broker_takes_its_own_users_and_no_others_move() -> None:
    users = [f"u{number}" for number in range(5_000)]
    few, more = HashRing(range(9)), HashRing(range(10))
    before = {user: few.broker_of(user) for user in users}
    after = {user: more.broker_of(user) for user in users}
    moved = [user for user in users if before[user] != after[user]]
    assert moved == [user for user in users if after[user] == 9]
    loads = Counter(after.values())
    assert len(loads) == 10
    assert min(loads.values()) > 200  # of 500 on average
    assert max(loads.values()) < 1_000
