"""One client, one session, at whichever broker of the network it connects.

Every broker tells those whom it concerns whom it has let in (see `telling`); who still has that
client lets it go.  A client that comes back elsewhere and wants its session waits until the broker
that has it has sent it (see `fetching`): its subscriptions, and what was in flight or waited.  That
broker keeps it and goes on collecting for it, and sends on what it gets, until the new one has all
of it on its disk and its subscriptions are known everywhere (see `giving`); meanwhile the new
broker holds back what arrives by itself, and delivers of that, in the end, what did not come from
the old one.  So nothing is lost, doubled, or out of order, however often the client moves on before
it is over, and whoever is killed meanwhile.  What is said and done, step by step, is in the
package's docstring.
"""

from __future__ import annotations

from functools import partial

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.access import ANOTHER_USERS, Admission
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.door.network import EVERY_BROKER, Door
from shoal.mqtt.federation.controls import (
    Adopted,
    AskedThere,
    Control,
    Declined,
    Departed,
    Ended,
    Entered,
    Hello,
    Here,
    Item,
    Journey,
    Known,
    Offer,
    Refused,
    Register,
    SessionPart,
    SessionState,
    Settling,
    Several,
    Sought,
    Taken,
    TakenOver,
    TakeOver,
    encode_control,
)
from shoal.mqtt.federation.granting import Granting
from shoal.mqtt.federation.roaming.arriving import Arriving
from shoal.mqtt.federation.roaming.fetching import WAITING_TIMER, Fetching
from shoal.mqtt.federation.roaming.filling import Filling
from shoal.mqtt.federation.roaming.giving import GIVING_TIMER, Giving
from shoal.mqtt.federation.roaming.letting_go import LettingGo
from shoal.mqtt.federation.roaming.moves import Move, Waiting
from shoal.mqtt.federation.roaming.questions import ASKING_TIMER
from shoal.mqtt.federation.roaming.receipts import Receipts
from shoal.mqtt.federation.roaming.redirecting import REDIRECTED_TIMER, Redirecting
from shoal.mqtt.federation.roaming.starting import Starting
from shoal.mqtt.federation.roaming.takeovers import TAKEOVER_TIMER, Takeovers
from shoal.mqtt.federation.roaming.whereabouts.homes import Home, Homes
from shoal.mqtt.federation.roaming.whereabouts.listing import Listing
from shoal.mqtt.federation.roaming.whereabouts.registering import Registry
from shoal.mqtt.federation.roaming.whereabouts.telling import Telling
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.timers import Timers


class Roaming:
    """The sessions of one broker that come from, or go to, another.

    `spreading` answers when every broker has heard what the door has asked for; `problems` gets in
    words what cannot be kept.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: Subscriptions,
        problems: list[str],
        door: Door,
        timers: Timers,
        spreading: Granting,
        now_us: int,
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._door = door
        self._timers = timers
        self._journal: Journal | None = None
        # When and where each client of the network connected last.
        self._entered: dict[str, tuple[int, BrokerId]] = {}
        self.homes = Homes()
        # Where clients are whose registrar this broker is.
        self.registry = Registry()
        self.telling = Telling(broker_id, timers, self._say, self._registered)
        self.listing = Listing(sessions, self.telling, timers, self._own)
        fill = partial(Filling, sessions, subscriptions, problems)
        self.fetching = Fetching(broker_id, sessions, timers, self._say, self._come, fill)
        self.starting = Starting(broker_id, sessions, timers, self._say, self._come_unknown, now_us)
        self.giving = Giving(
            broker_id, sessions, subscriptions, door, timers, self._stay, self._gone
        )
        self._letting_go = LettingGo(broker_id, sessions, self.giving, self._say)
        self.takeovers = Takeovers(
            broker_id, sessions, self.giving, door, timers, self._say, self._place
        )
        send_item = self.giving.send_item
        self.arriving = Arriving(
            broker_id, sessions, subscriptions, door, timers, spreading, send_item
        )
        self._receipts = Receipts(
            broker_id, sessions, self.homes, self.fetching, self.arriving, self._say
        )
        self.redirecting = Redirecting(timers, self._on_entered)
        sessions.at_end = self._ended

    def begin_journal(self, journal: Journal) -> None:
        """From now on say what changes."""
        self._journal = self.homes.journal = self.giving.journal = journal
        self.fetching.journal = self._receipts.journal = self.arriving.journal = journal

    # --- what happens here --------------------------------------------------------------------

    def must_wait(
        self, connection: ClientConnection, connect: Connect, admission: Admission, now_us: int
    ) -> bool:
        """Whether the client's session is elsewhere, and has been asked for."""
        client_id = connect.client_id
        self.starting.turn_away(client_id, now_us)
        if self.fetching.connects_again(connection, connect, admission, now_us):
            return True
        home = self.giving.home(client_id) or self.homes.entry(client_id)
        if home is None:
            return self.starting.must_wait(connection, connect, admission, now_us)
        if connect.clean_start and home.user == admission.user:
            return False
        at_us = self._stamp(client_id, now_us)
        self.telling.flush(now_us)
        question = Entered(client_id, self._broker_id, at_us, True, home.broker, admission.user)
        self._say(EVERY_BROKER, question, now_us)
        self.fetching.begin((client_id, at_us), home, connection, admission, now_us)
        return True

    def entered(self, session: Session, now_us: int, *, is_connected: bool = False) -> None:
        """A client was let in, or a session alone has come."""
        client_id = session.client_id
        self.redirecting.end(client_id, now_us)
        is_here = self._entered.get(client_id) == (session.entered_us, self._broker_id)
        is_kept = session.expiry_interval_s > 0
        is_here = is_here and is_kept and self.giving.get(client_id) is None
        if not is_here or not self.telling.comes_back(client_id, session.entered_us, now_us):
            self._announce(session, now_us, is_connected=is_connected)

    def _announce(self, session: Session, now_us: int, *, is_connected: bool = False) -> None:
        """Say that a client is here, later than anybody has said that it is elsewhere."""
        client_id = session.client_id
        has_come = session.arriving_us is not None
        former = self._place(client_id, self._broker_id)
        is_known = self.homes.entry(client_id) is not None
        self.homes.pop(client_id)
        session.entered_us = self._stamp(client_id, now_us)
        session.began_us = session.began_us or session.entered_us
        about = self.telling.about(session)
        brokers = self._brokers_to_ask(client_id, former, now_us)
        if is_connected and brokers and not has_come:
            is_asked = former is None
            if is_asked:
                about = msgspec.structs.replace(about, asks=brokers[0])
            self.takeovers.begin(session, brokers, now_us, is_asked=is_asked)
        self.telling.entered(about, now_us, is_known=is_known)

    def _brokers_to_ask(
        self, client_id: str, former: BrokerId | None, now_us: int
    ) -> list[BrokerId]:
        """Who may know a client's connection elsewhere; none where this broker knows of none."""
        registrars = self.telling.registrars(client_id)
        is_sure = self._broker_id in registrars and not self.starting.unheard(now_us)
        if former is None and is_sure:
            return []
        others = [each for each in registrars if each not in (self._broker_id, former)]
        return others if former is None else [former, *others]

    def going(self, client_id: str) -> BrokerId | None:
        """Where a client's session was sent, or is after that; None if it was not sent anywhere."""
        home = self.giving.home(client_id)
        if home is None and client_id not in self._sessions:
            home = self.homes.entry(client_id)
        return None if home is None else home.broker

    def is_at(self, client_id: str, broker: BrokerId, entered_us: int, user: str) -> None:
        """A client is at another broker, which says so itself."""
        known = self.homes.entry(client_id)
        if client_id not in self._sessions and (known is None or known.at_us <= entered_us):
            had_us = 0 if known is None else known.had_us
            self.homes.put(client_id, Home(broker, entered_us, user, had_us))

    def restored(self, session: Session, now_us: int) -> None:
        """A session is here since before the broker started; whoever joins the network is told.

        If it had just come, more may still come from where it was; if it was to go, it is kept.
        """
        if session.arriving_us is not None:
            self.arriving.restored(session, session.arriving_us, now_us)
        if session.going is not None:
            broker, at_us = session.going
            self._entered[session.client_id] = (at_us, broker)
            self.giving.restored(session, now_us)
        else:
            self._entered[session.client_id] = (session.entered_us, self._broker_id)
            self.telling.restored(self.telling.about(session))

    def restore_home(self, client_id: str, home: Home) -> None:
        """A session was elsewhere when the broker stopped."""
        self.homes.put(client_id, home)
        self._entered[client_id] = (home.at_us, home.broker)

    def _ended(self, session: Session, now_us: int) -> None:
        """A session has ended here."""
        client_id = session.client_id
        self.giving.withdraw(client_id)
        self.arriving.forget(session)
        if self._entered.get(client_id, (0, ""))[1] == self._broker_id:
            del self._entered[client_id]
        # Also of one whose client is elsewhere by now: that word may have overtaken this broker's.
        self.telling.ended(Ended(client_id, self._broker_id), now_us, is_stale=True)

    def _gone(self, session: Session, where: Home, now_us: int) -> None:
        """Another broker has all of a session; it may have said so when nobody listened."""
        self.telling.ended(Ended(session.client_id, self._broker_id), now_us, is_stale=False)
        home = self.homes.entry(session.client_id)
        if home is None or home.at_us < where.at_us:
            home = where
        self.homes.put(session.client_id, home._replace(had_us=session.entered_us))

    def tell_clients(self, broker: str, now_us: int) -> None:
        """Say to a broker, or to all, which clients are here, as far as it is to know."""
        self.fetching.heard_of(broker, now_us)
        self.listing.tell(broker, now_us)

    def _own(self, client_id: str) -> Entered | None:
        """Of a client that is here; those that wait for their session are not yet."""
        session = self._sessions.get(client_id)
        if session is None or client_id not in self._entered:
            return None
        # Elsewhere it may only have been asked for.
        is_here = self._entered[client_id][1] == self._broker_id or self.giving.keeps(session)
        return self.telling.about(session) if is_here else None

    def met(self, control: Hello | Here, now_us: int) -> None:
        """A broker says that it is there; with Hello, that it begins."""
        self.telling.met(control.broker)
        self.takeovers.heard_of(control.broker)
        if isinstance(control, Hello):
            self.registry.forget(control.broker)

    def broker_left(self, broker: BrokerId, now_us: int) -> None:
        """A broker has left for good."""
        self.registry.forget(broker)
        self.listing.left(broker, now_us)
        self.starting.left(broker, now_us)

    def due(self, kind: str, journey: Journey, now_us: int) -> None:
        """One of this module's timers."""
        if kind == WAITING_TIMER:
            self.fetching.due(journey, now_us)
        elif kind == ASKING_TIMER:
            self.fetching.questions.due(journey[0], now_us)
        elif kind == GIVING_TIMER:
            self.giving.due(journey, now_us)
        elif kind == TAKEOVER_TIMER:
            self.takeovers.due(journey, now_us)
        elif kind == REDIRECTED_TIMER:
            self.redirecting.end(journey[0], now_us)
        else:
            self.arriving.due(kind, journey, now_us)

    def _stamp(self, client_id: str, now_us: int) -> int:
        """A client enters here: later than anything known, also where another clock is ahead."""
        known_us, _ = self._entered.get(client_id, (0, ""))
        at_us = max(now_us, known_us + 1)
        self._entered[client_id] = (at_us, self._broker_id)
        return at_us

    def _say(self, to: str, control: Control, now_us: int) -> None:
        self._door.send(to, encode_control(control), now_us)

    # --- what other brokers say ---------------------------------------------------------------

    def hear(self, control: Control, now_us: int) -> None:
        """Another broker's MQTT side says something about a client."""
        if isinstance(control, Entered | Ended | Settling | Offer | Departed):
            self.fetching.heard_of(control.broker, now_us)
            self.takeovers.heard_of(control.broker)
        match control:
            case Entered():
                self._take_over(control, now_us)
                self._on_entered(control, now_us)
            case Refused(journey):
                self._on_refused(journey, now_us)
            case TakeOver():
                self.takeovers.asked(control, now_us)
            case AskedThere(journey, broker):
                self.takeovers.asked_there(journey, broker)
            case TakenOver(journey):
                self.takeovers.taken_over(journey)
            case Register(entered):
                self._take_over(entered, now_us)
                self._registered(entered, now_us)
            case Several(controls, parts=0):
                for each in controls:
                    self.hear(each, now_us)
            case Several(controls):
                self.fetching.heard_of(control.broker, now_us)
                for each in controls:
                    if isinstance(each, Entered):
                        self._on_entered(each, now_us, is_listed=True)
                self.starting.hear(control, now_us)
            case Ended(client_id, broker):
                self.registry.end(client_id, broker)
                if self._entered.get(client_id, (0, None))[1] == broker:
                    del self._entered[client_id]
                    self.homes.pop(client_id)
                    move = self.giving.get(client_id)
                    if move is not None:
                        self._letting_go.over(move.session, now_us)
                elif self.homes.get(client_id) == broker:
                    self.homes.pop(client_id)  # somebody has asked for it meanwhile
            case Sought(client_ids, broker):
                for about in self.homes.whereabouts(client_ids, broker):
                    self._say(broker, Known(about), now_us)
            case Known(entered):
                self._on_entered(entered, now_us, is_listed=True)
                self.starting.known(entered.client_id, now_us)
            case Item() if self.arriving.came(control, now_us):
                pass
            case Item() | SessionPart() | SessionState():
                self.fetching.hear(control, now_us)
            case Settling(journey, _, is_settled):
                self.arriving.settling(journey, now_us, is_settled=is_settled)
            case Offer() | Departed():
                self._receipts.answer(control, now_us)
            case Adopted() | Declined() | Taken():
                self.giving.hear(control, now_us)

    def _take_over(self, control: Entered, now_us: int) -> None:
        """If this broker is asked to: end the client's connection wherever it was."""
        if control.asks == self._broker_id:
            question = TakeOver(control.client_id, control.at_us, control.broker, control.user)
            self.takeovers.asked(question, now_us)

    def _on_entered(self, control: Entered, now_us: int, *, is_listed: bool = False) -> None:
        client_id, stamp = control.client_id, (control.at_us, control.broker)
        session = self._sessions.get(client_id)
        if self._entered.get(client_id, (0, "")) > stamp:  # who connected later keeps the client
            if session is not None and self.telling.is_registered(client_id):
                self.telling.put_right(session, control.broker, now_us)
            known = self.homes.entry(client_id)
            if control.asked is None and control.is_kept and known is not None:
                # Somebody has asked for it since: that it had come there is news all the same.
                self.is_at(client_id, control.broker, control.at_us, control.user)
            return
        home = self.homes.entry(client_id)
        if session is not None and session.user != control.user:
            self._say(control.broker, Refused((client_id, control.at_us)), now_us)
            self.telling.put_right(session, control.broker, now_us)
            return
        if session is None and home is not None and home.user != control.user:
            if control.asked == self._broker_id:
                self._letting_go.pass_on(control, home, now_us)
            return
        if session is not None and self._is_back(session, control.at_us):
            self._announce(session, now_us)
            if self._journal is not None:
                self._journal.entered(session)
            return
        self._entered[client_id] = stamp
        if control.asked is not None and self.redirecting.holds(control, now_us):
            return
        if control.asked is None and control.is_kept:
            had_us = 0 if home is None else home.had_us
            self.homes.put(client_id, Home(control.broker, control.at_us, control.user, had_us))
        elif control.asked is None:
            self.homes.pop(client_id)
        self.fetching.turn_away(client_id, now_us)
        if not is_listed:
            self.starting.turn_away(client_id, now_us, control.at_us)
        if session is None:
            if control.asked == self._broker_id:
                self._letting_go.pass_on(control, home, now_us)
        elif control.asked is None:
            self._letting_go.is_elsewhere(session, control, now_us)
        else:
            self._letting_go.is_asked_for(session, control, now_us)
        if control.registered and client_id not in self._sessions:
            self._entered.pop(client_id, None)

    def _is_back(self, session: Session, at_us: int) -> bool:
        """Whether its client came here again later than elsewhere, of which nobody was told."""
        _, broker = self._entered.get(session.client_id, (0, ""))
        is_later = broker == self._broker_id and self.telling.back_us(session.client_id) > at_us
        return is_later and session.outlet is not None

    def _registered(self, control: Entered | Ended, now_us: int) -> None:
        """A client's registrar hears where it is, and tells those that must know."""
        if isinstance(control, Ended):
            self.registry.end(control.client_id, control.broker)
            return
        client_id = control.client_id
        _, entered = self._entered.get(client_id, (0, None))
        places = {self.registry.place(client_id), self.homes.get(client_id), entered}
        if client_id in self._sessions or client_id in self.fetching.waiting:
            places.add(self._broker_id)
        for place in sorted(place for place in places if place not in (None, control.broker)):
            if place == self._broker_id:
                self._on_entered(control, now_us)
            else:
                self._say(place, control, now_us)
        self.registry.put(control)

    def _place(self, client_id: str, asking: BrokerId) -> BrokerId | None:
        """Where a client was before it connected at the broker that asks, as far as is known."""
        _, entered = self._entered.get(client_id, (0, None))
        if client_id in self._sessions and asking != self._broker_id:
            return self._broker_id
        for place in (self.registry.place(client_id), self.homes.get(client_id), entered):
            if place not in (None, asking, self._broker_id):
                return place
        return None

    def _on_refused(self, journey: Journey, now_us: int) -> None:
        client_id, at_us = journey
        if self.fetching.journey(client_id) == journey:
            self.fetching.disconnect(journey, ReasonCode.NOT_AUTHORIZED, ANOTHER_USERS, now_us)
            if self._entered.get(client_id) == (at_us, self._broker_id):
                del self._entered[client_id]
                self._say(EVERY_BROKER, Ended(client_id, self._broker_id), now_us)
            return
        session = self._sessions.get(client_id)
        if session is not None and session.entered_us == at_us:
            why = ReasonCode.NOT_AUTHORIZED, ANOTHER_USERS
            let_go = self._sessions.let_go(client_id, now_us, *why)
            if let_go is not None:
                self._sessions.end(let_go, now_us)

    # --- a session stays ----------------------------------------------------------------------

    def _stay(self, move: Move, now_us: int) -> None:
        """Where a session was sent it is not wanted: it is here, as before."""
        session = move.session
        client_id = session.client_id
        assert move.target is not None
        broker, (_, at_us) = move.target
        move.stay()
        session.going = None
        self.homes.pop(client_id)
        known_us, known = self._entered.get(client_id, (0, ""))
        if known == broker:
            # Later than that journey, and than it was let in there, and before any other.
            session.entered_us = max(at_us, known_us) + 1
            self._entered[client_id] = (session.entered_us, self._broker_id)
            self.telling.tell_all(self.telling.about(session), now_us)
        elif known == self._broker_id and known_us > session.entered_us:
            # This broker has asked for it meanwhile, and others believe nothing older.
            session.entered_us = known_us
            self.telling.tell_all(self.telling.about(session), now_us)
        self._sessions.restored(session, now_us)

    # --- a session comes ----------------------------------------------------------------------

    def _come_unknown(
        self, connection: ClientConnection, connect: Connect, admission: Admission, now_us: int
    ) -> None:
        """A client need not wait any longer for what this broker, which has started, may hear."""
        if not self.must_wait(connection, connect, admission, now_us):
            connection.go_on(admission, now_us)

    def _come(
        self, journey: Journey, waiting: Waiting, state: SessionState | None, now_us: int
    ) -> None:
        """A client need not wait any longer: its session is here, or there is none."""
        given = self.giving.withdraw(journey[0])
        if state is not None and state.exists:
            self.arriving.make(state, waiting, given, now_us)
        elif given is not None:
            self._stay(given, now_us)
        else:
            self.takeovers.has_not_answered(waiting.home)
        waiting.connection.go_on(waiting.admission, now_us)
