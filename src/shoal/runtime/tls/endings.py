"""The files of a broker's certificates: when they end, for its status, its metrics and `shoal
check`; and their digests, for the log of a reload.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoal.model import BrokerId
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.network_sections import AdminSection, ClientTlsSection, TlsSection

# A shorter warning may leave no time to renew a certificate.
SOON_S = 30 * 86_400.0


def endings(network: NetworkFile, name: BrokerId) -> list[dict[str, Any]]:
    """Of each file of certificates: its `use`, `file`, and `ends_s`, in seconds since 1970 UTC.

    Of a broker's own file the first that ends counts, of an authority's the last: others in it may
    have been replaced.  A file that cannot be read is left out.
    """
    found = []
    for use, file, is_authority in _files(network):
        path = file.format(broker=name)
        if ends := _ends_s(path):
            ends_s = max(ends) if is_authority else min(ends)
            found.append({"use": use, "file": path, "ends_s": ends_s})
    return found


def digests(network: NetworkFile, name: BrokerId) -> dict[str, str]:
    """The SHA-256 of each file of certificates, by its use and name in words.

    A file that cannot be read is left out.
    """
    found = {}
    for use, file, is_authority in _files(network):
        path = Path(file.format(broker=name))
        words = use if is_authority else f"certificate of {use}"
        with suppress(OSError):
            found[f"{words} in {path}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _files(network: NetworkFile) -> Iterator[tuple[str, str, bool]]:
    """Use, file, and whether it is of an authority."""
    admin = network.admin
    sections: list[tuple[str, TlsSection | ClientTlsSection | AdminSection | None, str]] = [
        ("links", network.tls, network.tls.authority if network.tls else ""),
        ("clients", network.client_tls, network.client_tls.authority if network.client_tls else ""),
        ("admin port", admin if admin.is_over_tls else None, admin.operator_authority),
    ]
    for use, section, authority in sections:
        if section is not None:
            yield use, section.certificate, False
            if authority:
                yield f"authority of {use}", authority, True


def _ends_s(path: str) -> list[float]:
    from cryptography import x509  # 7 MB that a broker without TLS does not need

    try:
        read = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError):
        return []
    return [each.not_valid_after_utc.timestamp() for each in read]


def ended(row: dict[str, Any], now_s: float | None = None) -> bool:
    """Return whether a certificate is not good any more."""
    end_s: float = row["ends_s"]
    return end_s <= (time.time() if now_s is None else now_s)


def remark(row: dict[str, Any], now_s: float | None = None) -> str:
    """That a certificate has ended or will soon, in words; empty where there is time.

    >>> remark({"use": "links", "file": "B1.pem", "ends_s": 86_400.0}, now_s=-86_400.0)
    'the certificate of links, B1.pem, ends in 2 days (1970-01-02)'
    >>> remark({"use": "links", "file": "B1.pem", "ends_s": 86_400.0}, now_s=86_401.0)
    'the certificate of links, B1.pem, has ended (1970-01-02)'
    """
    left_s = row["ends_s"] - (time.time() if now_s is None else now_s)
    if left_s >= SOON_S:
        return ""
    days = int(left_s // 86_400)
    when = f"ends in {days} {'day' if days == 1 else 'days'}" if left_s > 0 else "has ended"
    what = row["use"] if row["use"].startswith("authority") else f"certificate of {row['use']}"
    return f"the {what}, {row['file']}, {when} ({datetime.fromtimestamp(row['ends_s'], UTC):%F})"
