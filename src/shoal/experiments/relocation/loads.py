"""Networks under load: costs that keep brokers busy, and the main office of section 5.1.

The paper prints no rates and no service times, so how busy its brokers were is unknown; the study
makes load an axis instead. In its example an enterprise's main office takes most publications of
every publisher.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it ships no types

from shoal.experiments.relocation.grid import RunSpec
from shoal.experiments.run_files import WorkloadFiles
from shoal.experiments.scenarios.scenario import Service

_NS_PER_US = 1_000
_COSTS = (
    "processing_us",
    "matching_us",
    "matching_per_subscription_ns",
    "transmission_us",
    "client_transmission_us",
)


def service_of(spec: RunSpec, publication_bytes: int) -> Service:
    """The costs of a run: the defaults, or so many times these that brokers are `spec.busy`.

    Of a broker with all publications and all subscriptions in its tables, that is.
    """
    service = Service(publication_bytes=publication_bytes)
    if spec.busy is None:
        return service
    publishers = spec.publishers
    subscriptions = publishers * spec.subscriptions
    searched_us = subscriptions * service.matching_per_subscription_ns / _NS_PER_US
    publication_us = service.processing_us + service.matching_us + searched_us
    per_us = publishers * spec.publications / spec.duration_us
    factor = spec.busy / 100 / (per_us * publication_us)
    costs = {name: round(getattr(service, name) * factor) for name in _COSTS}
    return msgspec.structs.replace(service, **costs)


def at_one_office(workload: WorkloadFiles, folder: Path) -> WorkloadFiles:
    """The same workload with every high-rated subscriber at one broker, the same each time."""
    classes = pq.read_table(folder / "subscriptions.parquet", columns=["rate_class"])
    names = sorted(row.broker for row in workload.brokers)
    office = Random("office").choice(names)
    rows = [
        msgspec.structs.replace(row, broker=office, place="") if rate_class == "high" else row
        for row, rate_class in zip(
            workload.subscriptions, classes["rate_class"].to_pylist(), strict=True
        )
    ]
    return workload._replace(subscriptions=rows)
