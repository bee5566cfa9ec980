"""One network connection of one client: its states, and the order of its packets.

`receive` takes bytes and returns all effects that they caused, also on other connections. The
connection waits for a CONNECT (see `entering`), then for the decision whether its client may
connect, and then handles the client's packets (see `serving`) until the client or the broker ends
it. A violation of the standard ends only this connection, with a reason code.

| input | waiting | admission | connected | redirected | closed |
| --- | --- | --- | --- | --- | --- |
| packets | handled | held until the answer | handled, or held | acknowledgements are handled | |
| admission decided | | admitted → connected, or refused → closed | | | |
| next time slice | | | held packets are handled, up to the work of a time slice | | |
| redirect | | | dISCONNECT is sent, and reading goes on → redirected | | |
| disconnect by the broker | refused → closed | refused → closed | dISCONNECT is sent → closed | reading stops → closed | |
| network connection lost | left → closed | left → closed | left → closed, after held packets | reading stops → closed | |

While the broker owes a client too many acknowledgements, or publications must wait for another
reason, the connection holds the client's packets in their order; so it does with the rest when a
client has sent more than one time slice handles. PINGREQ and the acknowledgements of the client are
handled nevertheless.

A redirected client gets no more publications here. The broker still reads the client's
acknowledgements of earlier publications until the client closes, so that the next broker does not
send these again, and publications at QoS 0 that the client sent before it read the redirect. The
client sends all other packets again at the next broker.

Source: MQTT Version 5.0, sections 3 and 4; differences of 3.1.1 are noted in place.
"""  # noqa: E501

from __future__ import annotations

from typing import Any

from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.mqtt.access import ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.decoder import MAX_PACKET_BYTES
from shoal.mqtt.codec.errors import MqttError, protocol_error
from shoal.mqtt.codec.packets import Connect, Disconnect, Packet
from shoal.mqtt.codec.reason_codes import ELSEWHERE, FIRST_ERROR, ReasonCode
from shoal.mqtt.connection.broker_api import BrokerApi
from shoal.mqtt.connection.connecting import check_connect
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.connection.entering import ConnectionEntry
from shoal.mqtt.connection.serving import TURN, Serving
from shoal.mqtt.connection.session_writer import SessionWriter
from shoal.mqtt.connection.states import ConnectionInput, ConnectionState
from shoal.mqtt.connection.status import ConnectionStatus

# Ends of connections that are not reported to operators.
_ORDINARY_ENDS = (*ELSEWHERE, ReasonCode.SERVER_SHUTTING_DOWN, ReasonCode.KEEP_ALIVE_TIMEOUT)
# Publications that a resumed client gets in one call: hundreds of clients may resume at once.
FEW = 100


class Connection(ConnectionStatus):
    """One network connection; `touched` collects the connections that have data to write."""

    __slots__ = ("session_writer",)

    def __init__(
        self,
        broker_api: BrokerApi,
        touched: list[Connection],
        now_us: int,
        known: ClientCredentials,
    ) -> None:
        super().__init__(broker_api, now_us, known)
        self.session_writer = SessionWriter(self, touched)

    # --- the driver's side --------------------------------------------------------------------

    def receive(self, data: bytes, now_us: int, most: int = MAX_PACKET_BYTES) -> list[ClientEffect]:
        """Take bytes of the client; behind `most` bytes the rest may be `unread` (see
        `Decoder`)."""
        if self.state is ConnectionState.CLOSED:
            return []
        self.last_received_us = now_us
        packets = self._decoder.feed(data, most)
        statistics = self._broker_api.statistics
        size = len(data) - self._decoder.unread
        statistics.bytes_received += size
        statistics.packets_received += len(packets)
        unfinished = self._decoder.unfinished
        if unfinished or self._waits_for_end is not None:
            self._note_unfinished(unfinished, bool(packets), now_us)
        self._do(ConnectionInput.PACKETS, packets, now_us, size)
        return self._broker_api.take_effects()

    @property
    def unread(self) -> int:
        """The number of bytes, of those passed last, that the driver must pass again."""
        return self._decoder.unread

    def take_held(self, now_us: int) -> list[ClientEffect]:
        """Handle held packets, when the driver allows input again."""
        self._do(ConnectionInput.TURN, now_us)
        return self._broker_api.take_effects()

    def lost(self, now_us: int) -> list[ClientEffect]:
        """The network connection is lost, or the driver gave it up."""
        self._do(ConnectionInput.LOST, now_us)
        return self._broker_api.take_effects()

    def admitted(self, admission: ClientAdmission, now_us: int) -> list[ClientEffect]:
        """Take the late answer of `Access.admit`; ignored if the client is gone."""
        self._do(ConnectionInput.ADMITTED, admission, now_us)
        return self._broker_api.take_effects()

    def pause(self) -> None:
        """Suspend writes to a slow reader: publications wait in the session."""
        self.session_writer.pause(True)

    def resume(self, now_us: int) -> list[ClientEffect]:
        """Resume writes: nearly all bytes are written."""
        self.session_writer.pause(False)
        if self._serving is not None:
            self._serving.session.pump(now_us, FEW)
        return self._broker_api.take_effects()

    def took(self, now_us: int) -> None:
        """Note that the client has read some of the bytes."""
        if self._serving is not None:
            self._serving.session.took_us = now_us

    def redirect(
        self, server_reference: str, now_us: int, reason: str = "use another broker"
    ) -> list[ClientEffect]:
        """Like `send_redirect`, with the effects."""
        self.send_redirect(server_reference, reason, now_us)
        return self._broker_api.take_effects()

    # --- the broker's side --------------------------------------------------------------------

    def disconnect(
        self, reason_code: ReasonCode, reason: str, now_us: int, server_reference: str | None = None
    ) -> None:
        """End the connection from this side; MQTT 5 gets a DISCONNECT with the reason.

        `server_reference` is the server to use, with USE_ANOTHER_SERVER or SERVER_MOVED (section
        4.11).
        """
        self._do(ConnectionInput.DISCONNECT, reason_code, reason, now_us, server_reference)

    def send_redirect(self, server_reference: str, reason: str, now_us: int) -> None:
        """Redirect the client to another broker; its session follows it there.

        The session is kept as agreed, and for a minimum time; its will is not published meanwhile.
        """
        self._do(ConnectionInput.REDIRECT, server_reference, reason, now_us)

    def finish_entry(self, admission: ClientAdmission, now_us: int) -> None:
        """Admit the client: its session has come, or will not come."""
        if self._entering is not None:
            self._enter(self._entering, admission, now_us)
            self._handle_held(now_us)

    def grant(self, permissions: Permissions) -> None:
        """Install new permissions of the client."""
        if self._serving is not None:
            self._serving.grant(permissions)

    def expire(self, now_us: int) -> None:
        """End the connection: the client's credentials have expired."""
        self.disconnect(ReasonCode.NOT_AUTHORIZED, "the credentials have expired", now_us)

    def give_up(self, reason: str, now_us: int) -> None:
        """End the connection, and drop its incomplete packet."""
        self.disconnect(ReasonCode.QUOTA_EXCEEDED, reason, now_us)
        self._waits_for_end = None
        self._decoder.drop_unfinished()

    def hang_up(self, now_us: int) -> None:
        """Stop reading."""
        self.state = ConnectionState.CLOSED
        self._forget_unfinished()
        self.session_writer.touch()
        if self._serving is not None:
            self._broker_api.on_hang_up(self._serving.session, now_us)

    def check_silence(self, now_us: int) -> int | None:
        """End the connection if its client is silent for too long; else returns the next check."""
        if self.state is not ConnectionState.CONNECTED or self.terms is None:
            self.disconnect(ReasonCode.SERVER_UNAVAILABLE, "connecting took too long", now_us)
            return None
        deadline_us = self.last_received_us + self.terms.keep_alive_us
        if now_us < deadline_us:
            return deadline_us
        if self._held.packets or self._broker_api.is_held or not self.wants_reading:
            # Packets of the client may wait to be read or handled.
            return now_us + self.terms.keep_alive_us
        reason = f"silent for one and a half times {self.terms.keep_alive_s} s"
        self.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT, reason, now_us)
        return None

    def _do(self, word: ConnectionInput, *what: Any) -> None:
        do = LIFE[self.state, word].do
        if do is not None:
            do(self, *what)

    # --- ends ---------------------------------------------------------------------------------

    def _leave_session(
        self, now_us: int, *, with_will: bool = True, is_moving: bool = False
    ) -> None:
        """Left → closed."""
        if self.state is ConnectionState.CLOSED:
            return
        self._held.take_all()
        self._forget_unfinished()
        self.state = ConnectionState.CLOSED
        self.session_writer.touch()
        self._broker_api.left(self, self.session, now_us, with_will=with_will, is_moving=is_moving)

    def _leave_when_all_is_handled(self, now_us: int) -> None:
        """Left → closed, after held packets."""
        if self.holds:
            self._is_lost = True  # held packets still count
        else:
            self._leave_session(now_us)

    def _stop(self, code: ReasonCode, reason: str, now_us: int, server: str | None) -> None:
        """Reading stops → closed."""
        self.hang_up(now_us)

    def _hang_up(self, now_us: int) -> None:
        """Reading stops → closed."""
        self.hang_up(now_us)

    def _send_disconnect(
        self, code: ReasonCode, reason: str, now_us: int, server: str | None
    ) -> None:
        """DISCONNECT is sent → closed."""
        if code is ReasonCode.SESSION_TAKEN_OVER:
            self._broker_api.statistics.notices.note("taken over", self.party, "", reason)
        elif code not in _ORDINARY_ENDS:
            self._broker_api.statistics.notices.refuse(
                "closed", code, self.party, server or "", reason
            )
        self.session_writer.send_disconnect(code, reason, server)
        session = self.session
        # A session that ends now goes to the other broker only for the sake of its will.
        is_moving = code in ELSEWHERE and session is not None
        if is_moving and session is not None and not session.expiry_interval_s:
            is_moving = session.will is not None
        self._leave_session(now_us, is_moving=is_moving)

    def _send_away(self, server_reference: str, reason: str, now_us: int) -> None:
        """DISCONNECT is sent, and reading goes on → redirected."""
        session = self.session
        self._broker_api.statistics.notices.note("sent on", self.party, server_reference, reason)
        self.session_writer.send_disconnect(ReasonCode.USE_ANOTHER_SERVER, reason, server_reference)
        held, _ = self._held.take_all()
        self._leave_session(now_us, is_moving=True)
        if session is not None and self._broker_api.redirected(self, session, now_us):
            self.state = ConnectionState.REDIRECTED
            self._take_last_packets(held, now_us, 0)

    def _refuse_client(
        self, code: ReasonCode, reason: str, now_us: int, server: str | None
    ) -> None:
        """Refused → closed."""
        if code not in ELSEWHERE:
            self._broker_api.statistics.notices.refuse(
                "connect refused", code, self.party, "", reason
            )
        if self._decoder.version is not None:
            self.session_writer.refuse(self._decoder.version, code, reason, server)
        self._leave_session(now_us)

    # --- what comes in ------------------------------------------------------------------------

    def _note_unfinished(self, size: int, is_new: bool, now_us: int) -> None:
        """Count an incomplete packet; `is_new` if it may be another packet than before."""
        broker_api = self._broker_api
        of = broker_api.unfinished if self._serving is not None else broker_api.unfinished_strangers
        before, self._waits_for_end = self._waits_for_end, of if size else None
        if before is not None and before is not self._waits_for_end:
            before.forget(self)
        if size:
            of.has(self, size, is_new=is_new, now_us=now_us)

    def _forget_unfinished(self) -> None:
        if self._waits_for_end is not None:
            self._waits_for_end.forget(self)
            self._waits_for_end = None
        self._decoder.drop_unfinished()

    def _handle_or_hold(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Handled, or held."""
        if self._held.packets or self.must_wait:
            self._hold_packets(packets, size, now_us)
        else:
            self._handle_packets(packets, now_us, size)

    def _handle_packets(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Handled."""
        # The packets behind the work of one time slice are held; `size` is their bytes.
        try:
            first = 0
            if self._serving is None and packets:
                self._on_connect(packets[0], now_us)
                first = 1
                if self.state is not ConnectionState.CONNECTED or self.must_wait:
                    self._hold_rest(packets[first:], now_us)
                    return
            if self._serving is not None:
                taken = self._serving.take(packets, first, now_us)
                if taken and type(last := packets[taken - 1]) is Disconnect:
                    self._leave_session(
                        now_us, with_will=last.reason_code is not ReasonCode.SUCCESS
                    )
                if self.state is not ConnectionState.CONNECTED:
                    return
                if taken < len(packets):
                    rest = packets[taken:]
                    size = size * len(rest) // len(packets)
                    if self._held.packets:
                        self._held.put_back(rest, size)
                    else:
                        self._hold_packets(rest, size, now_us)
                    return
            failure = self._decoder.failure
            if (
                failure is not None
                and not self._held.packets
                and self.state is not ConnectionState.CLOSED
            ):
                raise failure
        except MqttError as error:
            self._broker_api.settle()
            self._broker_api.statistics.protocol_errors += 1
            self.disconnect(error.reason_code, str(error), now_us)

    def _hold_rest(self, rest: list[Packet], now_us: int) -> None:
        """Hold packets behind a CONNECT until its answer, or as long as all input must wait."""
        if self.is_entering:
            self._held.keep(rest)
        elif self.state is ConnectionState.CONNECTED:
            self._hold_packets(rest, 0, now_us)

    def _hold_packets(self, packets: list[Packet], size: int, now_us: int) -> None:
        """Hold these packets, except those that need not wait."""
        self._handle_packets(self._held.sift(packets, size), now_us, 0)

    def _take_held(self, now_us: int) -> None:
        """Held packets are handled, up to the work of a time slice."""
        held, size = self._held.take(TURN)
        self._handle_packets(held, now_us, size)
        if self._is_lost and not self._held.packets:
            self._leave_session(now_us)

    def _hold_until_the_answer(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Held until the answer."""
        self._held.keep(packets)
        if self._held.is_too_long:
            reason = "too many packets before the answer to CONNECT"
            self.disconnect(ReasonCode.QUOTA_EXCEEDED, reason, now_us)

    def _take_last_packets(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Acknowledgements are handled."""
        try:
            if self._serving is not None:
                self._serving.take_last_packets(packets, now_us)
            if self._decoder.failure is not None:
                raise self._decoder.failure
        except MqttError:
            self._broker_api.statistics.protocol_errors += 1
            self.hang_up(now_us)

    # --- being let in -------------------------------------------------------------------------

    def _on_connect(self, connect: Packet, now_us: int) -> None:
        if not isinstance(connect, Connect):
            raise protocol_error(f"only a server sends {type(connect).__name__}")
        self.state, self.connect_us = ConnectionState.ADMISSION, now_us
        entering = ConnectionEntry(self._broker_api, connect, self.credentials)
        # Agree on the terms first: a refusal, too, must respect the client's limits.
        self.terms = entering.terms
        self.session_writer.agree(connect.version, entering.terms)
        check_connect(connect, self._broker_api.limits)
        self._entering, self.credentials = entering, entering.credentials
        admission = self._broker_api.admit(self.credentials)
        if admission is not None:
            self._answer_connect(entering, admission, now_us)

    def _admit(self, admission: ClientAdmission, now_us: int) -> None:
        """Admitted → connected, or refused → closed."""
        if self._entering is not None:
            self._answer_connect(self._entering, admission, now_us)
            self._handle_held(now_us)

    def _answer_connect(
        self, entering: ConnectionEntry, admission: ClientAdmission, now_us: int
    ) -> None:
        answer = entering.judged(admission)
        if answer.reason_code >= FIRST_ERROR:
            reason, server = answer.reason or "", answer.server
            self.disconnect(answer.reason_code, reason, now_us, server)
        elif not self._broker_api.must_wait(self, entering.connect, answer, now_us):
            self._enter(entering, answer, now_us)

    def _enter(self, entering: ConnectionEntry, admission: ClientAdmission, now_us: int) -> None:
        guest = entering.let_in(admission, self.session_writer)
        self.credentials = entering.credentials
        session, present = self._broker_api.enter(guest, now_us)
        if admission.lasts_us is not None:
            self._broker_api.set_expiry(self, now_us + admission.lasts_us)
        if present and admission.checks_session:
            self._broker_api.check_subscriptions(session, admission.permissions, now_us)
        self.state, self._entering = ConnectionState.CONNECTED, None
        self._serving = Serving(
            self._broker_api,
            session,
            admission.permissions,
            self.session_writer,
            is_bridge=entering.terms.is_bridge,
        )
        if self.session_writer.send_answer(entering.connack(guest.client_id, present=present)):
            session.attach(self.session_writer, now_us)
        else:  # the client's maximum packet size is below that of a CONNACK
            self._leave_session(now_us, with_will=False)

    def _handle_held(self, now_us: int) -> None:
        """Handle the packets that came before the client was admitted."""
        if not self.is_entering:
            held, _ = self._held.take_all()
            if self.must_wait:
                self._hold_packets(held, 0, now_us)
            else:
                self._handle_packets(held, now_us, 0)


LIFE = LifeCycle(
    ConnectionState,
    ConnectionInput,
    {
        ConnectionInput.PACKETS: (
            does(Connection._handle_packets),
            does(Connection._hold_until_the_answer),
            does(Connection._handle_or_hold),
            does(Connection._take_last_packets),
            IGNORED,
        ),
        ConnectionInput.ADMITTED: (IGNORED, does(Connection._admit), IGNORED, IGNORED, IGNORED),
        ConnectionInput.TURN: (IGNORED, IGNORED, does(Connection._take_held), IGNORED, IGNORED),
        ConnectionInput.REDIRECT: (IGNORED, IGNORED, does(Connection._send_away), IGNORED, IGNORED),
        ConnectionInput.DISCONNECT: (
            does(Connection._refuse_client),
            does(Connection._refuse_client),
            does(Connection._send_disconnect),
            does(Connection._stop),
            IGNORED,
        ),
        ConnectionInput.LOST: (
            does(Connection._leave_session),
            does(Connection._leave_session),
            does(Connection._leave_when_all_is_handled),
            does(Connection._hang_up),
            IGNORED,
        ),
    },
)
