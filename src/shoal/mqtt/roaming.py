"""One client, one session, at whichever broker of the network it connects.

Every broker tells the others whom it has let in; who still has that client lets it go.  A client
that comes back elsewhere and wants its session waits until the broker that has it has sent it: its
subscriptions, and what was in flight or waited.  That broker goes on collecting for it, and sends
on what it gets, until the subscriptions made anew are known everywhere; meanwhile the new broker
keeps what arrives by itself, and delivers of that, in the end, what did not come from the old one.
So nothing is lost, doubled, or out of order, however often the client moves on before it is over.

| broker | hears or sees | does |
| --- | --- | --- |
| new | client connects, session known elsewhere | Entered, asking for it → waiting |
| old | Entered | closes its connection (0x8E); if asked: Items, SessionState → departing |
| old, had sent it away | Entered, asking | as above, once the client is gone (see `redirecting`) |
| old, waiting itself | Entered | closes its connection; what it waits for will go on → as above |
| asked, has nothing | Entered | asks the broker where the session went, or says there is none |
| new | ASK_AGAIN_US over, waiting | Entered, again |
| new | SessionState, or WAIT_US over | lets the client in → arriving |
| old | something for the client while departing | Item |
| old | DEPARTING_US over | Departed, forgets the session |
| new | Item while arriving | delivers it |
| new | Departed, or ARRIVING_US over | delivers the rest of what it kept |

A journey is known by the client and the time at which it entered the broker it goes to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.access import Admission
from shoal.mqtt.controls import (
    Control,
    Departed,
    Ended,
    Entered,
    Item,
    Journey,
    SessionState,
    encode_control,
    item_of,
    message_of,
    state_of,
    subscription_of,
)
from shoal.mqtt.homes import Homes
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.moves import Move, Waiting
from shoal.mqtt.network import EVERY_BROKER, Door
from shoal.mqtt.packets import Connect
from shoal.mqtt.reason_codes import ReasonCode
from shoal.mqtt.redirecting import Redirecting
from shoal.mqtt.session import Outgoing, Session
from shoal.mqtt.timers import Timers

if TYPE_CHECKING:
    from shoal.mqtt.broker_clients import BrokerClients
    from shoal.mqtt.connection import Connection

# A client does not wait longer for its session than it would for a slow broker.
WAIT_US = 2 * MICROSECONDS
# Unless brokers remember: then one that is not there may be about to start again, with it.
REMEMBERED_WAIT_US = 10 * MICROSECONDS
ASK_AGAIN_US = MICROSECONDS // 2
# Until then subscriptions have reached every broker; the new one is told when it is over, and
# waits longer only if the old one has died.
DEPARTING_US = 2 * MICROSECONDS
ARRIVING_US = 5 * MICROSECONDS

WAITING_TIMER = "waiting"
DEPARTING_TIMER = "departing"
ARRIVING_TIMER = "arriving"


class Roaming:
    """The sessions of one broker that come from, or go to, another."""

    def __init__(self, clients: BrokerClients, door: Door, timers: Timers) -> None:
        self._clients = clients
        self._door = door
        self._timers = timers
        self._broker_id = clients.broker_id
        # When and where each client of the network connected last.
        self._entered: dict[str, tuple[int, BrokerId]] = {}
        self.homes = Homes()
        self._waiting: dict[Journey, Waiting] = {}
        self._current: dict[str, Journey] = {}
        self._arriving: dict[Journey, Move] = {}
        self._departing: dict[Journey, Move] = {}
        self.redirecting = Redirecting(timers, self._on_entered)
        # Journeys that a session here is on, or will be once it has come.
        self._promised: set[Journey] = set()

    # --- what happens here --------------------------------------------------------------------

    def must_wait(
        self, connection: Connection, connect: Connect, admission: Admission, now_us: int
    ) -> bool:
        """Whether the client's session is elsewhere, and has been asked for."""
        client_id = connect.client_id
        current = self._current.get(client_id)
        if current is not None:
            waiting = self._waiting[current]
            _turn_away(waiting, now_us)
            if not connect.clean_start:
                waiting.connection, waiting.admission = connection, admission
                return True
            waiting.is_void = True
            del self._current[client_id]
        home = self.homes.get(client_id)
        if connect.clean_start or home is None:
            return False
        journey = self._say_entered(client_id, now_us, is_kept=True, asked=home)
        self._current[client_id] = journey
        wait_us = WAIT_US if self._clients.journal is None else REMEMBERED_WAIT_US
        self._waiting[journey] = Waiting(connection, admission, home, now_us + wait_us)
        self._timers.set((WAITING_TIMER, journey), now_us + ASK_AGAIN_US)
        return True

    def entered(self, session: Session, now_us: int) -> None:
        """A client was let in."""
        client_id = session.client_id
        self.redirecting.end(client_id, now_us)
        self.homes.pop(client_id)
        is_kept = session.expiry_interval_s > 0
        _, session.entered_us = self._say_entered(client_id, now_us, is_kept=is_kept, asked=None)

    def restored(self, session: Session, now_us: int) -> None:
        """A session is here since before the broker started; whoever joins the network is told.

        If it had just come, more may still come from where it was.
        """
        self._entered[session.client_id] = (session.entered_us, self._broker_id)
        if session.arriving_us is not None:
            self._expect(session, (session.client_id, session.arriving_us), now_us)

    def restore_home(self, client_id: str, broker: BrokerId, at_us: int) -> None:
        """A session was elsewhere when the broker stopped."""
        self.homes.put(client_id, broker, at_us)
        self._entered[client_id] = (at_us, broker)

    def ended(self, session: Session, now_us: int) -> None:
        """A session has ended here."""
        client_id = session.client_id
        move = session.diversion
        if isinstance(move, Move) and move.arrival is not None:
            self._timers.cancel((ARRIVING_TIMER, move.arrival))
            del self._arriving[move.arrival]
        entered = self._entered.get(client_id)
        if entered is not None and entered[1] == self._broker_id:
            del self._entered[client_id]
            self._say(EVERY_BROKER, Ended(client_id, self._broker_id), now_us)

    def tell_clients(self, broker: BrokerId, now_us: int) -> None:
        """Say to a broker which clients are here; those that wait for their session are not yet."""
        for client_id, (at_us, at_broker) in self._entered.items():
            if at_broker == self._broker_id and client_id not in self._current:
                is_kept = self._clients.is_kept(client_id)
                entered = Entered(client_id, self._broker_id, at_us, is_kept, None)
                self._say(broker, entered, now_us)

    def due(self, kind: str, journey: Journey, now_us: int) -> None:
        """One of this module's timers."""
        match kind:
            case "waiting":
                self._ask_again(journey, now_us)
            case "departing":
                self._depart(journey, now_us)
            case "arriving":
                self._arrive(journey, now_us)
            case "redirected":
                self.redirecting.end(journey[0], now_us)

    def send_item(
        self, outgoing: Outgoing, broker: BrokerId, journey: Journey, now_us: int
    ) -> None:
        """Send something on to where a session goes."""
        self._say(broker, item_of(outgoing, journey, now_us), now_us)

    def _say_entered(
        self, client_id: str, now_us: int, *, is_kept: bool, asked: BrokerId | None
    ) -> Journey:
        # Later than anything known, also where another broker's clock is ahead.
        known_us, _ = self._entered.get(client_id, (0, ""))
        at_us = max(now_us, known_us + 1)
        self._entered[client_id] = (at_us, self._broker_id)
        entered = Entered(client_id, self._broker_id, at_us, is_kept, asked)
        self._say(EVERY_BROKER, entered, now_us)
        return client_id, at_us

    def _say(self, to: str, control: Control, now_us: int) -> None:
        self._door.send(to, encode_control(control), now_us)

    # --- what other brokers say ---------------------------------------------------------------

    def hear(self, control: Control, now_us: int) -> None:
        """Another broker's MQTT side says something about a client."""
        match control:
            case Entered():
                self._on_entered(control, now_us)
            case Ended(client_id, broker):
                if self._entered.get(client_id, (0, ""))[1] == broker:
                    del self._entered[client_id]
                    self.homes.pop(client_id)
            case Item(journey=journey):
                if journey in self._waiting:
                    self._waiting[journey].items.append(control)
                elif journey in self._arriving:
                    self._arriving[journey].came(control, now_us)
            case SessionState(journey=journey):
                if journey in self._waiting:
                    self._take_in(control, now_us)
            case Departed(journey=journey):
                if journey in self._arriving:
                    self._arrive(journey, now_us)

    def _on_entered(self, control: Entered, now_us: int) -> None:
        client_id, stamp = control.client_id, (control.at_us, control.broker)
        journey = (client_id, control.at_us)
        if self._entered.get(client_id, (0, "")) > stamp or journey in self._promised:
            # Who connected later keeps the client; or it is a question answered already.
            return
        self._entered[client_id] = stamp
        if control.asked is not None and self.redirecting.holds(control, now_us):
            return
        home = self.homes.get(client_id)
        if control.is_kept:
            self.homes.put(client_id, control.broker, control.at_us)
        else:
            self.homes.pop(client_id)
        current = self._current.pop(client_id, None)
        if current is not None:
            waiting = self._waiting[current]
            _turn_away(waiting, now_us)
            waiting.is_void = control.asked is None
            waiting.goes_to = (control.broker, journey)
            self._promised.add(journey)
            return
        session = self._clients.release(client_id, control.asked is not None, now_us)
        if session is not None:
            self._send(session, control.broker, journey, now_us)
        elif control.asked == self._broker_id:
            if home is not None and home != control.broker:
                question = msgspec.structs.replace(control, asked=home)
                self._say(home, question, now_us)
            else:
                self._say(control.broker, SessionState(journey, False), now_us)

    # --- a session goes -----------------------------------------------------------------------

    def _send(self, session: Session, broker: BrokerId, journey: Journey, now_us: int) -> None:
        for outgoing in session.on_its_way():
            self.send_item(outgoing, broker, journey, now_us)
        move = session.diversion
        if not isinstance(move, Move):
            move = session.diversion = Move(session, None, self.send_item)
        self._say(broker, state_of(session, journey, move.known), now_us)
        move.target = (broker, journey)
        self._promised.add(journey)
        self._departing[journey] = move
        self._timers.set((DEPARTING_TIMER, journey), now_us + DEPARTING_US)

    def _depart(self, journey: Journey, now_us: int) -> None:
        move = self._departing[journey]
        assert move.target is not None
        if move.arrival is not None:
            move.is_due = True
            return
        del self._departing[journey]
        self._promised.discard(journey)
        self._clients.departed(move.session)
        self._say(move.target[0], Departed(journey), now_us)

    # --- a session comes ----------------------------------------------------------------------

    def _take_in(self, state: SessionState, now_us: int) -> None:
        """The session is here, or there is none."""
        waiting = self._waiting[state.journey]
        if waiting.goes_to is None:
            self.homes.pop(state.journey[0])
        if waiting.is_void:
            self._forget_waiting(state.journey)
        elif waiting.goes_to is None:
            if state.exists:
                self._make(self._clients.adopt(state.journey[0]), state, waiting, now_us)
            self._let_in(state.journey, now_us)
        else:
            self._forget_waiting(state.journey)
            broker, journey = waiting.goes_to
            if state.exists:
                session = self._clients.new_session(state.journey[0])
                self._make(session, state, waiting, now_us)
                self._send(session, broker, journey, now_us)
            else:
                self._promised.discard(journey)
                self._say(broker, SessionState(journey, False), now_us)

    def _make(self, session: Session, state: SessionState, waiting: Waiting, now_us: int) -> None:
        """Fill a session with what was sent."""
        move = self._expect(session, state.journey, now_us)
        session.received.update(state.received)
        move.known.update(dict.fromkeys(state.came))
        for item in waiting.items:
            message = message_of(item, now_us)
            if message is not None:
                move.note(item)
                outgoing = Outgoing(message, item.qos, item.retain, item.identifiers)
                outgoing.packet_id, outgoing.released = item.packet_id, item.released
                session.restore(outgoing)
        for row in state.subscriptions:
            try:
                self._clients.subscriptions.add(subscription_of(session, row))
            except ValueError as error:  # of another version of this software
                problem = f"subscription {row.text!r} of {session.client_id!r}: {error}"
                self._clients.problems.append(problem)

    def _expect(self, session: Session, journey: Journey, now_us: int) -> Move:
        """More may come for a session, from where it was."""
        move = session.diversion = Move(session, journey, self.send_item)
        session.arriving_us = journey[1]
        self._arriving[journey] = move
        self._timers.set((ARRIVING_TIMER, journey), now_us + ARRIVING_US)
        return move

    def _ask_again(self, journey: Journey, now_us: int) -> None:
        """The session has not come: the question may have been lost on a link not yet there."""
        waiting = self._waiting[journey]
        if now_us >= waiting.until_us or self._current.get(journey[0]) != journey:
            self._let_in(journey, now_us)
            return
        client_id, at_us = journey
        question = Entered(client_id, self._broker_id, at_us, True, waiting.home)
        self._say(EVERY_BROKER, question, now_us)
        self._timers.set((WAITING_TIMER, journey), min(now_us + ASK_AGAIN_US, waiting.until_us))

    def _let_in(self, journey: Journey, now_us: int) -> None:
        """The client has waited long enough, with or without its session."""
        waiting = self._forget_waiting(journey)
        if self._current.get(journey[0]) != journey:
            return
        del self._current[journey[0]]
        if waiting.connection.is_closed:
            self._clients.abandon(journey[0], now_us)
        else:
            waiting.connection.go_on(waiting.admission, now_us)

    def _forget_waiting(self, journey: Journey) -> Waiting:
        self._timers.cancel((WAITING_TIMER, journey))
        return self._waiting.pop(journey)

    def _arrive(self, journey: Journey, now_us: int) -> None:
        """All has come from where the client was: what was kept here is delivered."""
        self._timers.cancel((ARRIVING_TIMER, journey))
        move = self._arriving.pop(journey)
        move.arrive(now_us)
        move.session.arriving_us = None
        if move.session.journal is not None and move.target is None:
            move.session.journal.arrived(move.session)
        if move.is_due and move.target is not None:
            self._depart(move.target[1], now_us)


def _turn_away(waiting: Waiting, now_us: int) -> None:
    """A connection that waits is closed: its client has connected again."""
    reason = "the client connected again elsewhere"
    waiting.connection.disconnect(ReasonCode.SERVER_BUSY, reason, now_us)
