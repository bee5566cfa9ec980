"""A network file read as far as possible: every fault of its keys, and the network without them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from shoal import typed_toml
from shoal.overlays.registry import PAGE as SYSTEMS_PAGE
from shoal.overlays.registry import unknown
from shoal.runtime.network_file import (
    KNOWN_KEYS,
    NO_PARAMETERS,
    PAGE,
    NetworkFile,
    complete,
    located,
    take_systems,
)
from shoal.typed_toml import TomlError


class FileReading(NamedTuple):
    """`network` is None where too little of it can be read to look at the rest.

    `faulty` are the paths of faults, and of keys that may be meant.
    """

    network: NetworkFile | None
    faults: list[str]
    faulty: set[str]


def read_all(path: Path) -> FileReading:
    """Read a network file; TomlError where it is no TOML."""
    label, data = str(path), typed_toml.read_table(path)
    faults, faulty = [], set()
    if "parameters" in data:
        faults.append(f"{label}: parameters: {NO_PARAMETERS}")
        del data["parameters"]
    if isinstance(system := data.get("system"), str) and (problem := unknown(system)):
        faults.append(f"{label}: system: {problem}")
        faulty |= {"system", "links"}
        del data["system"]
    given, kind = take_systems(data)
    systems = typed_toml.draft(given, kind, label, pages={"": SYSTEMS_PAGE})
    found = typed_toml.draft(data, NetworkFile, label, known=KNOWN_KEYS, pages={"": PAGE})
    faults += systems.faults + found.faults
    faulty |= systems.dropped | found.dropped
    if found.value is None or systems.value is None or not found.is_whole:
        return FileReading(None, faults, faulty)
    try:
        network = complete(found.value, systems.value, label, has_links="links" in data)
    except TomlError as error:
        return FileReading(None, [*faults, str(error)], faulty)
    return FileReading(located(network, path.parent.resolve()), faults, faulty)
