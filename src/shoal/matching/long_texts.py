"""Search of long texts by many LIKE patterns, with tables made once for all of them.

A text of the shape `%delayed_by%` contains `delayed`, `by` and all other pieces between wildcards.
The windows of 1, 2, 4, 8 and 16 characters of a long text are hashed into a table each. A pattern
brings the hashes of a few windows of its own, the longest that fit, and only if the tables have
them all is the text searched for it. After many such patterns, a search checks the positions of the
pattern's rarest window, in a sorted order of all windows that is made once, too: so a text that
nearly has all patterns is not read for each.

A run with `_` between short pieces (`%a_c_e%`) has no rare window. The positions of each character
are a large integer with a bit for each position: shifted to the run's beginning, their AND has the
positions of the run, some 0.3 microseconds per character of the run for 16,384 of the text.

Results about a text are kept as long as the text is: so a search may end before it is done
(`limited_search`), and takes less the next time.

A hash that two windows share only costs a search.  Sources: q-gram filters as in Navarro, "A guided
tour to approximate string matching", ACM Computing Surveys 33(1), 2001, section 8; windows named by
their halves as in Karp, Miller and Rosenberg, STOC 1972; bits as in Baeza-Yates and Gonnet, "A new
approach to text searching", CACM 35(10), 1992, with texts and patterns the other way round.

>>> text = long_text("the train to Köln is delayed by " * 10 + "snow")
>>> asked = [text.may_contain(windows_of([(0, "strike")])) for _ in range(80)]
>>> asked[0], asked[-1], text.may_contain(windows_of([(0, "delayed by")]))
(True, False, True)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.matching.limited_search import unlimit

# Shorter ones are searched sooner than a table is asked; of longer ones tables take much memory.
LONG, LONGEST = 512, 65_536
# The longest window has 2 to this power characters.
_HIGHEST = 4
# Places of a table, for each character of the text: so many windows in a hundred are found that
# are not there, 100 / PLACES at most.
_PLACES = 4
# Texts that are remembered, and their characters together, each of 200 bytes at worst.
_MOST_TEXTS, _MOST_CHARACTERS = 64, 4 * LONGEST

_MASK = (1 << 64) - 1
_BEFORE, _MIX, _SHIFT = 0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93, 32

# Answers that are remembered, of all texts.
MOST_ANSWERS = 262_144
# So many windows of a piece are enough.
_MOST_WINDOWS = 8
# So many patterns look through a text before tables are made, which take as long as that.
_PATTERNS = 64
# After so many searches a text gets tables of positions; up to so many positions of the rarest
# window are checked one by one, beyond them the text is searched.
_SEARCHES, _FEW_PLACES = 128, 64
# Number of characters with kept positions, of one text; beyond it all are dropped.
_MOST_CHARACTERS_KEPT = 256
# These are not made fewer first.
_SO_FEW = 8

_Hashes = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]


class TextWindow(NamedTuple):
    """Characters that a pattern has at an offset: 2 to the `power` of them, and their hash."""

    offset: int
    power: int
    hashed: int


Windows = tuple[TextWindow, ...]


class LongText:
    """Derived data of one text: its characters as an array, and tables as they are needed."""

    __slots__ = (
        "_asked",
        "_codes",
        "_hashes",
        "_mask",
        "_orders",
        "_places_of",
        "_searches",
        "_tables",
        "_text",
        "answers",
    )

    def __init__(self, text: str) -> None:
        self._text = text
        self._codes: Codes | None = None
        self._asked = 0
        self._mask = (1 << (_PLACES * len(text) - 1).bit_length()) - 1
        self._hashes: list[_Hashes] = []
        self._tables: list[bytes] = []
        # By power: the hashes in their order, and where each stands in the text.
        self._orders: dict[int, tuple[memoryview, Places]] = {}
        self._searches = 0
        # By character: a bit for each of its places.
        self._places_of: dict[str, int] = {}
        # by pattern: routing and delivery of a publication ask the same
        self.answers: dict[str, bool] = {}

    def remember(self, pattern: str, answer: bool) -> None:
        """It has the shape of a pattern, or has not; forgotten when there is no room for it."""
        global _answers
        if _answers >= MOST_ANSWERS:
            if len(self.answers) >= MOST_ANSWERS:
                unlimit()
                return
            for text in _texts.values():
                if text is not self:
                    text.answers.clear()
            _answers = len(self.answers)
        _answers += 1
        self.answers[pattern] = answer

    @property
    def codes(self) -> Codes:
        """Its characters as numbers."""
        if self._codes is None:
            self._codes = codes_of(self._text)
        return self._codes

    def may_contain(self, windows: Windows) -> bool:
        """False if it lacks one of these; True without a look for the first calls."""
        if self._asked < _PATTERNS:
            self._asked += 1
            return True
        tables, mask = self._tables, self._mask
        for _, power, hashed in windows:
            if power >= len(tables):
                self._make(power)
            if not tables[power][hashed & mask]:
                return False
        return True

    def places(self, windows: Windows, begin: int, end: int) -> list[int] | None:
        """Return all positions in `begin..end` at which a run with these windows, in order, may
        begin.

        None if these are too many: the caller searches the text then, as it does for the first
        calls.
        """
        self._searches += 1
        if self._searches < _SEARCHES or not windows:
            return None
        offset, order, first, last = min(map(self._found, windows), key=_count)
        places = order[first:last] - offset
        if last - first <= _SO_FEW:
            return [at for at in places.tolist() if begin <= at <= end]
        # Of one hash they are in the order of the text.
        low, high = places.searchsorted((begin, end + 1)) if places.size else (0, 0)
        places = places[low:high]
        for offset, power, hashed in windows:
            if places.size <= 1:
                break
            places = places[self._hashes[power][places + offset] == np.uint64(hashed)]
        return places.tolist() if places.size <= _FEW_PLACES else None

    def first_place(self, characters: Sequence[tuple[int, str]], begin: int, end: int) -> int:
        """The first place in `begin..end` from which each of these is at its offset, or -1."""
        left = (1 << end + 1) - (1 << begin)
        for offset, character in characters:
            places = self._places_of.get(character)
            if places is None:
                places = self._look_for(character)
            left &= places >> offset
            if not left:
                return -1
        return (left & -left).bit_length() - 1

    def _look_for(self, character: str) -> int:
        if len(self._places_of) >= _MOST_CHARACTERS_KEPT:
            self._places_of.clear()
        bits = np.packbits(self.codes == ord(character), bitorder="little")
        places = self._places_of[character] = int.from_bytes(bits.tobytes(), "little")
        return places

    def _found(self, window: TextWindow) -> tuple[int, Places, int, int]:
        offset, power, hashed = window
        if power not in self._orders:
            if power >= len(self._tables):
                self._make(power)
            order = np.argsort(self._hashes[power], kind="stable")
            self._orders[power] = memoryview(self._hashes[power][order].data), order
        hashes, order = self._orders[power]
        first = bisect_left(hashes, hashed)
        return offset, order, first, bisect_right(hashes, hashed, first)

    def _make(self, power: int) -> None:
        """The tables up to this power."""
        while len(self._tables) <= power:
            if not self._hashes:
                hashes = _mixed(self.codes.astype(np.uint64))
            else:
                hashes, size = self._hashes[-1], 1 << len(self._tables) - 1
                hashes = _mixed(hashes[:-size] * np.uint64(_BEFORE) + hashes[size:])
            self._hashes.append(hashes)
            table = np.zeros(self._mask + 1, np.uint8)
            table[hashes & np.uint64(self._mask)] = 1
            self._tables.append(table.tobytes())


def long_text(text: str) -> LongText:
    """Return the derived data of a text of LONG to LONGEST characters; that of the last few is
    kept.
    """
    global _characters, _answers, _last, _last_known
    if text is _last and _last_known is not None:
        return _last_known
    known = _texts.get(text)
    if known is None:
        if len(_texts) >= _MOST_TEXTS or _characters + len(text) > _MOST_CHARACTERS:
            _texts.clear()
            _characters = _answers = 0
        known = _texts[text] = LongText(text)
        _characters += len(text)
    _last, _last_known = text, known
    return known


def windows_of(pieces: Sequence[tuple[int, str]]) -> Windows:
    """Windows of each piece, which stands at its offset: all of it, or the most; longest first."""
    found: dict[TextWindow, None] = {}
    for offset, piece in sorted(pieces, key=_length, reverse=True):
        power = min(len(piece).bit_length() - 1, _HIGHEST)
        size = 1 << power
        last = len(piece) - size
        between = range(0, last, max(size, -(-last // _MOST_WINDOWS)))
        for at in (last, *between):
            found[TextWindow(offset + at, power, _hash(piece[at : at + size]))] = None
    return tuple(found)


def codes_of(text: str) -> Codes:
    """The characters of a text as numbers."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _length(piece: tuple[int, str]) -> int:
    return len(piece[1])


def _count(found: tuple[int, Places, int, int]) -> int:
    _, _, first, last = found
    return last - first


def _mixed(hashes: _Hashes) -> _Hashes:
    hashes = hashes * np.uint64(_MIX)
    return hashes ^ hashes >> np.uint64(_SHIFT)


def _hash(window: str) -> int:
    """As the tables have it: of the halves' hashes, of a character the number's."""
    hashes = [_mix(ord(each)) for each in window]
    while len(hashes) > 1:
        pairs = zip(hashes[::2], hashes[1::2], strict=True)
        hashes = [_mix(before * _BEFORE + after) for before, after in pairs]
    return hashes[0]


def _mix(hashed: int) -> int:
    hashed = hashed * _MIX & _MASK
    return hashed ^ hashed >> _SHIFT


_texts: dict[str, LongText] = {}
_characters = _answers = 0
# The one that was asked for last: to find it by its characters is to compare them all.
_last = ""
_last_known: LongText | None = None
