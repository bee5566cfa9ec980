"""Readings of what BlueDove's paper leaves open, and how many of its ratios each explains.

Arithmetic (`shoal.experiments.bluedove.reading_fit`), a minute of one core. It prints the densities
of each drawing, then each drawing without further costs and with those that explain most, the best
fit first: the mean distance from the paper's ratios as a factor, how many print as the paper's, and
every ratio.

    python benchmarks/bench_bluedove_readings.py
"""

from __future__ import annotations

from shoal.experiments.bluedove.reading_fit import (
    DRAWINGS,
    RATIOS,
    best_readings,
    hot_spot_density,
    largest_set,
)


def main() -> None:
    print("| drawing | density at a hot spot | largest set at deviation 1,000 |")
    print("| --- | --- | --- |")
    print("| the paper | 2.7 | 1.17 |")
    for drawing in DRAWINGS:
        print(f"| {drawing} | {hot_spot_density(drawing, 250):.2f} ", end="")
        print(f"| {largest_set(drawing, 1_000):.2f} |")
    print()
    names = [each.name for each in RATIOS.values()]
    print(f"| reading | off by | as printed | {' | '.join(names)} |")
    print("| --- " * (len(names) + 3) + "|")
    printed = [each.printed for each in RATIOS.values()]
    print(f"| the paper | | | {' | '.join(printed)} |")
    for found in best_readings():
        ratios = [f"{found.ratios[name]:.3g}" for name in RATIOS]
        print(f"| {found.reading.in_words()} | {found.error:.2f} times | {found.met} ", end="")
        print(f"| {' | '.join(ratios)} |")


if __name__ == "__main__":
    main()
