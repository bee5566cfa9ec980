"""HTML and SVG as values: a tag is a string that knows it is already escaped.

`tag` escapes every plain string it is given, so nothing that came from data (a broker's name, a
filter) can become markup by accident.

>>> tag("td", "a < b", class_="number")
'<td class="number">a &lt; b</td>'
>>> tag("p", tag("b", "1"), " & ", 2)
'<p><b>1</b> &amp; 2</p>'
"""

from __future__ import annotations

import html
from collections.abc import Iterable

Attribute = str | int | float | bool | None

# These take no closing tag in HTML; the SVG ones are closed by a slash instead.
_VOID = frozenset({"meta", "br", "input"})
_EMPTY = frozenset({"circle", "line", "path", "rect", "use", "polyline", "polygon"})


class Markup(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


Child = Markup | str | int | None


def tag(name: str, *children: Child | Iterable[Child], **attributes: Attribute) -> Markup:
    """`<name attributes>children</name>`; None children and None or False attributes vanish.

    A trailing underscore of an attribute is dropped, other underscores become hyphens
    (`class_`, `stroke_width`, `data_run`); `viewBox` keeps its spelling.
    """
    opened = name + "".join(
        f' {_attribute_name(key)}="{html.escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inside = join(*children)
    if name in _VOID:
        return Markup(f"<{opened}>")
    if name in _EMPTY and not inside:
        return Markup(f"<{opened}/>")
    return Markup(f"<{opened}>{inside}</{name}>")


def join(*children: Child | Iterable[Child]) -> Markup:
    """The children one after another, plain strings escaped."""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(str(child))
        elif isinstance(child, str | int):
            parts.append(html.escape(str(child), quote=False))
        else:
            parts.append(str(join(*child)))
    return Markup("".join(parts))


def _attribute_name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _text(value: Attribute) -> str:
    if value is True:
        return ""
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)
