"""The pages of a study: `RESULTS.md` to read anywhere, `index.html` with the figures.

Both have a row per claim, met or missed alike, with the reason where one was missed.  The page is
one file that opens offline; the figures are there as files of their own, too.

Example: `write_pages(folder, read_study(folder / "study.json"))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from shoal.report.markup import Markup, join, tag
from shoal.report.plots import plot
from shoal.report.study import Claim, Figure, Study, Table, count_verdicts, sections

CLAIM_COLUMNS = ("Claim", "The paper", "Ours", "Verdict")


def write_pages(folder: Path, study: Study) -> None:
    """Write `RESULTS.md`, `index.html` and `figures/` into a folder; what was there goes."""
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for old in figures.glob("*.svg"):
        old.unlink()
    for figure in _figures(study):
        text = '<?xml version="1.0" encoding="UTF-8"?>\n' + plot(figure) + "\n"
        (figures / f"{figure.id}.svg").write_text(text, encoding="utf-8")
    (folder / "RESULTS.md").write_text(markdown(study), encoding="utf-8")
    (folder / "index.html").write_text(page(study), encoding="utf-8")


def _figures(study: Study) -> Iterator[Figure]:
    for group in study.groups:
        yield from group.figures


# --- Markdown -------------------------------------------------------------------------------------


def markdown(study: Study) -> str:
    """The study as Markdown: claims, tables, and links to the figures."""
    lines = [f"# {study.title}", "", " · ".join(study.facts), "", _score(study), ""]
    for note in study.notes:
        lines += [note, ""]
    for section, claims in sections(study.claims).items():
        lines += [f"## {section}", ""]
        lines += _rows(("Data", *CLAIM_COLUMNS, "Likely reason"), [
            (one.dataset, one.claim, one.paper, one.ours, f"**{one.verdict}**", one.reason)
            for one in claims
        ])  # fmt: skip
    for table in study.tables:
        lines += [f"## {table.title}", "", table.caption, ""]
        lines += _rows(table.columns, table.rows)
    for group in study.groups:
        lines += [f"## {group.title}", ""]
        for figure in group.figures:
            lines += [f"![{figure.title}](figures/{figure.id}.svg)", "", figure.caption, ""]
    return "\n".join(lines).rstrip() + "\n"


def _rows(
    columns: tuple[str, ...], rows: list[tuple[str, ...]] | tuple[tuple[str, ...], ...]
) -> list[str]:
    cells = [columns, tuple("---" for _ in columns), *rows]
    return [f"| {' | '.join(map(_cell, row))} |" for row in cells] + [""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _score(study: Study) -> str:
    counts = count_verdicts(study.claims)
    return ", ".join(f"{number} claims {verdict}" for verdict, number in counts.items()) + "."


# --- HTML -----------------------------------------------------------------------------------------


def page(study: Study) -> str:
    """The whole page."""
    body = join(
        tag("header",
            tag("h1", study.title),
            tag("p", " · ".join(study.facts), class_="facts"),
            tag("p", tag("b", _score(study)), class_="headline"),
            [tag("p", note, class_="note") for note in study.notes],
            tag("nav", [
                tag("a", group.title, href=f"#group-{number}")
                for number, group in enumerate(study.groups)
            ])),
        tag("main",
            tag("section", tag("h2", "Claim by claim"), _claims(study), id_="claims"),
            [_table(table) for table in study.tables],
            [
                tag("section",
                    tag("h2", group.title),
                    tag("div", [_drawn(figure) for figure in group.figures], class_="figures"),
                    id_=f"group-{number}")
                for number, group in enumerate(study.groups)
            ]),
        tag("footer", "Written by shoal reproduce. Everything is in this one file."),
    )  # fmt: skip
    return "<!doctype html>\n" + tag(
        "html",
        tag("head",
            tag("meta", charset="utf-8"),
            tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
            tag("title", study.title),
            tag("style", _style("page.css"), _style("study.css"))),
        tag("body", body),
        lang="en",
    )  # fmt: skip


def _style(name: str) -> Markup:
    return Markup((resources.files("shoal.report") / name).read_text(encoding="utf-8"))


def _claims(study: Study) -> Markup:
    columns = len(CLAIM_COLUMNS)
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in CLAIM_COLUMNS]))
    bodies = [
        tag(
            "tbody",
            tag("tr", tag("th", section, colspan=columns, scope="rowgroup"), class_="group"),
            [_claim(one) for one in claims],
        )
        for section, claims in sections(study.claims).items()
    ]
    return tag("div", tag("table", head, bodies, class_="claims"), class_="wide")


def _claim(one: Claim) -> Markup:
    return tag(
        "tr",
        tag("td", one.claim, tag("small", one.dataset)),
        tag("td", one.paper),
        tag("td", one.ours, tag("p", one.reason, class_="reason") if one.reason else None),
        tag("td", tag("span", one.verdict, class_=f"verdict {one.verdict.replace(' ', '-')}")),
        id_=f"{one.dataset}-{one.id}",
    )


def _table(table: Table) -> Markup:
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in table.columns]))
    rows = [tag("tr", [tag("td", cell) for cell in row]) for row in table.rows]
    return tag(
        "section",
        tag("h2", table.title),
        tag("p", table.caption, class_="note"),
        tag("div", tag("table", head, tag("tbody", rows)), class_="wide"),
    )


def _drawn(figure: Figure) -> Markup:
    caption = tag("figcaption", figure.title, tag("small", figure.caption))
    return tag("figure", caption, plot(figure), id_=figure.id)
