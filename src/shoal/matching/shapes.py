r"""LIKE patterns as functions of a text: one search from left to right, whatever the pattern.

Between its `%` a pattern has runs of characters, some of them `_`.  The first run stands at the
text's beginning and the last at its end; each run between is looked for behind the one before, and
the leftmost place is always good enough.  So each piece of the text is searched for one run only:

- a run without `_` by `str.find`, in time linear in the text (CPython's two-way search);
- a run with `_` between its characters (`%a_c%`) by comparing that many texts, each shifted to a
  character of the run, with vector instructions, or of a long text by the positions of each
  character: in time of the text x the run's characters.

A long text without the windows that the pattern needs is not searched (`long_texts.py`).

>>> has_shape = shape(r"50\%%o_f")
>>> has_shape("50% off"), has_shape("50% of"), has_shape("50 off")
(True, False, False)
>>> searched_characters("abc%def"), searched_characters("%abc%"), searched_characters("%a_c%e_%")
(0, 1, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from shoal.ledger import remembered
from shoal.matching.limited_search import may_look, spend
from shoal.matching.long_texts import (
    LONG,
    LONGEST,
    Codes,
    TextWindow,
    Windows,
    codes_of,
    long_text,
    windows_of,
)
from shoal.model.like import CACHED_CHARACTERS, CACHED_PATTERNS, Wildcard, elements

Shape = Callable[[str], bool]

# Places that are compared at once: few first, as most runs are found soon.
_FIRST_PLACES, _MOST_PLACES = 256, 65_536
# When fewer than one place in so many is left, these are compared one by one.
_SPARSE = 16
# So many windows of a pattern are looked up before a long text is searched.
_MOST_WINDOWS = 6
# Of a run of several pieces so many windows are looked for, if they have 2 to this power characters
# at least: shorter ones are everywhere.
_MOST_RARE, _RARE_POWER = 4, 2
# Time of searching a character, in microseconds; the additional time for each of a spread run's;
# and the time of asking the tables.
_SEARCH_US, _SPREAD_US, _ASK_US = 0.001, 0.000_02, 1


class _ShapeRun(NamedTuple):
    """The part between two `%`: literal pieces at their offsets, in a given length."""

    length: int
    pieces: tuple[tuple[int, str], ...]
    windows: Windows
    # Of several pieces: the longest windows, as far as they may be rare; each character's offset.
    rare_windows: Windows = ()
    characters: tuple[tuple[int, str], ...] = ()

    def stands_at(self, text: str, at: int) -> bool:
        """Return whether the run is at a place of the text, which is long enough."""
        for offset, piece in self.pieces:  # noqa: SIM110  # all() would build a generator
            if not text.startswith(piece, at + offset):
                return False
        return True

    def find(self, text: str, begin: int, end: int) -> int:
        """The first place of the run within `text[begin:end]`, or -1."""
        if begin + self.length > end:
            return -1
        if not self.pieces:
            return begin
        is_spread = len(self.pieces) > 1
        if LONG <= len(text) <= LONGEST:
            known, last = long_text(text), end - self.length
            windows = self.rare_windows if is_spread else self.windows
            places = known.places(windows, begin, last) if windows else None
            if places is not None:
                return next((at for at in places if self.stands_at(text, at)), -1)
            if is_spread:
                return known.first_place(self.characters, begin, last)
        if not is_spread:
            [(offset, piece)] = self.pieces
            found = text.find(piece, begin + offset, end - self.length + offset + len(piece))
            return found - offset if found >= 0 else -1
        return _find_spread(text, begin, end, self)


def shape(pattern: str) -> Shape:
    """Return whether a whole text has the shape of a canonical pattern, letter case included."""
    if len(pattern) <= CACHED_CHARACTERS:
        return _cached_shape(pattern)
    made = _large_shapes.get(pattern)
    if made is None:
        made = _large_shapes[pattern] = _shape(pattern)
    return made


def searched_characters(pattern: str) -> int:
    """Return how often a text may be gone through: once per character of the worst run between `%`.

    0 where nothing is searched for, 1 where no run has a `_` between its characters.
    """
    runs = _runs(pattern)[1:-1]
    return max((_characters(run) for run in runs), default=0)


def _characters(run: _ShapeRun) -> int:
    if len(run.pieces) < 2:
        return len(run.pieces)
    return sum(len(piece) for _, piece in run.pieces)


def _runs(pattern: str) -> list[_ShapeRun]:
    """The runs between the `%` of a pattern, that before the first and that behind the last too."""
    runs = []
    length, pieces = 0, list[tuple[int, str]]()
    for element in (*elements(pattern), Wildcard.ANY_RUN):
        if element is Wildcard.ANY_RUN:
            runs.append(_run(length, tuple(pieces)))
            length, pieces = 0, []
        elif isinstance(element, str):
            pieces.append((length, element))
            length += len(element)
        else:
            length += 1
    return runs


def _run(length: int, pieces: tuple[tuple[int, str], ...]) -> _ShapeRun:
    windows = windows_of(pieces)
    if len(pieces) < 2:
        return _ShapeRun(length, pieces, windows)
    rare = tuple(each for each in windows[:_MOST_RARE] if each.power >= _RARE_POWER)
    # One of each first: a missing piece is found soon.
    once: dict[str, tuple[int, str]] = {}
    again: list[tuple[int, str]] = []
    for offset, piece in pieces:
        for at, character in enumerate(piece, start=offset):
            if character in once:
                again.append((at, character))
            else:
                once[character] = (at, character)
    characters = (*once.values(), *again)
    return _ShapeRun(length, pieces, windows, rare, characters)


def _shape(pattern: str) -> Shape:
    first, *others = _runs(pattern)
    if not others:
        return lambda text: len(text) == first.length and first.stands_at(text, 0)
    *middle, last = others
    # Of the longest pieces; few of them say as much as all.
    windows = tuple(sorted((each for run in middle for each in run.windows), key=_power))
    windows = windows[: -_MOST_WINDOWS - 1 : -1]
    if len(middle) == 1 and not first.length and not last.length and len(middle[0].pieces) == 1:
        [(_, text_within)] = middle[0].pieces
        if len(text_within) == middle[0].length:
            run = middle[0]

            def is_within(text: str) -> bool:  # the most frequent shape
                if LONG <= len(text) <= LONGEST:
                    return run.find(text, 0, len(text)) >= 0
                return text_within in text

            return _tabled(is_within, pattern, windows)
    least = first.length + sum(run.length for run in others)

    def has_shape(text: str) -> bool:
        if len(text) < least or not first.stands_at(text, 0):
            return False
        end = len(text) - last.length
        if not last.stands_at(text, end):
            return False
        at = first.length
        for run in middle:
            at = run.find(text, at, end)
            if at < 0:
                return False
            at += run.length
        return True

    return _tabled(has_shape, pattern, windows) if windows else has_shape


def _tabled(has_shape: Shape, pattern: str, windows: Windows) -> Shape:
    """The same, where a long text is only asked if its tables do not say no."""
    each_us = _SEARCH_US + _SPREAD_US * searched_characters(pattern)

    def has_shape_by_tables(text: str) -> bool:
        if not LONG <= len(text) <= LONGEST:
            return has_shape(text)
        known = long_text(text)
        answer = known.answers.get(pattern)
        if answer is None:
            is_limited = may_look()
            spend(_ASK_US)
            if not known.may_contain(windows):
                if is_limited:  # to ask the tables again takes as long as to remember that
                    known.remember(pattern, False)
                return False
            spend(each_us * len(text))
            answer = has_shape(text)
            known.remember(pattern, answer)
        return answer

    return has_shape_by_tables


def _power(window: TextWindow) -> int:
    return window.power


_cached_shape = remembered("shapes of patterns", most=CACHED_PATTERNS, bytes_each=1_500)(_shape)
# Large patterns are kept only while they are in use.
_large_shapes: WeakValueDictionary[str, Shape] = WeakValueDictionary()


def _find_spread(text: str, begin: int, end: int, run: _ShapeRun) -> int:
    """`_ShapeRun.find` for a run of several pieces."""
    wanted = [(offset, ord(character)) for offset, character in run.characters]
    codes = codes_of(text)
    places = max(_FIRST_PLACES, run.length)
    while begin + run.length <= end:
        count = min(places, end - run.length - begin + 1)
        found = _places(codes[begin : begin + count + run.length - 1], count, wanted)
        if found.size:
            return begin + int(found[0])
        begin += count
        places = max(min(2 * places, _MOST_PLACES), run.length)
    return -1


def _places(codes: Codes, count: int, wanted: list[tuple[int, int]]) -> npt.NDArray[np.intp]:
    """Return those of the first `count` places that have every wanted code at its offset."""
    (offset, code), *others = wanted
    is_possible = codes[offset : offset + count] == code
    left = np.count_nonzero(is_possible)
    while others and left * _SPARSE > count:
        (offset, code), *others = others
        is_possible &= codes[offset : offset + count] == code
        left = np.count_nonzero(is_possible)
    places = np.flatnonzero(is_possible)
    for offset, code in others:
        if not places.size:
            break
        places = places[codes[places + offset] == code]
    return places
