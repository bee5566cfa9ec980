"""Checks whether authorities still trust clients' certificates after a change.

Only direct signers count. A certificate with an intermediate signer is not trusted any more after
any authority was removed: its client shows the whole chain when it connects again.
"""

from __future__ import annotations

from pathlib import Path


class Authorities:
    """Those of a file, as it is now; none without a file."""

    def __init__(self, path: str) -> None:
        self._certificates: dict[bytes, object] = {}
        if path:
            from cryptography import x509  # 7 MB that a broker without certified clients needs not

            for each in x509.load_pem_x509_certificates(Path(path).read_bytes()):
                self._certificates[each.tbs_certificate_bytes] = each

    def lacks_some_of(self, before: Authorities) -> bool:
        """Return whether one that was here before has gone."""
        return not before._certificates.keys() <= self._certificates.keys()

    def signed(self, certificate: bytes) -> bool:
        """Return whether one of them signed a certificate, in DER."""
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature

        try:
            own = x509.load_der_x509_certificate(certificate)
        except ValueError:
            return False
        for each in self._certificates.values():
            assert isinstance(each, x509.Certificate)
            if each.subject != own.issuer:
                continue
            try:
                own.verify_directly_issued_by(each)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return True
        return False
