"""Summaries with given figures, as runs would leave them."""

from __future__ import annotations

from typing import Any

from shoal.experiments.relocation.grid import Distribution, RelocationSetting, RunSpec, Testbed
from shoal.experiments.relocation.measuring.summary import RunSummary, Selection, Stand


def spec(
    setting: RelocationSetting,
    spread: int = 16,
    testbed: Testbed = "wide",
    distribution: Distribution = "clustered",
    study: Any = "grid",
    probe: int | None = None,
    subscriptions: int = 20,
) -> RunSpec:
    return RunSpec(
        study=study,
        dataset="quotes",
        testbed=testbed,
        distribution=distribution,
        spread=spread,
        setting=setting,
        duration_us=360_000_000,
        publications=360,
        subscriptions=subscriptions,
        probe=probe,
    )


def summary(one: RunSpec, rows: dict[str, Any] | None = None, /, **metrics: float) -> RunSummary:
    return RunSummary(spec=one, key="", metrics=metrics, **(rows or {}))


def stand(broker: str, messages: int, delay_us: int, deliveries: int = 10) -> Stand:
    return Stand(
        broker=broker,
        messages=messages,
        delay_us=delay_us,
        deliveries=deliveries,
        traced_messages=messages // 2,
        traced_delay_us=delay_us // 2,
        traced_deliveries=deliveries // 2,
    )


def selection(publisher: str, broker: str, target: str, took_us: int = 5_000) -> Selection:
    return Selection(
        publisher=publisher,
        broker=broker,
        target=target,
        decided_us=100_000_000,
        took_us=took_us,
        asked_us=took_us // 2,
        candidates=5,
        delay_now_us=None,
        delay_target_us=None,
    )
