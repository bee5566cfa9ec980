"""Lower and upper case by Unicode 14, whatever Python runs: brokers of one network must agree.

Python 3.14 and later know mappings that Unicode 16 and 17 added. The characters concerned had no
case in Unicode 14, and so keep theirs.

>>> lower("STRASSE ΣΑΣ"), upper("straße")
('strasse σας', 'STRASSE')
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

# Latin additions, Cyrillic Tje, Garay, Beria Erfe: new letters, of which Unicode 14 knows none.
_NEW_LETTERS = (
    "\u1c89\u1c8a\ua7cb-\ua7cf\ua7d2-\ua7d5\ua7da-\ua7dc"
    "\U00010d50-\U00010d65\U00010d70-\U00010d85\U00016ea0-\U00016eb8\U00016ebb-\U00016ed3"
)
# Two old letters have had an upper case since Unicode 16.
_NO_LOWER = re.compile(f"([{_NEW_LETTERS}]+)")
_NO_UPPER = re.compile(f"([{_NEW_LETTERS}\u019b\u0264]+)")
_IS_LATER = tuple(map(int, unicodedata.unidata_version.split("."))) >= (16,)


def lower(text: str) -> str:
    """The text in lower case, with the final form of sigma."""
    return _beside(_NO_LOWER, str.lower, text) if _is_concerned(text) else text.lower()


def upper(text: str) -> str:
    """The text in upper case."""
    return _beside(_NO_UPPER, str.upper, text) if _is_concerned(text) else text.upper()


def _is_concerned(text: str) -> bool:
    return _IS_LATER and not text.isascii()


def _beside(kept: re.Pattern[str], change: Callable[[str], str], text: str) -> str:
    """The text with all parts changed but these characters."""
    parts = kept.split(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)
