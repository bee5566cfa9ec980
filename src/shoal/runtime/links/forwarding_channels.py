"""Forwarding channels of a live broker: direct channels between a front end and the brokers its
clients publish at.

A front end dials the other broker's peer port, declares in its hello that this is no link, and
forwards its clients' requests; the other broker keeps a port for each of these clients and sends
back its machine's notices. Each direction has a channel of its own; the machines know of none.

Requests are not taken while the broker's links are full: then the channel fills, and the front end
stops reading from those clients.  A front end that is gone for good takes its clients with it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import count
from random import Random
from typing import Any, Protocol

from shoal.broker.ack_tracker import AckTracker, is_assured
from shoal.broker.effects import Deliver
from shoal.broker.links.controls import Hello, Purpose
from shoal.broker.links.inbox import Debt
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import LinkSessionState
from shoal.broker.messages import Advertise, Goodbye, Message, Ping, Pong
from shoal.broker.wire import Codec, WireError
from shoal.clients.forwarding_channel import (
    ForwardingChannel,
    ForwardingChannelEvent,
    ForwardingChannelLimits,
)
from shoal.clients.forwarding_channel_messages import (
    FORWARDING_CHANNELS,
    ClientNotice,
    ClientRequest,
)
from shoal.clients.messages import MigrationAdvertisement
from shoal.model import BrokerId, ClientId
from shoal.runtime.driving.cost_estimator import TURN_US
from shoal.runtime.driving.flushing import Phase
from shoal.runtime.driving.timing.pauses import TickRounds
from shoal.runtime.links.dialling import FIRST_PAUSE_S, LONGEST_PAUSE_S
from shoal.runtime.links.peer_connections import PeerConnection, dial
from shoal.runtime.links.peer_settings import PeerSettings, check_peer
from shoal.runtime.links.quarantine import Quarantine
from shoal.runtime.node import Node

TICK_S = 0.5

_CODEC = Codec(FORWARDING_CHANNELS)
_log = logging.getLogger(__name__)


class ChannelOwner(Protocol):
    """The front end of clients that publish at other brokers."""

    def noticed(self, broker: BrokerId, client: ClientId, message: Message) -> None:
        """A distant broker tells a client something."""

    def happened(self, event: ForwardingChannelEvent) -> None:
        """A distant broker does not answer, or has forgotten."""

    def found(self, broker: BrokerId) -> None:
        """A distant broker answers."""

    def filled(self, broker: BrokerId, full: bool) -> None:
        """The way to a distant broker is full, or is not any more."""

    def uses(self, broker: BrokerId) -> bool:
        """Return whether clients publish there."""


class _PeerChannel:
    """One end of a channel and, when there is one, its connection."""

    def __init__(self, session: LinkSession) -> None:
        self.session = session
        self.connection: PeerConnection | None = None
        self.quarantine = Quarantine()
        self.since_us: int | None = None  # arrival of the oldest held message
        self.is_handing_on = False
        self.is_going_on = False  # soon: others have their turn before

    def flush(self) -> None:
        data = self.session.to_write()
        if data and self.connection is not None:
            self.connection.write(data)


class _Outgoing(_PeerChannel):
    """The front end's end."""

    def __init__(self, forwarding_channel: ForwardingChannel) -> None:
        super().__init__(forwarding_channel.session)
        self.forwarding_channel = forwarding_channel
        self.dialling: asyncio.Task[None] | None = None
        self.was_full = False


class _Incoming(_PeerChannel):
    """The end of a broker where clients of the front end publish, and their ports."""

    def __init__(self, session: LinkSession, node: Node) -> None:
        super().__init__(session)
        self.ports: dict[ClientId, _ChannelPort] = {}
        self._node = node

    def tell(self, client: ClientId, message: Message) -> None:
        self.session.send(ClientNotice(client, message))  # type: ignore[arg-type]

    def ask(
        self, message: ClientRequest, since_us: int | None, ack_tracker: AckTracker | None = None
    ) -> None:
        """Send a request of a client of the front end, unless another front end speaks for it."""
        client, request, node = message.client, message.request, self._node
        if type(request) is Ping:
            # A front end may measure the distance to this broker without being the client's.
            self.tell(client, Pong(request.session))
            return
        holder, port = node.client(client), self.ports.get(client)
        if holder is None or isinstance(request, Advertise | MigrationAdvertisement):
            port = self.ports[client] = port or _ChannelPort(self, client)
            node.attach(client, port)
        elif holder is not port:
            if ack_tracker is not None:
                ack_tracker.settle()  # the waiting publisher is gone
            return
        node.request(client, request, since_us, ack_tracker)
        if isinstance(request, Goodbye):
            self._detach_client(client)

    def end(self) -> None:
        """The front end is gone: so are its clients."""
        for client in list(self.ports):
            self.ask(ClientRequest(client, Goodbye()), None)
            self._detach_client(client)

    def _detach_client(self, client: ClientId) -> None:
        port = self.ports.pop(client, None)
        if port is not None and self._node.client(client) is port:
            self._node.detach(client)


class _ChannelPort:
    """A client of a distant front end, as this broker's machine sees it."""

    def __init__(self, channel: _Incoming, client: ClientId) -> None:
        self._channel = channel
        self._client = client

    def deliver(self, delivery: Deliver) -> None:
        """Ignored: the front end itself subscribes for its clients."""

    def notify(self, message: Message) -> None:
        self._channel.tell(self._client, message)


class ForwardingChannels:
    """All forwarding channels of one node, to other brokers and from them."""

    def __init__(
        self, node: Node, settings: PeerSettings, limits: ForwardingChannelLimits | None = None
    ) -> None:
        self.owner: ChannelOwner | None = None
        self._is_leaving = False
        self._node = node
        self._settings = settings
        self._limits = limits or ForwardingChannelLimits()
        self._outgoing: dict[BrokerId, _Outgoing] = {}
        self._incoming: dict[BrokerId, _Incoming] = {}
        self._by_connection: dict[PeerConnection, _PeerChannel] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self._rounds = TickRounds(TICK_S)
        # Of sessions, whichever forwarding channel they are of: a broker's may end and come again.
        self._numbers = count(1)
        # Only the pauses between attempts: no two brokers come back in step.
        self._random = Random()
        node.at_flush(Phase.LINKS, self.flush)
        node.at_hold.append(self._hold_channels)

    def start(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick_channels)

    async def stop(self) -> None:
        """Write pending data, and close everything."""
        if self._ticking is not None:
            self._ticking.cancel()
        self.flush()
        tasks = [each.dialling for each in self._outgoing.values() if each.dialling is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._by_connection):
            connection.close()

    async def drained(self) -> None:
        """Return when every distant broker that is there has taken all that it was asked."""
        while any(
            each.session.state is LinkSessionState.UP and each.session.buffered_bytes
            for each in self._outgoing.values()
        ):
            await asyncio.sleep(0.01)

    def status(self) -> list[dict[str, Any]]:
        """One row per forwarding channel to another broker, for people and metrics."""
        return [
            {
                "broker": name,
                "state": each.session.state.value,
                "quarantined": each.quarantine.reason,
                "is_full": each.session.is_full,
                "buffered_bytes": each.session.buffered_bytes,
            }
            for name, each in sorted(self._outgoing.items())
        ]

    def leave(self) -> None:
        """Release publishers of other front ends, as if this broker had died."""
        self._is_leaving = True
        incoming, self._incoming = self._incoming, {}
        for each in incoming.values():
            if each.connection is not None:
                self._drop_channel(each.connection)
            each.end()

    def stay(self) -> None:
        """Clients of other brokers may publish here again."""
        self._is_leaving = False

    # --- the front end's side ---------------------------------------------------------------

    def ask(
        self,
        broker: BrokerId,
        client: ClientId,
        request: Message,
        ack_tracker: AckTracker | None = None,
    ) -> None:
        """A client asks a distant broker, behind all it has asked it before."""
        now_us = self._node.clock.now_us()
        outgoing = self._outgoing.get(broker) or self._open(broker, now_us)
        message = ClientRequest(client, request)  # type: ignore[arg-type]
        try:
            self._log_events(outgoing.forwarding_channel.ask(message, now_us, ack_tracker))
        except WireError as error:
            self._node.counts["unwritable"] += 1
            _log.error("a request is lost", extra={"to": broker, "problem": str(error)})
        self._check_room(outgoing)
        self._node.schedule_flush()

    def is_empty(self, broker: BrokerId) -> bool:
        """Return whether a distant broker has handled, and settled, all it was asked."""
        outgoing = self._outgoing.get(broker)
        return outgoing is None or not outgoing.session.buffered_bytes

    def _open(self, broker: BrokerId, now_us: int) -> _Outgoing:
        forwarding_channel = ForwardingChannel(self._session(broker), _CODEC, self._limits, now_us)
        outgoing = self._outgoing[broker] = _Outgoing(forwarding_channel)
        outgoing.dialling = asyncio.create_task(self._keep_dialling(broker, outgoing))
        return outgoing

    def _session(self, broker: BrokerId) -> LinkSession:
        return self._settings.session(
            self._node.id, broker, _CODEC, self._numbers, Purpose.FORWARDING_CHANNEL
        )

    async def _keep_dialling(self, broker: BrokerId, outgoing: _Outgoing) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            address = self._settings.addresses.get(broker)
            connection = await dial(self, address, self._settings.tls) if address else None
            if connection is not None:
                outgoing.connection = connection
                self._by_connection[connection] = outgoing
                connection.say(outgoing.session.hello())
                await connection.ended
                if connection.is_greeted:
                    pause_s = FIRST_PAUSE_S
            longer_s = max(pause_s, outgoing.quarantine.pause_s)
            await asyncio.sleep(longer_s * self._random.uniform(0.75, 1.25))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _log_events(self, events: list[ForwardingChannelEvent]) -> None:
        for event in events:
            _log.warning(
                "distant broker: %s", type(event).__name__.lower(), extra={"broker": event.broker}
            )
            if self.owner is not None:
                self.owner.happened(event)

    def _check_room(self, outgoing: _Outgoing) -> None:
        full = outgoing.forwarding_channel.is_full
        if full != outgoing.was_full:
            outgoing.was_full = full
            if self.owner is not None:
                self.owner.filled(outgoing.forwarding_channel.broker, full)

    # --- connections ------------------------------------------------------------------------

    def opened(self, connection: PeerConnection) -> None:
        """Those that come in are handed over when they have said hello."""

    def greeted(self, connection: PeerConnection, hello: Hello) -> None:
        now_us = self._node.clock.now_us()
        check_peer(connection, hello, self._node.id, self._settings)
        if (
            hello.purpose is not Purpose.FORWARDING_CHANNEL
            or hello.broker not in self._settings.addresses
        ):
            raise WireError(
                f"{self._node.id} takes no forwarding channels from broker {hello.broker!r}"
            )
        channel = self._by_connection.get(connection)
        if isinstance(channel, _Outgoing):
            if hello.broker != channel.forwarding_channel.broker:
                raise WireError(f"this is {hello.broker}, not {channel.forwarding_channel.broker}")
            channel.quarantine.on_link_up(now_us)
            self._log_events(channel.forwarding_channel.connected(hello, now_us))
            if self.owner is not None:
                self.owner.found(hello.broker)
        elif self._is_leaving:
            raise WireError(f"{self._node.id} leaves the network")
        else:
            self._take_in(connection, hello, now_us)
        self._node.schedule_flush()

    def _take_in(self, connection: PeerConnection, hello: Hello, now_us: int) -> None:
        incoming = self._incoming.get(hello.broker)
        if incoming is None:
            incoming = _Incoming(self._session(hello.broker), self._node)
            self._incoming[hello.broker] = incoming
        elif incoming.quarantine.refuses(now_us):
            raise WireError(f"in quarantine: {incoming.quarantine.reason}")
        elif incoming.session.is_overtaken(hello):
            raise WireError("a later connection was made")
        elif incoming.connection is not None:
            self._drop_channel(incoming.connection)
        self._by_connection[connection] = incoming
        incoming.connection = connection
        incoming.quarantine.on_link_up(now_us)
        connection.say(incoming.session.hello())
        if incoming.session.connected(hello, now_us):
            incoming.end()

    def received(self, connection: PeerConnection, data: bytes) -> None:
        channel = self._by_connection.get(connection)
        if channel is None:
            return  # replaced by a newer connection
        now_us = self._node.clock.now_us()
        try:
            channel.session.receive(data, now_us)
        finally:  # messages before the malformed one are handled, too
            if channel.since_us is None:
                channel.since_us = now_us
            if isinstance(channel, _Outgoing):
                self._check_room(channel)
            self._handle_received(channel)
            self._node.schedule_flush()

    def _handle_received(self, channel: _PeerChannel) -> None:
        """Have received messages handled, for a time slice; no requests of clients while links are
        full.
        """
        if channel.is_handing_on:
            return  # later messages ask again; channels keep their order
        channel.is_handing_on = True
        try:
            self._handle_slice(channel)
        finally:
            channel.is_handing_on = False

    def _handle_slice(self, channel: _PeerChannel) -> None:
        session, clock = channel.session, self._node.clock
        end_us = clock.now_us() + TURN_US
        while session.has_come:
            if isinstance(channel, _Incoming) and self._node.is_holding:
                return
            for message in session.take_run(1):
                self._handle_message(channel, message)
            if session.has_come and clock.now_us() >= end_us:
                self._resume_soon(channel)
                return
        channel.since_us = None

    def _handle_message(self, channel: _PeerChannel, message: Message) -> None:
        owner = self.owner
        if isinstance(channel, _Incoming) and isinstance(message, ClientRequest):
            session, ack_tracker = channel.session, None
            if is_assured(message.request):
                number = session.handled - 1
                ack_tracker = AckTracker(
                    partial(self._settle, session, session.owe(number, number))
                )
            channel.ask(message, channel.since_us, ack_tracker)
        elif isinstance(channel, _Outgoing) and isinstance(message, ClientNotice) and owner:
            owner.noticed(channel.forwarding_channel.broker, message.client, message.notice)

    def _resume_soon(self, channel: _PeerChannel) -> None:
        """Continue after other tasks."""
        if not channel.is_going_on:
            channel.is_going_on = True
            asyncio.get_running_loop().call_soon(self._resume, channel)

    def _resume(self, channel: _PeerChannel) -> None:
        channel.is_going_on = False
        if channel.connection is not None:
            self._handle_received(channel)
            self._node.schedule_flush()

    def _settle(self, session: LinkSession, debt: Debt) -> None:
        self._node.recording.settle(partial(session.settle, debt))
        self._node.schedule_flush()

    def _hold_channels(self, full: bool) -> None:
        if not full:
            for incoming in self._incoming.values():
                self._handle_received(incoming)

    def closed(self, connection: PeerConnection) -> None:
        self._drop_channel(connection)

    def _drop_channel(self, connection: PeerConnection) -> None:
        channel = self._by_connection.pop(connection, None)
        if channel is None:
            return
        channel.connection = None
        channel.since_us = None
        now_us = self._node.clock.now_us()
        refused = connection.refused if connection.is_greeted else ""
        if channel.quarantine.ended(now_us, refused):
            extra = {"broker": channel.session.neighbour, "why": refused}
            _log.error("distant broker in quarantine, refused again and again", extra=extra)
        if isinstance(channel, _Outgoing):
            channel.forwarding_channel.is_quarantined = bool(channel.quarantine.reason)
            channel.forwarding_channel.disconnected(now_us)
        else:
            channel.session.lost(now_us)
        connection.abort()

    # --- time -------------------------------------------------------------------------------

    def flush(self) -> None:
        for channel in (*self._outgoing.values(), *self._incoming.values()):
            channel.flush()

    def _tick_channels(self) -> None:
        now_us = self._node.clock.now_us()
        missed_us = self._rounds.missed_us(now_us)
        for outgoing in self._outgoing.values():
            outgoing.forwarding_channel.discount_pause(missed_us)
        for incoming in self._incoming.values():
            incoming.session.discount_pause(missed_us)
        for channel in (*self._outgoing.values(), *self._incoming.values()):
            if channel.session.is_silent(now_us) and channel.connection is not None:
                channel.connection.abort()
            if channel.quarantine.is_over(now_us):
                extra = {"broker": channel.session.neighbour}
                _log.warning("quarantine of a distant broker over", extra=extra)
        for broker, outgoing in list(self._outgoing.items()):
            self._log_events(outgoing.forwarding_channel.tick(now_us))
            self._check_room(outgoing)
            is_used = self.owner is not None and self.owner.uses(broker)
            if outgoing.forwarding_channel.is_idle(now_us) and not is_used:
                self._close(broker, outgoing)
        for broker, incoming in list(self._incoming.items()):
            if incoming.session.tick(now_us):
                incoming.end()
                del self._incoming[broker]
        self._node.schedule_flush()
        self.start()

    def _close(self, broker: BrokerId, outgoing: _Outgoing) -> None:
        del self._outgoing[broker]
        if outgoing.dialling is not None:
            outgoing.dialling.cancel()
        if outgoing.connection is not None:
            connection = outgoing.connection
            self._drop_channel(connection)
