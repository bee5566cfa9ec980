"""Session export: sessions that are sent to a target, and kept here until the target has them.

The source sends a copy of the session, keeps its own, goes on collecting for it, and asks the
target until it learns the outcome. So the death of either broker does not lose the session, and a
question that is obsolete costs nothing.

| state | hears or sees | does → state |
| --- | --- | --- |
| owner | Entered, requesting | Items, SessionParts, SessionState, in time slices → given |
| given | a second over | Offer |
| given | SessionAdopted | → adopted |
| given | TransferDeclined | → owner, or goes to the broker that asked meanwhile |
| given, adopted | the target has left the network | as declined |
| given, adopted | declined; another broker owns the session by now | exports it to that broker |
| given | Entered on a later transfer, requesting | Offer; the request waits for the outcome |
| given, adopted | a message for the client | keeps it, and sends an Item |
| given, adopted | a second over, or all publications of its client are settled | EarlierSettled |
| adopted | DEPARTING_US over, links up, all is settled | SessionDeparted → departed |
| departed | a second over | SessionDeparted, again |
| any | TransferComplete | forgets the session |
| any | killed and started again | as given; sends all its messages once it is adopted |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    EarlierSettled,
    Entered,
    Offer,
    SessionAdopted,
    SessionDeparted,
    SessionState,
    Transfer,
    TransferComplete,
    TransferDeclined,
    encode_control,
)
from shoal.mqtt.federation.conversions import (
    ConflatedSnapshot,
    item_of,
    parts_of,
    snapshot_of_keys,
    state_of_key,
)
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionOwner
from shoal.mqtt.federation.session_transfer.moves import SessionMove
from shoal.mqtt.federation.time_slices import BYTES_PER_WORK, TimeSlices
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.sessions.deduplication_window import Gaps, Last
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.timers import MqttTimers

ASK_US = MICROSECONDS
# The longest time that messages published before every broker knew of the target are under way.
DEPARTING_US = 2 * MICROSECONDS

# The pause before the next check whether all was sent.
LATER_US = MICROSECONDS // 100
# The bytes of a session part that are as much work as a message.
PART_BYTES_PER_WORK = 256

# A session that stays is as much work as so many messages.
DECLINED_WORK = 4

GIVING_TIMER = "giving"
SAYING_TIMER = "saying"


class SessionExport:
    """The exported sessions of one broker.

    `stays` is called with a session that the target declined, `gone` with one that the target has
    completely.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: SessionSubscriptions,
        front_end: FrontEnd,
        timers: MqttTimers,
        stays: Callable[[SessionMove, int], None],
        gone: Callable[[Session, SessionOwner, int], None],
    ) -> None:
        self.journal: SessionJournal | None = None
        self._broker_id = broker_id
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._front_end = front_end
        self._timers = timers
        self._stays = stays
        self._gone = gone
        self._moves: dict[str, SessionMove] = {}
        # Long answers are sent in time slices, and later items behind them.
        self._turns = TimeSlices(timers, lambda: False, SAYING_TIMER)

    def get(self, client_id: str) -> SessionMove | None:
        """The export of a client's session, if it is exported."""
        return self._moves.get(client_id)

    @property
    def is_sending(self) -> bool:
        """Whether parts of sessions, or items, wait for a time slice."""
        return self._turns.is_on

    def is_exported(self, broker: BrokerId, transfer: Transfer) -> bool:
        """Whether that transfer to that broker is under way."""
        move = self._moves.get(transfer[0])
        return move is not None and move.target == (broker, transfer)

    def home(self, client_id: str) -> SessionOwner | None:
        """The owner of an exported session, as far as is known here."""
        move = self._moves.get(client_id)
        if move is None or move.target is None:
            return None
        broker, (_, at_us) = move.target
        return SessionOwner(broker, at_us, move.session.user)

    def give(self, session: Session, broker: BrokerId, transfer: Transfer, now_us: int) -> None:
        """Export a session to a broker."""
        self.withdraw(session.client_id)
        late = session.diversion
        if isinstance(late, SessionMove):
            move = late
        else:
            move = session.diversion = SessionMove(session, None, self.send_item)
            if late is not None:
                move.known = late.known
        self._begin_move(move, broker, transfer, now_us)
        self._sessions.suspend(session)
        session.going = (broker, transfer[1])
        if session.journal is not None:
            session.journal.moved(session)
        items = tuple(session.on_its_way())
        state = SessionState(
            transfer,
            True,
            len(items),
            0,
            tuple(sorted(session.received)),
            session.user,
            session.began_us,
            session.arriving_us,
            *self._had(session),
            session.is_settled,
            self._broker_id,
        )
        move.is_settling = not session.is_settled
        subscriptions = tuple(session.subscriptions.values())
        # A snapshot: later messages follow it.
        keys = snapshot_of_keys(session)
        steps = self._session(items, subscriptions, tuple(move.known), keys, state, broker)
        self._turns.take(steps, now_us)

    def _session(
        self,
        items: Iterable[Outgoing],
        subscriptions: Iterable[ClientSubscription],
        came: Iterable[tuple[str, int]],
        keys: Iterable[ConflatedSnapshot],
        state: SessionState,
        broker: BrokerId,
    ) -> Iterator[int]:
        """Send the session: messages, parts, then the state, which counts them."""
        yield from self._items(items, broker, state.transfer)
        parts = 0
        states = (state_of_key(row, self._turns.now_us) for row in keys)
        for part in parts_of(subscriptions, state.transfer, came, states):
            parts += 1
            body = encode_control(part)
            self._send_export(broker, body, self._turns.now_us)
            yield len(body) // PART_BYTES_PER_WORK
        state = msgspec.structs.replace(state, parts=parts)
        self._send_export(broker, encode_control(state), self._turns.now_us)

    def _items(
        self, items: Iterable[Outgoing], broker: BrokerId, transfer: Transfer
    ) -> Iterator[int]:
        for outgoing in items:
            body = encode_control(item_of(outgoing, transfer, self._turns.now_us))
            self._send_export(broker, body, self._turns.now_us)
            yield 1 + len(body) // BYTES_PER_WORK

    def _had(self, session: Session) -> tuple[Last, Mapping[str, Gaps], Last, bool]:
        """The deduplication window, the gaps, and the publications that came here (`SessionState`).

        A session that is not incoming has got all that came here. If order is kept, so have all
        publications before the last of a stream.
        """
        last, gaps = (session.had.last, session.had.gaps) if session.had is not None else ({}, {})
        if self.journal is None:
            return last, gaps, {}, False
        heard = self.journal.heard_in_short
        if session.arriving_us is None:
            here = heard.last.items()
            last = last | {stream: max(number, last.get(stream, 0)) for stream, number in here}
        return last, gaps, *heard

    def restored(self, session: Session, now_us: int) -> None:
        """Resume an export that a restart interrupted."""
        assert session.going is not None
        broker, at_us = session.going
        move = session.diversion
        if not isinstance(move, SessionMove):
            move = session.diversion = SessionMove(session, None, self.send_item)
        transfer = (session.client_id, at_us)
        self._begin_move(move, broker, transfer, now_us)
        # The target has waited while this broker was down: ask it at once.
        self._timers.set((GIVING_TIMER, transfer), now_us)
        move.is_restored = move.may_have_departed = move.is_settling = True

    def _begin_move(
        self, move: SessionMove, broker: BrokerId, transfer: Transfer, now_us: int
    ) -> None:
        move.give_to(broker, transfer)
        self._moves[transfer[0]] = move
        move.is_settling = move.is_telling = False
        move.session.at_settled = lambda: self._timers.set((GIVING_TIMER, transfer), 0)
        self._timers.set((GIVING_TIMER, transfer), now_us + ASK_US)

    def withdraw(self, client_id: str) -> SessionMove | None:
        """Cancel the export: the session stays, has ended, or goes elsewhere."""
        move = self._moves.pop(client_id, None)
        if move is not None:
            assert move.target is not None
            self._timers.cancel((GIVING_TIMER, move.target[1]))
            move.session.going = move.session.at_settled = None
        return move

    def send_item(
        self, outgoing: Outgoing, broker: BrokerId, transfer: Transfer, now_us: int
    ) -> None:
        """Forward an item to the session's target, behind earlier ones."""
        self._turns.take(self._items((outgoing,), broker, transfer), now_us)

    def ask_for(self, move: SessionMove, question: Entered, now_us: int) -> None:
        """Note another broker's request; the outcome of this export must be known first."""
        move.question = question
        self._ask_importing_broker(move, now_us)

    def run_slice(self, now_us: int) -> None:
        """Run the next time slice."""
        self._turns.run_slice(now_us)

    def on_export_timer(self, transfer: Transfer, now_us: int) -> None:
        """Ask again, or depart."""
        move = self._moves.get(transfer[0])
        if move is None or move.target is None or move.target[1] != transfer:
            return
        if self._turns.is_on:  # questions follow the session's parts
            self._timers.set((GIVING_TIMER, transfer), now_us + LATER_US)
            return
        if move.is_settling:
            self._report_settling(move, now_us)
        may_depart = move.is_adopted and not move.is_departed and now_us >= move.departs_us
        must_stay = bool(move.session.unsettled) or self._waits_for_links(move, now_us)
        if may_depart and not must_stay and move.arrival is None:
            move.is_departed = True
            move.is_asking = False
            move.unannounced = [each for each in move.session.subscriptions.values() if each.shared]
            self._subscriptions.presence_is_told(move.session)
        if move.is_departed and not move.announce_groups(self._subscriptions):
            self._timers.set((GIVING_TIMER, transfer), now_us + 1)
            return
        # The client's unsettled publications are only in this journal, and messages that wait for a
        # link arrive only here. The session then stays; no question is sent, so that the target
        # delivers its held messages.
        if not (may_depart and must_stay):
            self._ask_importing_broker(move, now_us)
        self._timers.set((GIVING_TIMER, transfer), now_us + ASK_US)

    def _waits_for_links(self, move: SessionMove, now_us: int) -> bool:
        """Whether brokers may still have messages for the session that they send here."""
        if self._front_end.waits_for_links():
            move.linked_us = now_us + DEPARTING_US
        return now_us < move.linked_us

    def _report_settling(self, move: SessionMove, now_us: int) -> None:
        """Report the settling, one report at a time (see `_ask_importing_broker`); the final one in
        any case.
        """
        is_settled = move.session.is_settled
        if move.is_telling and not is_settled:
            return
        assert move.target is not None
        broker, transfer = move.target
        move.is_telling, move.is_settling = True, not is_settled

        def told(_: int) -> None:
            move.is_telling = False

        control = EarlierSettled(transfer, self._broker_id, is_settled)
        self._front_end.notice(self._send_export(broker, encode_control(control), now_us), told)

    def _ask_importing_broker(self, move: SessionMove, now_us: int) -> None:
        """Ask, one question at a time: more would only fill a link that is down."""
        if move.is_asking or self._turns.is_on:
            return
        assert move.target is not None
        broker, transfer = move.target
        own = self._broker_id
        control = SessionDeparted(transfer, own) if move.is_departed else Offer(transfer, own)
        move.is_asking = True

        def settled(_: int) -> None:
            move.is_asking = False

        self._front_end.notice(self._send_export(broker, encode_control(control), now_us), settled)

    def _send_export(self, to: BrokerId, body: bytes, now_us: int) -> int:
        return self._front_end.send(to, body, now_us)

    def on_control(
        self, control: SessionAdopted | TransferDeclined | TransferComplete, now_us: int
    ) -> None:
        """Handle the outcome of an export."""
        client_id = control.transfer[0]
        move = self._moves.get(client_id)
        if move is None or move.target is None or move.target[1] != control.transfer:
            return
        match control:
            case SessionAdopted():
                self._adopted(move, now_us)
            case TransferComplete():
                where = SessionOwner(move.target[0], move.target[1][1], move.session.user)
                self.withdraw(client_id)
                self._sessions.drop(move.session)
                self._gone(move.session, where, now_us)
            case TransferDeclined(_, broker):
                # Otherwise of another broker that had asked in the same microsecond.
                if broker == move.target[0]:
                    self._declined(move, now_us)

    def left(self, broker: BrokerId, now_us: int) -> None:
        """Handle a broker that has left the network: it has none of the sessions exported to it."""
        transfers = []
        for move in self._moves.values():
            if move.target is not None and move.target[0] == broker:
                transfers.append(move.target[1])
            if move.question is not None and move.question.broker == broker:
                move.question = None
        self._turns.take(self._decline(broker, transfers), now_us)

    def _decline(self, broker: BrokerId, transfers: Iterable[Transfer]) -> Iterator[int]:
        for transfer in transfers:
            move = self._moves.get(transfer[0])
            if move is not None and move.target == (broker, transfer):
                self._declined(move, self._turns.now_us)
            yield DECLINED_WORK

    def _declined(self, move: SessionMove, now_us: int) -> None:
        question, client_id = move.question, move.session.client_id
        self.withdraw(client_id)
        if question is None:
            self._stays(move, now_us)
        else:
            self.give(move.session, question.broker, (client_id, question.at_us), now_us)

    def _adopted(self, move: SessionMove, now_us: int) -> None:
        move.question = None  # the target has it, too
        if move.is_adopted:
            return
        move.is_adopted = True
        move.departs_us = now_us + DEPARTING_US
        if move.is_restored:
            assert move.target is not None
            move.is_restored = False
            kept = [each for each in move.session.on_its_way() if each.message.key is not None]
            self._turns.take(self._items(kept, *move.target), now_us)
