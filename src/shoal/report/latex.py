r"""Tables of a study for LaTeX, with the rules of the package booktabs.

>>> table = StudyTable(title="Rate > 1", caption="", columns=("n", "rate, %"), rows=(("1", "2 %"),))
>>> print(latex([table]))
\begin{table}
\caption{Rate $>$ 1}
\begin{tabular}{rr}
\toprule
n & rate, \% \\
\midrule
1 & 2 \% \\
\bottomrule
\end{tabular}
\end{table}
<BLANKLINE>
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shoal.report.study import StudyTable, holds_figures

_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: "\\" + sign for sign in "&%$#_{}"},
        # Other signs in the fonts that LaTeX begins with.
        **{sign: f"${sign}$" for sign in "<>|"},
        "\N{MINUS SIGN}": "$-$",
        "\N{EN DASH}": "--",
        "\N{NO-BREAK SPACE}": "~",
    }
)

# A longer cell is a sentence, and breaks; such cells have so much of a line together.
_LONG, _OF_A_LINE = 30, 0.8


def latex(tables: Sequence[StudyTable]) -> str:
    """The tables that have rows, each as a float with its title as caption."""
    return "\n".join(_table(table) for table in tables if table.rows)


def write_latex(path: Path, tables: Sequence[StudyTable]) -> None:
    path.write_text(latex(tables), encoding="utf-8")


def _table(table: StudyTable) -> str:
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_text(table.title)}}}",
            rf"\begin{{tabular}}{{{_columns(table)}}}",
            r"\toprule",
            _row(table.columns),
            r"\midrule",
            *(_row(row) for row in table.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _columns(table: StudyTable) -> str:
    r"""Columns as wide as their text, figures at the right; those of sentences share the line.

    >>> rows = (("word " * 20, "1"),)
    >>> table = StudyTable(title="", caption="", columns=("claim", "n"), rows=rows)
    >>> _columns(table)
    'p{0.80\\linewidth}r'
    """
    lengths = [max(map(len, cells)) for cells in zip(table.columns, *table.rows, strict=True)]
    columns = zip(*table.rows, strict=True)
    sides = ["r" if holds_figures(cells) else "l" for cells in columns]
    wide = sum(length > _LONG for length in lengths)
    return "".join(
        rf"p{{{_OF_A_LINE / wide:.2f}\linewidth}}" if length > _LONG else side
        for length, side in zip(lengths, sides, strict=True)
    )


def _row(cells: Sequence[str]) -> str:
    return " & ".join(_text(cell) for cell in cells) + r" \\"


def _text(text: str) -> str:
    return text.translate(_SPECIAL)
