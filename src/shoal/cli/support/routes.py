"""The way of one publication through a live network, as its brokers say it.

Each broker says where a publication would go from it; nothing is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from rich.filesize import decimal

from shoal.cli.support.statuses import Statuses

# What each broker that answers says (see `shoal.runtime.questions`).
Answers = Mapping[str, Mapping[str, Any]]


class Way(NamedTuple):
    """Brokers from the first to as far as it comes, and what stops it, if anything does.

    `is_said`: brokers say where it goes; else these are the links that lead there.
    """

    brokers: tuple[str, ...]
    problem: str = ""
    is_said: bool = True


def find_way(start: str, target: str, answers: Answers, statuses: Statuses) -> Way:
    """The way from one broker to another by brokers' tables, as far as it leads there."""
    wanted = _by_links(start, target, statuses)
    if not wanted:
        return Way((start,), f"no links lead from {start} to {target}")
    for place, (here, there) in enumerate(pairwise(wanted), 1):
        come_so_far = wanted[:place]
        if here not in answers:
            return Way(come_so_far, f"{here} does not answer")
        hops = answers[here]["next_hops"]
        if hops is None:
            return Way(wanted, is_said=False)
        if there not in hops:
            others = f"only to {', '.join(sorted(hops))}" if hops else "nowhere"
            return Way(come_so_far, f"{here}'s table leads {others}, not to {there}")
    return Way(wanted)


def down(way: Way, statuses: Statuses) -> str:
    """The first link on the way that is not up; nothing if all are, or there is another way."""
    for here, there in pairwise(way.brokers if way.is_said else ()):
        link = _link(statuses, here, there)
        if link is not None and link["state"] != "up":
            return f"{here} - {there}"
    return ""


def queues(way: Way, statuses: Statuses) -> Iterator[str]:
    """What waits on the way, link by link, where something does or the link is not up."""
    for here, there in pairwise(way.brokers):
        link = _link(statuses, here, there)
        if link is None:
            continue
        words = [] if link["state"] == "up" else [f"is {link['state']}"]
        if link.get("problem"):
            words.append(str(link["problem"]))
        if link["buffered_bytes"]:
            words.append(f"{decimal(link['buffered_bytes'])} are on their way")
        if link["spooled_bytes"]:
            words.append(f"{decimal(link['spooled_bytes'])} are kept on disk")
        if words:
            yield f"the link {here} - {there}: {', '.join(words)}"


def _link(statuses: Statuses, here: str, there: str) -> Mapping[str, Any] | None:
    rows = (statuses.get(here) or {}).get("links", ())
    return next((row for row in rows if row["neighbour"] == there), None)


def _by_links(start: str, target: str, statuses: Statuses) -> tuple[str, ...]:
    """The shortest way over links, up or not; nothing if there is none."""
    neighbours: dict[str, set[str]] = {name: set() for name in statuses}
    for name, found in statuses.items():
        for link in (found or {}).get("links", ()):
            neighbours[name].add(link["neighbour"])
            neighbours.setdefault(link["neighbour"], set()).add(name)
    ways: dict[str, tuple[str, ...]] = {start: (start,)}
    queue = [start]
    for name in queue:
        for other in sorted(neighbours.get(name, ())):
            if other not in ways:
                ways[other] = (*ways[name], other)
                queue.append(other)
    return ways.get(target, ())
