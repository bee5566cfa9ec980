"""A study as data: claims with verdicts, tables and figures, read from `study.json`.

The experiment decides about the content; the pages only show it.

>>> claim = StudyFinding(id="load", section="Load", dataset="quotes", claim="cuts load",
...                      paper="68 %", ours="71 %", verdict="met", reason="")
>>> count_verdicts([claim, msgspec.structs.replace(claim, verdict="missed")])
{'met': 1, 'missed': 1}
>>> score([claim, msgspec.structs.replace(claim, verdict="beaten", is_own=True)])
["of the paper's 1 claim 1 met; of our own 1 aim 1 beaten"]
>>> score([claim, msgspec.structs.replace(claim, verdict="beaten", is_again=True)])
["of the paper's 1 claim 1 met"]
>>> score([claim, msgspec.structs.replace(claim, id="rate", turns=True)])
["of the paper's 2 claims 2 met (1 turns within its interval)"]
>>> score([claim, msgspec.structs.replace(claim, dataset="flights", verdict="missed")])
["quotes: of the paper's 1 claim 1 met", "flights: of the paper's 1 claim 1 missed"]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

Verdict = Literal["met", "beaten", "missed", "direction only", "not comparable", "not run"]
VERDICTS: Sequence[Verdict] = (
    "met",
    "beaten",
    "missed",
    "direction only",
    "not comparable",
    "not run",
)
# Beginning of a claim that continues the one before it.
_GOES_ON = "..."


class StudyError(ValueError):
    """A study file that is missing or misshapen; says which."""


class FindingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on a value: below `low`, from `low` to `high`, and above `high`. A bound
    that is None is infinite: JSON has no such number.

    >>> limits = FindingLimits(low=1.0, high=2.0, verdicts=("missed", "met", "beaten"))
    >>> [limits.verdict(value) for value in (0.9, 1.0, 2.0, 2.1)]
    ['missed', 'met', 'met', 'beaten']
    >>> limits.turning(1.5, 1.9), limits.turning(0.5, 2.5)
    ((), (1.0, 2.0))
    """

    low: float | None
    high: float | None
    verdicts: tuple[Verdict, Verdict, Verdict]

    def verdict(self, value: float) -> Verdict:
        is_above = self.high is not None and value > self.high
        return self.verdicts[(self.low is None or value >= self.low) + is_above]

    def turning(self, low: float, high: float) -> tuple[float, ...]:
        """Return the bounds from `low` to `high` if values there have more than one verdict."""
        ends = (each for each in (self.low, self.high) if each is not None)
        between = tuple(dict.fromkeys(each for each in ends if low <= each <= high))
        verdicts = {self.verdict(value) for value in (low, high, *between)}
        return between if len(verdicts) > 1 else ()


class StudyFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, its text, our result, and, if it was missed, a possible reason.

    Beaten is better than the paper by more than the band, which `band` puts in words. Direction
    only: the size of our figure follows from a constant that the paper does not print, and it lies
    on the paper's side. Not comparable are figures of different things, such as times of other
    machines. `reading` says how the claim is read where the paper leaves a choice; `is_own` marks
    aims of our own, and `is_again` another reading of a claim that has a row, shown beside it and
    not counted. `value` is the measurement in its `unit` (`%` of a share), and `limits` its
    verdicts. Over several seeds it is their mean, with `half` of its 95 % interval, and `turns` if
    that holds another verdict.
    """

    id: str
    section: str
    dataset: str
    claim: str
    paper: str
    ours: str
    verdict: Verdict
    reason: str
    band: str = ""
    reading: str = ""
    is_own: bool = False
    is_again: bool = False
    value: float | None = None
    half: float | None = None
    unit: str = ""
    limits: FindingLimits | None = None
    turns: bool = False


class StudyLine(msgspec.Struct, frozen=True, kw_only=True):
    """One series of a figure; a gap where y is None.

    `look` numbers its colour and mark, so that a series looks the same in every figure; without,
    its place among the lines does.
    """

    name: str
    points: tuple[tuple[float, float | None], ...]
    look: int | None = None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Lines over an x axis: at even steps for each value that occurs, linear, or logarithmic."""

    id: str
    title: str
    caption: str
    x_label: str
    y_label: str
    lines: tuple[StudyLine, ...]
    x_scale: Literal["steps", "linear", "log"] = "steps"
    y_scale: Literal["linear", "log"] = "linear"
    marks: bool = True


class StudyGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Figures that belong together."""

    title: str
    figures: tuple[Figure, ...]


class StudyTable(msgspec.Struct, frozen=True, kw_only=True):
    """A small table: its title, a sentence about it, columns and rows of text."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class StudyReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the pages show.

    scale     of a paper's runs; a study of one's own has none
    is_part   if runs are missing, as the last fact says
    """

    title: str
    scale: str = ""
    facts: tuple[str, ...]
    notes: tuple[str, ...]
    claims: tuple[StudyFinding, ...]
    tables: tuple[StudyTable, ...]
    groups: tuple[StudyGroup, ...]
    is_part: bool = False

    @property
    def size(self) -> str:
        """The scale and the facts in one line."""
        scale = [f"scale {self.scale}"] if self.scale else []
        return " · ".join([*scale, *self.facts])


def read_study(path: Path) -> StudyReport:
    """The study in a file; StudyError when it is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=StudyReport)
    except FileNotFoundError:
        raise StudyError(f"{path}: no such file; is this a study's folder?") from None
    except msgspec.DecodeError as error:
        raise StudyError(f"{path}: not a study: {error}") from None


def count_verdicts(claims: Sequence[StudyFinding]) -> Mapping[str, int]:
    """Return how many claims have each verdict that occurs."""
    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def score(claims: Sequence[StudyFinding]) -> list[str]:
    """Return how many claims of the paper, and apart from them aims of our own, have each verdict.

    A line for each data set, or reading, as a claim is judged once in each.
    """
    names = datasets(claims)
    lines = []
    for name in names:
        line = _score(claims, name)
        lines.append(line if len(names) == 1 else f"{name}: {line}")
    return lines


def _score(claims: Sequence[StudyFinding], dataset: str) -> str:
    parts = []
    for is_own, whose in ((False, "of the paper's {} claims"), (True, "of our own {} aims")):
        some = counted(claims, dataset, is_own=is_own)
        counts = ", ".join(f"{n} {verdict}" for verdict, n in count_verdicts(some).items())
        if some:
            words = whose.format(len(some))
            words = words.removesuffix("s") if len(some) == 1 else words
            parts.append(f"{words} {counts}{_turning(some)}")
    return "; ".join(parts)


def _turning(claims: Sequence[StudyFinding]) -> str:
    count = sum(claim.turns for claim in claims)
    if not count:
        return ""
    return (
        f" ({count} turn within their intervals)"
        if count > 1
        else (" (1 turns within its interval)")
    )


def counted(claims: Sequence[StudyFinding], dataset: str, *, is_own: bool) -> list[StudyFinding]:
    """The paper's claims, or our own aims, that count as judged on a data set."""
    return [
        claim
        for claim in claims
        if claim.dataset == dataset and claim.is_own is is_own and not claim.is_again
    ]


def missed_claims(claims: Sequence[StudyFinding]) -> list[StudyFinding]:
    """Return the missed claims, with their whole texts."""
    texts = whole_texts(claims)
    return [
        msgspec.structs.replace(one, claim=texts[one.id])
        for one in claims
        if one.verdict == "missed" and not one.is_again
    ]


def whole_texts(claims: Sequence[StudyFinding]) -> Mapping[str, str]:
    """Return each claim's text by its id, one that continues the one before it with that.

    On a further data set the one before it may not be judged, so the first data set decides.
    """
    texts, begun = dict[str, str](), ""
    for one in claims:
        if one.claim.startswith(_GOES_ON):
            texts.setdefault(one.id, f"{begun} {one.claim}")
        else:
            texts[one.id] = begun = one.claim
    return texts


def datasets(claims: Sequence[StudyFinding]) -> list[str]:
    """The data sets that claims were judged on, in the order they come."""
    return list(dict.fromkeys(claim.dataset for claim in claims))


def sections(claims: Sequence[StudyFinding]) -> Mapping[str, list[list[StudyFinding]]]:
    """Return each claim's result on every data set, by section, all in order."""
    found: dict[str, dict[str, list[StudyFinding]]] = {}
    for claim in claims:
        found.setdefault(claim.section, {}).setdefault(claim.id, []).append(claim)
    return {section: list(by_id.values()) for section, by_id in found.items()}


def reason(claims: Sequence[StudyFinding]) -> str:
    """Return how a claim was read, and why it was missed, once; per data set if they differ."""
    read: dict[str, list[str]] = {}
    for claim in claims:
        read.setdefault(claim.reading, []).append(claim.dataset)
    readings = (
        f"Read as{', ' + '; '.join(names) if len(read) > 1 else ''}: {reading}."
        for reading, names in read.items()
        if reading
    )
    again = ("Not counted: another reading of a claim above." for claim in claims if claim.is_again)
    reasons = (claim.reason for claim in claims if claim.reason)
    return " ".join(dict.fromkeys([*readings, *again, *reasons]))


def holds_figures(cells: Sequence[str]) -> bool:
    """Return whether a column holds figures, which are easier to compare at the right.

    >>> holds_figures(["12", "\N{MINUS SIGN}0.5 %", ""]), holds_figures(["12", "none"])
    (True, False)
    """
    found = [cell.lstrip("\N{MINUS SIGN}") for cell in cells if cell]
    return bool(found) and all(cell[:1].isdigit() for cell in found)
