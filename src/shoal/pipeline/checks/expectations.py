"""Holds an ingest against the `[expect]` of its declaration."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from shoal.pipeline.checks.publication_facts import PublicationFacts
from shoal.pipeline.sources.declaration import Expectations


class ExpectationError(ValueError):
    """Publications that are not as declared; the message gives the figures."""


class Outcome(NamedTuple):
    """Figures of an ingest: rows rejected, with a reason, and repeated, and the newest time."""

    facts: PublicationFacts
    rejected: int
    repeated: int
    reason: str
    newest_us: int | None


def check_expectations(expect: Expectations, found: Outcome, where: str, now_s: float) -> None:
    """ExpectationError with a sentence for each expectation that does not hold; `where` is the
    declaration.

    >>> facts = PublicationFacts(8, frozenset({"a"}), {}, {"wind": -2.0}, {"wind": 30.0})
    >>> found = Outcome(facts, 2, 0, "column 'wind' is missing", 0)
    >>> expect = Expectations(rejects=0.01, ranges={"wind": [0, 60]}, publishers=["b"])
    >>> check_expectations(expect, found, "m.toml", 0.0)
    Traceback (most recent call last):
    shoal.pipeline.checks.expectations.ExpectationError: m.toml: expect.rejects: 2 of 10 rows were \
rejected (20 %), and 1 % may be; one reason: column 'wind' is missing; \
expect.publishers: no publication is of 'b'; \
expect.ranges.wind: the values are from -2 to 30, and may be from 0 to 60
    """
    failed = list(_failed(expect, found, now_s))
    if failed:
        raise ExpectationError(f"{where}: {'; '.join(failed)}")


def _failed(expect: Expectations, found: Outcome, now_s: float) -> list[str]:
    facts, failed = found.facts, []
    read = facts.rows + found.rejected
    if _exceeds(found.rejected, read, expect.rejects):
        failed.append(
            f"expect.rejects: {found.rejected:,} of {read:,} rows were rejected "
            f"({_percent(found.rejected / read)}), and {_percent(expect.rejects or 0)} may be; "
            f"one reason: {found.reason}"
        )
    if _exceeds(found.repeated, facts.rows, expect.repeats):
        failed.append(
            f"expect.repeats: {found.repeated:,} of {facts.rows:,} publications are repeats "
            f"({_percent(found.repeated / facts.rows)}), and {_percent(expect.repeats or 0)} may be"
        )
    if facts.rows < expect.publications:
        failed.append(
            f"expect.publications: there are {facts.rows:,}, and must be {expect.publications:,}"
        )
    if absent := [name for name in expect.publishers if name not in facts.publishers]:
        failed.append(f"expect.publishers: no publication is of {', '.join(map(repr, absent))}")
    for name, (low, high) in expect.ranges.items():
        lowest, highest = facts.lowest.get(name, low), facts.highest.get(name, high)
        if lowest < low or highest > high:
            failed.append(
                f"expect.ranges.{name}: the values are from {lowest:g} to {highest:g}, and may be "
                f"from {low:g} to {high:g}"
            )
    if expect.newest_within_s is not None:
        failed += _stale(expect.newest_within_s, found.newest_us, now_s)
    return failed


def _stale(within_s: float, newest_us: int | None, now_s: float) -> list[str]:
    if newest_us is None:
        return ["expect.newest_within_s: there are no publications"]
    age_s = now_s - newest_us / 1e6
    if age_s <= within_s:
        return []
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=newest_us)
    return [
        f"expect.newest_within_s: the newest publication is of {at:%Y-%m-%d %H:%M:%S} UTC, "
        f"{age_s:,.0f} s ago, and may be {within_s:,.0f} s old"
    ]


def _exceeds(part: int, whole: int, share: float | None) -> bool:
    return share is not None and whole > 0 and part / whole > share


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"
