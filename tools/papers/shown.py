"""The papers, and the claims of each that stand for it in `PAPERS.md`; its page has all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Paper(NamedTuple):
    """A paper as the tables name it; `page` is its file in `docs/background/papers/`."""

    title: str
    systems: Sequence[str]
    page: str


PAPERS: Mapping[str, Paper] = {
    "relocation": Paper(
        "Cheung, Jacobsen: Publisher Relocation (2009)",
        ("grape", "pop", "tree"),
        "publisher-relocation",
    ),
    "bluedove": Paper(
        "Li, Ye, Kim, Chen, Lei: A Scalable and Elastic Publish/Subscribe Service (2011)",
        ("bluedove",),
        "bluedove",
    ),
    "self-organising": Paper(
        "Jaeger, Parzyjegla, Mühl, Herrmann: Self-Organizing Broker Topologies (2007)",
        ("self_organising",),
        "cost-and-interest",
    ),
    "octopia": Paper("Shafique: Adaptive Content-based Routing", ("octopia", "tid"), "octopia"),
    "dynatops": Paper(
        "Zhao, Kim, Venkatasubramanian: DYNATOPS (2013)",
        ("dynatops", "hybrid", "bayeux", "geops", "tco"),
        "dynatops",
    ),
}

# Claims by study: what a paper's summary says, and what is missed.
SHOWN: Mapping[str, Sequence[str]] = {
    "relocation": (
        "grape-load-input",
        "grape-load-rate",
        "grape-delay-delay",
        "pop-input",
        "pop-rate",
        "pop-delay",
        "pop-overhead",
        "grape-overhead",
        "load-lowest-rate",
        "delay-lowest",
        "pop-between-input_utilisation",
        "load-delay-cluster",
        "random-alike",
        "random-baseline-rate",
        "random-pop-delay",
        "random-pop-hops",
        "weights-random",
        "exactly-once",
    ),
    "bluedove": (
        "peers-5",
        "peers-20",
        "full-5",
        "full-20",
        "linear",
        "rate-20",
        "response-time",
        "subscription-amount",
        "random",
        "spread",
        "fall",
        "loss",
        "dimensions",
        "deviation",
        "adverse",
        "overhead",
    ),
    "self-organising": (
        "below-static",
        "soon",
        "rise",
        "fall",
        "rise-redrawn",
        "fall-redrawn",
        "lowest",
        "narrow",
        "best-hops",
        "broadcasts",
        "exchanges",
        "mst-alpha",
        "mit-links",
        "ci-alpha",
        "locality",
    ),
    "octopia": (
        "9a",
        "9b",
        "9c",
        "11a",
        "11b",
        "11b-loaded",
        "11c",
        "churn",
        "delay-100",
        "queue-snr",
        "queue-tid",
        "messages-snr",
        "messages-tid",
        "second-idr",
        "more-sources",
        "lower-rates",
        "order",
        "failures",
    ),
    "dynatops": (
        "changes",
        "overhead",
        "delay",
        "subscribing-fast",
        "reconfiguring",
        "sensitive",
        "bound",
        "delay-bayeux",
        "delay-geops",
        "overhead-bayeux",
        "overhead-geops",
        "handovers",
        "halves",
        "weight",
        "visits",
        "free-cheaper",
        "chash",
        "hybrid-overhead",
    ),
}
