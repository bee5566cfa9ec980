"""One broker's certificates, those of its links, its clients' listeners and its admin port.

They can be renewed while it runs, and authorities replaced; whether there are any certificates, and
whether clients need some, cannot be changed.
"""

from __future__ import annotations

import ssl
from typing import Any

import msgspec

from shoal.model import BrokerId
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.tls.authorities import Authorities
from shoal.runtime.tls.contexts import (
    Replaceable,
    load_admin_context,
    load_client_context,
    load_contexts,
)
from shoal.runtime.tls.endings import digests, endings


class Certificates:
    """Those that a network file names; TlsError when a file cannot be used."""

    def __init__(self, network: NetworkFile, name: BrokerId) -> None:
        self._name = name
        self._network = network
        tls, client_tls, admin = network.tls, network.client_tls, network.admin
        self.links = load_contexts(tls, name) if tls is not None else None
        self._clients = self._admin = None
        if client_tls is not None:
            self._clients = Replaceable(load_client_context(client_tls, name))
        if admin.is_over_tls:
            self._admin = Replaceable(load_admin_context(admin, name))
        # Authority of clients' certificates, if there is one.
        path = client_tls.authority if client_tls is not None else ""
        self.authorities = Authorities(path)
        # When those in use end, whatever the files have become since.
        self.endings = endings(network, name)
        # Of the files as they were loaded, to say which of them a reload has replaced.
        self.digests = digests(network, name)

    @property
    def clients(self) -> ssl.SSLContext | None:
        """For listeners of clients."""
        return None if self._clients is None else self._clients.context

    @property
    def admin(self) -> ssl.SSLContext | None:
        """For the admin port."""
        return None if self._admin is None else self._admin.context

    def renewable(self, network: NetworkFile) -> dict[str, Any]:
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
        """Use these tables' files for later connections."""
        made = Certificates(msgspec.structs.replace(self._network, **tables), self._name)
        if self.links is not None and made.links is not None:
            self.links.replace(made.links)
        if self._clients is not None and made.clients is not None:
            self._clients.replace(made.clients)
        if self._admin is not None and made.admin is not None:
            self._admin.replace(made.admin)
        self.authorities = made.authorities
        self._network = msgspec.structs.replace(self._network, **tables)
        self.endings, self.digests = made.endings, made.digests
