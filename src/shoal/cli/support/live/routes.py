"""The route of one publication through a live network, as its brokers report it.

Each broker answers with the publication's next hops and the routing data it would send; nothing is
published.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Any, NamedTuple

from rich.filesize import decimal

from shoal.cli.support.live.statuses import Statuses

# Each answering broker's reply (see `shoal.runtime.questions`).
Answers = Mapping[str, Mapping[str, Any]]
# Queries a broker about a publication from a source ("": a client) with its routing data.
AskRoutingDecision = Callable[[str, str, str], Awaitable[Mapping[str, Any]]]
FAR = 1_000_000


class Way(NamedTuple):
    """Brokers from the first to the last that is reached, and the obstacle, if there is one.

    `reasons` say why it goes to each of them, "" where that is a table of subscriptions.
    `is_said`: brokers say where it goes; else these are the links that lead there.
    """

    brokers: tuple[str, ...]
    problem: str = ""
    is_said: bool = True
    reasons: tuple[str, ...] = ()

    def text(self) -> str:
        """It in one line.

        >>> Way(("B1", "B2"), reasons=("", "the root")).text()
        'B1 -> B2 (the root)'
        """
        reasons = self.reasons or ("",) * len(self.brokers)
        return " -> ".join(
            f"{broker} ({reason})" if reason else broker
            for broker, reason in zip(self.brokers, reasons, strict=True)
        )

    def to(self, broker: str, reason: str) -> Way:
        """It, and on to a broker, which may be the last one again: of that both reasons are said.

        >>> Way(("B1",)).to("B1", "matches it").to("B2", "").text()
        'B1 (matches it) -> B2'
        """
        *before, last = self.reasons or ("",) * len(self.brokers)
        if broker == self.brokers[-1]:
            both = "; ".join(filter(None, (last, reason)))
            return self._replace(reasons=(*before, both))
        return self._replace(brokers=(*self.brokers, broker), reasons=(*before, last, reason))


async def find_way(start: str, target: str, ask: AskRoutingDecision, statuses: Statuses) -> Way:
    """The way from one broker to another as brokers say it, as far as it leads there.

    Of several ways, which systems with cycles have, the one is taken that its links make short.
    """
    distances = _distances(target, statuses)
    order = count()
    waiting = [(distances.get(start, FAR), next(order), Way((start,)), "", "")]
    asked: set[tuple[str, str, str]] = set()
    nearest: tuple[int, Way] = FAR + 1, Way((start,))
    while waiting:
        distance, _, way, source, told = heappop(waiting)
        here = way.brokers[-1]
        if (here, source, told) in asked:
            continue
        asked.add((here, source, told))
        if statuses.get(here) is None:
            found: Mapping[str, Any] = {"hops": (), "problem": f"{here} does not answer"}
        else:
            found = await ask(here, source, told)
        if found["hops"] is None:
            return _over_links(start, target, statuses)
        if here == target and found["is_local"]:
            return way
        names = sorted({hop["neighbour"] for hop in found["hops"]})
        if distance < nearest[0] or not nearest[1].problem:
            nearest = distance, way._replace(problem=_end(here, target, names, found["problem"]))
        for hop in found["hops"]:
            there = hop["neighbour"]
            further = way.to(there, hop["why"])
            step = distances.get(there, FAR), next(order), further, here, hop["told"]
            heappush(waiting, step)
    return nearest[1]


def _end(here: str, target: str, hops: list[str], problem: str) -> str:
    if problem:
        return problem if problem.startswith(here) else f"at {here} {problem}"
    if here == target:
        return f"{here} knows no subscription of its clients that matches"
    others = f"only to {', '.join(hops)}" if hops else "nowhere"
    return f"{here}'s table leads {others}, not to {target}"


def _over_links(start: str, target: str, statuses: Statuses) -> Way:
    """Return the shortest route over links, up or not, for brokers that do not report routes."""
    distances = _distances(target, statuses)
    if start not in distances:
        return Way((start,), f"no links lead from {start} to {target}")
    neighbours = _neighbours(statuses)
    way = [start]
    while way[-1] != target:
        way.append(min(sorted(neighbours[way[-1]]), key=lambda name: distances.get(name, FAR)))
    return Way(tuple(way), is_said=False)


def down(way: Way, statuses: Statuses) -> str:
    """The first link on the way that is not up; nothing if all are, or there is another way."""
    for here, there in pairwise(way.brokers if way.is_said else ()):
        link = _link(statuses, here, there)
        if link is not None and link["state"] != "up":
            return f"{here} - {there}"
    return ""


def queues(ways: Iterable[Way], statuses: Statuses) -> Iterator[str]:
    """Yield queues on these routes, if a queue is not empty or the link is down; each link once.

    >>> link = {"neighbour": "B3", "state": "away", "buffered_bytes": 0, "spooled_bytes": 90}
    >>> ways = [Way(("B1", "B2", "B3")), Way(("B2", "B3"))]
    >>> list(queues(ways, {"B2": {"links": [link]}}))
    ['the link B2 - B3: is away, 90 bytes are kept on disk']
    """
    for here, there in dict.fromkeys(pair for way in ways for pair in pairwise(way.brokers)):
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


def _neighbours(statuses: Statuses) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in statuses}
    for name, status in statuses.items():
        for link in (status or {}).get("links", ()):
            found[name].add(link["neighbour"])
            found.setdefault(link["neighbour"], set()).add(name)
    return found


def _distances(target: str, statuses: Statuses) -> Mapping[str, int]:
    """Return how many links lead from each broker to the target; those that none lead from are not
    in.
    """
    neighbours = _neighbours(statuses)
    found = {target: 0}
    queue = [target]
    for name in queue:
        for other in neighbours.get(name, ()):
            if other not in found:
                found[other] = found[name] + 1
                queue.append(other)
    return found
