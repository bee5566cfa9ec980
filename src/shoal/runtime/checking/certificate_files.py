"""PEM files of certificates, authorities and keys: read, and checked as TLS will."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Chain = Sequence[x509.Certificate]


class PemError(ValueError):
    """A file does not have the content of its key."""


def read_certificates(path: str) -> Chain:
    """The certificates of a file, the first is its owner's."""
    try:
        return x509.load_pem_x509_certificates(Path(path).read_bytes())
    except OSError as error:
        raise PemError(f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise PemError("has no certificate in it, as PEM") from None


def is_key_of(path: str, certificate: x509.Certificate) -> bool:
    """Return whether a file has the private key of a certificate."""
    try:
        key = serialization.load_pem_private_key(Path(path).read_bytes(), None)
    except OSError as error:
        raise PemError(f"cannot be read: {error.strerror}") from None
    except TypeError:
        raise PemError("has a password, which brokers do not know") from None
    except ValueError:
        raise PemError("has no private key in it, as PEM") from None
    return _spki(key.public_key()) == _spki(certificate.public_key())


def _spki(key: object) -> bytes:
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    found: bytes = key.public_bytes(encoding, form)  # type: ignore[attr-defined]
    return found


def is_signed_by(chain: Chain, authorities: Iterable[x509.Certificate]) -> bool:
    """Return whether an authority signed the first certificate, or the last one of its chain."""
    known, left, last = list(authorities), list(chain[1:]), chain[0]
    while True:
        if any(last == each or _issued(each, last) for each in known):
            return True
        above = next((each for each in left if _issued(each, last)), None)
        if above is None:
            return False
        left.remove(above)
        last = above


def _issued(issuer: x509.Certificate, issued: x509.Certificate) -> bool:
    try:
        issued.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def broker_names(certificate: x509.Certificate) -> set[str]:
    """The names by which a certificate proves to be a broker's or an operator's."""
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return {str(each.value) for each in common} | set(_alternatives(certificate)[0])


def fits_host(certificate: x509.Certificate, host: str) -> bool:
    """Return whether clients that connect to a host accept a certificate as its.

    Only alternative names count; common names have not for years.
    """
    names, addresses = _alternatives(certificate)
    try:
        return ipaddress.ip_address(host) in addresses
    except ValueError:
        return any(_fits_name(name.lower(), host.lower()) for name in names)


def hosts(certificate: x509.Certificate) -> str:
    """The hosts that a certificate is made out to, in words."""
    names, addresses = _alternatives(certificate)
    return ", ".join([*names, *map(str, addresses)]) or "no host (it has no alternative names)"


def _fits_name(name: str, host: str) -> bool:
    if not name.startswith("*."):
        return name == host
    return host.partition(".")[2] == name[2:]


def _alternatives(
    certificate: x509.Certificate,
) -> tuple[list[str], list[ipaddress.IPv4Address | ipaddress.IPv6Address]]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return [], []
    addresses = found.get_values_for_type(x509.IPAddress)
    kinds = (ipaddress.IPv4Address, ipaddress.IPv6Address)
    return found.get_values_for_type(x509.DNSName), [
        each for each in addresses if isinstance(each, kinds)
    ]


def not_yet_valid(certificate: x509.Certificate) -> str:
    """From when a certificate is good that is not good yet; else empty."""
    begins = certificate.not_valid_before_utc
    return f"{begins:%F %H:%M} UTC" if begins > datetime.now(UTC) else ""


def lacks_use(certificate: x509.Certificate, *, as_client: bool) -> str:
    """Return the use that a certificate lacks though it is needed for it; empty if it lacks
    none.
    """
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        return ""
    if ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in uses:
        return ""
    if ExtendedKeyUsageOID.SERVER_AUTH not in uses:
        return "servers"
    return "clients" if as_client and ExtendedKeyUsageOID.CLIENT_AUTH not in uses else ""


def may_sign(certificate: x509.Certificate) -> bool:
    """Return whether a certificate may be an authority's."""
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return certificate.issuer == certificate.subject  # of before there were extensions
