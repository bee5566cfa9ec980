"""What the commands about live networks share: reading a network file."""

from __future__ import annotations

from pathlib import Path

from shoal.cli.errors import UserError
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
