"""An HTTP server within a broker's loop, over TLS or not; for the admin port and the log.

Each connection is an open file, and clients need those: a request must arrive soon, however its
bytes drip in. Input that is no HTTP goes into the audit log.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.runtime.addresses import Address
from shoal.runtime.binding import BoundAddress, bind
from shoal.runtime.tls.contexts import certified_names
from shoal.runtime.tls.listener import Listener, listen

# Connections that are still open this long after the broker stops are left to the system.
STOP_TIMEOUT_S = 1
_BACKLOG = 128
# The time in which a request must arrive.
REQUEST_S = 10.0
# Is told about input that is neither TLS nor HTTP: its address, and the reason, if it is known.
Garbled = Callable[..., None]


class _Config(uvicorn.Config):
    """Uvicorn's configuration, with a callback for input that is no HTTP."""

    garbled: Garbled


class _Protocol(H11Protocol):
    """HTTP with the name in the client's certificate, and bounded waits."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        names = certified_names(transport.get_extra_info("peercert"))
        self.app_state = {**self.app_state, "certified": min(names, default="")}
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._expect()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        assert isinstance(self.config, _Config)
        self.config.garbled(str(Address(*self.client)) if self.client else None)
        super().send_400_response(msg)

    def _expect(self) -> None:
        """A request is to be complete soon, however its bytes drip in."""
        if self._late is None:
            self._late = self.loop.call_later(REQUEST_S, self._too_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """Uvicorn without its own ideas about signals: the broker's process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves an application; with a `context` over TLS."""

    def __init__(
        self, app: Starlette, garbled: Garbled, context: ssl.SSLContext | None = None
    ) -> None:
        self._context = context
        self._config = _Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=_Protocol,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        self._config.garbled = garbled
        self._server = _Server(self._config)
        self._serving: asyncio.Task[None] | None = None
        self._listener: Listener | None = None

    async def start(self, where: Address | BoundAddress) -> Address:
        """Listen; returns the address."""
        bound = where if isinstance(where, BoundAddress) else bind(where)
        self._config.load()
        if self._context is not None:  # its certificate can be renewed while it serves
            await self._start_over_tls(bound, self._context)
        else:
            bound.listen(_BACKLOG)
            self._serving = asyncio.create_task(self._server.serve(sockets=[*bound.sockets]))
        return bound.address

    async def _start_over_tls(self, bound: BoundAddress, context: ssl.SSLContext) -> None:
        """Uvicorn's own sockets wait for a handshake for a minute."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[]))
        self._listener = await listen(
            bound, self._protocol, context, self._config.garbled, lambda: REQUEST_S
        )

    def _protocol(self) -> _Protocol:
        return _Protocol(self._config, self._server.server_state, app_state={})

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._serving is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            await self._serving
