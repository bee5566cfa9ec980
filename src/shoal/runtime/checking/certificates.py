"""Checks certificates, keys and authorities as brokers, clients and operators will."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from shoal.model import BrokerId
from shoal.runtime.addresses import is_somewhere, read_address
from shoal.runtime.checking import certificate_files as files
from shoal.runtime.checking.findings import CheckFinding
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import AdminSection, BrokerSection, ClientTlsSection, TlsSection
from shoal.runtime.tls.endings import ended, endings, remark


class Use(NamedTuple):
    """A table that has certificates: its name, the owner, the parties that must trust them.

    `authority` signed them, where that is known; `as_client`: brokers connect with them, too.
    """

    table: str
    section: TlsSection | ClientTlsSection | AdminSection
    authority: str = ""
    as_client: bool = False


def certificates(network: NetworkFile) -> Iterator[CheckFinding]:
    """Find problems with certificates, keys and authorities of all brokers on this machine."""
    for use in _uses(network):
        yield from _authorities(use)
        yield from _of_brokers(network, use)
        yield from _shared(network, use)
    yield from _endings(network)


def _uses(network: NetworkFile) -> Iterator[Use]:
    if network.tls is not None:
        yield Use("tls", network.tls, network.tls.authority, as_client=True)
    if network.client_tls is not None:
        yield Use("client_tls", network.client_tls)
    if network.admin.certificate and network.admin.key:
        yield Use("admin", network.admin, network.admin.authority)


def _authorities(use: Use) -> Iterator[CheckFinding]:
    """Files of authorities that have none in them."""
    for key in ("authority", "operator_authority"):
        path = getattr(use.section, key, "")
        if not path or not Path(path).is_file():
            continue
        where = f"{use.table}.{key}: {path}"
        try:
            found = files.read_certificates(path)
        except files.PemError as error:
            yield CheckFinding(where, str(error))
            continue
        if not any(map(files.may_sign, found)):
            yield CheckFinding(where, "is no authority's certificate, so it can have signed none")


def _of_brokers(network: NetworkFile, use: Use) -> Iterator[CheckFinding]:
    missing: dict[str, list[BrokerId]] = {}
    for broker in network.brokers:
        certificate = use.section.certificate.replace("{broker}", broker.name)
        key = use.section.key.replace("{broker}", broker.name)
        for name, path in (("certificate", certificate), ("key", key)):
            if not Path(path).is_file():
                missing.setdefault(name, []).append(broker.name)
        if Path(certificate).is_file():
            yield from _of_broker(use, broker, certificate, key)
    for name, brokers in missing.items():
        pattern = getattr(use.section, name)
        if "{broker}" in pattern:  # else `network_file.problems` says it
            why = f"{pattern} is not here for {', '.join(brokers)}; each broker's machine needs it"
            yield CheckFinding(f"{use.table}.{name}", why, True)


def _of_broker(use: Use, broker: BrokerSection, path: str, key: str) -> Iterator[CheckFinding]:
    """One broker's certificate and key."""
    where = f"{use.table}.certificate: {path}"
    try:
        chain = files.read_certificates(path)
    except files.PemError as error:
        yield CheckFinding(where, str(error))
        return
    own = chain[0]
    if Path(key).is_file():
        try:
            if not files.is_key_of(key, own):
                yield CheckFinding(f"{use.table}.key: {key}", f"is not the key of {path}")
        except files.PemError as error:
            yield CheckFinding(f"{use.table}.key: {key}", str(error))
    if begins := files.not_yet_valid(own):
        yield CheckFinding(where, f"is not good before {begins}")
    if lacking := files.lacks_use(own, as_client=use.as_client):
        yield CheckFinding(where, f"is not for {lacking} (its extended key usage)")
    yield from _signature(use, broker, where, chain)
    yield from _names(use, broker, where, own)


def _signature(
    use: Use, broker: BrokerSection, where: str, chain: files.Chain
) -> Iterator[CheckFinding]:
    path = use.authority.replace("{broker}", broker.name)
    try:
        known = files.read_certificates(path) if path else []
    except files.PemError:
        return  # said already
    if path and not files.is_signed_by(chain, known):
        yield CheckFinding(where, f"{use.table}.authority, {path}, has not signed it")


def _names(
    use: Use, broker: BrokerSection, where: str, own: x509.Certificate
) -> Iterator[CheckFinding]:
    """Return whether the certificate has the name that connecting peers expect."""
    if use.table == "tls" or use.authority:
        names = files.broker_names(own)
        if broker.name not in names:
            made_out = ", ".join(sorted(names)) or "nobody"
            yield CheckFinding(where, f"is made out to {made_out}, not to {broker.name}")
        return
    for key in ("mqtts", "wss") if use.table == "client_tls" else ("admin",):
        text = broker.reached_at(key)
        if not text or not is_somewhere(text):
            continue
        address = read_address(text)
        if not files.fits_host(own, address.host):
            who = "operators reach" if key == "admin" else "clients reach"
            yield CheckFinding(
                where,
                f"is made out to {files.hosts(own)}; {who} {broker.name} at {address} ({key}); "
                f"if that is another name, say it in public.{key}",
            )


def _shared(network: NetworkFile, use: Use) -> Iterator[CheckFinding]:
    """One certificate that several brokers have: each of them, and its key's thief, is all."""
    owners: dict[bytes, list[BrokerId]] = {}
    for broker in network.brokers:
        path = use.section.certificate.replace("{broker}", broker.name)
        try:
            own = files.read_certificates(path)[0]
        except files.PemError:
            continue
        owners.setdefault(own.tbs_certificate_bytes, []).append(broker.name)
    for brokers in owners.values():
        if len(brokers) > 1:
            why = f"{', '.join(brokers)} have one certificate, so each can pretend to be the others"
            place = f"{use.table}.certificate: {use.section.certificate}"
            yield CheckFinding(
                place, f"{why}; give each its own, with {{broker}} in the name", True
            )


def _endings(network: NetworkFile) -> Iterator[CheckFinding]:
    """Those that have ended, or will soon."""
    for broker in network.brokers:
        for row in endings(network, broker.name):
            if words := remark(row):
                yield CheckFinding(_place(row), words, not ended(row), is_place_last=True)


def _place(row: dict[str, str]) -> str:
    """The key that names an expiring file."""
    is_authority, use = row["use"].startswith("authority of "), row["use"]
    table = {"links": "tls", "clients": "client_tls"}.get(
        use.removeprefix("authority of "), "admin"
    )
    key = "certificate"
    if is_authority:
        key = "operator_authority" if table == "admin" else "authority"
    return f"{table}.{key}"
