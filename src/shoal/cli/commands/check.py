"""`shoal check`: what is wrong with a network file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK.toml", help="The network to look at.")
    ],
) -> None:
    """Say what is wrong with a network file, path by path; exit code 2 if anything is."""
    from shoal.cli.support.live.networks import read_network
    from shoal.runtime.network_file import hints
    from shoal.runtime.tls.endings import endings, remark

    network = read_network(network_file)
    print(
        f"{network_file}: brokers {len(network.brokers)}, links {len(network.links)}, "
        f"system {network.system}: nothing wrong"
    )
    for stranger in network.strangers():
        print(f"{stranger}; it has no effect unless one of that name joins")
    for hint in hints(network):
        print(f"warning: {hint}")
    ending = [row for broker in network.brokers for row in endings(network, broker.name)]
    for words in dict.fromkeys(map(remark, ending)):
        if words:
            print(f"warning: {words}")
    limits = network.limits
    print(
        f"a client may send packets of {limits.maximum_packet_size:,} bytes, and subscribe to "
        f"{limits.maximum_topic_filters:,} topic filters at a time, with content filters of "
        f"{limits.maximum_filter_bytes:,} bytes and {limits.maximum_filter_tests:,} tests "
        "together; [limits] changes that"
    )
