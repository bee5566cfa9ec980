r"""Tables of a study for LaTeX, with the rules of the package booktabs.

>>> table = StudyTable(title="Rate > 1", caption="", columns=("n", "rate, %"), rows=(("1", "2 %"),))
>>> print(latex([table]))
\begin{table}
\caption{Rate $>$ 1}
\begin{tabular}{ll}
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

from shoal.report.study import StudyTable

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
            rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}",
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


def _row(cells: Sequence[str]) -> str:
    return " & ".join(_text(cell) for cell in cells) + r" \\"


def _text(text: str) -> str:
    return text.translate(_SPECIAL)
