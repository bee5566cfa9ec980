"""Errors of the filter language: where the text is wrong and what would have been right there.

>>> print(FilterSyntaxError("dep_delay 30", 10, "unexpected 30", ("a comparison", "AND")))
line 1, column 11: unexpected 30
  dep_delay 30
            ^
expected a comparison or AND
"""

from __future__ import annotations

# The part of a long line that an error shows, so that it fits on a terminal.
SHOWN_COLUMNS = 76
# The part of a long word that an error repeats.
SHOWN_WORD = 40


class FilterSyntaxError(ValueError):
    """A text that is not in the language.

    `line` and `column` count from 1 (columns in code points), `expected` says in words what
    could have stood there; it is empty where nothing else would have helped.
    """

    def __init__(
        self, text: str, position: int, message: str, expected: tuple[str, ...] = ()
    ) -> None:
        super().__init__(text, position, message, expected)
        before = text[:position]
        self.message = escaped(message)
        self.expected = expected
        self.line = before.count("\n") + 1
        self.column = position - (before.rfind("\n") + 1) + 1
        self._source_line = text.split("\n")[self.line - 1]

    @property
    def one_line(self) -> str:
        """The error without its picture, for whoever shows only a line."""
        wanted = f"; expected {_enumerate(self.expected)}" if self.expected else ""
        return f"line {self.line}, column {self.column}: {self.message}{wanted}"

    def __str__(self) -> str:
        lines = [f"line {self.line}, column {self.column}: {self.message}", *self._picture()]
        if self.expected:
            lines.append(f"expected {_enumerate(self.expected)}")
        return "\n".join(lines)

    def _picture(self) -> tuple[str, str]:
        """The source line (its part around the place) and the caret below it."""
        place = self.column - 1
        start = max(0, min(place - SHOWN_COLUMNS // 2, len(self._source_line) - SHOWN_COLUMNS))
        shown = self._source_line[start : start + SHOWN_COLUMNS]
        # Tabs and control characters would move the caret away from its place.
        printable = "".join(c if c.isprintable() else " " for c in shown)
        return f"  {printable}".rstrip(), " " * (2 + place - start) + "^"


class CostlyFilterError(FilterSyntaxError):
    """A filter whose expressions may cost a broker too much for each message."""


class LanguageMeaningError(Exception):
    """Something that the grammar allows and the language does not, at a place of the text."""

    def __init__(self, message: str, position: int, expected: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.position = position
        self.expected = expected


def _enumerate(words: tuple[str, ...]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def escaped(text: str) -> str:
    r"""The text with what no terminal should be sent written out, as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shorten(word: str) -> str:
    """The word as an error repeats it: on one line, cut if it is long."""
    line = " ".join(word.split())
    return line if len(line) <= SHOWN_WORD else f"{line[:SHOWN_WORD]}…"


def check_encodable(text: str) -> None:
    """FilterSyntaxError at the first lone surrogate: half a character, which UTF-8 cannot hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FilterSyntaxError(
            text.encode("utf-8", "replace").decode("utf-8"),
            error.start,
            "half a surrogate pair is not a character",
        ) from None
