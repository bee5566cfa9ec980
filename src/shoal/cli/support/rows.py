"""Tables for a terminal of any width: as they are if they fit, else a few lines for each row.

A table that is too wide breaks words and numbers in its columns, so that they cannot be copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

# Width of a table beside its texts, per column and in total: with a frame, and without.
_FRAMED, _BARE = (3, 1), (2, 0)


def show_rows(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[str] = (),
) -> None:
    """Print rows of texts under headings; `numbers` are those of columns that end at the right."""
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    show_table(console, table)


def show_table(console: Console, table: Table) -> None:
    """Print a table; lines are broken between words only, and where that is not enough, rows are
    printed as lines of headings and cells.
    """
    if _fit(console, table):
        console.print(table)
        return
    for text in filter(None, (table.title, table.caption)):
        console.print(text, highlight=False)
    first, *others = ([_text(console, each) for each in column.cells] for column in table.columns)
    headings = [_text(console, column.header).plain for column in table.columns[1:]]
    for place, name in enumerate(first):
        name.stylize("bold")
        console.print(name, soft_wrap=True)
        words = [
            f"{heading} {cells[place].plain}"
            for heading, cells in zip(headings, others, strict=True)
            if cells[place].plain
        ]
        for line in _lines(words, console.width - 2):
            console.print(Text(f"  {line}"), soft_wrap=True)


def _fit(console: Console, table: Table) -> bool:
    """Make columns as narrow as need be, not narrower than their words; whether it fits then."""
    sizes = []
    for column in table.columns:
        texts = [_text(console, each) for each in (column.header, *column.cells)]
        found = [Measurement.get(console, console.options, text) for text in texts]
        sizes.append((max(size.minimum for size in found), max(size.maximum for size in found)))
    each, once = _BARE if table.box is None else _FRAMED
    wanted = sum(widest for _, widest in sizes) + each * len(sizes) + once
    excess = max(0, wanted - console.width)
    by_slack = sorted(zip(table.columns, sizes, strict=True), key=lambda row: row[1][0] - row[1][1])
    for column, (narrowest, widest) in by_slack:
        cut = min(excess, widest - narrowest)
        column.width = widest - cut
        excess -= cut
    return not excess


def _text(console: Console, cell: RenderableType) -> Text:
    return cell.copy() if isinstance(cell, Text) else console.render_str(str(cell), highlight=False)


def _lines(words: Sequence[str], width: int) -> list[str]:
    """Words in as few lines as they fit into, none of them broken.

    >>> _lines(["one 1", "two 2", "three 3"], 12)
    ['one 1, two 2', 'three 3']
    """
    lines = [""]
    for word in words:
        longer = f"{lines[-1]}, {word}" if lines[-1] else word
        if lines[-1] and len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
