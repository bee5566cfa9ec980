"""The word that was perhaps meant.

>>> did_you_mean("fliter", ["id", "filter"]), did_you_mean("x", ["id", "filter"])
('; did you mean filter?', '; there are id, filter')
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# `lat` is taken for latitude, and `lon` for longitude.
ALIKE = 0.5
SHOWN = 12


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a complaint about a word that is not known."""
    words = list(known)
    if near := difflib.get_close_matches(word, words, n=1, cutoff=ALIKE):
        return f"; did you mean {near[0]}?"
    more = ", ..." if len(words) > SHOWN else ""
    return f"; there are {', '.join(words[:SHOWN])}{more}" if words else ""
