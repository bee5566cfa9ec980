"""HTTP service discovery for Prometheus: the brokers, with joins and leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.broker.links.controls import BrokerLocation
from shoal.model import BrokerId
from shoal.runtime.addresses import Address, is_somewhere
from shoal.runtime.network_file import NetworkFile


def targets(
    network: NetworkFile, places: Iterable[BrokerLocation], own: BrokerId, admin: Address | None
) -> list[dict[str, Any]]:
    """A target for each broker that has an admin port, in the format of `http_sd_config`.

    `admin` is where the broker `own` listens, whatever port its file says.
    """
    scheme = "https" if network.admin.is_over_tls else "http"
    found = []
    for where in places:
        address = where.admin
        if where.name == own and admin is not None and not is_somewhere(address):
            address = str(admin)
        if is_somewhere(address):
            labels = {"broker": where.name, "network": network.name, "__scheme__": scheme}
            found.append({"targets": [address], "labels": labels})
    return found
