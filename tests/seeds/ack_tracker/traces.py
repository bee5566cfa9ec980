"""Everything that brokers are told in a seed's run, as one digest: the same whenever it is played.

    python -m tests.seeds.custody.traces SEED SYSTEM...

plays this seed of `RandomAckTracker` of each, one after the other, and says their digests.
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

# More than one byte counts to, and two.
MANY = 300


def trace(system: str, seed: int) -> str:
    """Of a short run: all inputs of all brokers, and when, in their order."""
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
    """Start and kill a broker many times: what is counted for a process is large then."""
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
