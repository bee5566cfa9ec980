"""Docstrings of structs as prose and a text for each key.

A key's text stands behind its name and two spaces or more, and goes on in lines that are further
in; several keys may share a text:

>>> read_doc('''What to keep.
...
...     rows, seconds   when the next file
...                     is begun
... ''')
Doc(prose='What to keep.', keys={'rows': 'when the next file is begun', 'seconds': ...})
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

# A key and its text; names stand between commas.
_KEY = re.compile(r"(?P<names>\w+(?:, \w+)*) {2,}(?P<text>\S.*)")
# Text for readers of the code.
_FOR_CALLERS = re.compile(r"[;,.]?\s*ValueError names [^.;]*(?=[.;])")


class Doc(NamedTuple):
    """The texts of a struct and of its keys, from its docstring."""

    prose: str
    keys: dict[str, str]


def read_doc(text: str) -> Doc:
    """A docstring's prose, with paragraphs separated by an empty line, and the texts of keys."""
    keys: dict[str, str] = {}
    paragraphs: list[list[str]] = [[]]
    names: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        found = _KEY.fullmatch(line)
        if found:
            names = found["names"].split(", ")
            keys |= dict.fromkeys(names, found["text"])
        elif names and line.startswith("  "):
            keys |= {name: f"{keys[name]} {line.strip()}" for name in names}
        else:
            names = []
            paragraphs.append([]) if not line else paragraphs[-1].append(line)
    prose = "\n\n".join(" ".join(lines) for lines in paragraphs if lines)
    return Doc(_FOR_CALLERS.sub("", _tidy(prose)).strip(". ") + "." if prose else "", keys)


def doc_of(kind: type) -> Doc:
    """The texts of a class and of its keys, those of its bases included."""
    keys: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        keys |= read_doc(one.__dict__.get("__doc__") or "").keys
    return Doc(read_doc(kind.__doc__ or "").prose, keys)


def _tidy(text: str) -> str:
    return re.sub(r"(?<=\S)  +", " ", text)


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return _tidy(text.replace("|", "\\|").replace("\n", " "))
