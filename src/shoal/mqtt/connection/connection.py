"""One network connection of one client: the order of its packets, and how it begins and ends.

Bytes go in by `receive`, and the effects of all that they caused come out, on other connections
too.  The connection waits for a CONNECT (see `entering`), then for the answer whether its client
may connect, and then handles what the client sends (see `serving`) until one of the two has had
enough.  What breaks the standard ends this connection with the reason code that says why, and no
other.

| input | waiting | admission | connected | redirected | closed |
| --- | --- | --- | --- | --- | --- |
| packets | handled | held until the answer | handled, or held | acknowledgements are taken | |
| may it connect | | let in → connected, or refused → closed | | | |
| others had their turn | | | what was held is handled, or as much of it as a turn may allow | | |
| sent elsewhere | | | told, and read on → redirected | | |
| the broker ends it | refused → closed | refused → closed | told why → closed | nothing more is taken → closed | |
| the network is gone | left → closed | left → closed | left → closed, once what was held is handled | nothing more is taken → closed | |

While a client is owed too many answers, or publications must wait for some other reason, what it
sends is held, in its order; so is the rest when it has sent more at once than others should wait
for.  But PINGREQ is answered, and what it says of publications that it got, or that were
acknowledged to it, is heard.

A client that is sent to another broker gets nothing more here, but what it says about publications
it got before counts, until it closes: so its next broker does not send them again.  What it
publishes at QoS 0 until it has read that is published; all else it sends again where it goes.

Source: MQTT Version 5.0, sections 3 and 4; what 3.1.1 does differently is said where it is done.
"""  # noqa: E501

from __future__ import annotations

from typing import Any

from shoal.broker.life_cycle import IGNORED, LifeCycle, does
from shoal.mqtt.access import Admission, Credentials, Permissions
from shoal.mqtt.codec.decoder import MAX_PACKET_BYTES
from shoal.mqtt.codec.errors import MqttError, protocol_error
from shoal.mqtt.codec.packets import Connect, Disconnect, Packet
from shoal.mqtt.codec.reason_codes import ELSEWHERE, FIRST_ERROR, ReasonCode
from shoal.mqtt.connection.connecting import check_connect
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.connection.entering import Entering
from shoal.mqtt.connection.house import House
from shoal.mqtt.connection.outlet import Outlet
from shoal.mqtt.connection.serving import TURN, Serving
from shoal.mqtt.connection.standing import Standing
from shoal.mqtt.connection.states import State, Word

# How connections end that nobody need know of.
_ORDINARY_ENDS = (*ELSEWHERE, ReasonCode.SERVER_SHUTTING_DOWN, ReasonCode.KEEP_ALIVE_TIMEOUT)
# What is sent at once to a client that reads again, as hundreds may.
FEW = 100


class Connection(Standing):
    """One network connection; `touched` collects those that have something to take."""

    __slots__ = ("outlet",)

    def __init__(
        self,
        house: House,
        touched: list[Connection],
        now_us: int,
        known: Credentials,
    ) -> None:
        super().__init__(house, now_us, known)
        self.outlet = Outlet(self, touched)

    # --- the driver's side --------------------------------------------------------------------

    def receive(self, data: bytes, now_us: int, most: int = MAX_PACKET_BYTES) -> list[ClientEffect]:
        """Bytes came from the client; behind so many the rest may be `unread` (see `Decoder`)."""
        if self.state is State.CLOSED:
            return []
        self.last_received_us = now_us
        packets = self._decoder.feed(data, most)
        statistics = self._house.statistics
        size = len(data) - self._decoder.unread
        statistics.bytes_received += size
        statistics.packets_received += len(packets)
        unfinished = self._decoder.unfinished
        if unfinished or self._waits_for_end is not None:
            self._note_unfinished(unfinished, bool(packets), now_us)
        self._do(Word.PACKETS, packets, now_us, size)
        return self._house.take_effects()

    @property
    def unread(self) -> int:
        """How many of the bytes that it was handed last are to be handed to it again."""
        return self._decoder.unread

    def take_held(self, now_us: int) -> list[ClientEffect]:
        """Take what was held, now that nothing must wait any more."""
        self._do(Word.TURN, now_us)
        return self._house.take_effects()

    def lost(self, now_us: int) -> list[ClientEffect]:
        """The network connection is gone, or the driver gave it up."""
        self._do(Word.LOST, now_us)
        return self._house.take_effects()

    def admitted(self, admission: Admission, now_us: int) -> list[ClientEffect]:
        """The answer that `Access.admit` still owed; dropped if the client is gone."""
        self._do(Word.ADMITTED, admission, now_us)
        return self._house.take_effects()

    def pause(self) -> None:
        """The client reads more slowly than it is written to; what can wait waits."""
        self.outlet.pause(True)

    def resume(self, now_us: int) -> list[ClientEffect]:
        """What was to be written is nearly all written."""
        self.outlet.pause(False)
        if self._serving is not None:
            self._serving.session.pump(now_us, FEW)
        return self._house.take_effects()

    def took(self, now_us: int) -> None:
        """Some of what was written has gone out to the client."""
        if self._serving is not None:
            self._serving.session.took_us = now_us

    def redirect(
        self, server_reference: str, now_us: int, reason: str = "another broker takes you in"
    ) -> list[ClientEffect]:
        """As `go_elsewhere`."""
        self.go_elsewhere(server_reference, reason, now_us)
        return self._house.take_effects()

    # --- the broker's side --------------------------------------------------------------------

    def disconnect(
        self, reason_code: ReasonCode, reason: str, now_us: int, server_reference: str | None = None
    ) -> None:
        """End the connection from this side, with a word to the client if it has one to hear.

        `server_reference` says where to go, with USE_ANOTHER_SERVER or SERVER_MOVED (section 4.11).
        """
        self._do(Word.DISCONNECT, reason_code, reason, now_us, server_reference)

    def go_elsewhere(self, server_reference: str, reason: str, now_us: int) -> None:
        """Send the client to another broker, for now; what it had here comes there.

        It is kept as agreed, and a while at least; its will is not published meanwhile.
        """
        self._do(Word.REDIRECT, server_reference, reason, now_us)

    def go_on(self, admission: Admission, now_us: int) -> None:
        """The client's session has come, or will not: let the client in."""
        if self._entering is not None:
            self._enter(self._entering, admission, now_us)
            self._handle_held(now_us)

    def grant(self, permissions: Permissions) -> None:
        """From now on the client may do this."""
        if self._serving is not None:
            self._serving.grant(permissions)

    def expire(self, now_us: int) -> None:
        """What the client was let in by has expired."""
        self.disconnect(ReasonCode.NOT_AUTHORIZED, "what let you in has expired", now_us)

    def give_up(self, reason: str, now_us: int) -> None:
        """Its packet, whose end has not come, has to go."""
        self.disconnect(ReasonCode.QUOTA_EXCEEDED, reason, now_us)
        self._waits_for_end = None
        self._decoder.let_go()

    def hang_up(self, now_us: int) -> None:
        """Nothing more is taken."""
        self.state = State.CLOSED
        self._forget_unfinished()
        self.outlet.touch()
        if self._serving is not None:
            self._house.hung_up(self._serving.session, now_us)

    def check_silence(self, now_us: int) -> int | None:
        """Ends the connection if its client was silent for too long; else when to look again."""
        if self.state is not State.CONNECTED or self.terms is None:
            self.disconnect(ReasonCode.SERVER_UNAVAILABLE, "connecting took too long", now_us)
            return None
        deadline_us = self.last_received_us + self.terms.keep_alive_us
        if now_us < deadline_us:
            return deadline_us
        if self._held.packets or self._house.is_held or not self.wants_reading:
            # What it said may be waiting to be read, or to be taken.
            return now_us + self.terms.keep_alive_us
        reason = f"silent for one and a half times {self.terms.keep_alive_s} s"
        self.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT, reason, now_us)
        return None

    def _do(self, word: Word, *what: Any) -> None:
        do = LIFE[self.state, word].do
        if do is not None:
            do(self, *what)

    # --- ends ---------------------------------------------------------------------------------

    def _leave(self, now_us: int, *, with_will: bool = True, is_moving: bool = False) -> None:
        """Left → closed."""
        if self.state is State.CLOSED:
            return
        self._held.let_go()
        self._forget_unfinished()
        self.state = State.CLOSED
        self.outlet.touch()
        self._house.left(self, self.session, now_us, with_will=with_will, is_moving=is_moving)

    def _leave_when_all_is_handled(self, now_us: int) -> None:
        """Left → closed, once what was held is handled."""
        if self.holds:
            self._is_lost = True  # what it said before still counts
        else:
            self._leave(now_us)

    def _stop(self, code: ReasonCode, reason: str, now_us: int, server: str | None) -> None:
        """Nothing more is taken → closed."""
        self.hang_up(now_us)

    def _hang_up(self, now_us: int) -> None:
        """Nothing more is taken → closed."""
        self.hang_up(now_us)

    def _tell(self, code: ReasonCode, reason: str, now_us: int, server: str | None) -> None:
        """Told why → closed."""
        if code is ReasonCode.SESSION_TAKEN_OVER:
            self._house.statistics.notices.note("taken over", self.party, "", reason)
        elif code not in _ORDINARY_ENDS:
            self._house.statistics.notices.refuse("closed", code, self.party, server or "", reason)
        self.outlet.say_goodbye(code, reason, server)
        session = self.session
        # A session that ends now is of use elsewhere only as a will that is not published.
        is_moving = code in ELSEWHERE and session is not None
        if is_moving and session is not None and not session.expiry_interval_s:
            is_moving = session.will is not None
        self._leave(now_us, is_moving=is_moving)

    def _send_away(self, server_reference: str, reason: str, now_us: int) -> None:
        """Told, and read on → redirected."""
        session = self.session
        self._house.statistics.notices.note("sent on", self.party, server_reference, reason)
        self.outlet.say_goodbye(ReasonCode.USE_ANOTHER_SERVER, reason, server_reference)
        held, _ = self._held.let_go()
        self._leave(now_us, is_moving=True)
        if session is not None and self._house.redirected(self, session, now_us):
            self.state = State.REDIRECTED
            self._take_last_words(held, now_us, 0)

    def _refuse(self, code: ReasonCode, reason: str, now_us: int, server: str | None) -> None:
        """Refused → closed."""
        if code not in ELSEWHERE:
            self._house.statistics.notices.refuse("connect refused", code, self.party, "", reason)
        if self._decoder.version is not None:
            self.outlet.refuse(self._decoder.version, code, reason, server)
        self._leave(now_us)

    # --- what comes in ------------------------------------------------------------------------

    def _note_unfinished(self, size: int, is_new: bool, now_us: int) -> None:
        """So much of a packet waits for its end; it may be another packet than before."""
        house = self._house
        of = house.unfinished if self._serving is not None else house.unfinished_strangers
        before, self._waits_for_end = self._waits_for_end, of if size else None
        if before is not None and before is not self._waits_for_end:
            before.forget(self)
        if size:
            of.has(self, size, is_new=is_new, now_us=now_us)

    def _forget_unfinished(self) -> None:
        if self._waits_for_end is not None:
            self._waits_for_end.forget(self)
            self._waits_for_end = None
        self._decoder.let_go()

    def _handle_or_hold(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Handled, or held."""
        if self._held.packets or self.must_wait:
            self._hold(packets, size, now_us)
        else:
            self._handle(packets, now_us, size)

    def _handle(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Handled."""
        # What is too much for one turn is held; packets are of so many bytes.
        try:
            first = 0
            if self._serving is None and packets:
                self._on_connect(packets[0], now_us)
                first = 1
                if self.state is not State.CONNECTED or self.must_wait:
                    self._hold_rest(packets[first:], now_us)
                    return
            if self._serving is not None:
                taken = self._serving.take(packets, first, now_us)
                if taken and type(last := packets[taken - 1]) is Disconnect:
                    self._leave(now_us, with_will=last.reason_code is not ReasonCode.SUCCESS)
                if self.state is not State.CONNECTED:
                    return
                if taken < len(packets):
                    rest = packets[taken:]
                    size = size * len(rest) // len(packets)
                    if self._held.packets:
                        self._held.put_back(rest, size)
                    else:
                        self._hold(rest, size, now_us)
                    return
            failure = self._decoder.failure
            if failure is not None and not self._held.packets and self.state is not State.CLOSED:
                raise failure
        except MqttError as error:
            self._house.settle()
            self._house.statistics.protocol_errors += 1
            self.disconnect(error.reason_code, str(error), now_us)

    def _hold_rest(self, rest: list[Packet], now_us: int) -> None:
        """What came behind a CONNECT waits for its answer, or with all that must wait."""
        if self.state is State.ADMISSION:
            self._held.keep(rest)
        elif self.state is State.CONNECTED:
            self._hold(rest, 0, now_us)

    def _hold(self, packets: list[Packet], size: int, now_us: int) -> None:
        """Nothing may be taken now but what nobody has to wait for."""
        self._handle(self._held.sift(packets, size), now_us, 0)

    def _take_held(self, now_us: int) -> None:
        """What was held is handled, or as much of it as a turn may allow."""
        held, size = self._held.take(TURN)
        self._handle(held, now_us, size)
        if self._is_lost and not self._held.packets:
            self._leave(now_us)

    def _hold_until_the_answer(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Held until the answer."""
        self._held.keep(packets)
        if self._held.is_too_long:
            reason = "too many packets before the answer to CONNECT"
            self.disconnect(ReasonCode.QUOTA_EXCEEDED, reason, now_us)

    def _take_last_words(self, packets: list[Packet], now_us: int, size: int) -> None:
        """Acknowledgements are taken."""
        try:
            if self._serving is not None:
                self._serving.take_last_words(packets, now_us)
            if self._decoder.failure is not None:
                raise self._decoder.failure
        except MqttError:
            self._house.statistics.protocol_errors += 1
            self.hang_up(now_us)

    # --- being let in -------------------------------------------------------------------------

    def _on_connect(self, connect: Packet, now_us: int) -> None:
        if not isinstance(connect, Connect):
            raise protocol_error(f"only a server sends {type(connect).__name__}")
        self.state = State.ADMISSION
        entering = Entering(self._house, connect, self.credentials)
        # Before anything is answered: a refusal too keeps to what the client can take.
        self.terms = entering.terms
        self.outlet.agree(connect.version, entering.terms)
        check_connect(connect, self._house.limits)
        self._entering, self.credentials = entering, entering.credentials
        admission = self._house.admit(self.credentials)
        if admission is not None:
            self._answer_connect(entering, admission, now_us)

    def _admit(self, admission: Admission, now_us: int) -> None:
        """Let in → connected, or refused → closed."""
        if self._entering is not None:
            self._answer_connect(self._entering, admission, now_us)
            self._handle_held(now_us)

    def _answer_connect(self, entering: Entering, admission: Admission, now_us: int) -> None:
        answer = entering.judged(admission)
        if answer.reason_code >= FIRST_ERROR:
            reason, server = answer.reason or "", answer.server
            self.disconnect(answer.reason_code, reason, now_us, server)
        elif not self._house.must_wait(self, entering.connect, answer, now_us):
            self._enter(entering, answer, now_us)

    def _enter(self, entering: Entering, admission: Admission, now_us: int) -> None:
        guest = entering.let_in(admission, self.outlet)
        self.credentials = entering.credentials
        session, present = self._house.enter(guest, now_us)
        if admission.lasts_us is not None:
            self._house.let_expire(self, now_us + admission.lasts_us)
        if present and admission.checks_session:
            self._house.check_subscriptions(session, admission.permissions, now_us)
        self.state, self._entering = State.CONNECTED, None
        self._serving = Serving(
            self._house,
            session,
            admission.permissions,
            self.outlet,
            is_bridge=entering.terms.is_bridge,
        )
        if self.outlet.send_answer(entering.connack(guest.client_id, present=present)):
            session.attach(self.outlet, now_us)
        else:  # it cannot even be told that it is let in
            self._leave(now_us, with_will=False)

    def _handle_held(self, now_us: int) -> None:
        """Handle what came while the client was not let in yet."""
        if self.state is not State.ADMISSION:
            held, _ = self._held.let_go()
            if self.must_wait:
                self._hold(held, 0, now_us)
            else:
                self._handle(held, now_us, 0)


LIFE = LifeCycle(
    State,
    Word,
    {
        Word.PACKETS: (
            does(Connection._handle),
            does(Connection._hold_until_the_answer),
            does(Connection._handle_or_hold),
            does(Connection._take_last_words),
            IGNORED,
        ),
        Word.ADMITTED: (IGNORED, does(Connection._admit), IGNORED, IGNORED, IGNORED),
        Word.TURN: (IGNORED, IGNORED, does(Connection._take_held), IGNORED, IGNORED),
        Word.REDIRECT: (IGNORED, IGNORED, does(Connection._send_away), IGNORED, IGNORED),
        Word.DISCONNECT: (
            does(Connection._refuse),
            does(Connection._refuse),
            does(Connection._tell),
            does(Connection._stop),
            IGNORED,
        ),
        Word.LOST: (
            does(Connection._leave),
            does(Connection._leave),
            does(Connection._leave_when_all_is_handled),
            does(Connection._hang_up),
            IGNORED,
        ),
    },
)
