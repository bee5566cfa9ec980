"""Command line: `python -m tests.afternoon octopia --factor 2`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from shoal.overlays.registry import MODULES
from tests.afternoon.play import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.afternoon", description=__doc__)
    parser.add_argument("system", choices=MODULES, metavar="SYSTEM")
    parser.add_argument("--factor", type=float, default=1.0, help="times each bound of time")
    parser.add_argument("--folder", type=Path, help="for the network; else a temporary one")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="afternoon-"))
    folder.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    faults = play(folder, given.system, given.factor)
    seconds = time.monotonic() - begun_s
    print(f"{given.system}: {len(faults)} faults in {seconds:.0f} s; logs in {folder}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
