"""Several studies on one page: how many claims of each paper stand, and all that do not.

Beside the studies' own pages, to which it leads: `RESULTS.md` and `index.html`.

Example: `write_overview(folder, {"octopia": study})`; the study's own page is `octopia/index.html`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.study import (
    VERDICTS,
    StudyFinding,
    StudyReport,
    count_verdicts,
    counted,
    datasets,
    missed_claims,
    reason,
)
from shoal.report.study_pages import document, plain_table, table_rows, verdict_cell

TITLE = "Where we stand"
_WHOSE = {False: "the paper's claims", True: "aims of our own"}
_COLUMNS = ("Data", "Judged", "All", *(verdict.capitalize() for verdict in VERDICTS))
_MISSED = ("Claim", "Data", "The paper, or our aim", "Ours")
_NOTE = (
    "A claim is met within its band, beaten above it, missed below it. Direction only: the figure "
    "follows from a constant that the paper does not print, or from a protocol of ours, and lies "
    "on the paper's side. Each study's page has all bands, readings and figures."
)


def write_overview(folder: Path, studies: Mapping[str, StudyReport]) -> None:
    """Write `RESULTS.md` and `index.html`; each study's own are in the folder of its name."""
    (folder / "RESULTS.md").write_text(overview_markdown(studies), encoding="utf-8")
    (folder / "index.html").write_text(overview_page(studies), encoding="utf-8")


def _counts(claims: Sequence[StudyFinding]) -> Iterator[tuple[str, ...]]:
    """A row for each data set, of the paper's claims, then of our own aims."""
    for is_own, whose in _WHOSE.items():
        for name in datasets(claims):
            if some := counted(claims, name, is_own=is_own):
                counts = count_verdicts(some)
                numbers = (str(counts.get(verdict, 0)) for verdict in VERDICTS)
                yield name, whose, str(len(some)), *numbers


def _system(study: StudyReport) -> str:
    """Return a study's subject: its title, before the part that all titles share."""
    return study.title.partition(":")[0]


# --- Markdown -------------------------------------------------------------------------------------


def overview_markdown(studies: Mapping[str, StudyReport]) -> str:
    """All studies as Markdown."""
    lines = [f"# {TITLE}", "", _NOTE, ""]
    for name, study in studies.items():
        lines += [f"## [{_system(study)}]({name}/RESULTS.md)", "", study.size, ""]
        lines += table_rows(_COLUMNS, list(_counts(study.claims)))
        if missed := missed_claims(study.claims):
            rows = [(one.claim, one.dataset, one.paper, one.ours, reason([one])) for one in missed]
            lines += ["Missed:", "", *table_rows((*_MISSED, "Likely reason"), rows)]
    return "\n".join(lines).rstrip() + "\n"


# --- HTML -----------------------------------------------------------------------------------------


def overview_page(studies: Mapping[str, StudyReport]) -> str:
    """All studies on one page that opens offline."""
    body = join(
        tag("header",
            tag("h1", TITLE),
            tag("p", _NOTE, class_="note"),
            tag("nav",
                [tag("a", _system(study), href=f"#{name}") for name, study in studies.items()])),
        tag("main", [_section(name, study) for name, study in studies.items()]),
        tag("footer", "Written by shoal reproduce all."),
    )  # fmt: skip
    return document(TITLE, body)


def _section(name: str, study: StudyReport) -> Markup:
    missed = missed_claims(study.claims)
    return tag(
        "section",
        tag("h2", _system(study)),
        tag("p", study.size, class_="facts"),
        plain_table(_COLUMNS, list(_counts(study.claims))),
        tag("p", tag("a", "All claims and figures", href=f"{name}/index.html")),
        tag("h3", "Missed") if missed else None,
        _missed_table(missed) if missed else None,
        id_=name,
    )


def _missed_table(missed: Sequence[StudyFinding]) -> Markup:
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in _MISSED]))
    table = tag("table", head, tag("tbody", [_missed_row(one) for one in missed]), class_="claims")
    return tag("div", table, class_="wide")


def _missed_row(one: StudyFinding) -> Markup:
    _, data, paper, ours = _MISSED
    why = reason([one])
    row = tag(
        "tr",
        tag("td", one.claim),
        tag("td", one.dataset, data_heading=data),
        tag("td", one.paper, data_heading=paper),
        tag("td", verdict_cell(one), data_heading=ours),
        class_="explained" if why else None,
    )
    if not why:
        return row
    return join(row, tag("tr", tag("td", why, colspan=len(_MISSED)), class_="reason"))
