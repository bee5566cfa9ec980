"""Command line: `python -m tests.chaos tree --seed 7 --seconds 20 --count 10 --parallel 2`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.run import Outcome, Run
from tests.chaos.schedule import FAULTS, SYSTEMS, Plan, make_plan, read_action


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("systems", nargs="+", choices=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from there on")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long faults last")
    parser.add_argument("--faults", default="", help=f"only these, by commas: {', '.join(FAULTS)}")
    parser.add_argument("--members", action="store_true", help="brokers join and leave, too")
    parser.add_argument("--parallel", type=int, default=1, help="runs at a time")
    parser.add_argument("--folder", type=Path, help="where failed runs stay; else a temporary one")
    parser.add_argument("--actions", type=Path, help="a file of actions instead, as printed")
    parser.add_argument("--plan", action="store_true", help="show plans and run nothing")
    given = parser.parse_args()
    faults = [each.strip() for each in given.faults.split(",") if each.strip()]
    plans = [
        make_plan(system, seed, given.seconds, faults, members=given.members)
        for seed in range(given.seed, given.seed + given.count)
        for system in given.systems
    ]
    if given.actions:
        actions = tuple(sorted(map(read_action, given.actions.read_text().splitlines())))
        plans = [plan._replace(actions=actions) for plan in plans]
    if given.plan:
        print(*plans, sep="\n\n")
        return 0
    folder = given.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    outcomes = asyncio.run(_play_all(plans, folder, given.parallel))
    bad = [each for each in outcomes if each.violations]
    print(f"{len(outcomes)} runs, {len(bad)} with violations")
    return bool(bad)


async def _play_all(plans: Iterable[Plan], folder: Path, parallel: int) -> list[Outcome]:
    gate = asyncio.Semaphore(parallel)

    async def play(plan: Plan) -> Outcome:
        async with gate:
            own = folder / f"{plan.system}-{plan.seed}"
            own.mkdir(parents=True)
            outcome = await Run(plan, own).play()
            print(outcome, flush=True)
            return outcome

    return await asyncio.gather(*map(play, plans))


if __name__ == "__main__":
    sys.exit(main())
