"""What `shoal plan` reads: CSV files of round trips, rates and sites; errors name file and line."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.cli.support.errors import UserError
from shoal.overlays.planning import Pair, Survey


def read_survey(rtt: Path, rates: Path | None, sites: Path | None) -> Survey:
    """The survey in these files.

    With sites round trips may be between sites; within one they are 0 unless they are said.
    """
    measured = _pairs(rtt, ("from", "to", "ms"))
    standing = _sites(sites) if sites is not None else {}
    places = dict.fromkeys(end for pair in measured for end in pair)
    brokers = tuple(standing or places)
    if len(brokers) < 2:
        raise UserError(f"{rtt}: names {len(brokers)} brokers; an overlay has two or more")
    found: dict[Pair, float] = {}
    for place, one in enumerate(brokers):
        for other in brokers[place + 1 :]:
            found[one, other] = _round_trip(measured, standing, one, other, rtt)
    wanted = _pairs(rates, ("from", "to", "per_second")) if rates is not None else {}
    for pair in wanted:
        for end in pair:
            if end not in brokers:
                known = ", ".join(brokers[:8])
                raise UserError(f"{rates}: no broker {end!r}; there are {known}")
    if rates is not None and not any(wanted.values()):
        raise UserError(f"{rates}: nobody publishes anything to anybody")
    return Survey(brokers, found, wanted, standing)


def _round_trip(
    measured: dict[Pair, float], sites: dict[str, str], one: str, other: str, path: Path
) -> float:
    ends = (sites.get(one, one), sites.get(other, other))
    for pair in ((one, other), (other, one), ends, ends[::-1]):
        if pair in measured:
            return measured[pair]
    if ends[0] == ends[1]:
        return 0.0
    names = " or ".join(dict.fromkeys((f"{one},{other}", f"{ends[0]},{ends[1]}")))
    raise UserError(f"{path}: has no round trip {names}; measure it and add a line")


def _pairs(path: Path, columns: Sequence[str]) -> dict[Pair, float]:
    found: dict[Pair, float] = {}
    for line, (source, target, text) in _rows(path, columns):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= 0):
            raise UserError(f"{path}:{line}: {columns[2]}: {text!r} is no number from 0 on")
        if source == target:
            raise UserError(f"{path}:{line}: from {source!r} to itself")
        if (source, target) in found:
            raise UserError(f"{path}:{line}: {source},{target} stands there twice")
        found[source, target] = number
    return found


def _sites(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line, (broker, site) in _rows(path, ("broker", "site")):
        if broker in found:
            raise UserError(f"{path}:{line}: broker {broker!r} stands there twice")
        found[broker] = site
    return found


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file with these columns, each with its number."""
    header = ",".join(columns)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            if [name.strip() for name in next(lines, [])] != list(columns):
                raise UserError(f"{path}:1: the first line is {header}")
            for number, row in enumerate(lines, 2):
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                if len(cells) != len(columns) or not all(cells):
                    raise UserError(f"{path}:{number}: {','.join(row)!r} is not {header}")
                yield number, cells
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
