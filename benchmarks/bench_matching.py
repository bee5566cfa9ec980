"""Events per second of the match index, beside other installable engines.

Run `python benchmarks/bench_matching.py [ranges stocks million ten-million]` (default: the first
three). Every engine answers the same events with the ids of all matches. Count and checksum of the
first CHECKED_EVENTS are compared with brute force before the measurement. Other engines run between
our runs, slow ones on fewer events. The output has load time, memory of the loaded index, the
median of RUNS runs in events per second of wall time, and the ratio to the best other engine. An
engine with wrong answers is named and still timed (rule-engine 0.9 finds 75.6 <= 75.0); the exit
code is 1 if shoal's answers are wrong.

W1 is compared with Boost's R-tree, too, if a C++ compiler and Boost's headers are installed
(Debian: `apt install g++ libboost-dev`), in batches of 256 to 16,384. NUMBA_CPU_NAME=haswell shows
shoal without AVX-512. W2 also runs with single publications, from dictionaries. Two threads, and
two processes that share nothing, answer W1 batches beside one: the gain of two processes is the
limit of the machine, and the threads should gain as much.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import rtree.index
import rule_engine

from boost_rtree import BoostTree, NotBuiltError
from shoal.matching import MatchIndex

RUNS = 5
CHECKED_EVENTS = 60

# One read of a busy broker; it also keeps answers in recycled memory.
BATCH_EVENTS = 16_384
# One read of a less busy broker, for the comparison with Boost.
BATCHES = (256, 1_024, 4_096, BATCH_EVENTS)

RANGE_NAMES = ("a0", "a1", "a2", "a3")
RANGE_MEANS = (125, 375, 625, 875)
NUMBER_NAMES = ("open", "high", "low", "close", "volume", "openClose", "highLow", "date")

Columns = dict[str, npt.NDArray[np.generic]]
Answer = tuple[int, int]  # number of ids, and the sum of (event + 1) x (id + 1)


def resident_mb() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 1e6


def checked(events: int, found: Callable[[int], npt.NDArray[np.int64]]) -> Answer:
    count = total = 0
    for event in range(events):
        ids = found(event)
        count += len(ids)
        total += (event + 1) * int((ids + 1).sum())
    return count, total


def part_of(columns: Columns, begin: int, end: int) -> Columns:
    return {name: column[begin:end] for name, column in columns.items()}


class Ours:
    """The index under test."""

    def __init__(self, load: Callable[[MatchIndex], None], columns: Columns) -> None:
        gc.collect()
        before, started = resident_mb(), time.perf_counter()
        self.index = MatchIndex()
        load(self.index)
        self.load_s, self.memory_mb = time.perf_counter() - started, resident_mb() - before
        self._columns = columns

    def answer(self, events: int) -> Answer:
        offsets, ids = self.index.match_batch(part_of(self._columns, 0, events))
        return checked(events, lambda event: ids[offsets[event] : offsets[event + 1]])

    def matches_per_event(self) -> float:
        offsets, _ = self.index.match_batch(part_of(self._columns, 0, BATCH_EVENTS))
        return float(offsets[-1]) / (len(offsets) - 1)

    def run(self, events: int, batch: int = BATCH_EVENTS) -> None:
        for begin in range(0, events, batch):
            end = min(begin + batch, events)
            self.index.match_batch(part_of(self._columns, begin, end))


class Peer:
    """Another engine, which answers one event at a time."""

    def __init__(self, name: str, find: Callable[[int], npt.NDArray[np.int64]], events: int):
        self.name, self._find, self.events = name, find, events

    def answer(self, events: int) -> Answer:
        return checked(events, self._find)

    def run(self, events: int) -> None:
        for event in range(events):
            self._find(event)


def rate_per_s(engine: Ours | Peer, events: int) -> float:
    started = time.perf_counter()
    engine.run(events)
    return events / (time.perf_counter() - started)


def compare(title: str, ours: Ours, peers: Sequence[Peer], events: int, truth: Answer) -> bool:
    """Check, time and print; whether shoal's answers equal brute force."""
    print(f"\n{title}\n  loaded in {ours.load_s:.2f} s, {ours.memory_mb:,.0f} MB")
    right = True
    for name, engine in [("shoal", ours), *((peer.name, peer) for peer in peers)]:
        if engine.answer(CHECKED_EVENTS) != truth:
            print(f"  {name}: count or checksum differs from brute force")
            right = right and engine is not ours
    rates: dict[str, list[float]] = {}
    for _ in range(RUNS):
        rates.setdefault("shoal", []).append(rate_per_s(ours, events))
        for peer in peers:
            rates.setdefault(peer.name, []).append(rate_per_s(peer, peer.events))
    medians = {name: statistics.median(each) for name, each in rates.items()}
    best = max((medians[peer.name] for peer in peers), default=0.0)
    print(f"  matches per event: {ours.matches_per_event():,.1f}")
    for name, median in medians.items():
        print(f"  {name:<22} {median:>12,.0f} events/s")
    if best:
        print(f"  shoal / best peer: {medians['shoal'] / best:.1f}")
    return right


def truncated_normal(random: np.random.Generator, mean: float, size: int) -> np.ndarray:
    """Normal with deviation 250, drawn again outside [0, 1000)."""
    drawn = random.normal(mean, 250, 3 * size)
    return drawn[(drawn >= 0) & (drawn < 1000)][:size]


def bench_ranges(subscriptions: int, events: int, slow_events: int) -> bool:
    """W1: four ranges of width 250 each, uniform events."""
    random = np.random.default_rng(1)
    centres = np.stack([truncated_normal(random, mean, subscriptions) for mean in RANGE_MEANS], 1)
    low, high = centres - 125, centres + 125
    points = random.uniform(0, 1000, (events, 4))
    columns: Columns = {name: points[:, at].copy() for at, name in enumerate(RANGE_NAMES)}
    ids = np.arange(subscriptions)

    def brute(event: int) -> npt.NDArray[np.int64]:
        passed = np.ones(subscriptions, np.bool_)
        for at in range(4):
            passed &= (lows[at] <= points[event, at]) & (points[event, at] <= highs[at])
        return np.flatnonzero(passed)

    lows, highs = np.ascontiguousarray(low.T), np.ascontiguousarray(high.T)
    ours = Ours(lambda index: index.add_ranges(ids, RANGE_NAMES, low, high), columns)
    peers = [Peer("numpy brute force", brute, slow_events)]
    if subscriptions <= 100_000:
        boxes = np.concatenate((low, high), axis=1)
        properties = rtree.index.Property(dimension=4)
        tree = rtree.index.Index(
            ((at, box, None) for at, box in enumerate(boxes.tolist())), properties=properties
        )
        peers.append(
            Peer(
                "rtree",
                lambda event: np.array(
                    list(tree.intersection([*points[event], *points[event]])), np.int64
                ),
                slow_events,
            )
        )
    title = f"W1: {subscriptions:,} subscriptions of 4 ranges"
    right = compare(title, ours, peers, events, checked(CHECKED_EVENTS, brute))
    if subscriptions <= 100_000:
        bench_threads(ours.index, columns)
    return bench_boost(ours, low, high, points) and right


def bench_boost(ours: Ours, low: np.ndarray, high: np.ndarray, points: np.ndarray) -> bool:
    """W1 beside Boost's R-tree, in turn; whether their answers are equal."""
    try:
        tree = BoostTree(low, high)
    except NotBuiltError as reason:
        print(f"  Boost's R-tree: skipped, {reason}")
        return True
    points = points[:BATCH_EVENTS]

    def answer() -> Answer:
        offsets, ids = tree.find(points)
        return checked(len(points), lambda event: ids[offsets[event] : offsets[event + 1]])

    if answer() != ours.answer(len(points)):
        print("  Boost's R-tree and shoal differ")
        return False
    for batch in BATCHES:
        rates: dict[str, list[float]] = {"shoal": [], "Boost": []}
        for _ in range(4 * RUNS):  # they are short
            started = time.perf_counter()
            for begin in range(0, len(points), batch):
                tree.find(points[begin : begin + batch])
            between = time.perf_counter()
            ours.run(len(points), batch)
            ended = time.perf_counter()
            rates["Boost"].append(len(points) / (between - started))
            rates["shoal"].append(len(points) / (ended - between))
        shoal, boost = (statistics.median(rates[name]) for name in ("shoal", "Boost"))
        print(
            f"  batches of {batch:>6,}: shoal {shoal:>9,.0f}, Boost's R-tree {boost:>9,.0f}"
            f" events/s; shoal / Boost: {shoal / boost:.1f}"
        )
    return True


def stock_table(subscriptions: int, symbols: int) -> pa.Table:
    """Equality on class and symbol, and none to two comparisons."""
    random = np.random.default_rng(2)
    columns: dict[str, object] = {
        "id": np.arange(subscriptions),
        "class": pa.array(["STOCK"]).dictionary_encode().take(np.zeros(subscriptions, np.int64)),
        "symbol": pa.DictionaryArray.from_arrays(
            random.integers(0, symbols, subscriptions), [f"S{at}" for at in range(symbols)]
        ),
    }
    asked = random.integers(0, 3, subscriptions)
    chosen = random.permuted(np.tile(np.arange(4, dtype=np.int8), (subscriptions, 1)), axis=1)
    for at in range(4):
        is_asked = (chosen[:, 0] == at) & (asked > 0) | (chosen[:, 1] == at) & (asked > 1)
        rising = random.random(subscriptions) < 0.5
        bound = random.integers(0, 100, subscriptions).astype(np.float64)
        name = NUMBER_NAMES[at]
        columns[f"{name}.low"] = pa.array(bound, mask=~(is_asked & rising))
        columns[f"{name}.high"] = pa.array(bound, mask=~(is_asked & ~rising))
    return pa.table(columns)


def stock_rules(table: pa.Table) -> list[dict[str, object]]:
    """The table's rows without their nulls."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    ]


def dictionaries(columns: Columns, size: int) -> list[dict[str, object]]:
    """The first events as a publisher in Python has them."""
    lists = {name: column[:size].tolist() for name, column in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def rule_text(rule: dict[str, object]) -> str:
    parts = [f'class == "{rule["class"]}"', f'symbol == "{rule["symbol"]}"']
    for name, value in rule.items():
        attribute, _, side = name.rpartition(".")
        if attribute:
            parts.append(f"{attribute} {'>=' if side == 'low' else '<='} {value}")
    return " and ".join(parts)


def passes(rule: dict[str, object], event: dict[str, object]) -> bool:
    for name, value in rule.items():
        attribute, _, side = name.rpartition(".")
        if side == "low" and attribute and not event[attribute] >= value:
            return False
        if side == "high" and attribute and not event[attribute] <= value:
            return False
    return True


def bench_stocks(subscriptions: int, symbols: int, events: int, with_peers: bool) -> bool:
    """W2: stock subscriptions, ten attributes."""
    table = stock_table(subscriptions, symbols)
    random = np.random.default_rng(3)
    columns: Columns = {
        "class": np.full(events, "STOCK", object),
        "symbol": np.array([f"S{at}" for at in random.integers(0, symbols, events)], object),
    }
    for name in NUMBER_NAMES:
        columns[name] = random.uniform(0, 100, events)
    frames = {name: table.column(name).to_numpy() for name in table.column_names}

    def brute(event: int) -> npt.NDArray[np.int64]:
        passed = frames["symbol"] == columns["symbol"][event]
        for name, bounds in frames.items():
            attribute, _, side = name.rpartition(".")
            if attribute:
                value = columns[attribute][event]
                passed &= np.isnan(bounds) | (bounds <= value if side == "low" else bounds >= value)
        return np.flatnonzero(passed)

    ours = Ours(lambda index: index.add_table(table), columns)
    peers = []
    if with_peers:
        rules = stock_rules(table)
        size = min(events, 20_000)
        dicts = dictionaries(columns, size)
        by_symbol: dict[object, list[tuple[int, dict[str, object]]]] = {}
        for number, rule in enumerate(rules):
            by_symbol.setdefault(rule["symbol"], []).append((number, rule))
        compiled = [rule_engine.Rule(rule_text(rule)) for rule in rules]
        peers = [
            Peer("numpy brute force", brute, 300),
            Peer(
                "dict by symbol",
                lambda event: np.array(
                    [
                        n
                        for n, rule in by_symbol[dicts[event]["symbol"]]
                        if passes(rule, dicts[event])
                    ],
                    np.int64,
                ),
                size,
            ),
            Peer(
                "rule-engine",
                lambda event: np.array(
                    [n for n, rule in enumerate(compiled) if rule.matches(dicts[event])], np.int64
                ),
                3,
            ),
        ]
    title = f"W2: {subscriptions:,} stock subscriptions over {symbols:,} symbols"
    right = compare(title, ours, peers, events, checked(CHECKED_EVENTS, brute))
    bench_one_by_one(ours.index, columns, min(events, 20_000))
    return right


def bench_one_by_one(index: MatchIndex, columns: Columns, events: int) -> None:
    """The same index, one dictionary after the other."""
    dicts = dictionaries(columns, events)
    rates = []
    for _ in range(RUNS):
        started = time.perf_counter()
        for event in dicts:
            index.match(event)
        rates.append(events / (time.perf_counter() - started))
    print(f"  shoal, one at a time   {statistics.median(rates):>12,.0f} events/s")


# The input of two processes: inherited, not sent.
inherited: list[tuple[MatchIndex, Columns]] = []


def answered(seconds: float) -> int:
    """The number of batches answered in this time."""
    index, columns = inherited[-1]
    ends, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < ends:
        index.match_batch(columns)
        count += 1
    return count


def bench_threads(index: MatchIndex, columns: Columns, seconds: float = 1.0) -> None:
    """Two threads, and two processes, beside one."""
    inherited.append((index, part_of(columns, 0, BATCH_EVENTS)))
    gains: dict[str, list[float]] = {"threads": [], "processes": []}
    with ProcessPoolExecutor(2, get_context("fork")) as processes, ThreadPoolExecutor(2) as threads:
        for _ in range(RUNS):
            one = answered(seconds)
            for name, pool in (("threads", threads), ("processes", processes)):
                both = [pool.submit(answered, seconds) for _ in range(2)]
                gains[name].append(sum(each.result() for each in both) / one)
    for name, each in gains.items():
        print(f"  two {name} / one: {statistics.median(each):.2f}")


def warm_up() -> None:
    """Compile every kernel, or load it from the cache, and print the time."""
    started = time.perf_counter()
    index = MatchIndex()
    bounds = np.random.default_rng(4).uniform(0, 1, (200, 4))
    index.add_ranges(np.arange(200), RANGE_NAMES, bounds, bounds + 0.1)
    index.match_batch({name: np.array([0.5]) for name in RANGE_NAMES})
    index = MatchIndex()
    index.add_table(stock_table(10, 3))
    index.match_batch({"class": ["STOCK"], "symbol": ["S1"]})
    index.match({"class": "STOCK", "symbol": "S1"})
    print(f"kernels ready in {time.perf_counter() - started:.1f} s")


def main(chosen: Sequence[str]) -> int:
    works = {
        "ranges": lambda: bench_ranges(40_000, 200_000, 300),
        "stocks": lambda: bench_stocks(10_000, 500, 200_000, True),
        "million": lambda: bench_ranges(1_000_000, 16_384, 60),
        "ten-million": lambda: bench_stocks(10_000_000, 5_000, 20_000, False),
    }
    unknown = [name for name in chosen if name not in works]
    if unknown:
        print(f"no workload {unknown[0]!r}; there are: {', '.join(works)}", file=sys.stderr)
        return 2
    warm_up()
    results = [works[name]() for name in chosen or ("ranges", "stocks", "million")]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
