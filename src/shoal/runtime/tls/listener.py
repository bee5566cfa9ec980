"""A listener that accepts a few connections at a time, and reports failed TLS handshakes.

asyncio's own servers accept all waiting connections, a thousand and more, before they do other
work. If a handshake fails they drop the connection silently, so clients or brokers that distrust a
broker's certificate would go unnoticed. A connection that ends before a handshake has begun, as
health checks of load balancers do, is not reported.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import socket
import ssl
from collections.abc import Callable, Coroutine

from shoal.runtime.addresses import Address
from shoal.runtime.binding import BoundAddress, bind

BACKLOG = 1_024
# So many are taken in before others have their turn, in a few milliseconds.
AT_ONCE = 32
# Too many files are open, or no memory is left: others may be closed meanwhile.
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SHORT_PAUSE_S = 1.0

Protocol = Callable[[], asyncio.Protocol]
Failed = Callable[[str, str], None]
# Seconds that a handshake may take, from the first byte on.
Patience = Callable[[], float]


async def listen(
    where: Address | BoundAddress,
    protocol: Protocol,
    tls: ssl.SSLContext | None,
    failed: Failed,
    patience: Patience,
    who: str = "client",
) -> Listener:
    """Take connections, over TLS if there is a context; the other arguments as of `Listener`."""
    server = Listener(protocol, tls, failed, patience, who)
    server.start(where)
    return server


class Listener:
    """Takes connections; `failed` is told from which address, and why, where TLS does not begin.

    `patience` returns the time limit of a handshake, `who` names the kind of peer. Without a
    context there is no TLS.
    """

    def __init__(
        self,
        protocol: Protocol,
        context: ssl.SSLContext | None,
        failed: Failed,
        patience: Patience,
        who: str = "client",
    ) -> None:
        self.address = Address("", 0)
        self.sockets: tuple[socket.socket, ...] = ()
        self._protocol = protocol
        self._context = context
        self._failed = failed
        self._patience = patience
        self._who = who
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, where: Address | BoundAddress) -> None:
        """Listen wherever the name leads; OSError where that cannot be."""
        bound = where if isinstance(where, BoundAddress) else bind(where)
        self.address, self.sockets = bound
        try:
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
        for listener in self.sockets:
            # Inherited by connections: a client without a keep alive that vanishes is noticed.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for listener in self.sockets:
            self._run(self._accept(listener))

    def close(self) -> None:
        """Stop accepting, and abort handshakes."""
        for task in self._tasks:
            task.cancel()
        for listener in self.sockets:
            if listener.fileno() != -1:
                # At once: the next socket may have its number before its task has ended.
                asyncio.get_running_loop().remove_reader(listener)
                listener.close()

    def _run(self, what: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop, begin = asyncio.get_running_loop(), self._accept_connection
        for number in itertools.count(1):
            if not number % AT_ONCE:  # while some wait, the next comes without a pause
                await asyncio.sleep(0.0)
            try:
                taken, peer = await loop.sock_accept(listener)
            except OSError as error:
                # Else the client has gone before it was taken.
                await asyncio.sleep(_SHORT_PAUSE_S if error.errno in _SHORT else 0.0)
                continue
            taken.setblocking(False)
            self._run(begin(taken, peer))

    async def _accept_connection(self, taken: socket.socket, peer: tuple[str, int]) -> None:
        if self._context is not None:
            await self._shake_hands(taken, str(Address(*peer[:2])), self._context)
            return
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, taken)
        except OSError:
            taken.close()  # its client has gone
        except asyncio.CancelledError:
            taken.close()
            raise

    async def _shake_hands(
        self, taken: socket.socket, address: str, context: ssl.SSLContext
    ) -> None:
        has_spoken, patience_s = False, self._patience()
        try:
            async with asyncio.timeout(patience_s):
                has_spoken = await _speaks(taken)
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._protocol, taken, ssl=context
                )
        except ssl.SSLError as error:
            self._failed(address, handshake_failure(error, self._who))
        except TimeoutError:
            if not has_spoken:
                taken.close()
            self._failed(address, f"TLS: the handshake takes over {patience_s:g} s")
        except OSError:
            if has_spoken:
                self._failed(address, hung_up(self._who))
        except asyncio.CancelledError:
            taken.close()
            raise


async def _speaks(taken: socket.socket) -> bool:
    """Return when a client has said its first word: whether it did, or has hung up."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(taken, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(taken)
    return bool(taken.recv(1, socket.MSG_PEEK))


def hung_up(who: str = "client") -> str:
    """Some libraries do not report their reason."""
    return f"TLS: the {who} hangs up in the handshake; it may not trust this broker's certificate"


def handshake_failure(error: ssl.SSLError, who: str = "client") -> str:
    """Return the reason of a failed handshake as text.

    >>> error = ssl.SSLError()
    >>> error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    >>> handshake_failure(error)
    "TLS: the client does not trust this broker's certificate (tlsv1 alert unknown ca)"
    """
    reason = error.reason or str(error)
    words = reason.lower().replace("_", " ")
    match error:
        case ssl.SSLCertVerificationError():
            return f"TLS: the {who}'s certificate is not trusted: {error.verify_message}"
        case _ if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return f"TLS: the {who} shows no certificate"
        case _ if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            return f"TLS: the {who} does not speak TLS"
        case _ if "ALERT_CERTIFICATE_EXPIRED" in reason:
            return f"TLS: to the {who} this broker's certificate has expired"
        case _ if "ALERT" in reason and ("UNKNOWN_CA" in reason or "CERTIFICATE" in reason):
            return f"TLS: the {who} does not trust this broker's certificate ({words})"
    return f"TLS: {words}"
