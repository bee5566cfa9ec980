"""`shoal check`: faults of a network file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile


def check(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK.toml", help="The network to look at.")
    ],
) -> None:
    """Say all that is wrong with a network file and the files that it names, path by path.

    Certificates, keys, users, operators, folders, listeners: as they are on this machine.
    Exit code 2 if anything is wrong; warnings do not count.
    """
    from shoal.runtime.checking.checks import check_file
    from shoal.runtime.network_file import PAGE
    from shoal.typed_toml import TomlError

    try:
        found = check_file(network_file)
    except TomlError as error:
        raise UserError(str(error)) from error
    if found.network is not None and not found.faults:
        _show(network_file, found.network)
    for warning in found.warnings:
        print(f"warning: {warning}")
    if found.faults:
        lines = list(found.faults)
        if found.network is None:
            lines.append("keys that depend on that were not checked")
        # A fault of a key names the page already.
        if not any(PAGE in line for line in lines):
            lines.append(f"all keys: {PAGE}")
        raise UserError("\n       ".join(lines))


def _show(path: Path, network: NetworkFile) -> None:
    """Print a summary of a valid network."""
    brokers, links = len(network.brokers), len(network.links)
    print(f"{path}: brokers {brokers}, links {links}, system {network.system}: nothing wrong")
    for stranger in network.strangers():
        print(f"{stranger}; it has no effect unless one of that name joins")
    limits = network.limits
    print(
        f"a client may send packets of {limits.maximum_packet_size:,} bytes, and subscribe to "
        f"{limits.maximum_topic_filters:,} topic filters at a time, with content filters of "
        f"{limits.maximum_filter_bytes:,} bytes and {limits.maximum_filter_tests:,} tests "
        "together; [limits] changes that"
    )
