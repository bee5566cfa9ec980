"""How long one publication with a long text takes against thousands of LIKE filters.

Run `python benchmarks/bench_like.py`.  By turns, the index as it is and the same without tables of
long texts, so that each filter goes through the text; the answers must be the same, else it exits
with 1.  Prints for each case the median of RUNS runs in milliseconds of processor time, the first
publication of a text each time, and how many times shorter that is.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from unittest import mock

from shoal.matching import MatchIndex, shapes
from shoal.model import Filter, Operator, predicate

RUNS = 7
CHARACTERS = 16_384
WORDS = "the train from the north is late because of snow on the line "
THERE = "".join(f"a{at}b" for at in range(1_000, 2_300))


def of_two_letters(count: int, size: int) -> list[str]:
    chance = random.Random(size)
    return ["".join(chance.choices("ab", k=size)) for _ in range(count)]


CASES: dict[str, tuple[list[str], str]] = {
    "1 filter, words": (["%strike%"], WORDS * 300),
    "100 filters, words": ([f"%strike{at}%" for at in range(100)], WORDS * 300),
    "4,000 filters, words": ([f"%strike{at}%" for at in range(4_000)], WORDS * 300),
    "4,000 of %aNb%, all a": ([f"%a{at}b%" for at in range(4_000)], "a" * CHARACTERS),
    "2,000 of %aN_b%, all a": ([f"%a{at}_b%" for at in range(2_000)], "a" * CHARACTERS),
    "1,300 all there, too early": (
        [f"%zz%a{at}b%" for at in range(1_000, 2_300)],
        THERE + "zz" + "a" * CHARACTERS,
    ),
    "4,000 of 20 of two letters": (
        [f"%{each}%" for each in of_two_letters(4_000, 20)],
        of_two_letters(1, CHARACTERS)[0],
    ),
    "2,000 of 17, one free": (
        [f"%{each[:8]}_{each[8:]}%" for each in of_two_letters(2_000, 16)],
        of_two_letters(1, CHARACTERS)[0],
    ),
}


def took_ms(index: MatchIndex, text: str) -> tuple[float, list[int]]:
    began = time.process_time()
    found = index.match({"a": text})
    return 1_000 * (time.process_time() - began), found


def main() -> int:
    MatchIndex.may_wait = False  # as in a broker
    print(f"{'':30}{'ms':>8}{'without':>10}{'ratio':>8}")
    for name, (patterns, text) in CASES.items():
        index = MatchIndex()
        for number, pattern in enumerate(patterns):
            index.add(number, Filter(predicate("a", Operator.LIKE, pattern)))
        taken, without = [], []
        for run in range(RUNS):
            fresh = (text + "a" * run)[run : run + CHARACTERS]
            ms, found = took_ms(index, fresh)
            with mock.patch.object(shapes, "LONGEST", 0):
                plain_ms, expected = took_ms(index, fresh)
            if found != expected:
                print(f"{name}: {len(found)} found, {len(expected)} expected")
                return 1
            taken.append(ms)
            without.append(plain_ms)
        ms, plain_ms = statistics.median(taken), statistics.median(without)
        print(f"{name:30}{ms:8.2f}{plain_ms:10.2f}{plain_ms / ms:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
