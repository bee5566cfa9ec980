"""Sessions that were sent to another broker, and are kept here until they are there.

A copy of the session goes; this broker keeps it, goes on collecting for it, and asks the other
until it hears what became of it.  So neither broker's death takes it, and a question that nobody
wants answered any more costs it nothing.

| state | hears or sees | does → state |
| --- | --- | --- |
| home | Entered, asking | Items, SessionParts, SessionState, in turns → given |
| given | a second over | Offer |
| given | Adopted | → adopted |
| given | Declined | stays home, or goes to who asked meanwhile |
| given | Entered on a later journey, asking | Offer; the question waits for what became of it |
| given, adopted | something for the client | keeps it, and sends an Item |
| given, adopted | a second over, or all that its client published is settled | Settling |
| adopted | DEPARTING_US over with all links up, all has come and is settled | Departed → departed |
| departed | a second over | Departed, again |
| any | Taken | forgets the session |
| any | killed and started again | as given; all it has is sent once it is adopted |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.door.network import Door
from shoal.mqtt.federation.controls import (
    Adopted,
    Declined,
    Departed,
    Entered,
    Journey,
    Offer,
    SessionState,
    Settling,
    Taken,
    encode_control,
)
from shoal.mqtt.federation.handing import BYTES_PER_WORK, Handing
from shoal.mqtt.federation.roaming.moves import Move
from shoal.mqtt.federation.roaming.whereabouts.homes import Home
from shoal.mqtt.federation.said import item_of, parts_of
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.sessions.delivering.outgoing import Outgoing
from shoal.mqtt.sessions.had import Gaps, Last
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.timers import Timers

ASK_US = MICROSECONDS
# What was published before every broker knew of the new place may be under way so long.
DEPARTING_US = 2 * MICROSECONDS

# When to look again whether all has been said.
LATER_US = MICROSECONDS // 100
# Of a part of a session: as much work as a message.
PART_BYTES_PER_WORK = 256

GIVING_TIMER = "giving"
SAYING_TIMER = "saying"


class Giving:
    """One broker's given sessions.

    `stays` is told of a session that another broker does not want after all, `gone` of one that it
    has all of.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: Subscriptions,
        door: Door,
        timers: Timers,
        stays: Callable[[Move, int], None],
        gone: Callable[[Session, Home, int], None],
    ) -> None:
        self.journal: Journal | None = None
        self._broker_id = broker_id
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._door = door
        self._timers = timers
        self._stays = stays
        self._gone = gone
        self._moves: dict[str, Move] = {}
        # What is much to say is said in turns, and what comes meanwhile behind it.
        self._turns = Handing(timers, lambda: False, SAYING_TIMER)

    def get(self, client_id: str) -> Move | None:
        """Where a client's session goes, if it goes."""
        return self._moves.get(client_id)

    def keeps(self, session: Session) -> bool:
        """Whether a session that outlives its connection is here, and was not sent anywhere."""
        is_kept = session.expiry_interval_s > 0 and not session.is_departed
        return is_kept and self.get(session.client_id) is None

    def home(self, client_id: str) -> Home | None:
        """Where a session that was given is, as far as is known here."""
        move = self._moves.get(client_id)
        if move is None or move.target is None:
            return None
        broker, (_, at_us) = move.target
        return Home(broker, at_us, move.session.user)

    def give(self, session: Session, broker: BrokerId, journey: Journey, now_us: int) -> None:
        """Send a session to a broker."""
        self.withdraw(session.client_id)
        late = session.diversion
        if isinstance(late, Move):
            move = late
        else:
            move = session.diversion = Move(session, None, self.send_item)
            if late is not None:
                move.known = late.known
        self._begin(move, broker, journey, now_us)
        self._sessions.suspend(session)
        session.going = (broker, journey[1])
        if session.journal is not None:
            session.journal.moved(session)
        items = tuple(session.on_its_way())
        state = SessionState(
            journey,
            True,
            len(items),
            0,
            tuple(sorted(session.received)),
            session.user,
            session.began_us,
            session.arriving_us,
            *self._had(session),
            session.is_settled,
        )
        move.is_settling = not session.is_settled
        subscriptions = tuple(session.subscriptions.values())
        # All as it is now: what comes from now on goes behind.
        steps = self._session(items, subscriptions, tuple(move.known), state, broker)
        self._turns.take(steps, now_us)

    def _session(
        self,
        items: Iterable[Outgoing],
        subscriptions: Iterable[ClientSubscription],
        came: Iterable[tuple[str, int]],
        state: SessionState,
        broker: BrokerId,
    ) -> Iterator[int]:
        """Say it: messages, parts, then the state, which counts them."""
        yield from self._items(items, broker, state.journey)
        parts = 0
        for part in parts_of(subscriptions, state.journey, came):
            parts += 1
            body = encode_control(part)
            self._say(broker, body, self._turns.now_us)
            yield len(body) // PART_BYTES_PER_WORK
        state = msgspec.structs.replace(state, parts=parts)
        self._say(broker, encode_control(state), self._turns.now_us)

    def _items(
        self, items: Iterable[Outgoing], broker: BrokerId, journey: Journey
    ) -> Iterator[int]:
        for outgoing in items:
            body = encode_control(item_of(outgoing, journey, self._turns.now_us))
            self._say(broker, body, self._turns.now_us)
            yield 1 + len(body) // BYTES_PER_WORK

    def _had(self, session: Session) -> tuple[Last, Mapping[str, Gaps], Last, bool]:
        """What a session has had, what it lacks, and what it may have had (see `SessionState`).

        It has had what came here, unless that may have come elsewhere.  All before the last one of
        a stream has come, too, where order is kept.
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
        """A session had been sent when the broker was killed."""
        assert session.going is not None
        broker, at_us = session.going
        move = session.diversion
        if not isinstance(move, Move):
            move = session.diversion = Move(session, None, self.send_item)
        journey = (session.client_id, at_us)
        self._begin(move, broker, journey, now_us)
        # The other has waited all the time that this broker was down: it hears at once.
        self._timers.set((GIVING_TIMER, journey), now_us)
        move.is_restored = move.may_have_departed = move.is_settling = True

    def _begin(self, move: Move, broker: BrokerId, journey: Journey, now_us: int) -> None:
        move.give_to(broker, journey)
        self._moves[journey[0]] = move
        move.is_settling = move.is_telling = False
        move.session.at_settled = lambda: self._timers.set((GIVING_TIMER, journey), 0)
        self._timers.set((GIVING_TIMER, journey), now_us + ASK_US)

    def withdraw(self, client_id: str) -> Move | None:
        """The session stays, is over, or goes elsewhere; nothing more is asked about it."""
        move = self._moves.pop(client_id, None)
        if move is not None:
            assert move.target is not None
            self._timers.cancel((GIVING_TIMER, move.target[1]))
            move.session.going = move.session.at_settled = None
        return move

    def send_item(
        self, outgoing: Outgoing, broker: BrokerId, journey: Journey, now_us: int
    ) -> None:
        """Send something on to where a session goes, behind what is still to be said of it."""
        self._turns.take(self._items((outgoing,), broker, journey), now_us)

    def ask_for(self, move: Move, question: Entered, now_us: int) -> None:
        """Another broker wants the session: who has it must be known first."""
        move.question = question
        self._ask(move, now_us)

    def go_on(self, now_us: int) -> None:
        """A turn."""
        self._turns.go_on(now_us)

    def due(self, journey: Journey, now_us: int) -> None:
        """Time to ask again, or to depart."""
        move = self._moves.get(journey[0])
        if move is None or move.target is None or move.target[1] != journey:
            return
        if self._turns.is_on:  # nothing is asked or told before all is said
            self._timers.set((GIVING_TIMER, journey), now_us + LATER_US)
            return
        if move.is_settling:
            self._tell_of_settling(move, now_us)
        may_depart = move.is_adopted and not move.is_departed and now_us >= move.departs_us
        must_stay = bool(move.session.unsettled) or self._waits_for_links(move, now_us)
        if may_depart and not must_stay and move.arrival is None:
            move.is_departed = True
            move.is_asking = False
            move.untold = [each for each in move.session.subscriptions.values() if each.shared]
            self._subscriptions.presence_is_told(move.session)
        if move.is_departed and not move.tell_groups(self._subscriptions):
            self._timers.set((GIVING_TIMER, journey), now_us + 1)
            return
        # While what the client published here is not settled, only this journal has it; and what
        # waits for a link comes here only.  It is kept, without a word, so that the other does not
        # hold back what it has.
        if not (may_depart and must_stay):
            self._ask(move, now_us)
        self._timers.set((GIVING_TIMER, journey), now_us + ASK_US)

    def _waits_for_links(self, move: Move, now_us: int) -> bool:
        """Whether something may still come that a broker had for the session before it went."""
        if self._door.waits_for_links():
            move.linked_us = now_us + DEPARTING_US
        return now_us < move.linked_us

    def _tell_of_settling(self, move: Move, now_us: int) -> None:
        """One word at a time, as in `_ask`; that all is settled is said in any case."""
        is_settled = move.session.is_settled
        if move.is_telling and not is_settled:
            return
        assert move.target is not None
        broker, journey = move.target
        move.is_telling, move.is_settling = True, not is_settled

        def told(_: int) -> None:
            move.is_telling = False

        control = Settling(journey, self._broker_id, is_settled)
        self._door.notice(self._say(broker, encode_control(control), now_us), told)

    def _ask(self, move: Move, now_us: int) -> None:
        """One question at a time, of what was said: more would only fill a link that is down."""
        if move.is_asking or self._turns.is_on:
            return
        assert move.target is not None
        broker, journey = move.target
        own = self._broker_id
        control = Departed(journey, own) if move.is_departed else Offer(journey, own)
        move.is_asking = True

        def settled(_: int) -> None:
            move.is_asking = False

        self._door.notice(self._say(broker, encode_control(control), now_us), settled)

    def _say(self, to: BrokerId, body: bytes, now_us: int) -> int:
        return self._door.send(to, body, now_us)

    def hear(self, control: Adopted | Declined | Taken, now_us: int) -> None:
        """What became of a session."""
        client_id = control.journey[0]
        move = self._moves.get(client_id)
        if move is None or move.target is None or move.target[1] != control.journey:
            return
        match control:
            case Adopted():
                self._adopted(move, now_us)
            case Taken():
                where = Home(move.target[0], move.target[1][1], move.session.user)
                self.withdraw(client_id)
                self._sessions.drop(move.session)
                self._gone(move.session, where, now_us)
            case Declined(_, broker):
                if broker != move.target[0]:
                    return  # of another that had asked in the same microsecond
                question = move.question
                self.withdraw(client_id)
                if question is None:
                    self._stays(move, now_us)
                else:
                    journey = (client_id, question.at_us)
                    self.give(move.session, question.broker, journey, now_us)

    def _adopted(self, move: Move, now_us: int) -> None:
        move.question = None  # the other broker has heard it, too
        if move.is_adopted:
            return
        move.is_adopted = True
        move.departs_us = now_us + DEPARTING_US
        if move.is_restored:
            assert move.target is not None
            move.is_restored = False
            kept = [each for each in move.session.on_its_way() if each.message.key is not None]
            self._turns.take(self._items(kept, *move.target), now_us)
