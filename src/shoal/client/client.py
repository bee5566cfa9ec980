"""The Python client: publish, subscribe with content filters, follow redirects.

The client reconnects after a lost connection, to the broker it was last redirected to, and keeps
the guarantees of QoS 1 and 2 meanwhile. A subscription is an asynchronous iterator; an application
that reads it too slowly slows its broker down, which keeps the guarantees.

    async with Client("127.0.0.1:1883") as client:
        async with client.subscribe("flights", where="dep_delay > 30") as late:
            await client.publish("flights", b"...", attributes={"dep_delay": 41})
            async for message in late:
                print(message.topic, message.attributes)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from shoal.client.answers import Answers, fail
from shoal.client.attributes import every_text, since_text
from shoal.client.connection import ClientSocket
from shoal.client.dialling import CONNECT_TIMEOUT_S, CertificateError, Dialler, unresolved
from shoal.client.endpoint import Tls, read_endpoint, sent_to
from shoal.client.events import (
    Arrived,
    Connected,
    Done,
    Event,
    RefusedError,
    ServerMoved,
    SessionError,
    TakenOverError,
)
from shoal.client.inbox import Inbox
from shoal.client.publishing import check_qos, make_publish
from shoal.client.session import ClientSession, ClientState
from shoal.client.subscription import Message, Subscription
from shoal.client.taken import TakenMessages
from shoal.client.terms import VERSIONS, ClientError, Keep, Version, Will, make_connect
from shoal.language import parse
from shoal.language.conflation_rules import read_conflation
from shoal.model import Value
from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5
from shoal.mqtt.codec.packets import Publish, SubscriptionRequest
from shoal.mqtt.codec.requests import check_topic_filter

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
# The bound of consecutive redirects.
MAX_REDIRECTIONS = 8
# A connection that lasted so long resets the count.
SETTLED_S = 10.0

_log = logging.getLogger(__name__)


class Client:
    """One client; `async with` connects and disconnects.

    address       a broker's listener: host:port, or mqtts://, ws://, wss:// before it
    tls           with mqtts and wss: the trusted authority, and the client's own certificate;
                  ValueError names a file that cannot be used
    version       of MQTT; 3.1.1 has no content filters and no attributes but those in JSON
    client_id     its identifier; without one the broker assigns one
    advertise     filters in SQL, one of which each publication matches: the network then sends
                  only subscriptions that can concern this client, and may move its publisher;
                  FilterSyntaxError when one does not parse
    follow        follow redirects when its publisher moves; otherwise its edge broker forwards
                  everything. Over TLS and WebSocket it goes to listeners of the same kind, with
                  the same `tls`
    keep          its session outlives it; without, the broker ends it with the client
    will          its broker publishes it when the client's connection ends without a DISCONNECT
    """

    def __init__(
        self,
        address: str,
        client_id: str = "",
        *,
        advertise: Sequence[str] = (),
        follow: bool = True,
        username: str | None = None,
        password: str | None = None,
        tls: Tls | None = None,
        version: Version = "5",
        keep_alive_s: int = 30,
        keep: Keep | None = None,
        will: Will | None = None,
    ) -> None:
        endpoint = read_endpoint(address)
        self.client_id = client_id
        self.address = address
        self.redirections = 0
        self._dialler = Dialler(endpoint, tls or Tls())
        connect = make_connect(
            client_id,
            VERSIONS[version],
            username=username,
            password=password,
            advertise=advertise,
            follows=follow,
            keep_alive_s=keep_alive_s,
            keep=keep,
            will=will,
        )
        self._keep = keep
        self._taken = TakenMessages(self.acknowledge)
        # The number of connections, and of those without a present session; the last connection of
        # that kind.
        self.connections = self.forgotten = self._begun = 0
        # The first broker, and the next to try if none answers.
        self._first_address = self._next_address = address
        self._first = endpoint
        self._session = ClientSession(connect)
        if keep is not None:
            size = keep.maximum_packet_size
            self._session = ClientSession(connect, is_held=True, maximum_packet_size=size)
        self._keep_alive_s = keep_alive_s
        self._answers = Answers()
        self._inbox = Inbox()
        self._socket: ClientSocket | None = None
        self._running: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        # Whether a broker has ever accepted it; otherwise `_problem` has the reason.
        self._has_been_up = self._is_cut_off = False
        self._problem = ""
        self._ended: asyncio.Future[None] | None = None
        self._random = Random()  # only for pauses between attempts

    # --- connecting ---------------------------------------------------------------------------

    async def __aenter__(self) -> Client:
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._running = asyncio.create_task(self._run())
        up = asyncio.create_task(self._up.wait())
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await _first(up, self._ended)
        except TimeoutError:
            await self._stop()
            problem = self._problem or "is one listening there?"
            raise ClientError(f"{self.address}: no broker answers; {problem}") from None
        finally:
            up.cancel()
        if self._ended.done():
            await self._stop()
            self._ended.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._session.disconnect(is_kept=self._keep is not None)
        self.flush()
        await self._stop()

    async def _stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        self._inbox.close()
        self._fail(ClientError("the client is closed"))

    def _fail(self, error: ClientError) -> None:
        """Fail all open requests."""
        self._answers.fail(error)
        if self._ended is not None:
            fail(self._ended, error)
        self._inbox.wake()

    async def _run(self) -> None:
        pause_s, hops = FIRST_PAUSE_S, 0
        assert self._ended is not None
        while not self._ended.done():
            socket = await self._connect()
            if socket is not None:
                is_taken_over = False
                try:
                    await socket.ended
                except RefusedError as error:
                    self._fail(ClientError(f"{self.address}: {error}"))
                    return
                except (SessionError, OSError) as error:
                    self._problem = str(error)
                    is_taken_over = isinstance(error, TakenOverError)
                if is_taken_over:
                    # Two clients of one identifier would take it from each other without a pause.
                    _log.warning("%s: %s; a name is for one client", self.address, self._problem)
                elif socket.was_up:
                    pause_s = FIRST_PAUSE_S
                    if socket.elsewhere is None and not self._ended.done():
                        self._is_cut_off = True
                        _log.info("%s: the connection is lost; trying again", self.address)
                elif not self._has_been_up and socket.elsewhere is None:
                    await self._check_broker(socket)
                hops = 0 if socket.elsewhere is None or socket.age_s > SETTLED_S else hops + 1
                if socket.elsewhere:
                    if hops > MAX_REDIRECTIONS and not self._session.stay():
                        self._fail(
                            ClientError(f"redirected {hops} times, last to {socket.elsewhere}")
                        )
                        return
                    if hops > MAX_REDIRECTIONS:
                        _log.warning("redirected %d times, stays at %s", hops, socket.elsewhere)
                        hops = 0
                    self.address, self._next_address = socket.elsewhere, self._first_address
                    self.redirections += 1
                    continue
            else:
                # The broker of the redirect does not answer.
                self.address, self._next_address = self._next_address, self.address
            await asyncio.sleep(pause_s * self._random.uniform(0.75, 1.25))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _connect(self) -> ClientSocket | None:
        """Connect; None when no broker answers for now."""
        try:
            socket = await self._dialler.connect(self, self.address)
        except CertificateError as error:
            self._does_not_fit(error)
            return None
        except OSError as error:
            self._problem = unresolved(error) or self._problem
            return None
        self._socket = socket
        self._session.opened()
        self.flush()
        return socket

    async def _check_broker(self, socket: ClientSocket) -> None:
        """Find out why a connection ended before the broker had accepted it."""
        try:
            await self._dialler.check(socket, self.address)
        except CertificateError as error:
            self._does_not_fit(error)
        else:
            if not self._problem and self._session.version == MQTT_5:
                self._problem = "the listener closes the connection; does it speak MQTT 3.1.1 only?"

    def _does_not_fit(self, error: CertificateError) -> None:
        """Handle a certificate error: it ends a client that was never connected."""
        if not self._has_been_up:
            self._fail(ClientError(f"{self.address}: {error}"))
        elif str(error) != self._problem:
            _log.warning("%s: %s", self.address, error)
        self._problem = str(error)

    # --- for the application ------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: bytes = b"",
        *,
        qos: int = 1,
        retain: bool = False,
        attributes: Mapping[str, Value] | None = None,
        content_type: str | None = None,
        expiry_s: int | None = None,
        trace: str | None = None,
    ) -> None:
        """Publish; returns when the broker has acknowledged it (at QoS 0, when it is written).

        `attributes` are for content filters, besides the fields of a JSON payload; after `expiry_s`
        seconds it is not delivered any more. With `trace` brokers keep its story under this label
        (`shoal story`). While disconnected, QoS 1 and 2 publications are queued, and `await
        publish()` blocks; QoS 0 is dropped. ClientError when the broker refuses it, ValueError for
        an invalid topic, attributes or terms, TypeError for a payload that is not bytes and an
        invalid value.
        """
        packet = make_publish(
            topic,
            payload,
            qos,
            retain,
            version=self._session.version,
            attributes=attributes,
            content_type=content_type,
            expiry_s=expiry_s,
            trace=trace,
        )
        answer = await self.hand_in(packet)
        if answer is not None:
            await answer

    async def hand_in(self, packet: Publish) -> asyncio.Future[None] | None:
        """Send a packet, behind earlier ones; returns the future of its acknowledgement (QoS 0:
        None).

        Waits while too much is to be written.
        """
        self.check_open()
        if self._socket is not None:
            await self._socket.writable.wait()
        number = self._session.publish(packet)
        if number is None:
            self.flush()
            return None
        return self._asked(number)

    def _asked(self, number: int) -> asyncio.Future[None]:
        """The future of a request."""
        self.flush()
        answer = self._answers.to(number)
        for done in self._session.take_too_large():
            self._answers.came(*done)
        return answer

    @property
    def is_connected(self) -> bool:
        """Whether a broker has accepted the present connection."""
        return self._session.state is ClientState.UP

    def acknowledge(self, message: Message) -> None:
        """With `keep` and its `manual_ack`: acknowledge a message, which then does not come again.

        At QoS 1 it does if its connection is lost. A message for several subscriptions is
        acknowledged once; a repeated call, or one for QoS 0, is ignored.
        """
        oldest = self.connections if message.qos == 1 else self._begun
        if message.qos and message.connection >= oldest:
            self._session.acknowledge(message.packet.packet_id)
            self.flush()

    def subscribe(
        self,
        topic_filter: str,
        where: str | None = None,
        *,
        qos: int = 1,
        since: str | datetime | timedelta | None = None,
        no_local: bool = False,
        retain_as_published: bool = False,
        identifier: int | None = None,
        every: str | timedelta | None = None,
        changed: str | None = None,
    ) -> Subscription:
        """Subscribe to topics, and with `where` (SQL) to their content.

        With `since` (a time, `-10m`, or `earliest`; or how long ago) the past comes first, from the
        logs of all brokers. A session that goes on does not get it again.

        With `every` (`10s`, `10s BY sensor`, or a timedelta) at most one message of each topic, and
        of each value behind BY, comes in that time: the newest. With `changed` (`temp BY 0.5`, or
        several values between commas) those come whose value differs from that of the last one.

        FilterSyntaxError when it does not parse, ConflationRuleError for `every` and `changed`,
        TopicError for an invalid topic filter; `granted`
        or the first message tells whether the broker grants it. A subscription made before the
        client connects misses nothing that is queued in its session. The options are MQTT 5's;
        `identifier` is the subscription identifier, the same for every client that continues a
        session.
        """
        if self._ended is not None:
            self.check_open()
        check_topic_filter(topic_filter)
        check_qos(qos)
        if where is not None:
            parse(where)
            if self._session.version == MQTT_3_1_1:
                raise ValueError("MQTT 3.1.1 has no filters on content; use 5")
        past = None if since is None else since_text(since)
        if past is not None and self._session.version == MQTT_3_1_1:
            raise ValueError("MQTT 3.1.1 has no user property $from; use 5")
        pace = "" if every is None else every_text(every)
        if read_conflation(pace, changed or "") and self._session.version == MQTT_3_1_1:
            raise ValueError("MQTT 3.1.1 has no user property $every; use 5, or a topic query")
        request = SubscriptionRequest(
            topic_filter, qos, no_local, retain_as_published, 0 if past is None else 1
        )
        number = self._session.subscribe(
            request, where, identifier, past, every=pace or None, changed=changed
        )
        subscription = Subscription(self, number, self._asked(number))
        self._inbox.add(subscription)
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Unsubscribe; queued messages are dropped."""
        number = self.take_back(subscription)
        if number is not None and self._session.state is ClientState.UP:
            await self._answers.to(number)

    def take_back(self, subscription: Subscription) -> int | None:
        """Like `unsubscribe`, without waiting; returns the number of the request, if one was
        made."""
        unread = tuple(subscription.messages)
        if self._inbox.drop(subscription):
            if self._keep is not None:
                for message in unread:
                    self._taken.take(message)
            number = self._session.unsubscribe(subscription.number)
            self.flush()
            return number
        return None

    async def next_message(self, subscription: Subscription) -> Message:
        """The next message of a subscription."""
        while (message := self._inbox.take(subscription)) is None:
            self.check_open()
            if subscription.is_closed:
                raise ClientError("the subscription has ended")
            subscription.changed.clear()
            await subscription.changed.wait()
        if self._keep is not None and not self._keep.manual_ack:
            self._taken.take(message)
        if self._inbox.has_room and self._socket is not None:
            self._socket.hold_reading(False)
        return message

    def check_open(self) -> None:
        """Raise ClientError unless the client was connected, or will be."""
        if self._ended is None:
            raise ClientError("the client is not connected: use it in `async with client:`")
        if self._ended.done():
            self._ended.result()

    # --- for the connection -------------------------------------------------------------------

    def flush(self) -> None:
        """Write the session's bytes."""
        data = self._session.to_write()
        if data and self._socket is not None:
            self._socket.write(data)

    def received(self, socket: ClientSocket, data: bytes) -> None:
        """Handle bytes of the connection; SessionError when it must end."""
        events = self._session.receive(data)
        self.flush()  # before an event ends the connection: the broker needs the acknowledgements
        for event in events:
            self._handle_event(event, socket)

    def lost(self, socket: ClientSocket) -> None:
        if socket is self._socket:
            self._socket = None
            self._up.clear()
            self._session.lost()

    def ping(self) -> None:
        self._session.ping()
        self.flush()

    def _handle_event(self, event: Event, socket: ClientSocket) -> None:
        match event:
            case Connected(client_id, keep_alive_s, session_present):
                self.client_id = client_id
                self.connections += 1
                if not session_present:
                    self.forgotten += 1
                    self._begun = self.connections
                    self._taken.forget()
                self._up.set()
                self._has_been_up = True
                if self._is_cut_off:
                    self._is_cut_off = False
                    _log.info("%s: connected again", self.address)
                socket.was_up = True
                socket.keep_alive(keep_alive_s)
            case Arrived(packet, numbers):
                self._deliver(packet, numbers, socket)
            case Done(number, code, reason):
                self._answers.came(number, code, reason)
            case ServerMoved(server):
                socket.elsewhere = sent_to(server, self._first)
                socket.close()

    def _deliver(self, packet: Publish, numbers: tuple[int, ...], socket: ClientSocket) -> None:
        properties = packet.properties
        message = Message(
            packet.topic,
            packet.payload,
            packet.qos,
            packet.retain,
            dict(properties.user_properties),
            properties.content_type,
            packet,
            self.connections,
            len(numbers),
        )
        self._inbox.put(message, numbers)
        if not numbers and self._keep is not None:
            self.acknowledge(message)  # of a subscription of an earlier client
        if self._inbox.is_full:
            socket.hold_reading(True)


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of these is done."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
