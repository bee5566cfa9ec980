"""What the commands about live networks share: reading a network file, naming a broker."""

from __future__ import annotations

from pathlib import Path

from shoal.cli.support.errors import UserError
from shoal.runtime.addresses import read_address
from shoal.runtime.network_file import Network, load_network, problems
from shoal.typed_toml import TomlError


def read_network(path: Path) -> Network:
    """The network in a file that has no problems; else a UserError that lists them."""
    try:
        network = load_network(path)
    except TomlError as error:
        raise UserError(str(error)) from error
    found = problems(network)
    if found:
        raise UserError("\n       ".join(f"{path}: {problem}" for problem in found))
    return network


def read_broker_address(text: str) -> str:
    """The address of a broker's MQTT port, which is 1883 unless said; else a UserError."""
    try:
        return str(read_address(text if ":" in text else f"{text}:1883"))
    except ValueError as error:
        raise UserError(f"--broker: {error}") from error
