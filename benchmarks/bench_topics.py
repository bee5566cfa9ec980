"""How many publications per second the topic index answers, beside what else can be installed.

Run `python benchmarks/bench_topics.py`.  100,000 topic filters, half of them with wildcards, and
random topics of the same shape; every engine returns the ids of all that match, and all answers to
the first CHECKED_TOPICS are held against the naive scan before anything is timed.  Topics come
once as if never seen before, and once again as most publishers send them.  Then 10,000 content
filters under one topic filter, against testing each; and how long one subscription takes to add
or remove.  Prints medians of RUNS runs and ratios; exits with 1 when an answer differs.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from paho.mqtt.matcher import MQTTMatcher

from shoal.language import parse
from shoal.matching import TopicIndex, matches, topic_matches

RUNS = 5
FILTERS = 100_000
TOPICS = 20_000
CHECKED_TOPICS = 10
CONTENT_FILTERS = 10_000
SYMBOLS = 500

Answer = Callable[[str], list[int]]


def random_topic(chance: random.Random) -> list[str]:
    return [
        chance.choice(("sites", "lines", "cells")),
        f"s{chance.randrange(300)}",
        f"m{chance.randrange(200)}",
        chance.choice(("temperature", "speed", "state", "alarm")),
    ]


def random_filter(chance: random.Random) -> str:
    levels = random_topic(chance)
    match chance.randrange(6):
        case 0:
            levels[chance.randrange(1, 3)] = "+"
        case 1:
            levels[3] = "+"
        case 2:
            levels[chance.randrange(2, 4) :] = ["#"]
    return "/".join(levels)


def rate_per_s(answer: Answer, topics: Sequence[str]) -> float:
    started = time.perf_counter()
    for topic in topics:
        answer(topic)
    return len(topics) / (time.perf_counter() - started)


def bench_topics() -> bool:
    """The trie beside the naive scan and paho-mqtt's matcher."""
    chance = random.Random(1)
    filters = [random_filter(chance) for _ in range(FILTERS)]
    topics = ["/".join(random_topic(chance)) for _ in range(TOPICS)]

    started = time.perf_counter()
    index = TopicIndex()
    for id, topic_filter in enumerate(filters):
        index.add(id, topic_filter)
    load_s = time.perf_counter() - started

    matcher = MQTTMatcher()
    by_filter: dict[str, list[int]] = {}
    for id, topic_filter in enumerate(filters):
        by_filter.setdefault(topic_filter, []).append(id)
    for topic_filter, ids in by_filter.items():
        matcher[topic_filter] = ids

    def scan(topic: str) -> list[int]:
        return [id for id, each in enumerate(filters) if topic_matches(each, topic)]

    def paho(topic: str) -> list[int]:
        return [id for ids in matcher.iter_match(topic) for id in ids]

    def ours(topic: str) -> list[int]:
        return index.match(topic, {})

    right = True
    for topic in topics[:CHECKED_TOPICS]:
        truth = scan(topic)
        for name, answer in (("shoal", ours), ("paho-mqtt", paho)):
            if sorted(answer(topic)) != truth:
                print(f"{name}: wrong answer for {topic}")
                right = right and name != "shoal"

    rates: dict[str, list[float]] = {}
    for _ in range(RUNS):
        # Any new topic filter makes the index forget the topics it remembers.
        index.add("other", "other")
        index.remove("other")
        rates.setdefault("shoal, new topics", []).append(rate_per_s(ours, topics))
        rates.setdefault("shoal, known topics", []).append(rate_per_s(ours, topics))
        rates.setdefault("paho-mqtt MQTTMatcher", []).append(rate_per_s(paho, topics))
        rates.setdefault("each filter tested", []).append(rate_per_s(scan, topics[:2]))
    found = sum(len(ours(topic)) for topic in topics) / len(topics)
    print(f"{FILTERS:,} topic filters, loaded in {load_s:.1f} s, {found:.1f} matches per topic")
    print_rates(rates, "topics/s")
    return right


def bench_content() -> bool:
    """Many content filters under one topic filter, as a broker of stock quotes has them."""
    chance = random.Random(2)
    filters = [
        parse(f"symbol = 'S{chance.randrange(SYMBOLS)}' AND volume > {chance.randrange(100)}")
        for _ in range(CONTENT_FILTERS)
    ]
    index = TopicIndex()
    for id, each in enumerate(filters):
        index.add(id, "quotes/+", each)
    publications = [
        {"symbol": f"S{chance.randrange(SYMBOLS)}", "volume": chance.randrange(100)}
        for _ in range(TOPICS)
    ]

    def scan(publication: dict[str, str | int]) -> list[int]:
        return [id for id, each in enumerate(filters) if matches(each, publication)]

    right = all(
        sorted(index.match("quotes/x", each)) == scan(each)
        for each in publications[:CHECKED_TOPICS]
    )
    rates: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for name, answer, size in (
            ("shoal", lambda each: index.match("quotes/x", each), TOPICS),
            ("each filter tested", scan, 3),
        ):
            started = time.perf_counter()
            for each in publications[:size]:
                answer(each)
            rates.setdefault(name, []).append(size / (time.perf_counter() - started))
    print(f"\n{CONTENT_FILTERS:,} content filters under one topic filter")
    print_rates(rates, "publications/s")
    return right


def bench_churn() -> None:
    """Adding and removing beside 100,000 others."""
    chance = random.Random(3)
    index = TopicIndex()
    for id in range(FILTERS):
        index.add(id, random_filter(chance))
    times_us = []
    for id in range(20_000):
        topic_filter = random_filter(chance)
        for change in (lambda: index.remove(id), lambda each=topic_filter: index.add(id, each)):  # noqa: B023
            started = time.perf_counter()
            change()
            times_us.append(1e6 * (time.perf_counter() - started))
    times_us.sort()
    middle, high = times_us[len(times_us) // 2], times_us[len(times_us) * 99 // 100]
    print(
        f"\nadd or remove one of {FILTERS:,}: median {middle:.1f} us, 99th percentile {high:.1f} us"
    )


def print_rates(rates: dict[str, list[float]], unit: str) -> None:
    """Each engine's median, and how many times as fast the first one is."""
    medians = {name: statistics.median(each) for name, each in rates.items()}
    first = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"  {name:<24} {median:>12,.0f} {unit:<16} shoal / this: {first / median:,.1f}")


def main() -> int:
    right = [bench_topics(), bench_content()]
    bench_churn()
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
