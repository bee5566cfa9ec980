"""A digest of all inputs of all brokers in a seed's run; equal whenever the seed is played.

    python -m tests.seeds.ack_tracker.traces SEED SYSTEM...

plays this seed of `RandomAckTracker` for each system in turn, and prints the digests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterable
from random import Random
from unittest.mock import patch

from shoal.broker.machine import Broker
from tests.runtime.live import LiveNetwork
from tests.runtime.virtual_loop import Cable, VirtualLoop
from tests.seeds.ack_tracker.random_ack_tracker import RandomAckTracker

# Beyond one byte's count, and two bytes'.
MANY = 300


def trace(system: str, seed: int) -> str:
    """The digest of a short run: all inputs of all brokers, with their times, in order."""
    digest, handle = hashlib.sha256(), Broker.handle

    def told(self, input, now_us):  # type: ignore[no-untyped-def]
        digest.update(f"{self.id} {now_us} {input}".encode())
        return handle(self, input, now_us)

    with patch.object(Broker, "handle", told):
        network = RandomAckTracker(seed, system, faults=1)
        problems = network.run()
    assert network.settled > 0
    return f"{digest.hexdigest()} {network.settled} {problems}"


def traces(systems: Iterable[str], seed: int) -> dict[str, str]:
    return {system: trace(system, seed) for system in systems}


def wear_out() -> None:
    """Start and kill a broker many times, so that counters of the process are large."""
    loop = VirtualLoop(lambda left, right: Cable(Random(0), (0.001, 0.001), 1e8))

    async def play() -> None:
        network = LiveNetwork((), brokers=("B1",))
        for _ in range(MANY):
            await network.start("B1")
            await network.kill("B1")

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(play())


if __name__ == "__main__":
    print(json.dumps(traces(sys.argv[2:], int(sys.argv[1]))))
