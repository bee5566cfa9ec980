"""Filters that compare with values of an absent kind are reported, once each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shoal.frames import kind_checks
from shoal.frames.kind_checks import CheckedKind, complaints
from shoal.language import parse
from shoal.model import Attributes

ROWS: Sequence[Attributes] = (
    {"delay": 41, "carrier": "UA", "late": True},
    {"delay": "none", "carrier": "AA"},
    {"delay": 3.5, "carrier": "UA"},
)


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (
            ["delay > 30 AND carrier = 'UA'"],
            ["delay is text in 1 of 3 rows; `delay > 30` compares n"],
        ),
        (
            ["delay > 30", "NOT (delay <= 5 OR delay IN (7))"],
            ["delay is text in 1 of 3 rows; `dela"],
        ),
        (["carrier > 5"], ["carrier is text in 3 of 3 rows; `carrier > 5` compares numbers"]),
        (["carrier > 5 OR carrier = 'UA'"], ["carrier is text in 3 of 3 rows; `carrier > 5` co"]),
        (["late = 'yes'"], ["late is a boolean in 1 of 1 rows; `late = 'yes'` compares text"]),
        # Who asks for both knows of both.
        (["delay > 30 OR delay = 'none'"], []),
        (
            ["delays > 30"],
            ["no publication has delays, and `delays > 30` asks for it; did you mean de"],
        ),
        (["gate IS NULL AND late"], []),
    ],
)
def test_what_is_asked_in_vain(filters: list[str], told: list[str]) -> None:
    found = list(complaints(CheckedKind.of(map(parse, filters)), ROWS))
    assert len(found) == len(told)
    assert all(line.startswith(start) for line, start in zip(found, told, strict=True))


def test_of_many_publications_the_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_checks, "SAMPLE", 2)
    asked = CheckedKind.of([parse("delay > 30")])
    assert list(complaints(asked, ROWS)) == [
        "delay is text in 1 of the first 2 rows; `delay > 30` compares numbers"
    ]
    (none,) = complaints(CheckedKind.of([parse("gusts > 30")]), ROWS)
    assert none.startswith("none of the first 2 publications has gusts, and `gusts > 30` asks")
    assert list(complaints(asked, ())) == []


@pytest.mark.parametrize(
    ("filter", "values", "told"),
    [
        ("delay > 30", ["41", "n/a", "12"], "delay is text (in 1 of 3 rows no number: 'n/a'); "),
        ("late", ["true", "False", "-"], "late is text (in 1 of 3 rows no boolean: '-'); "),
        ("delay > 30", ["41", "12"], "delay is text in 2 of 2 rows; "),
        ("delay > 30", ["a", "b"], "delay is text in 2 of 2 rows; "),
    ],
)
def test_one_text_that_makes_a_column_text_is_named(
    filter: str, values: list[str], told: str
) -> None:
    name = "late" if filter == "late" else "delay"
    (found,) = complaints(CheckedKind.of([parse(filter)]), [{name: value} for value in values])
    assert found.startswith(told)
