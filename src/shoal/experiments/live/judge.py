"""Expected and actual deliveries of a replay: each once, no other, in order.

The expected ones are from a truth table (Spark SQL's, made by `shoal truth`), or from the naive
reading of each filter for each event; the network's own index has no part in it.

>>> judge = LiveJudge({("s1", "p", 1), ("s1", "p", 2)})
>>> for sequence in (2, 1, 1):
...     judge.arrived("s1", "p", sequence)
>>> judge.arrived("s2", "p", 1)
>>> judge.verdict
LiveVerdict(expected=2, delivered=4, lost=0, duplicated=1, phantom=1, out_of_order=1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import NamedTuple

from shoal.experiments.run_files import RunEvent, RunFileError, WorkloadFiles, read_columns
from shoal.language import FilterSyntaxError, parse
from shoal.matching import matches
from shoal.model import ClientId, SubscriptionId

Key = tuple[SubscriptionId, ClientId, int]


class LiveVerdict(NamedTuple):
    """Counts of deliveries."""

    expected: int
    delivered: int
    lost: int
    duplicated: int
    phantom: int
    out_of_order: int


class LiveJudge:
    """Gets arrivals, in their order."""

    def __init__(self, expected: set[Key]) -> None:
        self.counts: Counter[Key] = Counter()
        self.missing = set(expected)
        self._expected = expected
        self._newest: dict[tuple[SubscriptionId, ClientId], int] = {}
        self._out_of_order = 0

    def arrived(self, subscription: SubscriptionId, publisher: ClientId, sequence: int) -> None:
        """A publication came to a subscription."""
        key = subscription, publisher, sequence
        self.counts[key] += 1
        self.missing.discard(key)
        if self.counts[key] > 1:
            return  # a second copy comes late by its nature; it counts as that
        newest = self._newest.get((subscription, publisher), sequence)
        self._out_of_order += sequence < newest
        self._newest[subscription, publisher] = max(newest, sequence)

    def leave_out(
        self,
        *,
        subscriptions: Container[SubscriptionId] = (),
        publishers: Container[ClientId] = (),
    ) -> None:
        """Expect nothing for, or of, these: they take no part."""
        self._expect_only(lambda key: key[0] not in subscriptions and key[1] not in publishers)

    def expect_only(self, published: Container[tuple[ClientId, int]]) -> None:
        """Expect nothing of other publications; their arrivals count as neither right nor wrong."""
        self._expect_only(lambda key: key[1:] in published or key in self.counts)

    def _expect_only(self, is_kept: Callable[[Key], bool]) -> None:
        """Expect nothing else any more."""
        self._expected = set(filter(is_kept, self._expected))
        self.missing &= self._expected

    @property
    def verdict(self) -> LiveVerdict:
        """Return the verdict so far."""
        phantoms = sum(key not in self._expected for key in self.counts)
        delivered = self.counts.total()
        return LiveVerdict(
            expected=len(self._expected),
            delivered=delivered,
            lost=len(self.missing),
            duplicated=delivered - len(self.counts),
            phantom=phantoms,
            out_of_order=self._out_of_order,
        )


def expected_by_truth(truth: Path, events: Iterable[RunEvent]) -> set[Key]:
    """The rows of a truth table (publisher, sequence, subscription) about these events."""
    published = {(event.publisher, event.sequence) for event in events}
    names = ("subscription", "publisher", "sequence")
    columns = read_columns(truth, names, numbers=("sequence",))
    return {key for key in zip(*columns, strict=True) if key[1:] in published}


def expected_by_filters(workload: WorkloadFiles, path: Path) -> set[Key]:
    """Every filter against every event, one by one; RunFileError names one that does not parse."""
    filters = []
    for row in workload.subscriptions:
        try:
            filters.append((row, parse(row.filter)))
        except FilterSyntaxError as error:
            place = f"{path}/subscriptions.parquet: filter of {row.subscription!r}"
            raise RunFileError(f"{place}: {error}") from None
    return {
        (row.subscription, event.publisher, event.sequence)
        for event in workload.events
        for row, filter in filters
        if row.waits_for(event.replay_us) and matches(filter, event.attributes)
    }
