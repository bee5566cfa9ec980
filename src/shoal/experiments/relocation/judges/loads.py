"""Judges of the runs in which load is an axis: delays against the baseline's, by load.

Source: Cheung and Jacobsen, publisher relocation, sections 5.1 (main office) and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.experiments.relocation.evidence import NOISE, Judge, RelocationEvidence
from shoal.experiments.relocation.grid import BASELINE, LOADS, RelocationSetting
from shoal.experiments.relocation.measuring.results import delay_ratios
from shoal.experiments.studies.claims import ClaimOutcome

NEAR_SATURATION = LOADS[-1]


def later_than_baseline(setting: RelocationSetting, *, office: bool) -> Judge:
    """How many times the baseline's delay a setting has near saturation; other loads beside it."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        found = delay_ratios(evidence.results, evidence.dataset, setting)
        by_load = {busy: ratio for (busy, at_office), ratio in found.items() if at_office == office}
        if NEAR_SATURATION not in by_load:
            return None
        rest = ", ".join(f"{ratio:.2f} at {busy} %" for busy, ratio in sorted(by_load.items()))
        return ClaimOutcome(
            f"times the baseline's delay, by load: {rest}", by_load[NEAR_SATURATION]
        )

    return judge


def no_later_than_baseline(settings: Sequence[RelocationSetting]) -> Judge:
    """At which share of loads and placements settings are no later than the baseline."""

    def judge(evidence: RelocationEvidence) -> ClaimOutcome | None:
        found = {
            (setting.label, *place): ratio
            for setting in settings
            for place, ratio in delay_ratios(evidence.results, evidence.dataset, setting).items()
        }
        if not found:
            return None
        held = sum(ratio <= 1 + NOISE for ratio in found.values())
        (label, busy, at_office), most = max(found.items(), key=lambda each: each[1])
        where = f"{label}, {busy} %" + (", office" if at_office else "")
        text = f"{held} of {len(found)}; at most {most:.2f} times {BASELINE.label}'s ({where})"
        return ClaimOutcome(text, held / len(found))

    return judge
