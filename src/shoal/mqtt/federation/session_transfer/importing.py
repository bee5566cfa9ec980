"""Session import: sessions that have come from a source, which may still send more for them.

The target holds the messages that reach it directly until the source sends that nothing more comes,
or sends nothing at all any more (see `session_transfer` for the controls, and `exporting` for the
source). It asks a silent source whether it exports the session at all (see `inquiries`).

A session may come back before all has come from its earlier source. Later items of that source then
follow the session's way, and so come back behind those sent before (see `Loop`); the broker on that
way waits for their end, and is told then. This owed `Farewell` outlasts a kill: otherwise the two
brokers would wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    Item,
    Offer,
    SessionDeparted,
    SessionState,
    Transfer,
    encode_control,
)
from shoal.mqtt.federation.granting import FederationGranting
from shoal.mqtt.federation.session_transfer.moves import (
    Latecomers,
    Loop,
    SendItem,
    SessionMove,
    WaitingClient,
)
from shoal.mqtt.federation.time_slices import TimeSlices
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.sessions.deduplication_window import DeduplicationWindow, Heard, Last
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import Farewell, Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.sessions.unsettled import take_over
from shoal.mqtt.timers import MqttTimers

# The source sends a control each second until it has departed; after this time it may be dead.
ARRIVING_US = 5 * MICROSECONDS
# The longest time that a source that is down may still have messages for the session.
OPEN_US = 600 * MICROSECONDS

# How long after the end of the transfer a duplicate of its messages may arrive directly.
LATE_US = 5 * MICROSECONDS

ARRIVING_TIMER = "arriving"
LATE_TIMER = "late"
SETTLING_TIMER = "settling"
OPEN_TIMER = "open"
SPREADING_TIMER = "spreading"
RELEASING_TIMER = "releasing"


class SessionImport:
    """The incoming sessions of one broker.

    `spreading` answers when every broker knows the front end's requests; `send_item` forwards
    items of a session that goes on to another broker. `inquire` asks the source of a transfer
    whether more may come.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: SessionSubscriptions,
        front_end: FrontEnd,
        timers: MqttTimers,
        spreading: FederationGranting,
        send_item: SendItem,
        inquire: Callable[[BrokerId, Transfer, int], None],
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._front_end = front_end
        self._timers = timers
        self._spreading = spreading
        self._send_item = send_item
        self._inquire = inquire
        self.journal: SessionJournal | None = None
        self._moves: dict[Transfer, SessionMove] = {}
        # Held messages are delivered in time slices; and the transfers that are complete.
        self._turns = TimeSlices(timers, lambda: False, RELEASING_TIMER)
        self._closing: set[Transfer] = set()
        # Farewells that are under way.
        self._said: set[Transfer] = set()
        # Sessions that have arrived, and the keys of messages that may arrive a second time.
        self._late: dict[Transfer, tuple[Session, dict[tuple[str, int], None]]] = {}

    def get(self, transfer: Transfer) -> SessionMove | None:
        """The incoming session of a transfer, until the transfer is complete.

        If it came back before that, its present move.
        """
        return self._moves.get(transfer) or self._back(transfer)

    def _back(self, transfer: Transfer) -> SessionMove | None:
        """The session that came back before all had come on this transfer."""
        session = self._sessions.get(transfer[0])
        if session is None or not isinstance(session.diversion, SessionMove):
            return None
        move = session.diversion
        for each in session.farewells:
            if each.after_us == transfer[1]:
                # After a kill the messages that went that way are not known.
                loop = Loop(each.broker, (transfer[0], each.at_us))
                move.loops.setdefault(transfer[1], loop)
                return move
        return None

    def came(self, item: Item, now_us: int) -> bool:
        """Handle an item of a source; returns whether the transfer is known."""
        move = self._moves.get(item.transfer)
        if move is not None:
            move.came(item, now_us)
            return True
        move = self._back(item.transfer)
        if move is not None:
            move.came_late(item, item.transfer[1], now_us)
        return move is not None

    def restored(self, session: Session, at_us: int, now_us: int) -> None:
        """Resume the import, with that fencing token, that a restart interrupted."""
        transfer = (session.client_id, at_us)
        self.expect(session, transfer, now_us)
        # After the publications sent again, which have lower numbers.
        self._timers.set((SPREADING_TIMER, transfer), now_us)
        self._await_settling(session, transfer, now_us)

    def on_import_timer(self, kind: str, transfer: Transfer, now_us: int) -> None:
        """Handle a timer of this module."""
        move = self._moves.get(transfer)
        if move is not None and kind == ARRIVING_TIMER:
            self._turns.take(self._release(move), now_us)
            self._inquire(move.session.source, transfer, now_us)
            self._timers.set((ARRIVING_TIMER, transfer), now_us + ARRIVING_US)
        elif move is not None and kind == SPREADING_TIMER:
            self._announce_groups(move, now_us)
            self._send_farewells(move.session, now_us)
        elif move is not None and kind == OPEN_TIMER:
            self.close(transfer, now_us)
        elif move is not None and kind == SETTLING_TIMER:
            move.session.may_publish()
        elif kind == LATE_TIMER:
            session, known = self._late.pop(transfer)
            diversion = session.diversion
            if diversion is not None and diversion.known is known:
                if isinstance(diversion, Latecomers):
                    session.diversion = None
                else:
                    diversion.known = {}

    def heard(self, move: SessionMove, offer: Offer, now_us: int) -> None:
        """A source of the session is alive."""
        if move.arrival == offer.transfer:
            move.session.source = offer.broker
        if move.arrival is not None:
            self._timers.set((ARRIVING_TIMER, move.arrival), now_us + ARRIVING_US)

    def left(self, broker: BrokerId, now_us: int) -> None:
        """Handle a broker that has left the network: it sends nothing more."""
        for transfer, move in tuple(self._moves.items()):
            for each in move.session.farewells:
                if each.after_us is not None and each.source == broker:
                    self.close((transfer[0], each.after_us), now_us)
            if move.session.source == broker:
                self.close(transfer, now_us)

    def _await_settling(self, session: Session, transfer: Transfer, now_us: int) -> None:
        if session.waits_to_publish:
            self._timers.set((SETTLING_TIMER, transfer), now_us + ARRIVING_US)

    def settling(self, transfer: Transfer, now_us: int, *, is_settled: bool) -> None:
        """Handle a source's report whether the client's publications there are settled."""
        move = self._moves.get(transfer)
        if move is not None and is_settled:
            self._timers.cancel((SETTLING_TIMER, transfer))
            move.session.may_publish()
        elif move is not None:
            self._await_settling(move.session, transfer, now_us)

    def _send_departed(self, to: str, control: SessionDeparted, now_us: int) -> int:
        return self._front_end.send(to, encode_control(control), now_us)

    def remember(
        self, session: Session, came: Iterable[tuple[str, int]], held: list[Outgoing]
    ) -> None:
        """Restore the received keys and held messages of an interrupted import."""
        move = session.diversion
        if isinstance(move, SessionMove) and move.arrival is not None:
            move.known.update(dict.fromkeys(came))
            move.hold(held)

    def make(
        self, state: SessionState, waiting: WaitingClient, given: SessionMove | None, now_us: int
    ) -> None:
        """Install an imported session, whose subscriptions are filed, and its queue."""
        filling = waiting.filling
        assert filling is not None
        rest = self._take_back(given, state, waiting, now_us) if given is not None else []
        session = filling.session
        self._sessions.put(session)
        session.began_us, session.entered_us = state.began_us, state.transfer[1]
        session.source = state.source
        move = self.expect(session, state.transfer, now_us)
        session.remember(state.received)
        if given is not None and _stayed_open(given, state):
            take_over(session, given.session)
        session.waits_to_publish = not state.is_settled
        self._await_settling(session, state.transfer, now_us)
        self._note_had(session, state, given)
        move.known.update(waiting.came)
        for outgoing in waiting.read_on(now_us):
            move.note(outgoing.message.key)
            session.restore(outgoing)
        move.known.update(filling.came)
        if session.had is not None:
            session.had.fill_all(filling.came)
        for outgoing in rest:
            key = outgoing.message.key
            if key is None or key not in move.known:
                move.note(key)
                session.restore(outgoing)
        session.conflate_queued(now_us)
        if given is not None:
            held, given.held = given.held, deque()
            move.hold(held)
            for each in move.held:
                each.serial = 0
            self._owe_farewell(session, move, given, now_us)
        move.unannounced = filling.shared
        self._announce_groups(move, now_us)

    def _note_had(self, session: Session, state: SessionState, given: SessionMove | None) -> None:
        """Set the deduplication window: the session lacks what came here before it and not to it.

        Publications that came here since it was exported have followed it, or are held for it.
        """
        here: Last = {}
        stayed = given is not None and _stayed_open(given, state) and not given.may_have_departed
        if self.journal is not None and not stayed:
            here = self.journal.heard_in_short.last
        had = DeduplicationWindow.arrived(
            state.had, state.gaps, Heard(state.heard, state.all_heard), here
        )
        if had.last or had.gaps:
            session.had = had
            self._sessions.lacking.note(had)

    def _announce_groups(self, move: SessionMove, now_us: int) -> None:
        """Announce the session's group members, some at a time; then have its subscriptions
        known."""
        if not move.announce_groups(self._subscriptions):
            self._timers.set((SPREADING_TIMER, move.arrival), now_us + 1)
        else:
            self.spread(move, now_us)

    def spread(self, move: SessionMove, now_us: int) -> None:
        """Note when every broker knows the subscriptions of a session."""

        def spread(_: int) -> None:
            move.is_spread = True

        self._spreading.owe(spread, now_us)

    def _take_back(
        self, given: SessionMove, state: SessionState, waiting: WaitingClient, now_us: int
    ) -> list[Outgoing]:
        """Merge an exported session that comes back: the messages that only this broker has."""
        session = given.session
        rest: list[Outgoing] = []
        # On any way back: until this broker has departed, all brokers on the way report the items
        # of that transfer.
        if _stayed_open(given, state):
            for outgoing in session.on_its_way():
                key = outgoing.message.key
                if key is not None and not outgoing.packet_id and key not in waiting.came:
                    rest.append(
                        Outgoing(
                            outgoing.message,
                            outgoing.qos,
                            outgoing.retain,
                            outgoing.identifiers,
                            via=outgoing.via,
                        )
                    )
        self.forget(session)
        self._sessions.drop(session)
        return rest

    def _owe_farewell(
        self, session: Session, move: SessionMove, given: SessionMove, now_us: int
    ) -> None:
        """Owe the end of the export of a session that has come back.

        Items of its earlier source still follow that way first.
        """
        assert given.target is not None
        broker, transfer = given.target
        at_us, after_us, source = transfer[1], None, ""
        move.loops = given.loops
        if given.arrival is not None:
            after_us, source = given.arrival[1], given.session.source
            move.loops[after_us] = Loop(broker, transfer, given.known)
        owed = Farewell(broker, at_us, after_us, source)
        session.farewells = (*given.session.farewells, owed)
        self._send_farewells(session, now_us)

    def _release_farewell(self, transfer: Transfer, now_us: int) -> None:
        """Handle the end of a transfer that a farewell waits for."""
        move = self._back(transfer)
        assert move is not None
        session = move.session
        move.all_came_late(transfer[1], now_us)
        session.farewells = tuple(
            each._replace(after_us=None) if each.after_us == transfer[1] else each
            for each in session.farewells
        )
        if session.journal is not None:
            session.journal.moved(session)
        self._send_farewells(session, now_us)

    def _send_farewells(self, session: Session, now_us: int) -> None:
        """Send the farewells that wait for nothing; each is owed until it is settled."""
        for farewell in session.farewells:
            transfer = (session.client_id, farewell.at_us)
            if farewell.after_us is None and transfer not in self._said:
                self._said.add(transfer)
                control = SessionDeparted(transfer, self._broker_id)
                self._front_end.notice(
                    self._send_departed(farewell.broker, control, now_us),
                    partial(self._on_farewell_settled, transfer),
                )

    def _on_farewell_settled(self, transfer: Transfer, _: int) -> None:
        self._said.discard(transfer)
        session = self._sessions.get(transfer[0])
        if session is not None and session.farewells:
            session.farewells = tuple(
                each for each in session.farewells if each.at_us != transfer[1]
            )
            if session.journal is not None:
                session.journal.moved(session)

    def expect(self, session: Session, transfer: Transfer, now_us: int) -> SessionMove:
        """Begin to expect items of a session's source."""
        move = session.diversion = SessionMove(session, transfer, self._send_item)
        session.arriving_us = transfer[1]
        for outgoing in session.on_its_way():
            if outgoing.message.key is not None:
                move.known[outgoing.message.key] = None
        self._moves[transfer] = move
        self._timers.set((ARRIVING_TIMER, transfer), now_us + ARRIVING_US)
        self._timers.set((OPEN_TIMER, transfer), now_us + OPEN_US)
        return move

    def close(self, transfer: Transfer, now_us: int) -> None:
        """Handle the end of a transfer: deliver the held messages."""
        move = self._moves.get(transfer)
        if move is None:
            self._release_farewell(transfer, now_us)
            return
        if transfer not in self._closing:
            self._closing.add(transfer)
            self._turns.take(self._close(move, transfer), now_us)

    def run_slice(self, now_us: int) -> None:
        """Run the next time slice."""
        self._turns.run_slice(now_us)

    def _is_here(self, move: SessionMove) -> bool:
        session = move.session
        is_arriving = move.arrival is not None and self._moves.get(move.arrival) is move
        return is_arriving and self._sessions.get(session.client_id) is session

    def _release(self, move: SessionMove) -> Iterator[int]:
        """Deliver the held messages, unless the session ends or leaves meanwhile."""
        while self._is_here(move):
            move.release(self._turns.now_us)
            yield 1
            if not move.held:
                return

    def _close(self, move: SessionMove, transfer: Transfer) -> Iterator[int]:
        yield from self._release(move)
        self._closing.discard(transfer)
        if not self._is_here(move):
            return
        self.forget(move.session)
        move.session.may_publish()
        move.session.farewells = ()
        move.close()
        if move.known:
            self._late[transfer] = (move.session, move.known)
            self._timers.set((LATE_TIMER, transfer), self._turns.now_us + LATE_US)

    def forget(self, session: Session) -> None:
        """Forget the transfer of a session that has arrived or ended."""
        move = session.diversion
        if isinstance(move, SessionMove) and move.arrival is not None:
            self._timers.cancel((ARRIVING_TIMER, move.arrival))
            self._timers.cancel((OPEN_TIMER, move.arrival))
            self._timers.cancel((SETTLING_TIMER, move.arrival))
            self._moves.pop(move.arrival, None)


def _stayed_open(given: SessionMove, state: SessionState) -> bool:
    """Whether a session that comes back includes all that this broker got since its export."""
    return not given.is_departed and given.session.began_us == state.began_us
