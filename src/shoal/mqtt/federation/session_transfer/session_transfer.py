"""One client, one session, at whichever broker of the network it connects.

Every broker announces its connected clients (see `announcing`); a broker with an older connection
of the same client closes it. A client that reconnects elsewhere and wants its session waits until
the owner has sent it (see `fetching`): its subscriptions, in-flight messages and queue. The source
keeps the session, goes on collecting for it, and forwards messages, until the target has all of it
on its disk and every broker knows its subscriptions (see `exporting`). Meanwhile the target holds
the messages that reach it directly, and delivers those that did not come from the source. So
messages are neither lost nor duplicated nor reordered, however often the client moves, and
whichever broker is killed meanwhile. The package's docstring has the protocol step by step.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import msgspec

from shoal.model import BrokerId
from shoal.mqtt.access import ANOTHER_USERS, ClientAdmission
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import (
    AskedThere,
    ClientNotOwner,
    Control,
    EarlierSettled,
    Ended,
    Entered,
    FederationHello,
    Here,
    Item,
    Offer,
    OwnersKnown,
    OwnersSought,
    Register,
    SessionAdopted,
    SessionDeparted,
    SessionPart,
    SessionState,
    SessionTakeOver,
    Several,
    Sought,
    TakenOver,
    Transfer,
    TransferComplete,
    TransferDeclined,
    TransferInquiry,
    encode_control,
)
from shoal.mqtt.federation.granting import FederationGranting
from shoal.mqtt.federation.session_transfer.declined import DeclinedSessions
from shoal.mqtt.federation.session_transfer.directory.announcing import ClientAnnouncements
from shoal.mqtt.federation.session_transfer.directory.former import FormerBrokers
from shoal.mqtt.federation.session_transfer.directory.listing import SessionListing
from shoal.mqtt.federation.session_transfer.directory.registering import Registry
from shoal.mqtt.federation.session_transfer.directory.session_directory import (
    SessionDirectory,
    SessionOwner,
)
from shoal.mqtt.federation.session_transfer.exporting import GIVING_TIMER, SessionExport
from shoal.mqtt.federation.session_transfer.fetching import WAITING_TIMER, Fetching
from shoal.mqtt.federation.session_transfer.importing import SessionImport
from shoal.mqtt.federation.session_transfer.inquiries import TransferInquiries
from shoal.mqtt.federation.session_transfer.installing import SessionInstallation
from shoal.mqtt.federation.session_transfer.moves import WaitingClient
from shoal.mqtt.federation.session_transfer.questions import ASKING_TIMER
from shoal.mqtt.federation.session_transfer.receipts import Receipts
from shoal.mqtt.federation.session_transfer.redirecting import REDIRECTED_TIMER, Redirecting
from shoal.mqtt.federation.session_transfer.releasing import SessionRelease
from shoal.mqtt.federation.session_transfer.starting import StartupSync
from shoal.mqtt.federation.session_transfer.takeovers import TAKEOVER_TIMER, Takeovers
from shoal.mqtt.front_end.network import EVERY_BROKER, FrontEnd
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.timers import MqttTimers

# Controls that name the broker that sends them.
FROM_BROKER = Entered | Ended | EarlierSettled | Offer | TransferInquiry | SessionDeparted


class SessionTransfer:
    """The incoming and outgoing sessions of one broker.

    `spreading` answers when every broker knows the front end's requests; `problems` collects
    descriptions of lost state. `left` are the brokers that have left the network, `dead` those of
    them that were declared dead.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: SessionSubscriptions,
        problems: list[str],
        front_end: FrontEnd,
        timers: MqttTimers,
        spreading: FederationGranting,
        left: Collection[BrokerId],
        dead: Collection[BrokerId],
        now_us: int,
    ) -> None:
        self._broker_id = broker_id
        self._sessions = sessions
        self._front_end = front_end
        self._timers = timers
        self._journal: SessionJournal | None = None
        # The time and the broker of each client's last connection in the network.
        self._entered: dict[str, tuple[int, BrokerId]] = {}
        self._left = left
        self.homes = SessionDirectory()
        # The brokers of clients for which this broker is a registrar.
        self.registry = Registry()
        self.telling = ClientAnnouncements(
            broker_id, timers, self._send_transfer_control, self._registered
        )
        self.listing = SessionListing(
            sessions, self.homes, self.telling, timers, self._own, self._send_transfer_control
        )
        fill = partial(SessionInstallation, sessions, subscriptions, problems)
        self.fetching = Fetching(
            broker_id, sessions, timers, self._send_transfer_control, self._come, fill, dead
        )
        self.starting = StartupSync(
            broker_id, sessions, timers, self._send_transfer_control, self._come_unknown, now_us
        )
        self._former = FormerBrokers(
            broker_id,
            sessions,
            self.registry,
            self.homes,
            self._entered,
            self.telling,
            self.starting.unheard,
        )
        self._declined = DeclinedSessions(
            broker_id, sessions, self.homes, self._entered, self._left, self.telling
        )
        self.giving = SessionExport(
            broker_id, sessions, subscriptions, front_end, timers, self._declined.stay, self._gone
        )
        self._declined.give = self.giving.give
        self._letting_go = SessionRelease(
            broker_id, sessions, self.giving, self._send_transfer_control
        )
        self.takeovers = Takeovers(
            broker_id,
            sessions,
            self.giving,
            front_end,
            timers,
            self._send_transfer_control,
            self._former.place,
            self._is_back,
        )
        self._inquiries = TransferInquiries(broker_id, sessions, self.giving, front_end)
        self.arriving = SessionImport(
            broker_id,
            sessions,
            subscriptions,
            front_end,
            timers,
            spreading,
            self.giving.send_item,
            self._inquiries.inquire,
        )
        self._receipts = Receipts(
            broker_id,
            sessions,
            self.homes,
            self.fetching,
            self.arriving,
            self._send_transfer_control,
        )
        self.redirecting = Redirecting(timers, self._on_entered)
        sessions.at_end = self._ended

    def begin_journal(self, journal: SessionJournal) -> None:
        """Begin to record changes in this journal."""
        self._journal = self.homes.journal = self.giving.journal = journal
        self.fetching.journal = self._receipts.journal = self.arriving.journal = journal

    # --- local events -------------------------------------------------------------------------

    def must_wait(
        self,
        connection: ClientConnection,
        connect: Connect,
        admission: ClientAdmission,
        now_us: int,
    ) -> bool:
        """Whether the client must wait for its session, which another broker was asked for."""
        client_id = connect.client_id
        self.starting.turn_away(client_id, now_us)
        if self.fetching.connects_again(connection, connect, admission, now_us):
            return True
        home = self.giving.home(client_id) or self.homes.entry(client_id)
        if home is None:
            return self.starting.must_wait(connection, connect, admission, now_us)
        if connect.clean_start and home.user == admission.user:
            return False
        at_us = self._stamp(client_id, connection.connect_us)
        self.telling.flush(now_us)
        question = Entered(client_id, self._broker_id, at_us, True, home.broker, admission.user)
        self._send_transfer_control(EVERY_BROKER, question, now_us)
        self.fetching.begin((client_id, at_us), home, connection, admission, now_us)
        return True

    def entered(
        self, session: Session, connect_us: int, now_us: int, *, is_connected: bool = False
    ) -> None:
        """A client that connected at `connect_us` was admitted; or a session without one has come,
        whose client connected elsewhere then.
        """
        client_id = session.client_id
        self.redirecting.end(client_id, now_us)
        is_here = self._entered.get(client_id) == (session.entered_us, self._broker_id)
        is_kept = session.expiry_interval_s > 0
        is_here = is_here and is_kept and self.giving.get(client_id) is None
        if not is_here or not self.telling.comes_back(client_id, session.entered_us, connect_us):
            self._announce(session, connect_us, now_us, is_connected=is_connected)

    def _announce(
        self, session: Session, connect_us: int, now_us: int, *, is_connected: bool = False
    ) -> None:
        """Announce a client with a new fencing token, above all that are known."""
        client_id = session.client_id
        has_come = session.arriving_us is not None
        former = self._former.place(client_id, self._broker_id)
        is_known, is_new = self.homes.entry(client_id) is not None, not session.began_us
        self.homes.pop(client_id)
        session.entered_us = self._stamp(client_id, connect_us)
        session.began_us = session.began_us or max(session.entered_us, now_us)
        about = self.telling.about(session)
        brokers = self._former.to_ask(client_id, former, now_us)
        if is_connected and brokers and not has_come:
            is_asked = former is None
            if is_asked:
                about = msgspec.structs.replace(about, must_take_over=brokers[0])
            self.takeovers.begin(session, brokers, now_us, is_asked=is_asked)
        self.telling.entered(about, now_us, is_known=is_known, is_new=is_new)

    def going(self, client_id: str) -> BrokerId | None:
        """The target of a client's session, or its later broker; None if it was not exported."""
        home = self.giving.home(client_id)
        if home is None and client_id not in self._sessions:
            home = self.homes.entry(client_id)
        return None if home is None else home.broker

    def is_at(self, client_id: str, broker: BrokerId, entered_us: int, user: str) -> None:
        """Record that a client is at another broker, by that broker's announcement."""
        known = self.homes.entry(client_id)
        if client_id not in self._sessions and (known is None or known.at_us <= entered_us):
            had_us = 0 if known is None else known.had_us
            self.homes.put(client_id, SessionOwner(broker, entered_us, user, had_us))

    def restored(self, session: Session, now_us: int) -> None:
        """Restore a session after a restart; joining brokers learn of it.

        An interrupted import or export of it is resumed.
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

    def restore_home(self, client_id: str, home: SessionOwner) -> None:
        """Restore a session directory entry after a restart."""
        self.homes.put(client_id, home)
        self._entered[client_id] = (home.at_us, home.broker)

    def _ended(self, session: Session, now_us: int) -> None:
        """Handle the end of a session here."""
        client_id = session.client_id
        self.giving.withdraw(client_id)
        self.arriving.forget(session)
        if self._entered.get(client_id, (0, ""))[1] == self._broker_id:
            del self._entered[client_id]
        # Also if the client is elsewhere by now: that announcement may have overtaken this one.
        self.telling.ended(Ended(client_id, self._broker_id), now_us, is_stale=True)

    def _gone(self, session: Session, where: SessionOwner, now_us: int) -> None:
        """Handle a completed export; the announcement of the new owner may have been missed."""
        self.arriving.forget(session)
        self.telling.ended(Ended(session.client_id, self._broker_id), now_us, is_stale=False)
        home = self.homes.entry(session.client_id)
        if home is None or home.at_us < where.at_us:
            home = where
        self.homes.put(session.client_id, home._replace(had_us=session.entered_us))

    def send_clients(self, broker: str, now_us: int) -> None:
        """Send the list of local clients to a broker, or to all."""
        self.fetching.on_alive(broker, now_us)
        self.listing.tell(broker, now_us)

    def _own(self, client_id: str) -> Entered | None:
        """The announcement of a local client; None of a client that still waits for its session."""
        session = self._sessions.get(client_id)
        if session is None or client_id not in self._entered:
            return None
        # A broker that has requested it may lose the client before it has the session.
        is_kept = session.expiry_interval_s > 0 and not session.is_departed
        is_here = is_kept or self._entered[client_id][1] == self._broker_id
        return self.telling.about(session) if is_here else None

    def met(self, control: FederationHello | Here, now_us: int) -> None:
        """Handle a broker that is present; with Hello, that starts."""
        self.telling.met(control.broker)
        self.takeovers.on_alive(control.broker)
        if isinstance(control, FederationHello):
            self.registry.forget(control.broker)

    def broker_left(self, broker: BrokerId, now_us: int) -> None:
        """Handle a broker that has left for good."""
        self.registry.forget(broker)
        self.listing.left(broker, now_us)
        self.starting.left(broker, now_us)
        self.giving.left(broker, now_us)
        self.arriving.left(broker, now_us)

    def on_transfer_timer(self, kind: str, transfer: Transfer, now_us: int) -> None:
        """Handle a timer of this package."""
        if kind == WAITING_TIMER:
            self.fetching.on_fetching_timer(transfer, now_us)
        elif kind == ASKING_TIMER:
            self.fetching.questions.ask_some(transfer[0], now_us)
        elif kind == GIVING_TIMER:
            self.giving.on_export_timer(transfer, now_us)
        elif kind == TAKEOVER_TIMER:
            self.takeovers.on_takeover_timer(transfer, now_us)
        elif kind == REDIRECTED_TIMER:
            self.redirecting.end(transfer[0], now_us)
        else:
            self.arriving.on_import_timer(kind, transfer, now_us)

    def _stamp(self, client_id: str, connect_us: int) -> int:
        """The fencing token of a client that connected then: above all known ones, also if another
        broker's clock is ahead.
        """
        known_us, _ = self._entered.get(client_id, (0, ""))
        at_us = max(connect_us, known_us + 1)
        self._entered[client_id] = (at_us, self._broker_id)
        return at_us

    def _send_transfer_control(self, to: str, control: Control, now_us: int) -> None:
        self._front_end.send(to, encode_control(control), now_us)

    # --- controls of other brokers ------------------------------------------------------------

    def on_control(self, control: Control, now_us: int) -> None:
        """Handle a control of another broker about a client."""
        if isinstance(control, FROM_BROKER):
            self.fetching.on_alive(control.broker, now_us)
            self.takeovers.on_alive(control.broker)
        match control:
            case Entered():
                self._take_over(control, now_us)
                self._on_entered(control, now_us)
            case ClientNotOwner(transfer):
                self._on_not_owner(transfer, now_us)
            case SessionTakeOver():
                self.takeovers.asked(control, now_us)
            case AskedThere(transfer, broker):
                self.takeovers.asked_there(transfer, broker)
            case TakenOver(transfer):
                self.takeovers.taken_over(transfer)
            case Register(entered):
                self._take_over(entered, now_us)
                self._registered(entered, now_us)
            case Several(controls, parts=0):
                for each in controls:
                    self.on_control(each, now_us)
            case Several(controls):
                self.fetching.on_alive(control.broker, now_us)
                for each in controls:
                    if isinstance(each, Entered):
                        self._on_entered(each, now_us, is_listed=True)
                self.starting.on_control(control, now_us)
            case Ended(client_id, broker):
                self.registry.end(client_id, broker)
                if self._entered.get(client_id, (0, None))[1] == broker:
                    del self._entered[client_id]
                    self.homes.pop(client_id)
                    move = self.giving.get(client_id)
                    if move is not None:
                        self._letting_go.over(move.session, now_us)
                elif self.homes.get(client_id) == broker:
                    self.homes.pop(client_id)  # another broker has requested it meanwhile
            case Sought(client_ids, broker):
                if entered := tuple(self.homes.whereabouts(client_ids, broker)):
                    self._send_transfer_control(broker, OwnersKnown(entered), now_us)
            case OwnersSought(owners, broker):
                self.listing.tell_owners(broker, owners, now_us)
            case OwnersKnown(entered, owners):
                # The owner itself says what becomes of a session that is here, too, and whether it
                # has one once its list has come.
                for each in entered:
                    is_heard = self.starting.has_heard(each.broker)
                    if each.client_id not in self._sessions and not is_heard:
                        self._on_entered(each, now_us, is_listed=True)
                        self.starting.known(each.client_id, now_us)
                self.starting.owners_known(owners)
            case Item() if self.arriving.came(control, now_us):
                pass
            case Item() | SessionPart() | SessionState():
                self.fetching.on_control(control, now_us)
            case EarlierSettled(transfer, _, is_settled):
                self.arriving.settling(transfer, now_us, is_settled=is_settled)
            case Offer() | SessionDeparted():
                self._receipts.answer(control, now_us)
            case TransferInquiry():
                self._inquiries.answer(control, now_us)
            case SessionAdopted() | TransferDeclined() | TransferComplete():
                self.giving.on_control(control, now_us)

    def _take_over(self, control: Entered, now_us: int) -> None:
        """End the client's connection at its former broker, if this broker is asked to."""
        if control.must_take_over == self._broker_id:
            question = SessionTakeOver(
                control.client_id,
                control.at_us,
                control.broker,
                control.user,
                began_us=control.began_us,
            )
            self.takeovers.asked(question, now_us)

    def _on_entered(self, control: Entered, now_us: int, *, is_listed: bool = False) -> None:
        if control.must_send_session is not None and control.broker in self._left:
            return  # it has no client any more
        client_id, stamp = control.client_id, (control.at_us, control.broker)
        session = self._sessions.get(client_id)
        if self._entered.get(client_id, (0, "")) > stamp:  # the later connection keeps the client
            if session is not None and self.telling.is_registered(client_id):
                self.telling.put_right(session, control.broker, now_us)
            known = self.homes.entry(client_id)
            if control.must_send_session is None and control.is_kept and known is not None:
                # A broker has requested it since: its arrival there is news nevertheless.
                self.is_at(client_id, control.broker, control.at_us, control.user)
            return
        home = self.homes.entry(client_id)
        if session is not None and session.user != control.user:
            self._send_transfer_control(
                control.broker, ClientNotOwner((client_id, control.at_us)), now_us
            )
            self.telling.put_right(session, control.broker, now_us)
            return
        if session is None and home is not None and home.user != control.user:
            if control.must_send_session == self._broker_id:
                self._letting_go.pass_on(control, home, now_us)
            return
        if session is not None and self._is_back(session, control.at_us):
            self._announce(session, self.telling.back_us(client_id), now_us)
            if self._journal is not None:
                self._journal.entered(session)
            return
        self._entered[client_id] = stamp
        if control.must_send_session is not None and self.redirecting.holds(control, now_us):
            return
        if control.must_send_session is None and control.is_kept:
            had_us = 0 if home is None else home.had_us
            self.homes.put(
                client_id, SessionOwner(control.broker, control.at_us, control.user, had_us)
            )
        elif control.must_send_session is None:
            self.homes.pop(client_id)
        elif control.is_kept and session is None and home is None:
            self._learn_owner(control, now_us)
        self.fetching.turn_away(client_id, now_us)
        if not is_listed:
            self.starting.turn_away(client_id, now_us, control.at_us)
        if session is None:
            if control.must_send_session == self._broker_id:
                self._letting_go.pass_on(control, home, now_us)
        elif control.must_send_session is None:
            # The session has gone on from a broker that has left: its present owner announces it.
            if control.broker not in self._left or control.began_us != session.began_us:
                self._letting_go.is_elsewhere(session, control, now_us)
        else:
            self._letting_go.is_asked_for(session, control, now_us)
        if control.registered and client_id not in self._sessions:
            self._entered.pop(client_id, None)

    def _learn_owner(self, control: Entered, now_us: int) -> None:
        """A request names the owner, which is silent: any announcement of an owner is newer.

        The end of a session of an owner that has sent its list is known here.
        """
        owner = control.must_send_session
        if owner is not None and owner in self.starting.unheard(now_us):
            self.homes.put(control.client_id, SessionOwner(owner, 0, control.user))

    def _is_back(self, session: Session, at_us: int) -> bool:
        """Whether its client reconnected here after `at_us`, which was not announced."""
        _, broker = self._entered.get(session.client_id, (0, ""))
        is_later = broker == self._broker_id and self.telling.back_us(session.client_id) > at_us
        return is_later and session.session_writer is not None

    def _registered(self, control: Entered | Ended, now_us: int) -> None:
        """Record a client's broker as its registrar, and inform the brokers concerned."""
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
                self._send_transfer_control(place, control, now_us)
        self.registry.put(control)

    def _on_not_owner(self, transfer: Transfer, now_us: int) -> None:
        client_id, at_us = transfer
        if self.fetching.transfer(client_id) == transfer:
            self.fetching.disconnect(transfer, ReasonCode.NOT_AUTHORIZED, ANOTHER_USERS, now_us)
            if self._entered.get(client_id) == (at_us, self._broker_id):
                del self._entered[client_id]
                self._send_transfer_control(EVERY_BROKER, Ended(client_id, self._broker_id), now_us)
            return
        session = self._sessions.get(client_id)
        if session is not None and session.entered_us == at_us:
            why = ReasonCode.NOT_AUTHORIZED, ANOTHER_USERS
            released = self._sessions.close_connection(client_id, now_us, *why)
            if released is not None:
                self._sessions.end(released, now_us)

    # --- an incoming session ------------------------------------------------------------------

    def _come_unknown(
        self,
        connection: ClientConnection,
        connect: Connect,
        admission: ClientAdmission,
        now_us: int,
    ) -> None:
        """Continue with a client that has waited for the session lists after the start."""
        if not self.must_wait(connection, connect, admission, now_us):
            connection.finish_entry(admission, now_us)

    def _come(
        self, transfer: Transfer, waiting: WaitingClient, state: SessionState | None, now_us: int
    ) -> None:
        """Admit a client: its session has come, or there is none."""
        given = self.giving.withdraw(transfer[0])
        if state is not None and state.exists:
            self.arriving.make(state, waiting, given, now_us)
        elif given is not None:
            self._declined.stay(given, now_us)
        else:
            self.takeovers.on_timeout(waiting.home)
        waiting.connection.finish_entry(waiting.admission, now_us)
