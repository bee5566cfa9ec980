"""A live broker's links: dialling with retries, and admission of neighbours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import count
from typing import Any

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Departed, LinkChanged, LinkState
from shoal.broker.links.controls import BrokerLocation, Hello, KnownBrokers, Purpose
from shoal.broker.links.states import LinkError, OutOfStepError
from shoal.broker.messages import Message
from shoal.broker.wire import Codec, WireError
from shoal.ledger import Ledger
from shoal.model import BrokerId
from shoal.runtime.addresses import Address
from shoal.runtime.binding import BoundAddress
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.driving.timing.pauses import TickRounds
from shoal.runtime.links.connected import ConnectedPeers
from shoal.runtime.links.dialling import Dialling
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.joining import check_joiner, take_up
from shoal.runtime.links.link_scheduler import LinkScheduler, PeerLink
from shoal.runtime.links.peer_connections import ConnectionHandler, PeerConnection, listen_for_peers
from shoal.runtime.links.peer_settings import PeerSettings, check_peer
from shoal.runtime.links.probing import probe
from shoal.runtime.links.table import LinkTable
from shoal.runtime.node import Node
from shoal.runtime.storage.overlay_file import OverlayFile
from shoal.runtime.storage.spool_files import Spools
from shoal.runtime.tls.listener import Listener

TICK_S = 1.0
# A broker that waits for the other end to connect for so long connects itself.
ASK_US = 3_000_000
# If either end was declared dead, a link ends after this time: a change that replaces it has been
# made or aborted by then.
DEAD_US = 8_000_000

_log = logging.getLogger(__name__)


class PeerLinks:
    """All links of one node; messages that lasting links cannot send are in `spools`.

    `overlay` has which links there are beside those of the settings, and which have ended;
    `directory` where brokers are, if that changes.
    """

    def __init__(
        self,
        node: Node,
        codec: Codec,
        settings: PeerSettings,
        spools: Spools | None = None,
        overlay: OverlayFile | None = None,
        directory: Directory | None = None,
    ) -> None:
        self.overlay = overlay or OverlayFile()
        self.directory = directory
        self._node = node
        self._codec = codec
        self._settings = settings
        self._spools = spools
        self._links = LinkTable()
        self._connected = ConnectedPeers()
        self._to_flush: dict[PeerLink, None] = {}
        self._server: Listener | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._rounds = TickRounds(TICK_S)
        self._is_stopping = False
        # Whether the last link has ended for good, and none has come up since. A broker may hear so
        # only now of the links by which it was a member. Links that do not last only fail, and its
        # system opens them again.
        self.have_ended = bool(settings.neighbours) or not self.overlay.is_founder
        # By the part of this broker that objects: why no new broker may join over it.
        self.no_joiners = {"network": settings.no_joiners}
        # Of sessions, whichever link they are of: one that was opened and ended may come again.
        self._numbers = count(1)
        # handler of connections that are no links
        self.forwarding_channels: ConnectionHandler | None = None
        told = self._send_hello, self._vanish, self._not_up
        self._dialling = Dialling(self, node.id, settings, *told)
        self._scheduler = LinkScheduler(
            node, self._links.values, self._flush_soon, has_cycles=settings.has_cycles
        )
        node.links = self
        node.at_flush(Phase.LINKS, self.flush)
        node.recording.at_change.append(self._report_storage)

    # --- starting and stopping ----------------------------------------------------------------

    async def start(self, listen: Address | BoundAddress) -> Address:
        """Listen, connect to the neighbours; where it listens."""
        self._server = await listen_for_peers(self, listen, self._settings.tls)
        port = self._server.sockets[0].getsockname()[1]
        for neighbour in self.overlay.neighbours(self._settings.neighbours):
            if neighbour not in self._links:  # the machine has not opened it as it started
                self.start_link(neighbour)
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick_links)
        return Address((listen.address if isinstance(listen, BoundAddress) else listen).host, port)

    def start_link(self, neighbour: BrokerId) -> None:
        """Bring a link up that was there before this broker started, or is to be."""
        row = self.overlay.links.get(neighbour)
        opened_us = 0 if row is None else row.opened_us
        link = self._add(neighbour, is_lasting=True, opened_us=opened_us)
        link.address = "" if row is None else row.address
        if self._spools is not None:
            self._spools.expect(link.session)
        if row is not None and row.ends:
            # Ends once its data on disk is deleted; nothing else is left of it.
            self._changed(link, link.session.end())
        self._dialling.see_to(link)

    async def stop(self) -> None:
        """Write pending data, and close everything."""
        self._is_stopping = self._scheduler.is_stopping = self._dialling.is_stopping = True
        if self._ticking is not None:
            self._ticking.cancel()
        self.flush()
        tasks = [link.dialling for link in self._links.values() if link.dialling is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connected.all:
            connection.close()
        if self._server is not None:
            self._server.close()

    async def drained(self) -> None:
        """Return when every neighbour that is there has taken all that was sent to it."""
        while not self._links.are_drained:
            await asyncio.sleep(0.01)

    # --- the node's side ----------------------------------------------------------------------

    def send(
        self, neighbour: BrokerId, message: Message, ack_tracker: AckTracker | None = None
    ) -> None:
        link = self._links.get(neighbour)
        if link is None:
            return  # a broker may still send while it learns that a link is gone
        self._to_flush[link] = None
        if not link.session.send(message, ack_tracker):
            _log.error("link given up, its queue is too long", extra={"neighbour": neighbour})
            self.reset(neighbour)
        elif link.session.is_full:
            self._node.hold(True)

    def open(self, neighbour: BrokerId, address: str = "", *, is_lasting: bool = False) -> None:
        link = self._links.get(neighbour)
        if neighbour == self._node.id or self._is_stopping:
            return  # when it stops it would go on beside the broker that takes its place
        now_us = self._node.clock.now_us()
        if link is not None and link.is_kept:
            if is_lasting and not link.is_lasting:
                self._make_lasting(link, self.overlay.stamp(neighbour, now_us), address)
            return
        if link is None and neighbour in self.overlay.neighbours(self._settings.neighbours):
            self.start_link(neighbour)  # one record per link, for whichever end asks first
            return
        if not self._dialling.knows(neighbour, address):
            self._node.bring(LinkChanged(neighbour, LinkState.FAILED, is_lasting))
            return
        if link is None or link.is_gone:
            opened_us = self.overlay.stamp(neighbour, now_us) if is_lasting else None
            link = self._add(neighbour, is_lasting=is_lasting, opened_us=opened_us)
            if opened_us is not None:
                self.overlay.opened(neighbour, opened_us, address)
        link.address = address
        self._dialling.dial(link)

    def _make_lasting(self, link: PeerLink, opened_us: int, address: str = "") -> None:
        """A link that is there outlives restarts from now on."""
        link.is_lasting = True
        link.session.last(opened_us)
        self.overlay.opened(link.session.neighbour, opened_us, address or link.address)
        if link.connection is None:
            # The dialling end may have restarted, and know nothing of it.
            self._dialling.see_to(link)

    def _agree(self, link: PeerLink, opened_us: int | None) -> None:
        """Make the link last here if it lasts at the other end since then."""
        neighbour, row = link.session.neighbour, self.overlay.links.get(link.session.neighbour)
        if not opened_us or link.is_gone or self.overlay.is_over(neighbour, opened_us):
            return
        if row is None or opened_us > row.opened_us:
            self._make_lasting(link, opened_us, "" if row is None else row.address)

    def end(self, neighbour: BrokerId) -> None:
        link = self._links.get(neighbour)
        if link is None and self._node.machine.is_leaving:
            # Killed behind the end of the link, the broker leaves from the state before it.
            self._node.bring(LinkChanged(neighbour, LinkState.ENDED))
        if link is not None and not link.is_gone:
            if link.is_lasting:
                self.overlay.ends(neighbour)
            if self.directory is not None and self._links.is_last(link):
                link.session.tell(self.directory.go())
            self._changed(link, link.session.end())
            self._dialling.see_to(link)
            self._flush_soon(link)

    def drop(self, neighbour: BrokerId) -> None:
        """A neighbour that is not connected is dead, as an operator says."""
        link = self._links.get(neighbour)
        if link is not None and not link.is_gone:
            ended = LinkChanged(neighbour, LinkState.ENDED)  # on purpose, whatever was in it
            self._changed(link, [ended for _ in link.session.vanish()])
            self._dialling.see_to(link)

    def recall(self, neighbour: BrokerId, over: BrokerId | None, *, moves: bool) -> None:
        link = self._links.get(neighbour)
        if link is not None:
            self._node.returned(neighbour, link.session.recall(over, moves=moves))
            self._flush_soon(link)

    def ready(self, neighbour: BrokerId) -> None:
        if self._spools is not None:
            self._spools.heard(neighbour)
        link = self._links.get(neighbour)
        if link is not None:
            link.session.open_gate()
            self._to_flush[link] = None

    def reset(self, neighbour: BrokerId) -> None:
        link = self._links.get(neighbour)
        if link is not None and not link.is_gone:
            connection = link.connection
            self._changed(link, link.session.give_up())
            if connection is not None:
                connection.abort()
            self._scheduler.resume_held()

    def learn(self, brokers: Iterable[BrokerLocation]) -> None:
        """Take another broker's knowledge of brokers; forward what is new."""
        if self.directory is not None:
            self.tell(self.directory.merge(brokers))

    def tell(self, news: list[BrokerLocation]) -> None:
        """Say to all neighbours where brokers are now."""
        for link in self._links.values() if news else ():
            link.session.tell(news)
            self._to_flush[link] = None

    def _report_storage(self, stores: bool) -> None:
        for link in self._links.values():
            link.session.store(stores)
            self._to_flush[link] = None

    def go_on(self) -> None:
        self._scheduler.handle_all()

    def delays_us(self) -> dict[BrokerId, int]:
        return self._links.delays_us

    def queues(self) -> dict[BrokerId, tuple[int, int]]:
        return self._links.queues

    def _flush_soon(self, link: PeerLink) -> None:
        self._to_flush[link] = None
        self._node.schedule_flush()

    def flush(self) -> None:
        """One write for each link that has something to say."""
        self._node.recording.tell()
        links, self._to_flush = self._to_flush, {}
        for link in links:
            link.write()

    def status(self) -> list[dict[str, Any]]:
        """One row per link, for people and metrics."""
        return self._links.status(self._spools, self._node.clock.now_us())

    def register(self, ledger: Ledger) -> None:
        """Register memory that holds messages for neighbours; spools are on disk."""
        ledger.register("messages for neighbours", lambda: self._links.measure(self._settings))

    @property
    def neighbours(self) -> list[BrokerId]:
        """The brokers that there are links to."""
        return self._links.neighbours

    @property
    def away(self) -> list[BrokerId]:
        """Return the neighbours with links that should be up, and are not."""
        return self._links.away

    @property
    def lost(self) -> list[BrokerId]:
        """Return those neighbours, and others whose link was up and is not."""
        return self._links.lost

    def is_connected(self, neighbour: BrokerId) -> bool:
        """Return whether there is a connection to a neighbour."""
        link = self._links.get(neighbour)
        return link is not None and link.connection is not None

    @property
    def is_waiting(self) -> bool:
        """Return whether one of them is not, and will be waited for."""
        lost_us = self._node.clock.now_us() - self._settings.limits.give_up_us
        return not self._links.are_up_but_for(lost_us)

    # --- links --------------------------------------------------------------------------------

    def _changed(self, link: PeerLink, changes: list[LinkChanged]) -> None:
        """A link came up, failed or ended: report that first, then its unsettled messages."""
        if link.is_gone and changes:
            if link.is_lasting:
                self.have_ended = self._links.is_last(link)
                self.overlay.has_ended(link.session.neighbour, link.session.opened_us or 0)
            if self._spools is not None:
                self._spools.forget(link.session.neighbour)
            self._flush_soon(link)
        self._node.changed(changes)
        self._node.returned(link.session.neighbour, link.session.returned())

    def _add(self, neighbour: BrokerId, *, is_lasting: bool, opened_us: int | None) -> PeerLink:
        settings, spools = self._settings, self._spools
        session = settings.session(
            self._node.id,
            neighbour,
            self._codec,
            self._numbers,
            is_graceful=settings.is_graceful,
            spool=None if spools is None else spools.spool_of(neighbour),
            opened_us=opened_us,
        )
        session.store(self._node.recording.stores)
        former = self._links.get(neighbour)
        if former is not None and former.connection is not None:
            self._drop_connection(former.connection)
        now_us = self._node.clock.now_us()
        link = self._links[neighbour] = PeerLink(session, is_lasting=is_lasting, now_us=now_us)
        return link

    def _not_up(self, link: PeerLink) -> None:
        """A link that was opened, and does not last, has ended or did not come up."""
        if self._links.get(link.session.neighbour) is link:
            self._forget_link(link)  # first, since the callback may open the link again
            failed = LinkChanged(link.session.neighbour, LinkState.FAILED, is_lasting=False)
            self._node.bring(failed)

    def _forget_link(self, link: PeerLink) -> None:
        """There is no link any more."""
        del self._links[link.session.neighbour]
        if self._spools is not None:
            self._spools.forget(link.session.neighbour)

    def _vanish(self, link: PeerLink) -> None:
        """Take the other end's word that the link has ended."""
        if self._links.get(link.session.neighbour) is link:
            _log.warning("the link has ended", extra={"neighbour": link.session.neighbour})
            self._note_end(link)

    def _note_end(self, link: PeerLink) -> None:
        """End a link that its other end has ended, or left: report `Departed` to the machine."""
        self._changed(link, link.session.vanish())
        neighbour = link.session.neighbour
        successor = "" if self.directory is None else self.directory.successor(neighbour)
        self._node.bring(Departed(neighbour, "" if successor == self._node.id else successor))

    def _send_hello(self, connection: PeerConnection, link: PeerLink) -> None:
        if link.connection is not None:
            connection.refuse("the other end was faster")
            return
        self._connected.greet(connection, link)

    def _tick_links(self) -> None:
        now_us = self._node.clock.now_us()
        missed_us = self._rounds.missed_us(now_us)
        for link in list(self._links.values()):
            link.session.discount_pause(missed_us)
            link.tick(now_us)
            changes = link.session.tick(now_us)
            if changes and self._spools is not None:
                self._spools.gone(link.session.neighbour)
            self._changed(link, changes)
            if self._is_left_over(link, now_us):
                neighbour = link.session.neighbour
                _log.warning("the other end has left", extra={"neighbour": neighbour})
                self._note_end(link)
            self._to_flush[link] = None
            if link.is_lasting and link.is_lost_since(now_us - ASK_US):
                self._dialling.dial(link)  # the other end should dial, and may have ended the link
            if link.session.is_silent(now_us) and link.connection is not None:
                link.connection.abort("silent")
            if link.is_over(now_us):
                self._forget_link(link)
        if self._spools is not None:
            self._spools.placeholder()
        self._scheduler.resume_held()
        self._node.schedule_flush()
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick_links)

    def _is_left_over(self, link: PeerLink, now_us: int) -> bool:
        """Return whether its other end has left the network, or is dead, without this end learning
        that the link ended.

        A leaving broker needs its links until it has handed everything over; if it is killed
        meanwhile it returns with its state, as if it had not begun to leave.
        """
        neighbour, directory = link.session.neighbour, self.directory
        if link.is_gone or link.lost_us is None or directory is None:
            return False
        if not directory.is_gone(neighbour):
            return False
        lost_for_us = now_us - link.lost_us
        if directory.successor(neighbour) or directory.was_declared_dead:
            return lost_for_us > DEAD_US
        awaited = self._spools is not None and self._spools.size(neighbour)
        return lost_for_us > self._settings.limits.give_up_us and not awaited

    # --- connections --------------------------------------------------------------------------

    def opened(self, connection: PeerConnection) -> None:
        is_late = self._is_stopping or self._connected.are_many
        if not connection.is_dialled and is_late:
            connection.abort()
        else:
            self._connected.opened(connection)

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        now_us = self._node.clock.now_us()
        if hello.purpose is Purpose.FORWARDING_CHANNEL and self.forwarding_channels is not None:
            self._connected.release(connection)
            connection.hand_to(self.forwarding_channels)
            self.forwarding_channels.greeted(connection, hello)
            return
        self._check_hello(connection, hello)
        if hello.purpose is Purpose.JOIN:
            link = self._links.get(hello.broker)
            is_connected = link is not None and link.connection is not None
            check_joiner(hello.broker, self._why_no_joiners, is_connected=is_connected)
        if hello.purpose in (Purpose.PROBE, Purpose.JOIN, Purpose.BROKERS):
            connection.say(probe(self._node.id, self._settings))
            if hello.purpose is Purpose.BROKERS:
                connection.say(KnownBrokers(tuple(self.directory or ())))
            connection.close()
            return
        if hello.purpose is not Purpose.LINK:
            raise WireError(f"{self._node.id} has no link to broker {hello.broker!r}")
        link = self._connected.link_of(connection)
        if link is None:
            link = self._links.get(hello.broker)
            if link is None or (link.is_gone and not link.session.knows(hello)):
                link = self._admit(hello)
            self._take_in(connection, link, hello)
        elif hello.broker != link.session.neighbour:
            raise WireError(f"this is {hello.broker}, not {link.session.neighbour}")
        try:
            changes = link.session.connected(hello, now_us)
        except OutOfStepError as error:
            self._changed(link, error.changes)
            raise
        link.on_link_up(hello, now_us)
        self.have_ended = False
        if self.directory is not None:
            link.session.tell(self.directory)
        self._agree(link, hello.opened_us)
        if not link.is_gone and self._spools is not None:
            self._spools.here(hello.broker)
        self._to_flush[link] = None
        self._changed(link, changes)
        self._scheduler.resume_held()
        self._node.schedule_flush()

    def _check_hello(self, connection: PeerConnection, hello: Hello) -> None:
        """WireError when there can be no link to the other end; it is shown at the one expected."""
        try:
            check_peer(connection, hello, self._node.id, self._settings)
        except WireError as error:
            link = self._links.get(hello.broker)
            if link is not None and link.connection is None:
                link.problem = str(error)
            raise

    def _take_in(self, connection: PeerConnection, link: PeerLink, hello: Hello) -> None:
        """A connection that the other end has made."""
        link.check(hello, self._node.clock.now_us())
        if link.session.is_overtaken(hello):
            raise WireError("a later connection was made")
        if link.connection is not None:
            if link.connection.is_dialled and self._node.id < hello.broker:
                raise WireError("this end is connecting")
            self._drop_connection(link.connection)
        self._connected.greet(connection, link)

    @property
    def _why_no_joiners(self) -> str:
        return next(filter(None, self.no_joiners.values()), "")

    def _admit(self, hello: Hello) -> PeerLink:
        """The link that a broker offers to which there is none; WireError if it is not taken up."""
        no_joiners = self._why_no_joiners
        opened_us = take_up(hello, self._node.id, self.overlay, self._settings, no_joiners)
        link = self._add(hello.broker, is_lasting=opened_us is not None, opened_us=opened_us)
        if opened_us is not None:
            self.overlay.opened(hello.broker, opened_us)
        return link

    def received(self, connection: PeerConnection, data: bytes) -> None:
        link = self._connected.link_of(connection)
        if link is None:
            return  # replaced by a newer connection
        now_us = self._node.clock.now_us()
        link.bytes_in += len(data)
        try:
            changes = link.session.receive(data, now_us)
        except LinkError as error:
            self._on_changes(link, error.changes, now_us)
            raise
        self._on_changes(link, changes, now_us)

    def _on_changes(self, link: PeerLink, changes: list[LinkChanged], now_us: int) -> None:
        """Handle the input of a link's session."""
        self._agree(link, link.session.opened_us)
        self.learn(link.session.take_places())
        link.since_us = link.since_us or now_us
        self._scheduler.handle_received(link)
        self._changed(link, changes)
        self._scheduler.resume_held()
        self._flush_soon(link)

    def closed(self, connection: PeerConnection) -> None:
        self._drop_connection(connection)

    def _drop_connection(self, connection: PeerConnection) -> None:
        link = self._connected.drop(connection)
        if link is not None:
            why = connection.problem or "another took its place"
            refused = connection.refused if connection.is_greeted else ""
            link.lost(self._node.clock.now_us(), why, refused)
            connection.abort()
            self._dialling.see_to(link)
