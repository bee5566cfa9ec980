"""Random trace sessions for the planner's tests and benchmark."""

from __future__ import annotations

import random

from shoal.overlays.publisher_relocation.grape.planner import Snapshot
from shoal.overlays.publisher_relocation.traces import BrokerTrace


def random_session(
    generator: random.Random, brokers: int, shape: str, bits: int = 100
) -> tuple[Snapshot, dict[str, int]]:
    """A snapshot over a "random", "line" or "star" tree, and a ping time for every broker.

    Bit vectors are of all densities, and delays differ in the two directions of a link.
    """
    names = [f"B{number}" for number in range(brokers)]
    generator.shuffle(names)
    neighbours: list[list[int]] = [[] for _ in names]
    for number in range(1, brokers):
        above = {"random": generator.randrange(number), "line": number - 1, "star": 0}[shape]
        neighbours[number].append(above)
        neighbours[above].append(number)
    traces = []
    for number, name in enumerate(names):
        known = [names[other] for other in neighbours[number]]
        pattern = generator.getrandbits(bits) & generator.choice(
            (0, generator.getrandbits(bits), generator.getrandbits(bits), -1)
        )
        traces.append(
            BrokerTrace(
                broker=name,
                # A neighbour that received nothing from this publisher does not answer.
                neighbours=(*known, "no answer") if generator.random() < 0.1 else tuple(known),
                bits=pattern,
                deliveries=pattern.bit_count() * generator.randrange(1, 4),
                input_queue_us=generator.randrange(2_000),
                matching_us=generator.randrange(1_000),
                output_queue_us=tuple((other, generator.randrange(50_000)) for other in known),
                client_output_us=generator.randrange(500),
            )
        )
    generator.shuffle(traces)
    snapshot = Snapshot(current=generator.choice(names), traces=tuple(traces))
    return snapshot, {name: generator.randrange(100_000) for name in names}
