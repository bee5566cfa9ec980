"""A hash of all events of a simulated run, for every system: a check that a change keeps behaviour.

Run it in two checkouts and compare the output. Equal lines are runs that are equal to the byte:
every delivery, publication, refusal, record and load counter, in order and with times. The runs are
networks of 63 brokers as in `bench_simulation.py`, random networks with and without faults, lossy
links and restarts, and random clusters.

    python -m benchmarks.trace_hashes [--seeds N]
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator

from benchmarks import bench_simulation
from tests.seeds.faults.random_exchanges import RandomExchanges
from tests.seeds.faults.random_faults import FaultyNetwork
from tests.seeds.networks.random_network import RandomNetwork
from tests.seeds.random_cluster import RandomCluster, Trouble
from tests.systems import TREES

from shoal.simulation.world import World

PUBLICATIONS = 2_000
# Systems whose run with faults ends by itself; others' timers never do.
ENDING = ("tree", "grape", "pop")


def trace_hash(world: World) -> str:
    """All records of the world's run."""
    trace, seen = world.trace, hashlib.sha256()
    for rows in (trace.deliveries, trace.published, trace.refused, trace.records):
        for row in rows:
            seen.update(repr(row).encode())
    for load in world.load_rows():
        seen.update(repr(load).encode())
    seen.update(repr((world.queue.made, world.queue.now_us)).encode())
    return f"{seen.hexdigest()[:32]} {len(trace.deliveries):>7} {len(trace.records):>5}"


def runs(seeds: range) -> Iterator[tuple[str, World]]:
    """Names and worlds, run to their ends."""
    for system in TREES:
        world = bench_simulation.build(system, PUBLICATIONS, 1)
        world.run(bench_simulation.ends_us(PUBLICATIONS))
        yield f"63 brokers, {system}", world
        for seed in seeds:
            for lossy in (False, True):
                network = RandomNetwork(seed, system=system, lossy=lossy)
                network.run()
                yield f"network {seed}, {system}, lossy={lossy}", network.world
                if system not in ENDING:
                    continue
                faulty = FaultyNetwork(seed, system=system, lossy=lossy, patient=seed % 2 == 1)
                faulty.break_anything(4)
                faulty.run()
                yield f"faults {seed}, {system}, lossy={lossy}", faulty.world
    for seed in seeds:
        for lossy in (False, True):
            exchanges = RandomExchanges(seed, lossy=lossy)
            exchanges.run()
            yield f"exchanges {seed}, lossy={lossy}", exchanges.world
    for trouble in Trouble:
        for seed in seeds:
            cluster = RandomCluster(seed, trouble, lossy=seed % 3 == 2)
            cluster.run()
            yield f"cluster {seed}, {trouble.name}", cluster.world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    for name, world in runs(range(parser.parse_args().seeds)):
        print(f"{name:32} {trace_hash(world)}", flush=True)


if __name__ == "__main__":
    main()
