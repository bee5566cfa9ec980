"""What a client that was let in says, packet by packet, and what it is answered.

Source: MQTT Version 5.0, sections 3 and 4; what 3.1.1 does differently is said where it is done.
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
    Suback,
    Subscribe,
    Unsubscribe,
)
from shoal.mqtt.codec.reason_codes import FIRST_ERROR
from shoal.mqtt.connection.holding import PASSING
from shoal.mqtt.connection.house import House
from shoal.mqtt.connection.incoming import Incoming
from shoal.mqtt.connection.outlet import Outlet
from shoal.mqtt.sessions.asked import Granting, TakingBack
from shoal.mqtt.sessions.session import ClientSubscription, Session

# What one client has handled before others have their turn, in publications: some 30 ms.  What a
# SUBSCRIBE asks for may be done in several turns.
TURN = 2_000
# A SUBSCRIBE or UNSUBSCRIBE is as much work as so many publications; what it asks for comes to it.
REQUEST_WORK = 20
# And one that goes through a network, as so many more: others may be told of it, and it comes back.
TRAVELLING = 2

_PINGRESP = bytes((0xD0, 0))


class Serving:
    """One client's; `incoming` takes what it publishes, `is_bridge` as in `Terms`."""

    __slots__ = ("_asked", "_house", "_is_bridge", "_outlet", "_permissions", "incoming", "session")

    def __init__(
        self,
        house: House,
        session: Session,
        permissions: Permissions,
        outlet: Outlet,
        *,
        is_bridge: bool = False,
    ) -> None:
        self.session = session
        self.incoming = Incoming(house, session, permissions, outlet)
        self._house = house
        self._permissions = permissions
        self._outlet = outlet
        self._is_bridge = is_bridge
        # A request that is answered in part.
        self._asked: Granting | TakingBack | None = None

    def grant(self, permissions: Permissions) -> None:
        """From now on the client may do this; so for the rest of a SUBSCRIBE."""
        self._permissions = permissions
        if isinstance(self._asked, Granting):
            self._asked.permissions = permissions
        self.incoming.grant(permissions)

    def take(self, packets: list[Packet], first: int, now_us: int) -> int:
        """As `_take`; what its answers have made room for is sent behind them, together."""
        place = self._take(packets, first, now_us)
        if self.session.has_room:
            self.session.pump(now_us)
        return place

    def _take(self, packets: list[Packet], first: int, now_us: int) -> int:
        """Handle packets, from this one on, in their order; before which it stopped.

        It stops behind what ended the connection, as a DISCONNECT does, or when it is others' turn,
        as while a message is handed to many, or looked through by many: then it is to be handed the
        rest again.  MqttError for what breaks the standard.
        """
        has_gathered = False
        session, incoming = self.session, self.incoming
        holds_publications = session.holds_publications
        work, spreading = 0, self._house.spreading
        is_networked = self._house.door is not None
        travelling = TRAVELLING if is_networked else 0
        rates = self._house.rates
        purse = rates.purse(session, now_us) if rates.is_on else None
        # What comes alone need not wait for what comes with it.
        is_alone = len(packets) == 1
        for place, packet in enumerate(packets[first:] if first else packets, first):
            if (work >= TURN or spreading.is_on) and type(packet) not in PASSING:
                return place
            if type(packet) is Publish:
                if holds_publications:
                    return place
                if purse is not None and (debt_us := purse.debt_us(now_us)):
                    rates.let_wait(session, self._outlet.connection, debt_us, now_us)
                    return place
                if not packet.qos:
                    has_gathered = True
                elif has_gathered:
                    self._house.settle()
                    has_gathered = False
                    if spreading.is_on:
                        return place
                # Where there is a network its broker looks through texts; here long ones only.
                if not (
                    is_networked
                    or (packet.size < LONG and packet.topic)
                    or incoming.is_prepared(packet, now_us)
                ):
                    return place
                if purse is not None:
                    purse.pay(0 if incoming.is_beyond_rate(packet) else packet.size, now_us)
                work += travelling + incoming.on_publish(packet, now_us, is_alone)
                if is_networked and self._house.is_sharing:
                    return place + 1
                continue
            work += 1
            if has_gathered:
                self._house.settle()
                has_gathered = False
                if spreading.is_on and type(packet) not in PASSING:
                    return place
            if type(packet) is Puback:
                session.on_puback(packet.packet_id)
                continue
            work += self._handle(packet, TURN - work, now_us)
            if self._asked is not None and type(packet) not in PASSING:
                return place
            if type(packet) is Disconnect or self._outlet.connection.is_closed:
                return place + 1
        return len(packets)

    def _handle(self, packet: Packet, most: int, now_us: int) -> int:
        """Handle a packet that is no publication; how much work it was beyond one packet's.

        Of a SUBSCRIBE or UNSUBSCRIBE no more than about `most` is done at once.
        """
        if type(packet) is Subscribe or type(packet) is Unsubscribe:
            return REQUEST_WORK + self._ask(packet, most, now_us)
        handler = _HANDLERS.get(type(packet))
        if handler is None:
            raise protocol_error(f"only a server sends {type(packet).__name__}")
        handler(self, packet, now_us)
        return 0

    def take_last_words(self, packets: list[Packet], now_us: int) -> None:
        """Take what the client says about publications that it got, and what it says but once."""
        for packet in packets:
            if isinstance(packet, Puback | Pubrec | Pubcomp):
                _HANDLERS[type(packet)](self, packet, now_us)
            elif isinstance(packet, Publish) and not packet.qos:
                self.incoming.on_publish(packet, now_us)
        self._house.settle()

    def _ask(self, packet: Subscribe | Unsubscribe, most: int, now_us: int) -> int:
        """Do what it asks for, until it is answered or that was `most` work; how much it was."""
        subscribing = self._house.subscribing
        asked = self._asked
        if asked is None:
            if isinstance(packet, Subscribe):
                asked = Granting(
                    subscribing,
                    self.session,
                    self._permissions,
                    packet,
                    self._outlet.version,
                    is_bridge=self._is_bridge,
                )
            else:
                asked = TakingBack(subscribing, self.session, packet)
        work = asked.go_on(most)
        self._asked = None if asked.is_done else asked
        if not asked.is_done:
            return work
        if isinstance(asked, TakingBack):
            self._outlet.send_answer(asked.answer())
        else:
            self._notice_refusals(asked)
            self._answer_subscribe(asked.answer(), asked.wanting, now_us)
        return work

    def _notice_refusals(self, asked: Granting) -> None:
        notices, party = self._house.statistics.notices, self._outlet.connection.party
        for code, refusal in asked.refusals.items():
            notices.refuse(
                "subscribe refused",
                code,
                party,
                refusal.topic_filter,
                refusal.why,
                times=refusal.times,
            )

    def _answer_subscribe(
        self, suback: Suback, wanting: list[ClientSubscription], now_us: int
    ) -> None:
        def answer(now_us: int) -> None:
            if self._outlet.connection.is_closed:
                return
            self._outlet.send_answer(suback)
            if wanting:
                self._house.subscribing.send_retained(self.session, wanting, now_us)

        if any(code < FIRST_ERROR for code in suback.reason_codes):
            self._house.when_known(answer, now_us)
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
        self._outlet.send(_PINGRESP)

    def _on_disconnect(self, packet: Disconnect, now_us: int) -> None:
        session = self.session
        expiry_s = packet.properties.session_expiry_interval_s
        if expiry_s is not None:
            if expiry_s and not session.expiry_interval_s:
                raise protocol_error("a session that ends here cannot be kept [MQTT-3.14.2-2]")
            longest_s = self._house.limits.maximum_session_expiry_s
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
