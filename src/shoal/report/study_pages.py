"""The pages of a study: `RESULTS.md` to read anywhere, `index.html` with the figures.

Both have a row per claim, met or missed alike, with the reason where one was missed.  The page is
one file that opens offline; the figures are there as files of their own, too.

Example: `write_pages(folder, read_study(folder / "study.json"))`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path

from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.plots import UNMEASURED, plot
from shoal.report.study import (
    Figure,
    StudyFinding,
    StudyReport,
    StudyTable,
    datasets,
    holds_figures,
    reason,
    score,
    sections,
)

COLUMNS = ("Claim", "The paper", "Met within")
# In Markdown.
BOLD = "**"


def write_pages(folder: Path, study: StudyReport) -> None:
    """Write `RESULTS.md`, `index.html` and `figures/` into a folder; former figures go."""
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for old in figures.glob("*.svg"):
        old.unlink()
    for figure in _figures(study):
        text = '<?xml version="1.0" encoding="UTF-8"?>\n' + plot(figure) + "\n"
        (figures / f"{figure.id}.svg").write_text(text, encoding="utf-8")
    (folder / "RESULTS.md").write_text(markdown(study), encoding="utf-8")
    (folder / "index.html").write_text(page(study), encoding="utf-8")


def _figures(study: StudyReport) -> Iterator[Figure]:
    for group in study.groups:
        yield from group.figures


# --- Markdown -------------------------------------------------------------------------------------


def markdown(study: StudyReport) -> str:
    """The study as Markdown: claims, tables, and links to the figures."""
    lines = [f"# {study.title}", "", study.size, ""]
    for line in _scores(study):
        lines += [line, ""]
    for note in study.notes:
        lines += [note, ""]
    for section, claims in sections(study.claims).items():
        lines += [f"## {section}", ""]
        lines += table_rows(
            (*COLUMNS, *_headings(study.claims), "Reading, likely reason"),
            [_claim_cells(found, datasets(study.claims)) for found in claims],
        )
    for table in study.tables:
        lines += [f"## {table.title}", ""]
        lines += [table.caption, ""] if table.caption else []
        lines += table_rows(table.columns, table.rows) if table.rows else [UNMEASURED, ""]
    for group in study.groups:
        lines += [f"## {group.title}", ""]
        for figure in group.figures:
            lines += [f"![{figure.title}](figures/{figure.id}.svg)", "", figure.caption, ""]
    return "\n".join(lines).rstrip() + "\n"


def claim_tables(study: StudyReport) -> list[StudyTable]:
    """The claims with their verdicts as tables, one for each section."""
    names = datasets(study.claims)
    return [
        StudyTable(
            title=section,
            caption="",
            columns=("Claim", "The paper", *_headings(study.claims)),
            rows=tuple(
                (found[0].claim, found[0].paper, *_verdict_texts(found, names)) for found in claims
            ),
        )
        for section, claims in sections(study.claims).items()
    ]


def _verdict_texts(found: Sequence[StudyFinding], names: Sequence[str]) -> list[str]:
    ours = {one.dataset: verdict_text(one) for one in found}
    return [ours.get(name, "") for name in names]


def verdict_text(one: StudyFinding, mark: str = "") -> str:
    """A verdict, and the figures that it stands on; `mark` stands around that of a miss."""
    verdict = f"{mark}{one.verdict}{mark}" if one.verdict == "missed" else one.verdict
    return ": ".join(filter(None, (verdict, one.ours)))


def _headings(claims: Sequence[StudyFinding]) -> list[str]:
    """One column per data set; a single one needs no name."""
    names = datasets(claims)
    return ["Ours"] if len(names) == 1 else [f"Ours, {name}" for name in names]


def _claim_cells(found: Sequence[StudyFinding], names: Sequence[str]) -> tuple[str, ...]:
    ours = {one.dataset: verdict_text(one, BOLD) for one in found}
    cells = (ours.get(name, "") for name in names)
    return (found[0].claim, found[0].paper, found[0].band, *cells, reason(found))


def table_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown, with an empty line behind it."""
    cells = [columns, tuple("---" for _ in columns), *rows]
    return [f"| {' | '.join(map(_cell, row))} |" for row in cells] + [""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _scores(study: StudyReport) -> list[str]:
    return [f"{text[:1].upper()}{text[1:]}." for text in score(study.claims)]


# --- HTML -----------------------------------------------------------------------------------------


def page(study: StudyReport) -> str:
    """The whole page."""
    body = join(
        tag("header",
            tag("h1", study.title),
            tag("p", study.size, class_="facts"),
            [tag("p", tag("b", line), class_="headline") for line in _scores(study)],
            [tag("p", note, class_="note") for note in study.notes],
            tag("nav",
                tag("a", "Finding by claim", href="#claims") if study.claims else None,
                [tag("a", table.title, href=f"#table-{number}")
                 for number, table in enumerate(study.tables)],
                [tag("a", group.title, href=f"#group-{number}")
                 for number, group in enumerate(study.groups)])),
        tag("main",
            tag("section", tag("h2", "Finding by claim"), _claims(study), id_="claims")
            if study.claims
            else None,
            [_table(number, table) for number, table in enumerate(study.tables)],
            [
                tag("section",
                    tag("h2", group.title),
                    tag("div", [_drawn(figure) for figure in group.figures], class_="figures"),
                    id_=f"group-{number}")
                for number, group in enumerate(study.groups)
            ]),
        tag("footer", "Written by shoal. Everything is in this one file."),
    )  # fmt: skip
    return document(study.title, body)


def document(title: str, body: Markup) -> str:
    """A page with this body, in the looks of a study."""
    return "<!doctype html>\n" + tag(
        "html",
        tag("head",
            tag("meta", charset="utf-8"),
            tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
            tag("title", title),
            tag("style", _style("page.css"), _style("study.css"))),
        tag("body", body, tag("script", _style("stack.js"), type_="module")),
        lang="en",
    )  # fmt: skip


def _style(name: str) -> Markup:
    return Markup((resources.files("shoal.report") / name).read_text(encoding="utf-8"))


def _claims(study: StudyReport) -> Markup:
    ours = _headings(study.claims)
    columns = (*COLUMNS, *ours)
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in columns]))
    headings = dict(zip(datasets(study.claims), ours, strict=True))
    bodies = [
        tag(
            "tbody",
            tag("tr", tag("th", section, colspan=len(columns), scope="rowgroup"), class_="group"),
            [_claim(found, headings) for found in claims],
        )
        for section, claims in sections(study.claims).items()
    ]
    looks = "claims one" if len(ours) == 1 else "claims"
    return tag("div", tag("table", head, bodies, class_=looks), class_="wide")


def _claim(found: Sequence[StudyFinding], headings: Mapping[str, str]) -> Markup:
    """A row, with the heading of its column by data set.

    On a phone cells stand one below the other, and each says its heading itself.
    """
    _, paper, band = COLUMNS
    why = reason(found)
    by_name = {one.dataset: one for one in found}
    row = tag(
        "tr",
        tag("td", found[0].claim),
        tag("td", _unbroken(found[0].paper), data_heading=paper),
        tag("td", _unbroken(found[0].band), data_heading=band),
        [
            tag("td", verdict_cell(by_name[name]), data_heading=heading)
            if name in by_name
            else tag("td")
            for name, heading in headings.items()
        ],
        id_=found[0].id,
        class_="explained" if why else None,
    )
    return (
        join(row, tag("tr", tag("td", why, colspan=3 + len(headings)), class_="reason"))
        if why
        else row
    )


def verdict_cell(one: StudyFinding) -> Markup:
    """A verdict, and the figures that it stands on."""
    badge = tag("span", one.verdict, class_=f"verdict {one.verdict.replace(' ', '-')}")
    return join(badge, tag("p", _unbroken(one.ours)) if one.ours else None)


def _unbroken(text: str) -> str:
    """A number stays in one line with its unit or name."""
    unbroken = r"(?<=\d) (?=%|s\b|ms\b|MB\b|bytes\b)|(?<=X) (?==)|(?<==) (?=\d)"
    return re.sub(unbroken, "\N{NO-BREAK SPACE}", text)


def _table(number: int, table: StudyTable) -> Markup:
    return tag(
        "section",
        tag("h2", table.title),
        tag("p", table.caption, class_="note") if table.caption else None,
        plain_table(table.columns, table.rows) if table.rows else tag("p", UNMEASURED),
        id_=f"table-{number}",
    )


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table of texts; columns of figures are at the right."""
    looks = ["number" if holds_figures(cells) else None for cells in zip(*rows, strict=True)]
    looks = looks or [None] * len(columns)
    head = [
        tag("th", name, scope="col", class_=look) for name, look in zip(columns, looks, strict=True)
    ]
    body = [
        tag("tr", [tag("td", cell, class_=look) for cell, look in zip(row, looks, strict=True)])
        for row in rows
    ]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", body), class_="plain")
    return tag("div", table, class_="wide")


def _drawn(figure: Figure) -> Markup:
    caption = tag("figcaption", figure.title, tag("small", figure.caption))
    return tag("figure", caption, plot(figure), id_=figure.id)
