"""Ports that two listeners want, brokers that no client reaches, folders that cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from shoal.runtime.addresses import Address, read_address
from shoal.runtime.checking.findings import CheckFinding
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import FOR_CLIENTS


def listeners(network: NetworkFile) -> Iterator[CheckFinding]:
    """Find listeners that collide, and missing ones."""
    yield from _ports(network)
    yield from _public_addresses(network)
    deaf = [
        place
        for place, broker in enumerate(network.brokers)
        if not any(key in FOR_CLIENTS for key in broker.listeners())
    ]
    keys = ", ".join(FOR_CLIENTS)
    if len(deaf) == len(network.brokers):
        yield CheckFinding("brokers", f"none has a listener for clients ({keys})")
    else:
        for place in deaf:
            why = f"no client can connect to {network.brokers[place].name}: it has none of {keys}"
            yield CheckFinding(f"brokers[{place}]", why, True)
    for place, broker in enumerate(network.brokers):
        if not broker.admin:
            why = (
                f"is missing: no operator can ask or order {broker.name} (health, status, metrics)"
            )
            yield CheckFinding(f"brokers[{place}].admin", why, True)


def _ports(network: NetworkFile) -> Iterator[CheckFinding]:
    """Listeners of one machine that want the same port.

    The same address twice is found by `network_file.problems`.
    """
    taken: list[tuple[Address, str, str]] = []
    for place, broker in enumerate(network.brokers):
        for key, text in broker.listeners().items():
            address, where = read_address(text), f"brokers[{place}].{key}"
            for other, name, elsewhere in taken:
                if other != address and _collide(address, other, is_one=name == broker.name):
                    why = f"{address} and {elsewhere}, {other}, are one port of one machine"
                    yield CheckFinding(where, why)
            taken.append((address, broker.name, where))


def _collide(one: Address, other: Address, *, is_one: bool) -> bool:
    """Return whether both cannot be listened at; `is_one`: they are of one broker, so of one
    machine.
    """
    if not one.port or one.port != other.port:
        return False
    if is_one:
        is_same_name = {one.host, other.host} <= {"localhost", "127.0.0.1", "::1"}
        return one.is_anywhere or other.is_anywhere or one.host == other.host or is_same_name
    both_here = one.is_loopback and other.is_loopback
    return both_here and "localhost" in (one.host, other.host)


def _public_addresses(network: NetworkFile) -> Iterator[CheckFinding]:
    """Addresses under which two listeners are said to be reached."""
    taken: dict[str, str] = {}
    for place, broker in enumerate(network.brokers):
        for key, text in broker.public.items():
            where = f"brokers[{place}].public.{key}"
            if text in taken:
                yield CheckFinding(where, f"{text} is {taken[text]} already")
            taken.setdefault(text, where)


def folders(network: NetworkFile) -> Iterator[CheckFinding]:
    """Folders that brokers cannot write to, or that a file is in the way of."""
    wanted: dict[str, Path] = {}
    for broker in network.brokers:
        folder = network.storage.folder_of(broker.name)
        if folder is not None and not Path(network.storage.folder).is_file():  # said already
            wanted.setdefault(f"storage.folder: {folder}", folder)
    if network.trace.folder:
        wanted[f"trace.folder: {network.trace.folder}"] = Path(network.trace.folder)
    seen: set[tuple[str, str]] = set()
    for where, folder in wanted.items():
        problem, key = _problem(folder), where.partition(":")[0]
        if problem and (key, problem) not in seen:
            seen.add((key, problem))
            yield CheckFinding(where, problem)


def _problem(folder: Path) -> str:
    """Return why a folder cannot be, or cannot be written to; empty if it can."""
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    try:
        if not there.is_dir():
            return f"{there} is no folder, but a file"
        if not os.access(there, os.W_OK | os.X_OK):
            return f"you may not write to {there}"
    except OSError as error:
        return f"{there} cannot be looked at: {error.strerror}"
    return ""
