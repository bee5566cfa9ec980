"""Time and memory of simulations with 1,000 brokers, and with a million publications:
`make bench-large-networks`.

    python benchmarks/bench_large_networks.py [SYSTEM ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.experiments.large_networks import LargeNetwork, measure, sized_for

from shoal.overlays.registry import MODULES


def show(system: str, network: LargeNetwork) -> None:
    """Measure one run, and print its line."""
    with TemporaryDirectory() as folder:
        found = measure(system, network, Path(folder))
    print(
        f"{system:18}{network.brokers:9,}{network.publications:14,}"
        f"{found.checks['virtual_end_us'] / 1e6:12.0f}{found.seconds:12.0f}{found.megabytes:10,}",
        flush=True,
    )


def main() -> None:
    """Measure every system, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("systems", nargs="*", default=list(MODULES))
    print(
        f"{'system':18}{'brokers':>9}{'publications':>14}{'virtual s':>12}{'cpu s':>12}{'MB':>10}"
    )
    for system in parser.parse_args().systems:
        show(system, sized_for(system))
    show("grape", LargeNetwork(brokers=63, publications=1_000_000, seconds=1_000))


if __name__ == "__main__":
    main()
