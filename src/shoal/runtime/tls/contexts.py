"""Mutual TLS between brokers: who proves to be which broker.

A broker's certificate is signed by the network's own authority and made out to the broker's name,
as the common name of its subject or one of its alternative names.  Hosts and addresses play no
part: a broker keeps its name when it moves.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple

from shoal.model import BrokerId
from shoal.runtime.network_sections import AdminSection, ClientTlsSection, TlsSection


class TlsError(ValueError):
    """Certificates or keys that cannot be used; says which file."""


class TlsContexts(NamedTuple):
    """For connections that come in, and those that go out."""

    incoming: ssl.SSLContext
    outgoing: ssl.SSLContext


def load_contexts(section: TlsSection, broker: BrokerId) -> TlsContexts:
    """What `broker` needs; TlsError when a file is missing or is not what it should be."""
    files = {
        "authority": section.authority.format(broker=broker),
        "certificate": section.certificate.format(broker=broker),
        "key": section.key.format(broker=broker),
    }
    for key, path in files.items():
        if not Path(path).is_file():
            raise TlsError(f"tls.{key}: no file {path}")
    contexts = TlsContexts(
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    for context in contexts:
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
    return contexts


def load_client_context(section: ClientTlsSection, broker: BrokerId) -> ssl.SSLContext:
    """For listeners that clients connect to over TLS; TlsError names what cannot be used."""
    return _listening_context(section, broker, "client_tls", section.authority)


def load_admin_context(section: AdminSection, broker: BrokerId) -> ssl.SSLContext:
    """For an admin port over TLS; TlsError names what cannot be used."""
    context = _listening_context(section, broker, "admin", section.operator_authority)
    if section.operator_authority:
        context.verify_mode = ssl.CERT_OPTIONAL  # health checks and passwords need none
    return context


def _listening_context(
    section: ClientTlsSection | AdminSection, broker: BrokerId, where: str, authority: str = ""
) -> ssl.SSLContext:
    """With an `authority` whoever connects must have a certificate that it signed."""
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


def renew_contexts(contexts: TlsContexts, section: TlsSection, broker: BrokerId) -> None:
    """Use what is in these files, which can be loaded, for connections to come.

    An authority that is no longer named is trusted until the broker starts again.
    """
    for context in contexts:
        context.load_verify_locations(section.authority.format(broker=broker))
        context.load_cert_chain(
            section.certificate.format(broker=broker), section.key.format(broker=broker)
        )


def renew_client_context(
    context: ssl.SSLContext, section: ClientTlsSection, broker: BrokerId
) -> None:
    """As `renew_contexts`, for listeners that clients connect to."""
    _renew(context, section, broker, section.authority)


def renew_admin_context(context: ssl.SSLContext, section: AdminSection, broker: BrokerId) -> None:
    """As `renew_contexts`, for an admin port."""
    _renew(context, section, broker, section.operator_authority)


def _renew(
    context: ssl.SSLContext,
    section: ClientTlsSection | AdminSection,
    broker: BrokerId,
    authority: str,
) -> None:
    context.load_cert_chain(
        section.certificate.format(broker=broker), section.key.format(broker=broker)
    )
    if authority:
        context.load_verify_locations(authority)


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
