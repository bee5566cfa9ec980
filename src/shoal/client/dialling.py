"""Connections to brokers, and why there is none: one end speaks TLS and the other does not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

from shoal.client.connection import ClientSocket, Owner
from shoal.client.endpoint import Endpoint, Tls, read_endpoint
from shoal.client.wires import make_wire

# How long a connection may take to be there.
CONNECT_TIMEOUT_S = 10.0
# Long enough to begin a TLS handshake anywhere.
PROBE_S = 3.0
# For good, as far as anybody knows; Linux tells a name without an address from no name.
_UNKNOWN_NAME = socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)
# A CONNECT of a version that there is not: whoever speaks MQTT answers it, and lets nobody in.
_NOBODY = bytes.fromhex("100c 0004 4d515454 63 02 003c 0000")
_CONNACK = b"\x20"
_UNWRAPPED = {"ws": "mqtt", "wss": "mqtts"}
_OTHER = {"mqtt": "mqtts", "ws": "wss", "mqtts": "mqtt", "wss": "ws"}


class MismatchError(Exception):
    """Trying again does not help: both ends are there and do not fit, or a name is unknown."""


class Dialler:
    """Makes a client's connections, all with the same proofs; ValueError as of `Tls`."""

    def __init__(self, endpoint: Endpoint, tls: Tls) -> None:
        self._server_name = tls.server_name
        self._has_certificate = bool(tls.certificate)
        self._context = tls.context() if endpoint.is_over_tls else None

    async def connect(self, owner: Owner, address: str) -> ClientSocket:
        """A connection; OSError or TimeoutError when there is none, MismatchError says why."""
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
                raise MismatchError(unresolved(error)) from error
            raise
        except OSError as error:
            if self._context is not None and (problem := handshake_problem(endpoint, error)):
                raise MismatchError(problem) from error
            raise
        return connection

    async def check(self, connection: ClientSocket, address: str) -> None:
        """MismatchError if that is why a connection ended before the broker had said a word."""
        if isinstance(connection.problem, ssl.SSLError):
            raise MismatchError(refusal(connection.problem))
        endpoint = read_endpoint(address)
        if self._context is None and (problem := await plain_problem(endpoint)):
            raise MismatchError(problem)
        if endpoint.is_over_websocket and await self._speaks_mqtt(endpoint):
            other = _UNWRAPPED[endpoint.scheme]
            raise MismatchError(f"takes MQTT without WebSocket; use {other}://")
        if self._context is not None and not self._has_certificate:
            # In TLS 1.3 a broker sees that only when its client is through, and may just hang up.
            raise MismatchError("hangs up at once; it may want a certificate of the client")

    async def _speaks_mqtt(self, endpoint: Endpoint) -> bool:
        """Whether who hangs up on a WebSocket answers MQTT without one."""
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
    """What to say of a name that is not known (now); nothing of other errors."""
    is_name = isinstance(error, socket.gaierror)
    return f"the name cannot be resolved ({error.strerror})" if is_name else ""


def handshake_problem(endpoint: Endpoint, error: OSError) -> str:
    """Why TLS could not begin, in words; nothing if nobody was reached."""
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
    """What the broker's end of TLS does not like."""
    words = (error.reason or str(error)).lower().replace("_", " ")
    if ("certificate" in words and "required" in words) or "handshake failure" in words:
        return f"may want a certificate of the client ({words})"
    return f"TLS fails: {words}"


async def plain_problem(endpoint: Endpoint) -> str:
    """Why a listener hangs up that was spoken to in plain text; nothing if it is not for TLS."""
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
