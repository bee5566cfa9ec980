"""Topic filters with wildcards: nodes read by a walk, and the unique form of a trie."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from shoal.matching.topics.index import MOST_BEGUN, Overview, TopicIndex
from shoal.matching.topics.trie import STEP, Trie
from tests.examples import one_in

Levels = tuple[str, ...]


def matches(levels: Levels, topic: Levels) -> bool:
    if levels[-1] == "#":
        levels = levels[:-1]
        topic = topic[: len(levels)]
    return len(levels) == len(topic) and all(
        one in ("+", other) for one, other in zip(levels, topic, strict=True)
    )


def two_wildcards(depth: int) -> list[Levels]:
    names = [f"l{at}" for at in range(depth)]
    return [
        tuple("+" if at in pair else name for at, name in enumerate(names))
        for pair in combinations(range(depth), 2)
    ]


def any_wildcards(depth: int) -> list[Levels]:
    chance = random.Random(1)
    return [
        tuple("+" if chance.random() < 0.5 else f"l{at}" for at in range(depth))
        for _ in range(2_000)
    ]


@pytest.mark.parametrize("filters", [two_wildcards(60), any_wildcards(100)], ids=["two", "half"])
def test_a_walk_reads_few_nodes_per_filter(filters: list[Levels]) -> None:
    """With a node for each level, one client's filters of 150 levels would be a walk of 0.3 s."""
    trie: Trie[Levels] = Trie()
    for levels in filters:
        trie.hang(levels, levels)
    found, places = trie.walk("/".join(f"l{at}" for at in range(len(filters[0]))))
    assert sorted(found) == sorted(set(filters))
    assert places <= 1 + 2 * len(set(filters))


@pytest.mark.parametrize("seed", one_in(4, range(40)))
def test_a_trie_is_equal_after_any_history(seed: int) -> None:
    chance = random.Random(seed)

    def some() -> Levels:
        levels = [chance.choice("ab+") for _ in range(chance.randint(1, 7))]
        if chance.random() < 0.3:
            levels[-1] = "#"
        return tuple(levels)

    trie: Trie[Levels] = Trie()
    there: set[Levels] = set()
    for _ in range(300):
        levels = some()
        if levels in there and chance.random() < 0.8:
            there.discard(levels)
            trie.take_down(levels)
        else:
            there.add(levels)
            trie.hang(levels, levels)
        assert trie.leaf(levels) == (levels if levels in there else None)
    fresh: Trie[Levels] = Trie()
    for levels in sorted(there):
        fresh.hang(levels, levels)
    for _ in range(100):
        topic = tuple(chance.choice("abc") for _ in range(chance.randint(1, 7)))
        found, places = trie.walk("/".join(topic))
        assert (found, places) == fresh.walk("/".join(topic))
        assert sorted(found) == sorted(each for each in there if matches(each, topic))
    for levels in there:
        trie.take_down(levels)
    assert trie.is_empty


# --- in steps -----------------------------------------------------------------------------------

DEPTH = 13
TOPIC = "/".join(f"l{at}" for at in range(DEPTH))
EVERY = [
    "/".join("+" if number >> at & 1 else f"l{at}" for at in range(DEPTH))
    for number in range(2**DEPTH)
]


def index_of(filters: list[str]) -> TopicIndex:
    index = TopicIndex()
    for number, text in enumerate(filters):
        index.add(number, text)
    return index


def test_a_long_walk_may_be_sliced() -> None:
    """In one go 130,000 filters, which two users may have, take a fifth of a second."""
    index, overview = index_of(EVERY), Overview()
    steps = list(index.survey(TOPIC, overview))
    assert len(steps) > 2 * 2**DEPTH // STEP
    assert max(steps) <= 2 * STEP
    assert sorted(overview.ids) == list(range(2**DEPTH))
    assert (overview.leaves, overview.filters, overview.asks) == (2**DEPTH, 0, False)
    assert index.match(TOPIC, {}) == overview.ids


def test_a_walk_begins_anew_after_a_change() -> None:
    index, overview = index_of(EVERY), Overview()
    steps = index.survey(TOPIC, overview)
    for _ in range(3):
        next(steps)
    index.remove(0)
    index.add("new", "#")
    for _ in range(5):
        next(steps)
    index.remove(5)
    for _ in steps:
        pass
    assert set(overview.ids) == {*range(2**DEPTH), "new"} - {0, 5}
    assert index.match(TOPIC, {}) == overview.ids == index_again(index).match(TOPIC, {})


def test_a_walk_with_constant_changes_ends() -> None:
    index, steps = index_of(EVERY), 0
    for _ in index.search(TOPIC):
        steps += 1
        index.add(steps, f"x{steps}/+")
    assert steps == MOST_BEGUN
    assert len(index.match(TOPIC, {})) == 2**DEPTH - MOST_BEGUN


def index_again(index: TopicIndex) -> TopicIndex:
    again = TopicIndex()
    for id in index:
        again.add(id, index[id].topic_filter)
    return again
