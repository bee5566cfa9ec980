"""One broker's certificates, those of its links, its clients' listeners and its admin port.

They can be renewed while it runs; whether there are any, and whether clients need some, cannot.
"""

from __future__ import annotations

from typing import Any

import msgspec

from shoal.model import BrokerId
from shoal.runtime.network_file import Network
from shoal.runtime.tls.contexts import (
    load_admin_context,
    load_client_context,
    load_contexts,
    renew_admin_context,
    renew_client_context,
    renew_contexts,
)
from shoal.runtime.tls.endings import endings


class Certificates:
    """Those that a network file names; TlsError when a file cannot be used."""

    def __init__(self, network: Network, name: BrokerId) -> None:
        self._name = name
        self._network = network
        tls, client_tls, admin = network.tls, network.client_tls, network.admin
        self.links = load_contexts(tls, name) if tls is not None else None
        self.clients = load_client_context(client_tls, name) if client_tls is not None else None
        self.admin = load_admin_context(admin, name) if admin.is_over_tls else None
        # When those in use end, whatever the files have become since.
        self.endings = endings(network, name)

    def renewable(self, network: Network) -> dict[str, Any]:
        """The tables of a network file that `renew` can take over; all their files can be loaded.

        TlsError when one cannot.
        """
        found: dict[str, Any] = {}
        Certificates(network, self._name)
        old = self._network
        if network.tls is not None and old.tls is not None:
            found["tls"] = network.tls
        now, before = network.client_tls, old.client_tls
        if now is not None and before is not None and bool(now.authority) == bool(before.authority):
            found["client_tls"] = now
        tls, certified = network.admin.is_over_tls, bool(network.admin.operator_authority)
        if (tls, certified) == (old.admin.is_over_tls, bool(old.admin.operator_authority)):
            found["admin"] = network.admin
        return found

    def renew(self, tables: dict[str, Any]) -> None:
        """Use what these tables name, for connections to come."""
        if self.links is not None and "tls" in tables:
            renew_contexts(self.links, tables["tls"], self._name)
        if self.clients is not None and "client_tls" in tables:
            renew_client_context(self.clients, tables["client_tls"], self._name)
        if self.admin is not None and "admin" in tables:
            renew_admin_context(self.admin, tables["admin"], self._name)
        self._network = msgspec.structs.replace(self._network, **tables)
        self.endings = endings(self._network, self._name)
