"""One TCP connection between two brokers: hello from both, then a link's bytes.

The dialling end sends its hello first. Before the other end's hello a connection belongs to no
link, and bytes and time are bounded; any other message closes it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol, cast

from shoal.broker.links.controls import CONTROLS, Control, Hello, RefuseConnection
from shoal.broker.wire import Codec, WireError, first_frame
from shoal.runtime.addresses import Address
from shoal.runtime.binding import BoundAddress
from shoal.runtime.bounded_lines import BoundedLines
from shoal.runtime.tls.contexts import TlsContexts, certified_names
from shoal.runtime.tls.listener import Listener, listen

# A hello takes a hundred bytes; longer input is not read.
MAX_HELLO_BYTES = 4_096
HELLO_TIMEOUT_S = 5.0

_CONTROLS = Codec(CONTROLS)
_log = logging.getLogger(__name__)


class EndedError(WireError):
    """The other end is refused because its link has ended for good."""


class ConnectionHandler(Protocol):
    """Handler of a connection's events."""

    def opened(self, connection: PeerConnection) -> None:
        """The transport is there."""

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        """Take the other end's hello; WireError (with the reply) if it is refused."""

    def received(self, connection: PeerConnection, data: bytes) -> None:
        """Bytes behind the hello; WireError when they make no sense."""

    def closed(self, connection: PeerConnection) -> None:
        """The connection is gone, for whatever reason."""


class PeerConnection(asyncio.Protocol):
    """One connection; `is_dialled` is True at the end that connected.

    `lines` bounds log lines about refusals, since any machine can connect, as often as it likes.
    """

    def __init__(
        self, handler: ConnectionHandler, *, is_dialled: bool, lines: BoundedLines | None = None
    ) -> None:
        self.is_dialled = is_dialled
        self.is_greeted = False
        # the reason of a refusal by either end
        self.refused = ""
        # the reason of the connection's end, as text
        self.problem = ""
        # True if the other end says that the link it is for has ended.
        self.has_ended = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handler = handler
        self._lines = lines if lines is not None else _bounded_lines()
        self._transport: asyncio.Transport | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._before = b""

    # --- asyncio's side -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has types of its own
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(HELLO_TIMEOUT_S, self._too_late)
        self._handler.opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            if not self.is_greeted:
                data = self._greet(data)
            if data:
                self._handler.received(self, data)
        except EndedError as error:
            self.refuse(str(error), has_ended=True)
        except WireError as error:
            self.refuse(str(error))

    def _greet(self, data: bytes) -> bytes:
        self._before += data
        found = first_frame(self._before, MAX_HELLO_BYTES)
        if found is None:
            return b""
        hello = _CONTROLS.decode(found[0])
        if isinstance(hello, RefuseConnection):
            self.refused, self.has_ended = hello.reason, hello.has_ended
            raise WireError(f"refused by the other end: {hello.reason}")
        if not isinstance(hello, Hello):
            raise WireError(f"{type(hello).__name__} before a Hello")
        self._handler.greeted(self, hello)
        self.is_greeted = True
        self._before = b""
        self._stop_waiting()
        return found[1]

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_waiting()
        said = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else ""
        self.problem = self.problem or self.refused or said or "the other end closed it"
        self._handler.closed(self)
        if not self.ended.done():
            self.ended.set_result(None)

    def _too_late(self) -> None:
        self.refuse(f"no hello within {HELLO_TIMEOUT_S:g} s")

    def _stop_waiting(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    # --- the handler's side ----------------------------------------------------------------------

    def hand_to(self, handler: ConnectionHandler) -> None:
        """From now on another handler has it."""
        self._handler = handler

    @property
    def peer(self) -> str:
        """Return the other end's address, for logs."""
        name: Any = self._transport.get_extra_info("peername") if self._transport else None
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "unknown"

    def certified_names(self) -> set[str]:
        """Return the names in the other end's TLS certificate."""
        assert self._transport is not None
        return certified_names(self._transport.get_extra_info("peercert"))

    def say(self, control: Control) -> None:
        self.write(_CONTROLS.encode(control))

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def refuse(self, reason: str, *, has_ended: bool = False) -> None:
        """Say why, and close."""
        if self._transport is None or self._transport.is_closing():
            return
        self._lines.warn(self.peer, reason)
        if not self.refused:
            self.write(
                _CONTROLS.encode(RefuseConnection(reason[: MAX_HELLO_BYTES // 8], has_ended))
            )
            self.refused = reason
        self._transport.close()

    def close(self) -> None:
        """Close when all is written."""
        self.problem = self.problem or "this end closed it"
        if self._transport is not None:
            self._transport.close()

    def abort(self, problem: str = "this end closed it") -> None:
        """Close at once."""
        self.problem = self.problem or problem
        if self._transport is not None:
            self._transport.abort()


def _bounded_lines() -> BoundedLines:
    loop = asyncio.get_running_loop()
    return BoundedLines(_log, "peer connection refused", lambda: int(loop.time() * 1e6))


async def listen_for_peers(
    handler: ConnectionHandler, where: Address | BoundAddress, tls: TlsContexts | None
) -> Listener:
    """Accept connections of other brokers; log refusals with their reasons at intervals."""
    lines = _bounded_lines()
    return await listen(
        where,
        lambda: PeerConnection(handler, is_dialled=False, lines=lines),
        tls.incoming if tls else None,
        lines.warn,
        lambda: HELLO_TIMEOUT_S,
        "other end",
    )


async def dial(
    handler: ConnectionHandler,
    address: Address,
    tls: TlsContexts | None,
    told: Callable[[str], None] = lambda problem: None,
) -> PeerConnection | None:
    """A new connection to a broker; None when it cannot be made: `told` is told why."""
    loop = asyncio.get_running_loop()
    try:
        # Not `wait_for`: in Python 3.11 it loses a cancellation if the awaited work is done at that
        # moment, and the broker's stop would hang.
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            _, connection = await loop.create_connection(
                lambda: PeerConnection(handler, is_dialled=True),
                address.host,
                address.port,
                ssl=tls.outgoing if tls else None,
            )
    except (OSError, ssl.SSLError, TimeoutError) as error:
        problem = str(error) or "no answer"
        if isinstance(error, ConnectionError) and error.errno is not None:
            problem = os.strerror(error.errno)  # the same text with every event loop
        if isinstance(error, socket.gaierror):
            problem = f"the name cannot be resolved ({error.strerror})"
        _log.debug("cannot connect", extra={"address": str(address), "problem": problem})
        told(problem)
        return None
    return connection
