"""Helpers of commands about live networks: a network file is read, a broker is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from shoal.cli.support.errors import UserError
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.addresses import read_address
from shoal.runtime.links.joining import JoinAttempt
from shoal.runtime.network_file import PAGE, NetworkFile, load_network, problems
from shoal.runtime.network_sections import BrokerSection
from shoal.typed_toml import TomlError


def read_network(path: Path, *, has_files: bool = True) -> NetworkFile:
    """The network in a file that has no problems; else a UserError that lists them.

    A command that only queries brokers need not have the brokers' files (`has_files` False).
    """
    try:
        network = load_network(path)
    except TomlError as error:
        raise UserError(str(error)) from error
    _check(network, str(path), has_files=has_files)
    return network


def _check(network: NetworkFile, where: str, newcomer: str = "", *, has_files: bool = True) -> None:
    found = problems(network, newcomer, has_files=has_files)
    if found:
        lines = [f"{where}: {problem}" for problem in found]
        raise UserError("\n       ".join([*lines, f"all keys: {PAGE}"]))


def with_broker(network: NetworkFile, name: str, join: str, listen: Sequence[str]) -> NetworkFile:
    """The network with a broker that its file does not list; UserError where that cannot be."""
    names = [broker.name for broker in network.brokers]
    if name in names:
        raise UserError(f"--listen: the network file says where broker {name!r} listens")
    for text in listen:
        if "=" not in text:
            raise UserError(f"--listen {text}: write KEY=HOST:PORT, such as peers=127.0.0.1:7009")
    listeners = dict(text.partition("=")[::2] for text in listen)
    try:
        section = msgspec.convert({"name": name, **listeners}, BrokerSection)
    except msgspec.ValidationError as error:
        raise UserError(f"--listen: {error}") from error
    system = SYSTEMS[network.system]
    if system.links is not None:
        # The founding members; the new broker is told its place.
        given = network.system_parameters or system.parameters()
        parameters = {**network.parameters, system.name: system.complete(given, names)}
        network = msgspec.structs.replace(network, parameters=parameters)
    grown = msgspec.structs.replace(network, brokers=(*network.brokers, section))
    beside = join.partition("=")[0]
    links = (*network.links, (beside if beside in names else names[0], name))
    _check(msgspec.structs.replace(grown, links=links), "--listen", newcomer=name)
    return grown


def read_join(network: NetworkFile, text: str) -> JoinAttempt:
    """Return the member that a new broker joins, and its address; UserError if the text names
    none.
    """
    name, given, address = text.partition("=")
    known = {broker.name: broker.reached_at("peers") for broker in network.brokers}
    if not given and name not in known:
        raise UserError(f"--join: the network file lists no broker {name!r}; say {name}=HOST:PORT")
    try:
        return JoinAttempt(name, read_address(address if given else known[name]))
    except ValueError as error:
        raise UserError(f"--join: {error}") from error
