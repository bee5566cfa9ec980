"""Judges of selections and moves by the number of links between source and target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from shoal.experiments.relocation.evidence import (
    Judge,
    Place,
    RelocationEvidence,
    milliseconds,
    seconds,
)
from shoal.experiments.relocation.grid import RelocationSetting
from shoal.experiments.relocation.measuring.summary import RunSummary
from shoal.experiments.studies.claims import ClaimOutcome

# From this correlation on a figure shows a line.
LINEAR = 0.9
# One of less than this hardly shows.
HARDLY = 0.5


def path_lengths(run: RunSummary) -> Mapping[tuple[str, str, str], int]:
    """Return how many links each finished move went over."""
    return {(one.publisher, one.source, one.target): one.path_hops for one in run.migrations}


def selections_by_path(run: RunSummary, *, with_pings: bool) -> Iterator[tuple[int, int]]:
    """(links between publisher and chosen broker, how long choosing took in µs)."""
    lengths = path_lengths(run)
    for one in run.selections:
        took_us = one.took_us if with_pings else one.asked_us
        if one.broker == one.target:
            yield 0, took_us
        elif (one.publisher, one.broker, one.target) in lengths:
            yield lengths[one.publisher, one.broker, one.target], took_us


def means_by_path(pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
    """The mean time of each path length."""
    found: dict[int, list[int]] = defaultdict(list)
    for hops, took_us in pairs:
        found[hops].append(took_us)
    return {hops: float(np.mean(values)) for hops, values in sorted(found.items())}


def waits_grow_with_paths(places: Sequence[Place], settings: Sequence[RelocationSetting]) -> Judge:
    """Judge how closely the mean wait of a moving publisher follows the length of the path."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        return _along_paths(
            (one.path_hops, one.wait_us)
            for run in _runs(evidence, places, settings)
            for one in run.migrations
        )

    return judge


def selections_grow_with_paths(places: Sequence[Place], setting: RelocationSetting) -> Judge:
    """Judge how closely the mean time of choosing follows the length of the path."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        return _along_paths(
            pair
            for run in _runs(evidence, places, [setting])
            for pair in selections_by_path(run, with_pings=True)
        )

    return judge


def _along_paths(pairs: Iterable[tuple[int, int]]) -> ClaimOutcome | None:
    means = means_by_path(list(pairs))
    if len(means) < 3:
        return None
    correlation = float(np.corrcoef(list(means), list(means.values()))[0, 1])
    per_link = np.polyfit(list(means), list(means.values()), 1)[0]
    text = f"correlation {correlation:.2f}, {milliseconds(per_link)} more per link"
    return ClaimOutcome(text, correlation)


def long_moves_take(places: Sequence[Place], settings: Sequence[RelocationSetting]) -> Judge:
    """The longest wait of a publisher for a move over at most ten links, µs."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        waits = [
            one.wait_us
            for run in _runs(evidence, places, settings)
            for one in run.migrations
            if one.path_hops <= 10
        ]
        if not waits:
            return None
        text = f"at most {seconds(max(waits))}, mean {seconds(float(np.mean(waits)))}"
        return ClaimOutcome(text, float(max(waits)))

    return judge


def selections_ignore_paths(places: Sequence[Place], setting: RelocationSetting) -> Judge:
    """Return how much the time of each choice has to do with how far the chosen broker is."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        pairs = [
            pair
            for run in _runs(evidence, places, [setting])
            for pair in selections_by_path(run, with_pings=True)
        ]
        if len(means_by_path(pairs)) < 3:
            return None
        hops, took = zip(*pairs, strict=True)
        correlation = float(np.corrcoef(hops, took)[0, 1])
        return ClaimOutcome(f"correlation {correlation:.2f}", correlation)

    return judge


def _runs(
    evidence: RelocationEvidence, places: Sequence[Place], settings: Sequence[RelocationSetting]
) -> Iterator[RunSummary]:
    for place in places:
        for setting in settings:
            yield from evidence.results.runs(evidence.where(*place), setting).values()
