r"""Numbers, strings and names as the text of a filter writes them, the way Spark SQL reads them.

In a string `''` is a quote and backslash escapes: `\n \t \r \0 \b \Z`, `\uXXXX`, `\UXXXXXXXX`,
octal `\ooo` up to `\177`; `\%` and `\_` stay as they are, for LIKE; any other `\x` is `x`.

>>> read_string(r"'O''Hare\t\u0041'"), write_string("O'Hare\t\\")
("O'Hare\tA", "'O''Hare\\t\\\\'")
>>> read_number("- 7"), read_number("1e3"), write_name("dep_delay"), write_name("openClose%Diff")
(-7, 1000.0, 'dep_delay', '`openClose%Diff`')
"""

from __future__ import annotations

import re

from shoal.model import INTEGER_MAX, INTEGER_MIN

# Spark reads digits without exponent as a decimal, which holds no more.
MAX_DECIMAL_DIGITS = 38

KEYWORDS = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE")
)

_NUMBER = re.compile(r"-?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_STRING_PIECE = re.compile(
    r"''|\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.ASCII | re.DOTALL
)
_ESCAPED = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"
}  # fmt: skip
_TO_ESCAPE = str.maketrans(
    {"\\": "\\\\", "'": "''", "\0": "\\000", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)


def read_number(text: str) -> int | float:
    """An exact integer, or a double when there is a point or an exponent; else ValueError."""
    compact = re.sub(r"^-\s+", "-", text)
    form = _NUMBER.fullmatch(compact)
    if form is None:
        raise ValueError(f"{text} is not a number")
    fraction, bare_fraction, exponent = form.groups()
    if exponent is None and len(re.findall("[0-9]", compact)) > MAX_DECIMAL_DIGITS:
        raise ValueError(
            f"a number without exponent has at most {MAX_DECIMAL_DIGITS} digits; write it as 1e39"
        )
    if fraction is bare_fraction is exponent is None:
        integer = int(compact)
        if not INTEGER_MIN <= integer <= INTEGER_MAX:
            raise ValueError(
                f"integer {compact} does not fit in 64 bits ({INTEGER_MIN} to {INTEGER_MAX}); "
                f"write it with a point, as {compact}.0, to compare with the nearest double"
            )
        return integer
    double = float(compact)
    if double in (float("inf"), float("-inf")):
        raise ValueError(f"{compact} is too large for a double")
    return double


def write_number(value: int | float) -> str:
    """Text that reads back as this number; ValueError for infinities and NaN."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise ValueError(f"{value} cannot be written in a filter")
    return repr(value)


def read_string(text: str) -> str:
    """The string that a quoted literal stands for; ValueError for an impossible character."""
    value = _STRING_PIECE.sub(_read_piece, text[1:-1])
    try:
        # Two \u escapes may be the halves of one character, as in JSON and Java.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ValueError("the string has an escape for half a surrogate pair") from None


def _read_piece(piece: re.Match[str]) -> str:
    if piece.group() == "''":
        return "'"
    short, long, octal, other = piece.groups()
    if other is not None:
        return _ESCAPED.get(other, other)
    code_point = int(octal, 8) if octal else int(short or long, 16)
    if code_point > 0x10FFFF:
        raise ValueError(f"{piece.group()} is beyond the last character, \\U0010FFFF")
    return chr(code_point)


def write_string(value: str) -> str:
    """The quoted literal that reads back as this string."""
    return f"'{value.translate(_TO_ESCAPE)}'"


def read_quoted_name(text: str) -> str:
    """The name between back-quotes."""
    return text[1:-1].replace("``", "`")


def write_name(name: str) -> str:
    """The name, between back-quotes if it needs them; ValueError for the empty name."""
    if not name:
        raise ValueError("an attribute needs a name")
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"
