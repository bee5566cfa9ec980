"""A live broker's links: who connects to whom, again and again, and who is let in.

Of two linked brokers the one with the smaller name connects, so that there is one connection; it
tries again with growing pauses for as long as the broker runs.  A broker that the network does
not link to this one is refused, with mutual TLS also one that cannot prove its name.  Where a
system opens links itself, whoever opens one connects, and every broker of the network is let in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from itertools import count
from random import Random
from typing import Any

import msgspec

from shoal.broker.custody import Custody
from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.link_controls import Hello, Purpose
from shoal.broker.link_inbox import Debt
from shoal.broker.link_outbox import LinkLimits
from shoal.broker.link_session import LinkSession, OutOfStepError, State
from shoal.broker.messages import Message
from shoal.broker.wire import Codec, WireError
from shoal.model import BrokerId
from shoal.runtime.addresses import Address, read_address
from shoal.runtime.batches import MAX_BATCH
from shoal.runtime.links.peer_connections import Door, PeerConnection, dial
from shoal.runtime.node import Node, Phase
from shoal.runtime.pauses import Rounds
from shoal.runtime.storage.spool_files import Spools
from shoal.runtime.tls import TlsContexts

TICK_S = 1.0
# How long the broker handles what came over a link before others have their turn: it ends with the
# message that is being handled then.
TURN_US = 10_000
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
# Connections that have not said who they are; more are closed as they come.
MAX_STRANGERS = 100

_log = logging.getLogger(__name__)


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker knows about its links.

    neighbours    the brokers it is linked to
    addresses     where the network's brokers are
    limits        bounds of each link
    tls           None: names are believed
    has_cycles    who waits for a full link might wait for itself: neighbours are always read
    open_to_all   links also come up with any other broker of the network; the system itself sees
                  to what a broker that comes back must be told and sent again
    """

    network: str
    neighbours: tuple[BrokerId, ...]
    addresses: Mapping[BrokerId, Address]
    incarnation: int
    limits: LinkLimits = LinkLimits()
    tls: TlsContexts | None = None
    has_cycles: bool = False
    open_to_all: bool = False


class _Link:
    """One link and, when there is one, its connection."""

    def __init__(self, session: LinkSession, *, is_lasting: bool) -> None:
        self.session = session
        self.is_lasting = is_lasting
        self.connection: PeerConnection | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.since_us: int | None = None  # when the oldest of what it holds back came
        self.is_handing_on = False
        self.is_going_on = False  # whether what it holds back is about to be handed on
        self.bytes_in = self.bytes_out = self.connections = 0

    @property
    def is_kept(self) -> bool:
        """Whether it is there, or somebody sees to it; else it is one that was opened and ended."""
        is_dialled = self.dialling is not None and not self.dialling.done()
        return self.is_lasting or is_dialled or self.session.state is not State.IDLE


class PeerLinks:
    """All links of one node; those to its neighbours keep what they cannot send in `spools`."""

    def __init__(
        self, node: Node, codec: Codec, settings: PeerSettings, spools: Spools | None = None
    ) -> None:
        self._node = node
        self._codec = codec
        self._settings = settings
        self._spools = spools
        self._links: dict[BrokerId, _Link] = {}
        self._by_connection: dict[PeerConnection, _Link] = {}
        self._strangers: set[PeerConnection] = set()
        self._to_flush: dict[_Link, None] = {}
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._rounds = Rounds(TICK_S)
        self._is_stopping = False
        # Of sessions, whichever link they are of: one that was opened and ended may come again.
        self._numbers = count(1)
        # Where connections go that are no links.
        self.couriers: Door | None = None
        # Only the pauses between attempts: no two brokers come back in step.
        self._random = Random()
        node.links = self
        node.at_flush(Phase.LINKS, self.flush)

    # --- starting and stopping ----------------------------------------------------------------

    async def start(self, listen: Address) -> Address:
        """Listen, connect to the neighbours; where it listens."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: PeerConnection(self, is_dialled=False),
            listen.host,
            listen.port,
            ssl=self._settings.tls.incoming if self._settings.tls else None,
        )
        port = self._server.sockets[0].getsockname()[1]
        for neighbour in self._settings.neighbours:
            link = self._add(neighbour, is_lasting=True)
            if self._spools is not None:
                self._spools.expect(link.session)
            if self._node.id < neighbour:
                self._dial(neighbour, link, self._settings.addresses[neighbour])
        self._ticking = loop.call_later(TICK_S, self._tick)
        return Address(listen.host, port)

    async def stop(self) -> None:
        """Write what can be written, and close everything."""
        self._is_stopping = True
        if self._ticking is not None:
            self._ticking.cancel()
        self.flush()
        tasks = [link.dialling for link in self._links.values() if link.dialling is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in [*self._by_connection, *self._strangers]:
            connection.close()
        if self._server is not None:
            self._server.close()

    async def drained(self) -> None:
        """Return when every neighbour that is there has taken all that was sent to it."""
        while any(
            link.session.state is State.UP and link.session.buffered_bytes
            for link in self._links.values()
        ):
            await asyncio.sleep(0.01)

    # --- the node's side ----------------------------------------------------------------------

    def send(self, neighbour: BrokerId, message: Message, custody: Custody | None = None) -> None:
        link = self._links.get(neighbour)
        if link is None:
            return  # a broker may still send while it learns that a link is gone
        self._to_flush[link] = None
        if not link.session.send(message, custody):
            _log.error("link given up, too much waits", extra={"neighbour": neighbour})
            self.close(neighbour)
        elif link.session.is_full:
            self._node.hold(True)

    def open(self, neighbour: BrokerId, address: str) -> None:
        link = self._links.get(neighbour)
        if neighbour == self._node.id or (link is not None and link.is_kept):
            return
        if self._is_stopping:
            return  # it would go on beside the broker that takes this one's place
        place = self._settings.addresses.get(neighbour)
        if place is None:
            try:
                place = read_address(address)
            except ValueError:
                self._node.bring(LinkChanged(neighbour, LinkState.FAILED))
                return
        if link is None:
            link = self._add(neighbour, is_lasting=False)
        self._dial(neighbour, link, place)

    def ready(self, neighbour: BrokerId) -> None:
        if self._spools is not None:
            self._spools.heard(neighbour)
        link = self._links.get(neighbour)
        if link is not None:
            link.session.open_gate()
            self._to_flush[link] = None

    def close(self, neighbour: BrokerId) -> None:
        link = self._links.get(neighbour)
        if link is not None:
            connection = link.connection
            self._changed(link, link.session.give_up())
            if connection is not None:
                connection.abort()
            self._room_may_have_come()

    def delays_us(self) -> dict[BrokerId, int]:
        found = {name: link.session.delay_us for name, link in self._links.items()}
        return {name: delay_us for name, delay_us in found.items() if delay_us is not None}

    def flush(self) -> None:
        """One write for each link that has something to say."""
        links, self._to_flush = self._to_flush, {}
        for link in links:
            data = link.session.to_write()
            if data and link.connection is not None:
                link.bytes_out += len(data)
                link.connection.write(data)

    def status(self) -> list[dict[str, Any]]:
        """One row per link, for people and metrics."""
        return [
            {
                "neighbour": name,
                "state": link.session.state.value,
                "is_lasting": link.is_lasting,
                "is_full": link.session.is_full,
                "buffered_bytes": link.session.buffered_bytes,
                "spooled_bytes": self._spools.size(name) if self._spools is not None else 0,
                "delay_us": link.session.delay_us,
                "bytes_in": link.bytes_in,
                "bytes_out": link.bytes_out,
                "connections": link.connections,
            }
            for name, link in sorted(self._links.items())
        ]

    @property
    def is_connected(self) -> bool:
        """Whether every link of the network that starts or ends here is up."""
        links = self._links.values()
        return all(link.session.state is State.UP for link in links if link.is_lasting)

    # --- links --------------------------------------------------------------------------------

    def _changed(self, link: _Link, changes: list[LinkChanged]) -> None:
        """A link went down or came up: first that, then what its end left unsettled."""
        self._node.changed(changes)
        self._node.returned(link.session.neighbour, link.session.returned())

    def _add(self, neighbour: BrokerId, *, is_lasting: bool) -> _Link:
        settings, spools = self._settings, self._spools
        session = LinkSession(
            settings.network,
            self._node.id,
            neighbour,
            settings.incarnation,
            self._codec,
            settings.limits,
            is_graceful=not settings.open_to_all,
            spool=spools.of(neighbour) if spools is not None and is_lasting else None,
            numbers=self._numbers,
        )
        link = self._links[neighbour] = _Link(session, is_lasting=is_lasting)
        return link

    def _dial(self, neighbour: BrokerId, link: _Link, address: Address) -> None:
        link.dialling = asyncio.create_task(self._keep_dialling(neighbour, link, address))

    async def _keep_dialling(self, neighbour: BrokerId, link: _Link, address: Address) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            connection = None
            if link.connection is None:
                connection = await dial(self, address, self._settings.tls)
            if connection is not None:
                self._say_hello(connection, link)
                await connection.ended
                if connection.is_greeted:
                    pause_s = FIRST_PAUSE_S
            elif link.connection is not None:
                await link.connection.ended
            if not link.is_lasting and link.session.state is State.IDLE:
                # First gone, then told: who hears of it may open it again.
                del self._links[neighbour]
                self._node.bring(LinkChanged(neighbour, LinkState.FAILED))
                return
            await asyncio.sleep(pause_s * self._random.uniform(0.75, 1.25))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _say_hello(self, connection: PeerConnection, link: _Link) -> None:
        if link.connection is not None:
            connection.refuse("the other end was faster")
            return
        self._strangers.discard(connection)
        self._by_connection[connection] = link
        link.connection = connection
        connection.say(link.session.hello())

    def _tick(self) -> None:
        now_us = self._node.clock.now_us()
        missed_us = self._rounds.missed_us(now_us)
        for link in list(self._links.values()):
            link.session.excuse(missed_us)
            changes = link.session.tick(now_us)
            if changes and link.is_lasting and self._spools is not None:
                self._spools.gone(link.session.neighbour)
            self._changed(link, changes)
            self._to_flush[link] = None
            if link.session.is_silent(now_us) and link.connection is not None:
                _log.warning("silent link", extra={"neighbour": link.session.neighbour})
                link.connection.abort()
        if self._spools is not None:
            self._spools.stand_in()
        self._room_may_have_come()
        self._node.schedule_flush()
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    # --- connections --------------------------------------------------------------------------

    def opened(self, connection: PeerConnection) -> None:
        is_late = self._is_stopping or len(self._strangers) >= MAX_STRANGERS
        if not connection.is_dialled and is_late:
            connection.abort()
        else:
            self._strangers.add(connection)

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        now_us = self._node.clock.now_us()
        if hello.purpose is Purpose.COURIER and self.couriers is not None:
            self._strangers.discard(connection)
            connection.hand_to(self.couriers)
            self.couriers.greeted(connection, hello)
            return
        self._check(connection, hello)
        link = self._by_connection.get(connection)
        if link is None:
            link = self._links.get(hello.broker) or self._add(hello.broker, is_lasting=False)
            if link.session.is_overtaken(hello):
                raise WireError("a later connection was made")
            if link.connection is not None:
                if link.connection.is_dialled and self._node.id < hello.broker:
                    raise WireError("this end is connecting")
                self._drop(link.connection)
            self._strangers.discard(connection)
            self._by_connection[connection] = link
            link.connection = connection
            connection.say(link.session.hello())
        elif hello.broker != link.session.neighbour:
            raise WireError(f"this is {hello.broker}, not {link.session.neighbour}")
        try:
            changes = link.session.connected(hello, now_us)
        except OutOfStepError as error:
            self._changed(link, error.changes)
            raise
        link.connections += 1
        if link.is_lasting and self._spools is not None:
            self._spools.here(hello.broker)
        self._to_flush[link] = None
        self._changed(link, changes)
        self._room_may_have_come()
        self._node.schedule_flush()

    def _check(self, connection: PeerConnection, hello: Hello) -> None:
        settings = self._settings
        check_peer(connection, hello, self._node.id, settings)
        known = hello.broker in self._links or (
            settings.open_to_all and hello.broker in settings.addresses
        )
        if hello.purpose is not Purpose.LINK or not known:
            raise WireError(f"{self._node.id} has no link to broker {hello.broker!r}")
        check_certificate(connection, hello, settings)

    def received(self, connection: PeerConnection, data: bytes) -> None:
        link = self._by_connection.get(connection)
        if link is None:
            return  # replaced by a newer connection
        now_us = self._node.clock.now_us()
        link.bytes_in += len(data)
        link.session.receive(data, now_us)
        if link.since_us is None:
            link.since_us = now_us
        self._hand_on(link)
        self._room_may_have_come()
        self._to_flush[link] = None
        self._node.schedule_flush()

    def closed(self, connection: PeerConnection) -> None:
        self._strangers.discard(connection)
        self._drop(connection)

    def _drop(self, connection: PeerConnection) -> None:
        link = self._by_connection.pop(connection, None)
        if link is not None:
            link.connection = None
            link.since_us = None
            link.session.lost(self._node.clock.now_us())
            connection.abort()

    # --- holding back -------------------------------------------------------------------------

    def _hand_on(self, link: _Link) -> None:
        """Let the broker handle what came, on a tree unless another link is full."""
        others = () if self._settings.has_cycles else self._links.values()
        if any(other.session.is_full for other in others if other is not link):
            return
        if link.is_handing_on:
            return  # what comes up meanwhile asks again; links keep their order
        link.is_handing_on = True
        try:
            self._hand_on_for_a_turn(link)
        finally:
            link.is_handing_on = False

    def _hand_on_for_a_turn(self, link: _Link) -> None:
        session, clock = link.session, self._node.clock
        end_us = clock.now_us() + TURN_US
        while messages := session.take_run(MAX_BATCH):
            owe = partial(self._owe, link, session.handled - len(messages))
            self._node.receive(session.neighbour, messages, link.since_us, owe)
            if session.has_come and clock.now_us() >= end_us:
                self._go_on_soon(link)
                return
        link.since_us = None

    def _owe(self, link: _Link, first: int, start: int, end: int) -> Custody:
        return Custody(partial(self._settle, link, link.session.owe(first + start, first + end)))

    def _go_on_soon(self, link: _Link) -> None:
        """Hand on the rest when others have had their turn."""
        if not link.is_going_on:
            link.is_going_on = True
            asyncio.get_running_loop().call_soon(self._go_on, link)

    def _go_on(self, link: _Link) -> None:
        link.is_going_on = False
        if link.connection is not None and not self._is_stopping:
            self._hand_on(link)
            self._room_may_have_come()
            self._to_flush[link] = None
            self._node.schedule_flush()

    def _settle(self, link: _Link, debt: Debt) -> None:
        """All that came of some messages of a neighbour is settled."""
        if link.session.settle(debt):
            self._to_flush[link] = None
            self._node.schedule_flush()

    def _room_may_have_come(self) -> None:
        if not self._node.is_holding:
            return
        full = any(link.session.is_full for link in self._links.values())
        for link in list(self._links.values()):
            if link.connection is not None:
                self._hand_on(link)
                self._to_flush[link] = None
        if not full:
            self._node.hold(any(link.session.is_full for link in self._links.values()))


def check_peer(
    connection: PeerConnection, hello: Hello, broker: BrokerId, settings: PeerSettings
) -> None:
    """WireError unless the other end is another broker of this network, as far as is known."""
    if hello.network != settings.network:
        raise WireError(f"this is network {settings.network!r}, not {hello.network!r}")
    if hello.broker == broker:
        raise WireError(f"{broker} has no link to broker {hello.broker!r}")


def check_certificate(connection: PeerConnection, hello: Hello, settings: PeerSettings) -> None:
    """WireError unless the other end has proved its name, where that is asked for."""
    if settings.tls is not None and hello.broker not in connection.certified_names():
        raise WireError(f"the certificate is not made out to {hello.broker!r}")
