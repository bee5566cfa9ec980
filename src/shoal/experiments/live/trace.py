"""Reads the brokers' traces of a replay: the number of links that deliveries travelled.

Brokers number publications by themselves, but keep each publisher's order: the n-th that the
trace has of a publisher is the n-th that it published.  A delivery to a subscription travelled as
far as its publication had when it reached the subscription's broker.

Clients that move from broker to broker make brokers talk about their sessions, as publications of
their own; `controls` is how often a broker took one in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.dataset as ds  # type: ignore[import-untyped]  # as above

from shoal.experiments.live.judge import Key
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.mqtt.front_end.network import RESERVED_CLIENT_IDS
from shoal.overlays.shapes import Link

_PUBLICATION = ("publisher", "sequence")
_DELIVERY = ("publisher", "sequence", "broker", "hops")


def mean_hops(
    folder: Path,
    prefix: str,
    published: Mapping[ClientId, Sequence[int]],
    deliveries: Iterable[Key],
    homes: Mapping[SubscriptionId, BrokerId],
) -> float | None:
    """Over these deliveries; None while the trace does not have all of them.

    Publishers are called `prefix` and their name in the trace; `published` has their publications,
    in order.
    """
    numbers = _numbers(folder, prefix, published)
    if numbers is None:
        return None
    rows = _rows(folder, "deliveries", _DELIVERY, pc.starts_with(pc.field("publisher"), prefix))
    hops = {(name.removeprefix(prefix), number, broker): n for name, number, broker, n in rows}
    total = count = 0
    for subscription, publisher, sequence in deliveries:
        found = hops.get((publisher, numbers[publisher, sequence], homes[subscription]))
        if found is None:
            return None
        total += found
        count += 1
    return total / count if count else None


def _numbers(
    folder: Path, prefix: str, published: Mapping[ClientId, Sequence[int]]
) -> dict[tuple[ClientId, int], int] | None:
    """By publisher and its own sequence, the brokers' number; None when they do not agree."""
    found: dict[ClientId, list[int]] = {name: [] for name in published}
    rows = _rows(
        folder, "publications", _PUBLICATION, pc.starts_with(pc.field("publisher"), prefix)
    )
    for name, number in rows:
        found[name.removeprefix(prefix)].append(number)
    numbers = {}
    for publisher, sequences in published.items():
        if len(found[publisher]) != len(sequences):
            return None
        own = sorted(found[publisher])
        numbers.update({(publisher, each): n for each, n in zip(sequences, own, strict=True)})
    return numbers


def controls(folder: Path, links: Sequence[Link], from_us: int, to_us: int) -> int:
    """Return how often brokers of a tree took in other brokers' publications about clients in that
    time.
    """
    at = pc.field("published_us")
    ours = pc.starts_with(pc.field("publisher"), RESERVED_CLIENT_IDS)
    condition = ours & (at >= from_us) & (at < to_us)
    reached: dict[tuple[str, int], set[BrokerId]] = {
        (publisher, sequence): {publisher.removeprefix(RESERVED_CLIENT_IDS)}
        for publisher, sequence in _rows(folder, "publications", _PUBLICATION, condition)
    }
    for publisher, sequence, broker, _ in _rows(folder, "deliveries", _DELIVERY, condition):
        reached.setdefault((publisher, sequence), set()).add(broker)
    ways = {source: _ways(links, source) for source in {end for link in links for end in link}}
    total = 0
    for (publisher, _), brokers in reached.items():
        way = ways[publisher.removeprefix(RESERVED_CLIENT_IDS)]
        total += len(set().union(*(way[broker] for broker in brokers)))
    return total


def _ways(links: Sequence[Link], source: BrokerId) -> dict[BrokerId, frozenset[BrokerId]]:
    """The brokers on the way from a source to every other, both included."""
    neighbours: dict[BrokerId, list[BrokerId]] = {}
    for left, right in links:
        neighbours.setdefault(left, []).append(right)
        neighbours.setdefault(right, []).append(left)
    ways = {source: frozenset((source,))}
    pending = [source]
    for broker in pending:
        for neighbour in neighbours.get(broker, ()):
            if neighbour not in ways:
                ways[neighbour] = ways[broker] | {neighbour}
                pending.append(neighbour)
    return ways


def _rows(
    folder: Path, table: str, columns: Sequence[str], condition: Any
) -> Iterable[tuple[Any, ...]]:
    path = folder / f"{table}.parquet"
    if not path.is_dir() or not any(path.glob("*.parquet")):
        return ()
    found = ds.dataset(path, format="parquet").to_table(columns=list(columns), filter=condition)
    return zip(*(found[name].to_pylist() for name in columns), strict=True)
