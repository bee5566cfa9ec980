"""Pieces repeated up to the limit of a filter's text: each parser takes bounded time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from random import Random

import pytest

from shoal.language import parse, parse_topic_query
from shoal.language.padres import parse_publication, parse_subscription
from shoal.model.like import elements
from shoal.mqtt.limits import DEFAULT_LIMITS

CASES = 150
# Some 40 ms at most on an idle machine, and hours for a backtracking pattern.
MOST_S = 1.0

SQL = (
    *("(", ")", "'", "''", "\\'", "\\", "`", "``", "NOT ", "a ", "AND ", "OR ", "=", "<>", "IN("),
    *("1", "e+", "-", " ", ".", ",", "a=1 ", "a LIKE '%", "ESCAPE '", "IS NULL ", "TRUE ", "\n"),
    *("é", "%", "_", "\\u00", "\\1"),
)
QUERY = (
    *("?", "=", "<", ">", "!", "&", "'", "''", "%41", "%", "%4", ",", "a", "1", " ", "/", "#"),
    *("$where/", "$share/g/", "+", "é"),
)
PADRES = ("[", "]", ",", "'", "''", "a", " ", "1", "-", "eq", "str-prefix", "[a,eq,'x']", "\t")
LIKE = ("%", "_", "\\", "\\%", "a", "\\\\")


@pytest.mark.parametrize(
    ("read", "pieces", "beginnings"),
    [
        (parse, SQL, ("", "a = ", "a = '", "a LIKE '", "(", "NOT ")),
        (parse_topic_query, QUERY, ("a?", "$where/", "a?x='", "a?x=", "$share/g/$where/")),
        (parse_subscription, PADRES, ("", "[a,", "[a,eq,'")),
        (parse_publication, PADRES, ("", "[a,", "[a,'")),
        (elements, LIKE, ("",)),
    ],
)
def test_every_text_is_parsed_in_bounded_time(
    read: Callable[[str], object], pieces: Sequence[str], beginnings: Sequence[str]
) -> None:
    chance = Random(5)
    for _ in range(CASES):
        unit = "".join(chance.choices(pieces, k=chance.randint(1, 4)))
        before = chance.choice(beginnings) + "".join(chance.choices(pieces, k=chance.randint(0, 3)))
        after = "".join(chance.choices(pieces, k=chance.randint(0, 2)))
        text = before + unit * (DEFAULT_LIMITS.maximum_filter_bytes // len(unit)) + after
        started_s = time.process_time()
        with contextlib.suppress(ValueError):
            read(text)
        assert time.process_time() - started_s < MOST_S, (before, unit, after)
