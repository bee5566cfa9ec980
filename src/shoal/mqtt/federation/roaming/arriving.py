"""Sessions that have come from another broker, and for which more may come from there.

What this broker gets for them by itself is held back until the other says that nothing more comes,
or says nothing at all any more (see `roaming` for what is said, and `giving` for the other side).

A session may come back before all has come from where it was before.  What still comes of that goes
the way that the session went meanwhile, and so comes back behind what went that way before (see
`Loop`); where it went waits for the end of it, and is told then.  That this `Farewell` is owed
outlasts a kill: else the two would wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from shoal.model import BrokerId
from shoal.mqtt.door.network import Door
from shoal.mqtt.federation.controls import (
    Departed,
    Item,
    Journey,
    SessionState,
    encode_control,
)
from shoal.mqtt.federation.granting import Granting
from shoal.mqtt.federation.handing import Handing
from shoal.mqtt.federation.roaming.moves import Latecomers, Loop, Move, SendItem, Waiting
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.had import Had, Heard, Last
from shoal.mqtt.sessions.session import Farewell, Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.sessions.unsettled import take_over
from shoal.mqtt.timers import Timers

# The old broker says something each second until it has departed; if not, it may have died.
ARRIVING_US = 5 * MICROSECONDS
# What it may still have for the session is waited for so long.
OPEN_US = 600 * MICROSECONDS

# How long after the last word from there something may come that the session has already.
LATE_US = 5 * MICROSECONDS

ARRIVING_TIMER = "arriving"
LATE_TIMER = "late"
SETTLING_TIMER = "settling"
OPEN_TIMER = "open"
SPREADING_TIMER = "spreading"
RELEASING_TIMER = "releasing"


class Arriving:
    """One broker's sessions that have come.

    `spreading` answers when every broker has heard what the door has asked for; `send_item` sends
    on what comes for a session that goes on to another broker.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: Subscriptions,
        door: Door,
        timers: Timers,
        spreading: Granting,
        send_item: SendItem,
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._door = door
        self._timers = timers
        self._spreading = spreading
        self._send_item = send_item
        self.journal: Journal | None = None
        self._moves: dict[Journey, Move] = {}
        # What was held back is delivered in turns; and the journeys on which nothing more comes.
        self._turns = Handing(timers, lambda: False, RELEASING_TIMER)
        self._closing: set[Journey] = set()
        # Last words that are under way.
        self._said: set[Journey] = set()
        # Those that have arrived, and what may come for them once more.
        self._late: dict[Journey, tuple[Session, dict[tuple[str, int], None]]] = {}

    def get(self, journey: Journey) -> Move | None:
        """The session on this journey, unless all has come.

        If it came back before that, what it is by now.
        """
        return self._moves.get(journey) or self._back(journey)

    def _back(self, journey: Journey) -> Move | None:
        """The session that came back before all had come on this journey."""
        session = self._sessions.get(journey[0])
        if session is None or not isinstance(session.diversion, Move):
            return None
        move = session.diversion
        for broker, at_us, after_us in session.farewells:
            if after_us == journey[1]:
                # After a kill nothing is known of what went there.
                move.loops.setdefault(after_us, Loop(broker, (journey[0], at_us)))
                return move
        return None

    def came(self, item: Item, now_us: int) -> bool:
        """Something comes from where a session was; whether all had not come."""
        move = self._moves.get(item.journey)
        if move is not None:
            move.came(item, now_us)
            return True
        move = self._back(item.journey)
        if move is not None:
            move.came_late(item, item.journey[1], now_us)
        return move is not None

    def restored(self, session: Session, at_us: int, now_us: int) -> None:
        """A session had just come when the broker stopped, on the journey of that stamp."""
        journey = (session.client_id, at_us)
        self.expect(session, journey, now_us)
        # Behind what is published again, which has lower numbers.
        self._timers.set((SPREADING_TIMER, journey), now_us)
        self._await_settling(session, journey, now_us)

    def due(self, kind: str, journey: Journey, now_us: int) -> None:
        """One of this module's timers."""
        move = self._moves.get(journey)
        if move is not None and kind == ARRIVING_TIMER:
            self._turns.take(self._release(move), now_us)
        elif move is not None and kind == SPREADING_TIMER:
            self._tell_groups(move, now_us)
            self._bid_farewells(move.session, now_us)
        elif move is not None and kind == OPEN_TIMER:
            self.close(journey, now_us)
        elif move is not None and kind == SETTLING_TIMER:
            move.session.may_publish()
        elif kind == LATE_TIMER:
            session, known = self._late.pop(journey)
            diversion = session.diversion
            if diversion is not None and diversion.known is known:
                if isinstance(diversion, Latecomers):
                    session.diversion = None
                else:
                    diversion.known = {}

    def heard(self, move: Move, now_us: int) -> None:
        """A broker where the session was is there."""
        if move.is_holding:
            self._timers.set((ARRIVING_TIMER, move.arrival), now_us + ARRIVING_US)

    def _await_settling(self, session: Session, journey: Journey, now_us: int) -> None:
        if session.waits_to_publish:
            self._timers.set((SETTLING_TIMER, journey), now_us + ARRIVING_US)

    def settling(self, journey: Journey, now_us: int, *, is_settled: bool) -> None:
        """A broker where the session was says how far what its client published there is."""
        move = self._moves.get(journey)
        if move is not None and is_settled:
            self._timers.cancel((SETTLING_TIMER, journey))
            move.session.may_publish()
        elif move is not None:
            self._await_settling(move.session, journey, now_us)

    def _say(self, to: str, control: Departed, now_us: int) -> int:
        return self._door.send(to, encode_control(control), now_us)

    def remember(
        self, session: Session, came: Iterable[tuple[str, int]], held: list[Outgoing]
    ) -> None:
        """What a session that had just come when the broker stopped has got, and what was held."""
        move = session.diversion
        if isinstance(move, Move) and move.arrival is not None:
            move.known.update(dict.fromkeys(came))
            move.hold(held)

    def make(self, state: SessionState, waiting: Waiting, given: Move | None, now_us: int) -> None:
        """A session whose subscriptions are filed is here, with the rest of what was sent."""
        filling = waiting.filling
        assert filling is not None
        rest = self._take_back(given, state, waiting, now_us) if given is not None else []
        session = filling.session
        self._sessions.put(session)
        session.began_us, session.entered_us = state.began_us, state.journey[1]
        move = self.expect(session, state.journey, now_us)
        session.remember(state.received)
        if given is not None and _stayed_open(given, state):
            take_over(session, given.session)
        session.waits_to_publish = not state.is_settled
        self._await_settling(session, state.journey, now_us)
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
        if given is not None:
            held, given.held = given.held, deque()
            move.hold(held)
            for each in move.held:
                each.serial = 0
            self._owe_farewell(session, move, given, now_us)
        move.untold = filling.shared
        self._tell_groups(move, now_us)

    def _note_had(self, session: Session, state: SessionState, given: Move | None) -> None:
        """What it had elsewhere; of what came here before it, it lacks what it had not.

        What came here since it was given has gone after it, or waits for it.
        """
        here: Last = {}
        stayed = given is not None and _stayed_open(given, state) and not given.may_have_departed
        if self.journal is not None and not stayed:
            here = self.journal.heard_in_short.last
        had = Had.arrived(state.had, state.gaps, Heard(state.heard, state.all_heard), here)
        if had.last or had.gaps:
            session.had = had
            self._sessions.lacking.note(had)

    def _tell_groups(self, move: Move, now_us: int) -> None:
        """Tell groups that a session is here, a few at a time; with all, it can be spread."""
        if not move.tell_groups(self._subscriptions):
            self._timers.set((SPREADING_TIMER, move.arrival), now_us + 1)
        else:
            self.spread(move, now_us)

    def spread(self, move: Move, now_us: int) -> None:
        """Find out when every broker knows what a session has subscribed to."""

        def spread(_: int) -> None:
            move.is_spread = True

        self._spreading.owe(spread, now_us)

    def _take_back(
        self, given: Move, state: SessionState, waiting: Waiting, now_us: int
    ) -> list[Outgoing]:
        """A session that was given comes back: what it got here since, and the other has not."""
        session = given.session
        rest: list[Outgoing] = []
        # By way of whomever it comes: as long as this broker has not departed, all of them tell
        # what has come on that journey.
        if _stayed_open(given, state):
            for outgoing in session.on_its_way():
                key = outgoing.message.key
                if key is not None and not outgoing.packet_id and key not in waiting.came:
                    rest.append(
                        Outgoing(
                            outgoing.message, outgoing.qos, outgoing.retain, outgoing.identifiers
                        )
                    )
        self.forget(session)
        self._sessions.drop(session)
        return rest

    def _owe_farewell(self, session: Session, move: Move, given: Move, now_us: int) -> None:
        """A session that was given has come back: nothing more goes to where it went.

        But for what still comes here from where it was before.
        """
        assert given.target is not None
        broker, journey = given.target
        at_us, after_us = journey[1], None
        move.loops = given.loops
        if given.arrival is not None:
            after_us = given.arrival[1]
            move.loops[after_us] = Loop(broker, journey, given.known)
        session.farewells = (*given.session.farewells, Farewell(broker, at_us, after_us))
        self._bid_farewells(session, now_us)

    def _release_farewell(self, journey: Journey, now_us: int) -> None:
        """All has come on a journey that a farewell waits for."""
        move = self._back(journey)
        assert move is not None
        session = move.session
        move.all_came_late(journey[1], now_us)
        session.farewells = tuple(
            each._replace(after_us=None) if each.after_us == journey[1] else each
            for each in session.farewells
        )
        if session.journal is not None:
            session.journal.moved(session)
        self._bid_farewells(session, now_us)

    def _bid_farewells(self, session: Session, now_us: int) -> None:
        """Say the last words that wait for nothing; each is owed until it is there."""
        for farewell in session.farewells:
            journey = (session.client_id, farewell.at_us)
            if farewell.after_us is None and journey not in self._said:
                self._said.add(journey)
                control = Departed(journey, self._broker_id)
                self._door.notice(
                    self._say(farewell.broker, control, now_us),
                    partial(self._farewell_is_there, journey),
                )

    def _farewell_is_there(self, journey: Journey, _: int) -> None:
        self._said.discard(journey)
        session = self._sessions.get(journey[0])
        if session is not None and session.farewells:
            session.farewells = tuple(
                each for each in session.farewells if each.at_us != journey[1]
            )
            if session.journal is not None:
                session.journal.moved(session)

    def expect(self, session: Session, journey: Journey, now_us: int) -> Move:
        """More may come for a session, from where it was."""
        move = session.diversion = Move(session, journey, self._send_item)
        session.arriving_us = journey[1]
        for outgoing in session.on_its_way():
            if outgoing.message.key is not None:
                move.known[outgoing.message.key] = None
        self._moves[journey] = move
        self._timers.set((ARRIVING_TIMER, journey), now_us + ARRIVING_US)
        self._timers.set((OPEN_TIMER, journey), now_us + OPEN_US)
        return move

    def close(self, journey: Journey, now_us: int) -> None:
        """All has come from where the client was: what was held back is delivered."""
        move = self._moves.get(journey)
        if move is None:
            self._release_farewell(journey, now_us)
            return
        if journey not in self._closing:
            self._closing.add(journey)
            self._turns.take(self._close(move, journey), now_us)

    def go_on(self, now_us: int) -> None:
        """A turn."""
        self._turns.go_on(now_us)

    def _is_here(self, move: Move) -> bool:
        session = move.session
        is_arriving = move.arrival is not None and self._moves.get(move.arrival) is move
        return is_arriving and self._sessions.get(session.client_id) is session

    def _release(self, move: Move) -> Iterator[int]:
        """Deliver what was held back, unless the session ends or goes meanwhile."""
        while self._is_here(move):
            move.release(self._turns.now_us)
            yield 1
            if not move.held:
                return

    def _close(self, move: Move, journey: Journey) -> Iterator[int]:
        yield from self._release(move)
        self._closing.discard(journey)
        if not self._is_here(move):
            return
        self.forget(move.session)
        move.session.may_publish()
        move.session.farewells = ()
        move.close()
        if move.known:
            self._late[journey] = (move.session, move.known)
            self._timers.set((LATE_TIMER, journey), self._turns.now_us + LATE_US)

    def forget(self, session: Session) -> None:
        """A session has arrived, or has ended."""
        move = session.diversion
        if isinstance(move, Move) and move.arrival is not None:
            self._timers.cancel((ARRIVING_TIMER, move.arrival))
            self._timers.cancel((OPEN_TIMER, move.arrival))
            self._timers.cancel((SETTLING_TIMER, move.arrival))
            self._moves.pop(move.arrival, None)


def _stayed_open(given: Move, state: SessionState) -> bool:
    """Whether a session that comes back took what this broker got since it was given."""
    return not given.is_departed and given.session.began_us == state.began_us
