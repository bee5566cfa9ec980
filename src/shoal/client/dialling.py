"""Connects to brokers, and diagnoses failures such as a TLS mismatch."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

from shoal.client.connection import ClientSocket, ConnectionOwner
from shoal.client.endpoint import Endpoint, Tls, read_endpoint
from shoal.client.wires import make_wire

# The timeout of a connection.
CONNECT_TIMEOUT_S = 10.0
# The timeout of a probe: long enough to begin a TLS handshake anywhere.
PROBE_S = 3.0
# Lasting errors; Linux distinguishes a name without an address from an unknown name.
_UNKNOWN_NAME = socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)
# A CONNECT of an unknown version: an MQTT broker answers it with a refusal.
_NOBODY = bytes.fromhex("100c 0004 4d515454 63 02 003c 0000")
_CONNACK = b"\x20"
_UNWRAPPED = {"ws": "mqtt", "wss": "mqtts"}
_OTHER = {"mqtt": "mqtts", "ws": "wss", "mqtts": "mqtt", "wss": "ws"}


class CertificateError(Exception):
    """Retrying does not help: both ends do not fit together, or a name is unknown."""


class Dialler:
    """Makes a client's connections, all with the same credentials; ValueError as in `Tls`."""

    def __init__(self, endpoint: Endpoint, tls: Tls) -> None:
        self._server_name = tls.server_name
        self._has_certificate = bool(tls.certificate)
        self._context = tls.context() if endpoint.is_over_tls else None

    async def connect(self, owner: ConnectionOwner, address: str) -> ClientSocket:
        """Connect; OSError or TimeoutError without a connection, CertificateError with a reason."""
        endpoint = read_endpoint(address)
        name = None if self._context is None else self._server_name or endpoint.host
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: ClientSocket(owner, make_wire(endpoint)),
                    endpoint.host,
                    endpoint.port,
                    ssl=self._context,
                    server_hostname=name,
                )
        except socket.gaierror as error:
            if error.errno in _UNKNOWN_NAME:
                raise CertificateError(unresolved(error)) from error
            raise
        except OSError as error:
            if self._context is not None and (problem := handshake_problem(endpoint, error)):
                raise CertificateError(problem) from error
            raise
        return connection

    async def check(self, connection: ClientSocket, address: str) -> None:
        """Raise CertificateError if a mismatch ended a connection before the broker's first
        byte."""
        if isinstance(connection.problem, ssl.SSLError):
            raise CertificateError(refusal(connection.problem))
        endpoint = read_endpoint(address)
        if self._context is None and (problem := await plain_problem(endpoint)):
            raise CertificateError(problem)
        if endpoint.is_over_websocket and await self._speaks_mqtt(endpoint):
            other = _UNWRAPPED[endpoint.scheme]
            raise CertificateError(f"takes MQTT without WebSocket; use {other}://")
        if self._context is not None and not self._has_certificate:
            # In TLS 1.3 a broker checks it when the client's handshake is complete, and may just
            # close.
            raise CertificateError(
                "closes the connection at once; it may require a client certificate"
            )

    async def _speaks_mqtt(self, endpoint: Endpoint) -> bool:
        """Whether the listener, which refuses a WebSocket, answers MQTT without one."""
        name = None if self._context is None else self._server_name or endpoint.host
        try:
            async with asyncio.timeout(PROBE_S):
                reader, writer = await asyncio.open_connection(
                    endpoint.host, endpoint.port, ssl=self._context, server_hostname=name
                )
                try:
                    writer.write(_NOBODY)
                    return await reader.read(1) == _CONNACK
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False


def unresolved(error: OSError) -> str:
    """The text for an unknown name; empty for other errors."""
    is_name = isinstance(error, socket.gaierror)
    return f"the name cannot be resolved ({error.strerror})" if is_name else ""


def handshake_problem(endpoint: Endpoint, error: OSError) -> str:
    """The reason why the TLS handshake failed; empty if there was no connection."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return f"does not speak TLS; use {_OTHER[endpoint.scheme]}://"
        case ssl.SSLError():
            return refusal(error)
        case ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
            other = _OTHER[endpoint.scheme]
            return f"ends the TLS handshake; if it does not speak TLS, use {other}://"
    return ""


def refusal(error: ssl.SSLError) -> str:
    """The text for an error of the broker's TLS."""
    words = (error.reason or str(error)).lower().replace("_", " ")
    if ("certificate" in words and "required" in words) or "handshake failure" in words:
        return f"may require a client certificate ({words})"
    return f"TLS fails: {words}"


async def plain_problem(endpoint: Endpoint) -> str:
    """The reason why a listener closed a plain-text connection; empty if it has no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(PROBE_S):
            _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
    except ssl.SSLError as error:
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return ""
    except (OSError, TimeoutError):
        return ""
    else:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return f"speaks TLS; use {_OTHER[endpoint.scheme]}://"
