"""Input files of `shoal plan`: CSV files of round trips, rates and sites; errors name file and
line.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.cli.support.errors import UserError
from shoal.model import BrokerId
from shoal.overlays.planning import OverlaySurvey, Pair


def read_survey(
    rtt: Path,
    rates: Path | None,
    sites: Path | None,
    brokers: tuple[BrokerId, ...] | None = None,
) -> OverlaySurvey:
    """The survey in these files; of all brokers that they name, or just these.

    With sites round trips may be between sites; within one they are 0 unless they are said.
    """
    measured = _pairs(rtt, ("from", "to", "ms"))
    standing = _sites(sites) if sites is not None else {}
    if brokers is None:
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
        raise UserError(f"{rates}: no client publishes to another")
    return OverlaySurvey(brokers, found, wanted, standing)


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


def read_amounts(path: Path, columns: Sequence[str]) -> dict[str, float]:
    """Return how much of each: a file of a name and a number from 0 on in each line."""
    found: dict[str, float] = {}
    for line, (name, text) in read_rows(path, columns):
        if name in found:
            raise UserError(f"{path}:{line}: {columns[0]} {name!r} stands there twice")
        found[name] = read_amount(path, line, columns[1], text)
    return found


def read_amount(path: Path, line: int, column: str, text: str) -> float:
    """The number in a column; UserError unless it is one from 0 on."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise UserError(f"{path}:{line}: {column}: {text!r} is no number from 0 on")
    return number


def _pairs(path: Path, columns: Sequence[str]) -> dict[Pair, float]:
    found: dict[Pair, float] = {}
    for line, (source, target, text) in read_rows(path, columns):
        number = read_amount(path, line, columns[2], text)
        if source == target:
            raise UserError(f"{path}:{line}: from {source!r} to itself")
        if (source, target) in found:
            raise UserError(f"{path}:{line}: {source},{target} stands there twice")
        found[source, target] = number
    return found


def _sites(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line, (broker, site) in read_rows(path, ("broker", "site")):
        if broker in found:
            raise UserError(f"{path}:{line}: broker {broker!r} stands there twice")
        found[broker] = site
    return found


def read_rows(
    path: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file with these columns, in this order, each with its number.

    Optional columns may be missing, come in any order, and be empty; they are empty then.
    """
    header = ",".join(columns)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            names = [name.strip() for name in next(lines, [])]
            further = names[len(columns) :]
            is_known = len(set(further)) == len(further) and set(further) <= set(optional)
            if names[: len(columns)] != list(columns) or not is_known:
                more = f", then any of {','.join(optional)}" if optional else ""
                raise UserError(f"{path}:1: the first line is {header}{more}")
            for number, row in enumerate(lines, 2):
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                if len(cells) != len(names) or not all(cells[: len(columns)]):
                    raise UserError(f"{path}:{number}: {','.join(row)!r} is not {','.join(names)}")
                said = dict(zip(further, cells[len(columns) :], strict=True))
                yield number, [*cells[: len(columns)], *(said.get(one, "") for one in optional)]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read: {error}") from error
