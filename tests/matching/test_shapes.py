"""LIKE patterns as functions, against a naive twin; and the times of the worst ones."""

from __future__ import annotations

import gc
import random
import time
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.matching import long_texts, shapes
from shoal.matching.shapes import searched_characters, shape
from shoal.model.like import escape_literal
from tests.examples import at_length, one_in
from tests.matching.naive_like import like
from tests.strategies import STRINGS, patterns

MB = 1_000_000


@given(st.text(alphabet="ab%_\\\n", max_size=12), patterns())
def test_a_shape_equals_its_pattern(text: str, pattern: str) -> None:
    assert shape(pattern)(text) is like(text, pattern)


@given(st.text(alphabet="ab", max_size=14), st.text(alphabet="ab%_", max_size=10))
@example("aab", "%a_b%")
@example("ab", "a%b")
@example("aba", "ab%ba")
@example("aa", "%__%")
@example("a", "_%_")
def test_adjacent_wildcards_match(text: str, pattern: str) -> None:
    assert shape(pattern)(text) is like(text, pattern)


@pytest.mark.parametrize("alphabet", ["ab", "ab\u00e9", "ab\u4e00", "ab\U0001d11e", "a\ud800"])
@pytest.mark.parametrize("places", one_in(2, map(pytest.param, [(1, 2), (3, 8), (256, 65_536)])))
def test_long_texts_are_searched_in_steps(alphabet: str, places: tuple[int, int]) -> None:
    chance = random.Random(f"{alphabet!r} {places}")
    found = 0
    with (
        mock.patch.object(shapes, "_FIRST_PLACES", places[0]),
        mock.patch.object(shapes, "_MOST_PLACES", places[1]),
    ):
        for _ in range(400):
            size = chance.choice([5, 40, 700])
            text = "".join(chance.choices(alphabet, [5] + [1] * (len(alphabet) - 1), k=size))
            drawn = chance.choices([*alphabet, "_", "%"], k=chance.randrange(2, 9))
            pattern = "".join(["%", *drawn, "%"] if chance.random() < 0.7 else drawn)
            assert shape(pattern)(text) is like(text, pattern), (text, pattern)
            found += like(text, pattern)
    assert found


@pytest.mark.parametrize(
    ("alphabet", "few", "few_places"),
    [
        *(("ab", 1, 0), ("ab", 64, 64), ("abcdefgh", 1, 64), ("abcdefgh", 64, 0)),
        *(("ab\u4e00", 1, 64), ("ab\u4e00", 64, 0), ("a\ud800", 1, 0), ("a\ud800", 64, 64)),
        *at_length([("ab", 1, 64), ("ab", 64, 0), ("abcdefgh", 1, 0), ("abcdefgh", 64, 64)]),
        *at_length([("ab\u4e00", 1, 0), ("ab\u4e00", 64, 64), ("a\ud800", 1, 64)]),
        *at_length([("a\ud800", 64, 0)]),
    ],
)
def test_many_patterns_search_a_long_text(alphabet: str, few: int, few_places: int) -> None:
    """By tables and places from the first on, or after some; most patterns nearly match.

    With few places in a table, hashes collide.
    """
    chance = random.Random(f"{alphabet!r} {few} {few_places}")
    found = missing = 0
    with (
        mock.patch.object(long_texts, "_PATTERNS", few),
        mock.patch.object(long_texts, "_SEARCHES", few),
        mock.patch.object(long_texts, "_FEW_PLACES", few_places),
        mock.patch.object(long_texts, "_PLACES", chance.choice([1, 4])),
        mock.patch.object(long_texts, "_MOST_CHARACTERS_KEPT", chance.choice([2, 256])),
    ):
        long_texts._texts.clear()
        for _ in range(3):
            text = "".join(chance.choices(alphabet, k=chance.randrange(512, 1_500)))
            for _ in range(150):
                runs = []
                for _ in range(chance.choice([1, 1, 2, 3])):
                    at, size = chance.randrange(len(text)), chance.choice([1, 3, 9, 18, 40, 70])
                    run = list(text[at : at + size])
                    for _ in range(chance.choice([0, 0, 1, 2])):
                        run[chance.randrange(len(run))] = chance.choice(["_", *alphabet])
                    runs.append("".join(run))
                ends = chance.choice([("%", "%"), (text[:2] + "%", "%"), ("%", "%" + text[-1])])
                pattern = ends[0] + "%".join(runs) + ends[1]
                is_like = like(text, pattern)
                assert shape(pattern)(text) is is_like, (text, pattern)
                found += is_like
                missing += not is_like
        long_texts._texts.clear()
    assert found > 100
    assert missing > 100


def test_the_number_of_cached_texts_is_bounded() -> None:
    has_shape = shape("%needle_in%")
    for number in range(600):
        assert not has_shape(f"{number} hay " * (100 if number < 300 else 3_000))
        assert len(long_texts._texts) <= 64
        assert sum(map(len, long_texts._texts)) <= 4 * 65_536


def test_a_surrogate_is_a_usual_character() -> None:
    assert shape("%\ud800_b%")("x\ud800ab")
    assert not shape("%\ud800_b%")("x\ud801ab")


@pytest.mark.parametrize("pattern", ["%", "_", "%%__%", "%a%", "\\%\\_\\\\"])
@pytest.mark.parametrize("text", one_in(3, STRINGS))
def test_every_short_text_is_matched_by_a_few_patterns(text: str, pattern: str) -> None:
    assert shape(pattern)(text) is like(text, pattern)
    assert shape(escape_literal(text))(text)


@pytest.mark.parametrize(
    ("pattern", "characters"),
    [("abc", 0), ("a%b_c", 0), ("%_%__%", 0), ("%abc%", 1), ("%a%_b_%c", 1), ("%a_bc%d_e%", 3)],
)
def test_the_number_of_passes_over_a_text_is_bounded(pattern: str, characters: int) -> None:
    assert searched_characters(pattern) == characters


HOSTILE = {
    "as many of one, and another": ("%" + "a" * 2_000 + "b%", "a" * MB),
    "another, and as many of one": ("%b" + "a" * 2_000 + "%", "a" * MB),
    "one, another, one": ("%" + "a" * 999 + "b" + "a" * 999 + "%", "a" * MB),
    "as long as can be": ("%" + "a" * 65_000 + "b%", "a" * MB),
    "many runs": ("%a" * 32_000 + "%b%", "a" * MB),
    "many runs of two": ("%ab" * 20_000 + "%c%", "ab" * (MB // 2)),
    "with one free": ("%a_b%", "a" * MB),
    "with many free": ("%" + "a_" * 31 + "b%", "a" * MB),
    "with many free, every second": ("%" + "a_" * 30 + "b%", "ab" * (MB // 2)),
    "only free": ("%" + "_" * 65_000 + "%", "a" * MB),
    "free at both ends": ("%" + "_" * 30_000 + "ab" + "_" * 30_000 + "%", "a" * MB),
    "wide characters": ("%a_b%", "a" * (MB - 1) + "\U0001d11e"),
    "anchored": ("a_" * 32_000 + "%" + "_a" * 32_000, "a" * MB),
    "the old cubic one": ("%a" * 30 + "%b", "a" * MB),
}


@pytest.mark.parametrize(("pattern", "text"), HOSTILE.values(), ids=HOSTILE)
def test_every_pattern_takes_bounded_time(pattern: str, text: str) -> None:
    has_shape = shape(pattern)

    def takes() -> float:
        started = time.process_time()
        has_shape(text)
        return time.process_time() - started

    assert any(takes() < 0.05 for _ in range(3))


@pytest.mark.parametrize(
    ("runs", "most_s"), [(range(30, 330), 0.15), *at_length([(range(1_400, 1_600), 0.6)])]
)
def test_many_patterns_of_single_characters_take_bounded_time(runs: range, most_s: float) -> None:
    """Each occurs, and nearly so everywhere; 300 of the shorter ones would take 1.1 s."""
    shapes_of = [shape("%" + "a_" * count + "%") for count in runs]

    def takes(text: str) -> float:
        started = time.process_time()
        assert all(has_shape(text) for has_shape in shapes_of)
        return time.process_time() - started

    assert any(takes("a" * (16_000 + number)) < most_s for number in range(3))


def test_a_large_pattern_is_parsed_once_for_all_filters() -> None:
    pattern = "%a" * 2_000
    mine = shape(pattern)
    assert shape(pattern) is mine
    del mine
    gc.collect()
    assert pattern not in shapes._large_shapes
