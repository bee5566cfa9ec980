"""Handles the packets of an admitted client, and answers them.

Source: MQTT Version 5.0, sections 3 and 4; differences of 3.1.1 are noted in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.matching.long_texts import LONG
from shoal.mqtt.access import Permissions
from shoal.mqtt.codec.errors import protocol_error
from shoal.mqtt.codec.packets import (
    Auth,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
)
from shoal.mqtt.codec.reason_codes import FIRST_ERROR
from shoal.mqtt.connection.broker_api import BrokerApi
from shoal.mqtt.connection.holding import PASSING
from shoal.mqtt.connection.incoming import Incoming
from shoal.mqtt.connection.session_writer import SessionWriter
from shoal.mqtt.sessions.request_slices import SubscribeGranting, UnsubscribeHandling
from shoal.mqtt.sessions.session import Session

# The work of one client in one time slice, in publications: some 30 ms. A SUBSCRIBE may take
# several time slices.
TURN = 2_000
# The work of a SUBSCRIBE or UNSUBSCRIBE, in publications, without the work of its topic filters.
REQUEST_WORK = 20
# The additional work of a publication that travels the network and comes back.
TRAVELLING = 2

_PINGRESP = bytes((0xD0, 0))


class Serving:
    """The packets of one client; `incoming` handles its publications."""

    __slots__ = (
        "_asked",
        "_broker_api",
        "_is_bridge",
        "_permissions",
        "_session_writer",
        "incoming",
        "session",
    )

    def __init__(
        self,
        broker_api: BrokerApi,
        session: Session,
        permissions: Permissions,
        session_writer: SessionWriter,
        *,
        is_bridge: bool = False,
    ) -> None:
        self.session = session
        self.incoming = Incoming(broker_api, session, permissions, session_writer)
        self._broker_api = broker_api
        self._permissions = permissions
        self._session_writer = session_writer
        self._is_bridge = is_bridge
        # A request that is answered in part.
        self._asked: SubscribeGranting | UnsubscribeHandling | None = None

    def grant(self, permissions: Permissions) -> None:
        """Install new permissions, also for the rest of a SUBSCRIBE."""
        self._permissions = permissions
        if isinstance(self._asked, SubscribeGranting):
            self._asked.permissions = permissions
        self.incoming.grant(permissions)

    def take(self, packets: list[Packet], first: int, now_us: int) -> int:
        """Like `_take_packets`; then send publications for which acknowledgements made room."""
        place = self._take_packets(packets, first, now_us)
        if self.session.has_room:
            self.session.pump(now_us)
        return place

    def _take_packets(self, packets: list[Packet], first: int, now_us: int) -> int:
        """Handle packets from `first` on, in order; returns the position at which it stopped.

        It stops behind a packet that ended the connection, such as DISCONNECT; at the end of the
        time slice; and while a sliced fan-out runs. The caller then passes the rest again.
        MqttError for a violation of the standard.
        """
        has_gathered = False
        session, incoming = self.session, self.incoming
        holds_publications = session.holds_publications
        work, spreading = 0, self._broker_api.spreading
        is_networked = self._broker_api.front_end is not None
        travelling = TRAVELLING if is_networked else 0
        rates = self._broker_api.rates
        purse = rates.purse(session, now_us) if rates.is_on else None
        # A single packet need not wait for a batch.
        is_alone = len(packets) == 1
        for place, packet in enumerate(packets[first:] if first else packets, first):
            if (work >= TURN or spreading.is_on) and type(packet) not in PASSING:
                return place
            if type(packet) is Publish:
                if holds_publications:
                    return place
                if purse is not None and (debt_us := purse.debt_us(now_us)):
                    rates.let_wait(session, self._session_writer.connection, debt_us, now_us)
                    return place
                if not packet.qos:
                    has_gathered = True
                elif has_gathered:
                    self._broker_api.settle()
                    has_gathered = False
                    if spreading.is_on:
                        return place
                # In a network its broker matches texts; without one, long texts are matched here in
                # slices.
                if not (
                    is_networked
                    or (packet.size < LONG and packet.topic)
                    or incoming.is_prepared(packet, now_us)
                ):
                    return place
                if purse is not None:
                    purse.pay(0 if incoming.is_beyond_rate(packet) else packet.size, now_us)
                work += travelling + incoming.on_publish(packet, now_us, is_alone)
                if is_networked and self._broker_api.is_sharing:
                    return place + 1
                continue
            work += 1
            if has_gathered:
                self._broker_api.settle()
                has_gathered = False
                if spreading.is_on and type(packet) not in PASSING:
                    return place
            if type(packet) is Puback:
                session.on_puback(packet.packet_id)
                continue
            work += self._handle_other_packet(packet, TURN - work, now_us)
            if self._asked is not None and type(packet) not in PASSING:
                return place
            if type(packet) is Disconnect or self._session_writer.connection.is_closed:
                return place + 1
        return len(packets)

    def _handle_other_packet(self, packet: Packet, most: int, now_us: int) -> int:
        """Handle a packet that is no publication; returns its work beyond that of one packet.

        Of a SUBSCRIBE or UNSUBSCRIBE about `most` work is done at once.
        """
        if type(packet) is Subscribe or type(packet) is Unsubscribe:
            return REQUEST_WORK + self._serve_request(packet, most, now_us)
        handler = _HANDLERS.get(type(packet))
        if handler is None:
            raise protocol_error(f"only a server sends {type(packet).__name__}")
        handler(self, packet, now_us)
        return 0

    def take_last_packets(self, packets: list[Packet], now_us: int) -> None:
        """Handle the acknowledgements and QoS 0 publications of a redirected client."""
        for packet in packets:
            if isinstance(packet, Puback | Pubrec | Pubcomp):
                _HANDLERS[type(packet)](self, packet, now_us)
            elif isinstance(packet, Publish) and not packet.qos:
                self.incoming.on_publish(packet, now_us)
        self._broker_api.settle()

    def _serve_request(self, packet: Subscribe | Unsubscribe, most: int, now_us: int) -> int:
        """Handle a request until it is complete or `most` work is done; returns the work."""
        subscribing = self._broker_api.subscribing
        asked = self._asked
        if asked is None:
            if isinstance(packet, Subscribe):
                asked = SubscribeGranting(
                    subscribing,
                    self.session,
                    self._permissions,
                    packet,
                    self._session_writer.version,
                    now_us,
                    is_bridge=self._is_bridge,
                )
            else:
                asked = UnsubscribeHandling(subscribing, self.session, packet)
        work = asked.run_slice(most)
        self._asked = None if asked.is_done else asked
        if not asked.is_done:
            return work
        if isinstance(asked, UnsubscribeHandling):
            self._session_writer.send_answer(asked.answer())
        else:
            self._notice_refusals(asked)
            self._answer_subscribe(asked, now_us)
        return work

    def _notice_refusals(self, asked: SubscribeGranting) -> None:
        notices, party = self._broker_api.statistics.notices, self._session_writer.connection.party
        for code, refusal in asked.refusals.items():
            notices.refuse(
                "subscribe refused",
                code,
                party,
                refusal.topic_filter,
                refusal.why,
                times=refusal.times,
            )

    def _answer_subscribe(self, asked: SubscribeGranting, now_us: int) -> None:
        suback, subscribing = asked.answer(), self._broker_api.subscribing

        def answer(now_us: int) -> None:
            if self._session_writer.connection.is_closed:
                return
            self._session_writer.send_answer(suback)
            if asked.wanting:
                subscribing.send_retained(self.session, asked.wanting, now_us)
            for subscription in asked.pasts:
                subscribing.begin_past(subscription, now_us)

        if any(code < FIRST_ERROR for code in suback.reason_codes):
            self._broker_api.when_known(answer, now_us)
        else:
            answer(now_us)

    def _on_puback(self, packet: Puback, now_us: int) -> None:
        self.session.on_puback(packet.packet_id)

    def _on_pubrec(self, packet: Pubrec, now_us: int) -> None:
        self.session.on_pubrec(packet.packet_id, packet.reason_code)

    def _on_pubrel(self, packet: Pubrel, now_us: int) -> None:
        self.incoming.on_pubrel(packet)

    def _on_pubcomp(self, packet: Pubcomp, now_us: int) -> None:
        self.session.on_pubcomp(packet.packet_id)

    def _on_pingreq(self, packet: Pingreq, now_us: int) -> None:
        self._session_writer.send(_PINGRESP)

    def _on_disconnect(self, packet: Disconnect, now_us: int) -> None:
        session = self.session
        expiry_s = packet.properties.session_expiry_interval_s
        if expiry_s is not None:
            if expiry_s and not session.expiry_interval_s:
                raise protocol_error("a session that ends here cannot be kept [MQTT-3.14.2-2]")
            longest_s = self._broker_api.limits.maximum_session_expiry_s
            session.expiry_interval_s = min(expiry_s, longest_s)

    def _on_auth(self, packet: Auth, now_us: int) -> None:
        raise protocol_error("AUTH, but CONNECT named no authentication method [MQTT-4.12.0-6]")


_HANDLERS: dict[type[Packet], Callable[[Serving, Any, int], None]] = {
    Puback: Serving._on_puback,
    Pubrec: Serving._on_pubrec,
    Pubrel: Serving._on_pubrel,
    Pubcomp: Serving._on_pubcomp,
    Pingreq: Serving._on_pingreq,
    Disconnect: Serving._on_disconnect,
    Auth: Serving._on_auth,
}
