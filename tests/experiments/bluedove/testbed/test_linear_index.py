"""The linear index against naive matching, while filters come and go."""

from __future__ import annotations

from random import Random

import pytest

from shoal.experiments.bluedove.testbed.linear_index import LinearIndex
from shoal.language import parse
from shoal.matching.semantics import matches
from shoal.model import Filter
from tests.examples import one_in


def box(random: Random) -> Filter:
    tests = []
    for name in random.sample(["x", "y"], random.randint(1, 2)):
        low = random.randrange(10)
        ends = [(">=", "<"), (">", "<="), (">=", "<=")]
        first, last = random.choice(ends)
        tests.append(f"{name} {first} {low} AND {name} {last} {low + random.randint(1, 5)}")
    if random.random() < 0.3:
        # Round the ends of an attribute.
        low = random.randrange(1, 8)
        tests.append(f"(z < {low} OR z >= {low + random.randint(1, 5)})")
    return parse(" AND ".join(tests))


@pytest.mark.parametrize("seed", one_in(3, range(5)))
def test_it_finds_what_matches_as_filters_come_and_go(seed: int) -> None:
    random = Random(seed)
    index, filters = LinearIndex(("x", "y", "z")), {}
    for number in range(300):
        if filters and random.random() < 0.3:
            gone = random.choice(sorted(filters))
            del filters[gone]
            index.remove(gone)
        name = f"s{random.randrange(number + 1)}"
        filters[name] = box(random)
        index.add(name, filters[name])
        values = {"x": random.choice([random.randrange(15), random.uniform(0, 15)]), "y": 5.0}
        values["z"] = random.randrange(15)
        expected = {name for name, filter in filters.items() if matches(filter, values)}
        found = index.match(values)
        assert (set(found), len(found)) == (expected, len(expected))
    assert len(index) == len(filters)


def test_an_incomplete_publication_matches_nothing() -> None:
    index = LinearIndex(("x", "y"))
    index.add("s", parse("x > 1"))
    assert index.match({"x": 2, "y": 0}) == ["s"]
    assert index.match({"x": 2}) == index.match({"x": 2, "y": "text"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1 OR y = 2",
        "x <> 5",
        "z > 1",
        "x IN (1, 2)",
        "x = 'a'",
        "x IS NULL",
        "x > 3 AND x < 1",
        "(x < 1 AND y < 1) OR (x > 5 AND y > 5)",
        "(x > 1 OR x < 0) AND (x > 2 OR y > 1)",
    ],
)
def test_a_filter_that_is_no_box_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        LinearIndex(("x", "y")).add("s", parse(text))
