"""Time to read the attributes of a message, in comparison with decoding its payload.

Run `python benchmarks/bench_attributes.py`. For each payload it prints the median of RUNS runs: the
time of `read_attributes` in microseconds, and its ratio to that of msgspec's decoder (none for
payloads that msgspec refuses, and for plain values). The worst payloads of 1 MB follow; the exit
code is 1 if one of them takes a broker longer than MOST_MS.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import msgspec

from shoal.mqtt.content import read_attributes
from shoal.mqtt.messages import PublishedMessage

RUNS, TIMES = 9, 5_000
MOST_MS = 100.0
BYTES = 1_048_000

MIXED = {f"field{n}": [n, n / 3, f"text {n}", n % 2 == 0][n % 4] for n in range(60)}
PAYLOADS = {
    "3 fields": b'{"carrier": "UA", "dep_delay": 41, "wind": 12.5}',
    "60 fields": msgspec.json.encode(MIXED),
    "inner fields": b'{"AM2301": {"Temperature": 21.5, "Humidity": 60}, "Time": "12:00"}',
    "NaN": b'{"t": NaN, "u": 1}',
    "nan": b'{"t": nan, "u": 1}',
    "21.5": b"21.5",
    "no JSON, 1 KB": b"x" * 1_000,
}
HOSTILE = {
    "brackets": (b"", b"[", b""),
    "objects in a list, NaN": (b'{"t":NaN,"a":[0', b',{"":{}}', b"]}"),
    "numbers in a list, NaN": (b'{"t":NaN,"a":[0', b",1", b"]}"),
    "large integers, NaN": (b'{"t":NaN,"a":[0', b"," + b"9" * 4_000, b"]}"),
    "inner objects": (b'{"t":1', b',"%d":{"a":{"b":1}}', b"}"),
    "half surrogates": (b'{"a":"', b"\\ud83d", b'"}'),
}


def median_us(read: Callable[[], object], times: int, runs: int = RUNS) -> float:
    found = []
    for _ in range(runs):
        started = time.process_time_ns()
        for _ in range(times):
            read()
        found.append((time.process_time_ns() - started) / times / 1e3)
    return statistics.median(found)


def hostile(front: bytes, unit: bytes, end: bytes) -> bytes:
    count = (BYTES - len(front) - len(end)) // (len(unit) + 4)
    return front + b"".join(unit.replace(b"%d", b"%d" % n) for n in range(count)) + end


def main() -> int:
    for name, payload in PAYLOADS.items():
        message = PublishedMessage("flights/UA", payload, "p", 0)
        took = median_us(partial(read_attributes, message, "auto"), TIMES)
        try:
            msgspec.json.decode(payload)
        except msgspec.DecodeError:
            ratio = ""
        else:
            alone = median_us(partial(msgspec.json.decode, payload), TIMES)
            ratio = f"{took / alone:8.1f} times its decoding"
        print(f"{name:24} {took:8.2f} us{ratio}")
    slowest = 0.0
    for name, parts in HOSTILE.items():
        message = PublishedMessage("flights/UA", hostile(*parts), "p", 0)
        took = median_us(partial(read_attributes, message, "auto"), 1, 3) / 1e3
        slowest = max(slowest, took)
        print(f"{name:24} {took:8.2f} ms")
    return slowest > MOST_MS


if __name__ == "__main__":
    sys.exit(main())
