"""Calls over HTTP with a password and over TLS, for callers of brokers' ports.

>>> read_basic(basic("ann", "a:b"))
('ann', b'a:b')
"""

from __future__ import annotations

import base64
import binascii
import http.client
import ssl


class HttpConnection(http.client.HTTPConnection):
    """A connection; with a `context` over TLS, to a server whose certificate has `server_name`.

    Without a name the certificate must be made out to the host.
    """

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
    ) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._context = context
        self._server_name = server_name or host

    def connect(self) -> None:
        super().connect()
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self._server_name)


def basic(name: str, password: str) -> str:
    """Return the header that authenticates a user or an operator."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def read_basic(authorization: str) -> tuple[str, bytes] | None:
    """The name and the password in it; None if it is no such header."""
    scheme, _, text = authorization.partition(" ")
    try:
        name, colon, password = base64.b64decode(text.strip(), validate=True).partition(b":")
        return (name.decode(), password) if scheme.lower() == "basic" and colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None
