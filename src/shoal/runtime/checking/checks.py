"""All checks of `shoal check`: the file's keys, their combinations, and the named files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shoal.runtime.checking.findings import CheckFinding, once
from shoal.runtime.checking.people import people
from shoal.runtime.checking.places import folders, listeners
from shoal.runtime.checking.reading import read_all
from shoal.runtime.network_file import NetworkFile, hints, problems


class Checked(NamedTuple):
    """Result of a check; `network` is None where too little of the file can be read.

    `faults` and `warnings` each begin with their place.
    """

    network: NetworkFile | None
    faults: list[str]
    warnings: list[str]


def check_file(path: Path) -> Checked:
    """Check a network file and the files that it names; TomlError where it is no TOML."""
    reading = read_all(path)
    if reading.network is None:
        return Checked(None, reading.faults, [])
    # A key that is left out because it is at fault is not missing.
    found = [
        each
        for each in once(_findings(reading.network))
        if not any(_is_within(each.place, path) for path in reading.faulty)
    ]
    faults = [f"{path}: {each.text}" for each in found if not each.is_warning]
    warnings = [each.text for each in found if each.is_warning]
    return Checked(reading.network, reading.faults + faults, warnings)


def _findings(network: NetworkFile) -> Iterator[CheckFinding]:
    for text in problems(network):
        place, _, problem = text.partition(": ")
        yield CheckFinding(place, problem)
    yield from listeners(network)
    yield from folders(network)
    yield from people(network)
    if network.tls is not None or network.client_tls is not None or network.admin.is_over_tls:
        # 7 MB that a network without TLS does not need.
        from shoal.runtime.checking.certificates import certificates

        yield from certificates(network)
    for text in hints(network):
        place, _, problem = text.partition(": ")
        yield CheckFinding(place, problem, True)


def _is_within(place: str, path: str) -> bool:
    """Return whether one of two paths is the other, or begins with it.

    >>> [_is_within("brokers[1].admin", path) for path in ("brokers", "brokers[1]", "brokers[10]")]
    [True, True, False]
    """
    one, other = (re.split(r"[.\[]", each.partition(":")[0]) for each in (place, path))
    return all(left == right for left, right in zip(one, other, strict=False))
