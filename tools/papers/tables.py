"""Kept findings as tables in Markdown: counts, the claims that `PAPERS.md` shows, all claims.

Columns are scales. A cell of `PAPERS.md` is a verdict with the value behind it, so that a paper's
table fits a screen; on the page of all claims it is the whole measurement, and a claim has a row
for each data set or reading, which are judged one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from shoal.report.amounts import amount
from shoal.report.study import (
    VERDICTS,
    StudyFinding,
    count_verdicts,
    counted,
    datasets,
    reason,
    sections,
    whole_texts,
)
from shoal.report.study_pages import BOLD, table_rows, verdict_text
from tools.papers.kept import KeptStudy
from tools.papers.shown import PAPERS, SHOWN, Paper

Scales: TypeAlias = Mapping[str, KeptStudy]
OWN = " (aim of ours)"
PLACE = "docs/background/papers"
VERDICTS_TEXT = (
    "[The overview](../../../../PAPERS.md) explains the verdicts, "
    "[Evaluations](../../../how-to/evaluations.md) the command that repeats them."
)


class _Column(NamedTuple):
    """A column of measurements: at one scale, on one data set or by one reading."""

    scale: str
    dataset: str
    claims: Mapping[str, StudyFinding]


def counts(kept: Mapping[str, Scales]) -> list[str]:
    """A row for each study and scale: how many claims have each verdict, on its first data set.

    A paper's title leads to its page, the number of its claims to all of them. Verdicts that no
    study has are left out, so that the table fits a page.
    """
    found = [
        (study, scale, _of_paper(one))
        for study, scales in kept.items()
        for scale, one in scales.items()
    ]
    by_verdict = [count_verdicts(claims) for _, _, claims in found]
    turning = [sum(each.turns for each in claims) for _, _, claims in found]
    verdicts = [each for each in VERDICTS if any(each in counts for counts in by_verdict)]
    turn = ("turn",) if any(turning) else ()
    rows = [
        (
            _paper_cell(PAPERS[study]) if scale == next(iter(kept[study])) else "",
            scale,
            f"[{len(claims)}]({PLACE}/claims/{study}.md)",
            *(str(counts.get(each, "")) for each in verdicts),
            *(str(turns or "") for _ in turn),
        )
        for (study, scale, claims), counts, turns in zip(found, by_verdict, turning, strict=True)
    ]
    return table_rows(("paper", "scale", "claims", *verdicts, *turn), rows)


def _paper_cell(paper: Paper) -> str:
    systems = ", ".join(f"`{each}`" for each in paper.systems)
    return f"[{paper.title}]({PLACE}/{paper.page}.md): {systems}"


def shown_claims(study: str, scales: Scales) -> list[str]:
    """The claims that stand for a paper, on its first data set, a column for each scale."""
    first = datasets(next(iter(scales.values())).claims)[0]
    columns = [each for each in _columns(scales) if each.dataset == first]
    claims = columns[0].claims
    texts = whole_texts(list(claims.values()))
    rows = [
        (
            f"{texts[id]}{OWN * claims[id].is_own}",
            claims[id].paper,
            *_cells(id, columns, _short_text),
        )
        for id in SHOWN[study]
    ]
    return table_rows(("claim", "paper", *(f"scale {each.scale}" for each in columns)), rows)


def _whole_text(one: StudyFinding) -> str:
    return verdict_text(one, BOLD)


def _short_text(one: StudyFinding) -> str:
    """A verdict with the value that it stands on, and whether it turns within the interval."""
    verdict = verdict_text(msgspec.structs.replace(one, ours=""), BOLD)
    if one.turns:
        verdict += ", turns"
    if one.value is None:
        return verdict
    return f"{verdict}: {amount(one.value, one.unit, one.half)}"


def all_claims(study: str, scales: Scales) -> list[str]:
    """The page with every claim of a paper, and every aim of ours, section by section."""
    lines = [f"# {PAPERS[study].title}: every claim", "", VERDICTS_TEXT, ""]
    for scale, one in scales.items():
        lines += [
            f"Scale {scale}, measured by commit `{one.commit}`: {'; '.join(one.facts)}.",
            "",
        ]
    everything = [each for one in scales.values() for each in one.claims]
    by = ("by",) if len(datasets(everything)) > 1 else ()
    heads = ("claim", "paper", "met within", *by, *(f"scale {each}" for each in scales))
    columns = list(_columns(scales))
    for section, claims in sections(everything).items():
        rows = [row for one in claims for row in _claim_rows(one, columns, has_names=bool(by))]
        lines += [f"## {section}", "", *table_rows((*heads, "reading, likely reason"), rows)]
    return lines


def _claim_rows(
    judged: Sequence[StudyFinding], columns: Sequence[_Column], *, has_names: bool
) -> Iterator[tuple[str, ...]]:
    """A claim's rows, one for each data set; the first says what the claim is."""
    one = judged[0]
    said = (f"{one.claim}{OWN * one.is_own}", one.paper, one.band)
    why = reason(judged)
    for name in datasets(judged):
        cells = _cells(one.id, [each for each in columns if each.dataset == name], _whole_text)
        yield *said, *((name,) if has_names else ()), *cells, why
        said, why = ("", "", ""), ""


def contents(studies: Mapping[str, Scales]) -> list[str]:
    """The page that leads to the pages of these studies."""
    lines = ["# Every claim with its verdict", "", VERDICTS_TEXT, ""]
    for study, scales in studies.items():
        link = f"[{PAPERS[study].title}]({study}.md)"
        for scale, one in scales.items():
            found = count_verdicts(_of_paper(one)).items()
            lines.append(f"- {link}, scale {scale}: {', '.join(f'{n} {v}' for v, n in found)}")
    return [*lines, ""]


def _of_paper(study: KeptStudy) -> list[StudyFinding]:
    """The paper's claims that count, on the first data set."""
    return counted(study.claims, datasets(study.claims)[0], is_own=False)


def _columns(scales: Scales) -> Iterator[_Column]:
    """A column for each data set and scale, also where a scale does not have the data set."""
    for name in datasets([each for one in scales.values() for each in one.claims]):
        for scale, one in scales.items():
            claims = {each.id: each for each in one.claims if each.dataset == name}
            yield _Column(scale, name, claims)


def _cells(
    id: str, columns: Sequence[_Column], text: Callable[[StudyFinding], str]
) -> Iterator[str]:
    """The text of a claim for each column, empty where a column does not have it."""
    for column in columns:
        one = column.claims.get(id)
        yield "" if one is None else text(one)
