"""Mutual TLS between brokers, which proves a broker's name.

A broker's certificate is signed by the network's own authority and made out to the broker's name,
as the common name of its subject or one of its alternative names.  Hosts and addresses play no
part: a broker keeps its name when it moves.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from shoal.model import BrokerId
from shoal.runtime.network_sections import AdminSection, ClientTlsSection, TlsSection


class TlsError(ValueError):
    """Certificates or keys that cannot be used; says which file."""


class Replaceable:
    """A listener's `context`, which a newer one replaces for later connections.

    A listener keeps its context for as long as it listens, and a context never drops an authority.
    So each handshake switches to the current context at its first message: certificate, key and
    authorities are from there. The first context decides whether clients need certificates.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = self._today = context
        if context.verify_mode != ssl.CERT_NONE:
            # A client that resumes by a ticket would not have to show a certificate again.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        context.sni_callback = self._choose

    def replace(self, context: ssl.SSLContext) -> None:
        """From now on this one serves."""
        self._today = context

    def _choose(self, connection: ssl.SSLObject, _name: str, _first: ssl.SSLContext) -> None:
        if self._today is not self.context:
            connection.context = self._today


class TlsContexts:
    """For connections that come in, and those that go out; both can be replaced."""

    def __init__(self, incoming: ssl.SSLContext, outgoing: ssl.SSLContext) -> None:
        self._incoming = Replaceable(incoming)
        self.outgoing = outgoing

    @property
    def incoming(self) -> ssl.SSLContext:
        return self._incoming.context

    def replace(self, other: TlsContexts) -> None:
        """From now on those of the other serve."""
        self._incoming.replace(other.incoming)
        self.outgoing = other.outgoing


def load_contexts(section: TlsSection, broker: BrokerId) -> TlsContexts:
    """Load the contexts of `broker`; TlsError if a file is missing or malformed."""
    files = {
        "authority": section.authority.format(broker=broker),
        "certificate": section.certificate.format(broker=broker),
        "key": section.key.format(broker=broker),
    }
    for key, path in files.items():
        if not Path(path).is_file():
            raise TlsError(f"tls.{key}: no file {path}")
    incoming = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    outgoing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (incoming, outgoing):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False  # names are brokers', see above
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files["authority"])
        except ssl.SSLError as error:
            raise TlsError(f"tls.authority: {files['authority']}: {error}") from None
        try:
            context.load_cert_chain(files["certificate"], files["key"])
        except ssl.SSLError as error:
            raise TlsError(f"tls.certificate: {files['certificate']}: {error}") from None
    return TlsContexts(incoming, outgoing)


def load_client_context(section: ClientTlsSection, broker: BrokerId) -> ssl.SSLContext:
    """For listeners that clients connect to over TLS; TlsError names the unusable file."""
    return _listening_context(section, broker, "client_tls", section.authority)


def load_admin_context(section: AdminSection, broker: BrokerId) -> ssl.SSLContext:
    """For an admin port over TLS; TlsError names the unusable file."""
    context = _listening_context(section, broker, "admin", section.operator_authority)
    if section.operator_authority:
        context.verify_mode = ssl.CERT_OPTIONAL  # health checks and passwords need none
    return context


def _listening_context(
    section: ClientTlsSection | AdminSection, broker: BrokerId, where: str, authority: str = ""
) -> ssl.SSLContext:
    """With an `authority` each client needs a certificate that it signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate, key = (text.format(broker=broker) for text in (section.certificate, section.key))
    try:
        context.load_cert_chain(certificate, key)
        if authority:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(authority)
    except OSError as error:  # TLS's own errors are among them
        raise TlsError(f"{where}: {certificate}, {key}: {error}") from None
    return context


def certified_names(certificate: dict[str, Any] | None) -> set[str]:
    """The names a verified certificate is made out to."""
    if not certificate:
        return set()
    common = {
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    }
    return common | {value for key, value in certificate.get("subjectAltName", ()) if key == "DNS"}
