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


def did_you_mean(word: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """The end of a complaint about a word that is not known; it may be one of another kind, `also`.

    >>> did_you_mean("fliter", ["x"], ["filter"]), did_you_mean("y", ["x"], ["filter"])
    ('; did you mean filter?', '; there are x')
    """
    words = list(known)
    if near := difflib.get_close_matches(word, [*also, *words], n=1, cutoff=ALIKE):
        return f"; did you mean {near[0]}?"
    more = ", ..." if len(words) > SHOWN else ""
    return f"; there are {', '.join(words[:SHOWN])}{more}" if words else ""


def unknown_column(name: str, known: Iterable[str]) -> str:
    """A complaint about a column that is not known, in the header of a CSV file.

    >>> unknown_column("id;filter", ["id", "filter"])
    "unknown column 'id;filter'; columns stand between commas, not ';'"
    """
    words = list(known)
    apart = [each for each in ";\t|" if each in name and name.split(each)[0].strip() in words]
    hint = (
        f"; columns stand between commas, not {apart[0]!r}" if apart else did_you_mean(name, words)
    )
    return f"unknown column {name!r}{hint}"
