"""Whether a broker takes new clients: `/ready`, and `ready` in its status.

A broker that lacks a link to a neighbour keeps what is for that neighbour, and still serves its
clients, as all brokers behind its other links do. So one stopped broker does not take its
neighbours from a load balancer. A broker without any link is not ready: it cannot route at all.
Nor is a broker that has never had a link to a neighbour since it started, because it may not know
the subscriptions behind that neighbour; after `give_up_us` the neighbour counts as dead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DOWN = ("idle", "away")

LinkRow = Mapping[str, Any]


class Readiness(NamedTuple):
    """Whether the broker is ready, and what it lacks; a ready broker may lack links."""

    is_ready: bool
    missing: list[str]


def down_links(links: Sequence[LinkRow]) -> list[str]:
    """Return the links of a status that are down, each with its problem."""
    return [
        f"link to {row['neighbour']}" + (f" ({row['problem']})" if row["problem"] else "")
        for row in links
        if row["state"] in DOWN
    ]


def has_needed_links(links: Sequence[LinkRow], *, is_starting: bool) -> bool:
    """Whether a broker with these links can be ready; `is_starting` until `give_up_us` is over."""
    down = [row for row in links if row["state"] in DOWN]
    if is_starting and not all(row["connections"] for row in down):
        return False
    return not down or len(down) < len(links)
