"""Figures and tables of a study, as the pages show them; a line without runs is left out.

>>> drawn = draw("5a", "Rate", "", ("X", "messages/s"), [("a", [(1, 2.0)]), ("b", [])])
>>> [line.name for line in drawn.lines]
['a']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from shoal.report.study import Figure, StudyLine, StudyTable

Points: TypeAlias = Iterable[tuple[float, float | None]]
Lines: TypeAlias = Iterable[tuple[str, Points]]


def draw(
    id: str,
    title: str,
    caption: str,
    axes: tuple[str, str],
    lines: Lines,
    *,
    looks: Mapping[str, int] | None = None,
    **options: Any,
) -> Figure:
    """A figure; lines without points are left out.

    `axes` are the labels of x and y; `looks` numbers lines' colours by their names; `options` are
    other fields of `Figure`.
    """
    drawn = (
        StudyLine(name=name, points=tuple(points), look=(looks or {}).get(name))
        for name, points in lines
    )
    return Figure(
        id=id,
        title=title,
        caption=caption,
        x_label=axes[0],
        y_label=axes[1],
        lines=tuple(line for line in drawn if line.points),
        **options,
    )


def tabulate(
    title: str, caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> StudyTable:
    """A small table of text."""
    return StudyTable(
        title=title, caption=caption, columns=tuple(columns), rows=tuple(tuple(row) for row in rows)
    )
