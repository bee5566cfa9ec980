"""The listener that a client connects to: over TCP, TLS, WebSocket, or WebSocket over TLS.

>>> read_endpoint("broker.example.org")
Endpoint(scheme='mqtt', host='broker.example.org', port=1883)
>>> [str(read_endpoint(text)) for text in ("mqtts://10.0.0.1", "localhost:1884", "wss://[::1]:9")]
['mqtts://10.0.0.1:8883', 'localhost:1884', 'wss://[::1]:9']
>>> read_endpoint("http://10.0.0.1")
Traceback (most recent call last):
ValueError: 'http://10.0.0.1': http is no way to a broker; use mqtt, mqtts, ws or wss
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import NamedTuple

import msgspec

# The registered ports.
_PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
_OVER_TLS = ("mqtts", "wss")
_OVER_WEBSOCKET = ("ws", "wss")


class Endpoint(NamedTuple):
    """A broker's listener for clients."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'' if self.scheme == 'mqtt' else f'{self.scheme}://'}{host}:{self.port}"

    @property
    def is_over_tls(self) -> bool:
        return self.scheme in _OVER_TLS

    @property
    def is_over_websocket(self) -> bool:
        return self.scheme in _OVER_WEBSOCKET


def read_endpoint(text: str) -> Endpoint:
    """The listener that a text names; ValueError when it names none.

    The default scheme is `mqtt`, the default port the registered one of the scheme.
    """
    found = re.fullmatch(
        r"(?:(\w+)://)?(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:/\s]+))(?::(\d{1,5}))?/?", text
    )
    if found is None or int(found[4] or 0) > 65_535:
        raise ValueError(f"{text!r} is not host:port or mqtts://host:port, such as 127.0.0.1:1883")
    scheme = found[1] or "mqtt"
    if scheme not in _PORTS:
        raise ValueError(f"{text!r}: {scheme} is no way to a broker; use mqtt, mqtts, ws or wss")
    return Endpoint(scheme, found[2] or found[3], int(found[4] or _PORTS[scheme]))


def sent_to(server: str, came_to: Endpoint) -> str:
    """The target of a redirect: a listener of the same kind as the first, at another host:port.

    "" if the server reference names none.
    """
    try:
        named = read_endpoint(server)
    except ValueError:
        return ""
    if "://" in server and named.scheme != came_to.scheme:
        return ""
    return str(named._replace(scheme=came_to.scheme))


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS credentials of a client; files in PEM.

    authority     the issuer of the broker's certificate; without it, those that the system trusts
    certificate   the client's own, and its `key`, where the broker wants one
    server_name   the name in the broker's certificate, if not the host of the address
    """

    authority: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""

    def context(self) -> ssl.SSLContext:
        """The TLS context of connections; ValueError names the file that cannot be used."""
        for name in ("authority", "certificate", "key"):
            path = getattr(self, name)
            if path and not Path(path).is_file():
                raise ValueError(f"{name}: no file {path}")
        if bool(self.certificate) != bool(self.key):
            raise ValueError("certificate and key: give both or neither")
        try:
            context = ssl.create_default_context(cafile=self.authority or None)
        except OSError as error:
            raise ValueError(f"authority: {self.authority}: {error}") from None
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except OSError as error:
                raise ValueError(f"certificate: {self.certificate}, {self.key}: {error}") from None
        return context
