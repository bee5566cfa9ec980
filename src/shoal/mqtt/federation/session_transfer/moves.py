"""The state of a session while it moves between brokers (see `session_transfer`)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import islice

from shoal.conflation import KeyName, key_name
from shoal.model import BrokerId
from shoal.mqtt.access import ClientAdmission
from shoal.mqtt.federation.controls import (
    ConflatedKeyState,
    Entered,
    Item,
    SessionPart,
    SessionState,
    Transfer,
)
from shoal.mqtt.federation.conversions import message_of
from shoal.mqtt.federation.session_transfer.installing import ITEMS_AT_ONCE, SessionInstallation
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection, Outgoing
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.presence import MOST_AT_ONCE
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions

SendItem = Callable[[Outgoing, BrokerId, Transfer, int], None]


class WaitingClient:
    """A client that waits for its session, and the parts that have come."""

    def __init__(
        self,
        connection: ClientConnection,
        admission: ClientAdmission,
        home: BrokerId,
        since_us: int,
        until_us: int,
    ) -> None:
        """It waits by this broker's clock; the fencing token may be another's, which is ahead."""
        self.connection = connection
        self.admission = admission
        self.home = home
        self.since_us = since_us
        self.until_us = until_us
        # The time of the last part.
        self.heard_us: int | None = None
        self.state: SessionState | None = None
        # After all parts have come.
        self.filling: SessionInstallation | None = None
        self.subscriptions: dict[str, SubscriptionState] = {}
        self.came: dict[tuple[str, int], None] = {}
        # Keys of conflated subscriptions that were not read yet, by both names.
        self.conflated: OrderedDict[tuple[str, KeyName], ConflatedKeyState] = OrderedDict()
        self._items: dict[int, Item] = {}
        # Items that were not read yet.
        self._unread: deque[int] = deque()
        self._parts = 0

    def run_slice(self, now_us: int) -> bool:
        """Fill the session a bit more; returns whether at most one slice of items, and one of keys,
        is left."""
        assert self.filling is not None
        if not self.filling.run_slice(self.admission.permissions):
            return False
        if len(self.conflated) > ITEMS_AT_ONCE:
            self._take_keys(now_us)
            return False
        if len(self._unread) <= ITEMS_AT_ONCE:
            return True
        self.filling.take(self._read_items(ITEMS_AT_ONCE), now_us)
        return False

    def read_on(self, now_us: int) -> list[Outgoing]:
        """Fill the rest; returns the messages that are not in the session."""
        assert self.filling is not None
        self.filling.take(self._read_items(len(self._unread)), now_us)
        while self.conflated:
            self._take_keys(now_us)
        self.filling.restore_keys(now_us)
        return self.filling.read

    def _take_keys(self, now_us: int) -> None:
        """Fill in some keys of conflated subscriptions."""
        assert self.filling is not None
        names = tuple(islice(self.conflated, ITEMS_AT_ONCE))
        self.filling.take_keys([(name, self.conflated.pop(name)) for name in names], now_us)

    def _read_items(self, most: int) -> list[Item]:
        count = min(most, len(self._unread))
        return [self._items[self._unread.popleft()] for _ in range(count)]

    def take(self, control: Item | SessionPart | SessionState) -> SessionState | None:
        """Take a part; returns the state when all its parts have come."""
        match control:
            case Item():
                # A source that was killed sends all again, under the same numbers.
                number = control.serial or -1 - len(self._items)
                if number not in self._items:
                    self._unread.append(number)
                self._items[number] = control
            case SessionPart(_, subscriptions, came, conflated):
                self._parts += 1
                for each in conflated:
                    self.conflated[each.text, key_name(each.key)] = each
                self.subscriptions.update((row.text, row) for row in subscriptions)
                self.came.update(dict.fromkeys(came))
            case SessionState():
                self.state = control
        state = self.state
        if state is None or len(self._items) < state.items or self._parts < state.parts:
            return None
        return state


class Latecomers:
    """Drops duplicates of a session that has just arrived.

    A message that came by way of the source may arrive directly, too, after the end of the
    transfer, if publications take several routes.
    """

    def __init__(self, session: Session, known: dict[tuple[str, int], None]) -> None:
        self.known = known
        self.held: list[Outgoing] = []
        self.is_departed = self.may_have_departed = False
        self._session = session

    def deliver(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...] = (),
    ) -> None:
        """Deliver a message that reached this broker directly."""
        if message.key is None or message.key not in self.known:
            self._session.admit(message, qos, retain, identifiers, now_us, via)


class Loop:
    """The way of a session from here and back, while an earlier transfer to here was incomplete.

    `target` is the first broker of that way, `known` are the keys of the messages sent there.
    """

    def __init__(
        self, broker: BrokerId, transfer: Transfer, known: Iterable[tuple[str, int]] = ()
    ) -> None:
        self.target = (broker, transfer)
        self.known = dict.fromkeys(known)


class SessionMove:
    """Routes the messages of a session while it is imported, exported, or both.

    Items of the source are delivered at once. Messages that reach this broker directly are held
    until all items have come, and then delivered unless their keys are `known`. Messages forwarded
    to a target stay in the session here until the target has it.

    A late item of an earlier source goes along the session's `Loop`, as it would overtake earlier
    ones otherwise; meanwhile it is held here, too, so that it is not lost on its way.
    """

    def __init__(self, session: Session, arrival: Transfer | None, send: SendItem) -> None:
        self.session = session
        # The transfer on which more may come from the source.
        self.arrival = arrival
        self.is_holding = arrival is not None
        # Whether every broker knows the subscriptions made here.
        self.is_spread = False
        # Shared subscriptions whose presence or absence here is still to be announced.
        self.unannounced: list[ClientSubscription] = []
        # The keys that the session has got on that transfer, or shortly before; `_own` are those
        # that reached this broker directly.
        self.known: dict[tuple[str, int], None] = {}
        self._own: set[tuple[str, int]] = set()
        # Held messages; when it does not hold any more, they are released in time slices.
        self.held: deque[Outgoing] = deque()
        self._held_bytes = 0
        # Loops by the fencing token of the late items' transfer; and keys of held late items.
        self.loops: dict[int, Loop] = {}
        self._late: set[tuple[str, int]] = set()
        self._held_keys: set[tuple[str, int]] = set()
        self._send = send
        # The target of the export, and its progress.
        self.target: tuple[BrokerId, Transfer] | None = None
        self.is_adopted = False
        self.is_departed = False
        self.departs_us = 0
        # The end of the time in which messages may come over a link that was down.
        self.linked_us = 0
        # Whether the last question to the target is still under way.
        self.is_asking = False
        # Whether the target waits for the settling of the client's publications; and whether the
        # last report of it is still under way.
        self.is_settling = self.is_telling = False
        # A later request of another broker.
        self.question: Entered | None = None
        # Whether this broker was killed since: its items may be lost, and it may have reported that
        # it has departed.
        self.is_restored = self.may_have_departed = False

    def give_to(self, broker: BrokerId, transfer: Transfer) -> None:
        """Set the target; earlier answers do not count any more."""
        self.target = (broker, transfer)
        self.is_adopted = self.is_departed = self.is_asking = self.is_restored = False
        self.may_have_departed = False
        self.question = None

    def announce_groups(self, subscriptions: SessionSubscriptions) -> bool:
        """Announce some of the group members; returns whether none is left."""
        some, self.unannounced = self.unannounced[:MOST_AT_ONCE], self.unannounced[MOST_AT_ONCE:]
        for each in some:
            if self.session.subscriptions.get(each.text) is each:
                subscriptions.presence_changed(each)
        return not self.unannounced

    def stay(self, now_us: int) -> None:
        """Cancel the export; conflation here decides about what has come meanwhile."""
        self.target = None
        self.session.conflate_queued(now_us)
        self.is_departed = self.is_restored = self.may_have_departed = False
        if self.arrival is None:
            self._await_latecomers()

    def deliver(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...] = (),
    ) -> None:
        """Route a message that reached this broker directly."""
        if not (self.is_holding or self.held):
            self._pass_own(message, qos, retain, identifiers, now_us, via)
        elif message.key is not None and message.key in self._late:
            return
        elif not self._has_room(message) or (not qos and self.session.backlog.is_full):
            why = "its queue is full while its session moves here"
            self.session.count_dropped(message, why)
        else:
            self._hold_back(Outgoing(message, qos, retain, identifiers, via=via))

    def _has_room(self, message: PublishedMessage) -> bool:
        """Whether the bounds of a session's queue allow one more; known messages are dropped
        first."""
        while self._is_full(message) and self.held and self._has_come(self.held[0].message.key):
            self._take_held()
        return not self._is_full(message)

    def _is_full(self, message: PublishedMessage) -> bool:
        limits = self.session.limits
        return (
            len(self.held) >= limits.maximum_queued_messages
            or self._held_bytes + message.size > limits.maximum_queued_bytes
            or self.session.is_share_full
        )

    def _hold_back(self, outgoing: Outgoing) -> None:
        outgoing.is_held = True
        self.hold((outgoing,))
        if outgoing.qos and self.session.journal is not None:
            self.session.journal.item(self.session, outgoing)

    def hold(self, held: Iterable[Outgoing]) -> None:
        """Hold these messages, too."""
        for outgoing in held:
            self.session.count_in(outgoing.message)
            self._held_bytes += outgoing.message.size
            self.held.append(outgoing)
            if outgoing.message.key is not None:
                self._held_keys.add(outgoing.message.key)

    def _take_held(self) -> Outgoing:
        outgoing = self.held.popleft()
        self._held_bytes -= outgoing.message.size
        self.session.count_out(outgoing.message)
        if self.session.journal is not None:
            self.session.journal.item_done(self.session, outgoing)
        return outgoing

    def came(self, item: Item, now_us: int) -> None:
        """Deliver an item of the source."""
        if not self.is_holding:
            self._release_all(now_us)
        message = message_of(item, now_us)
        if message is None or (item.key is not None and item.key in self.known):
            return
        self.note(item.key)
        self._pass_on(message, item.qos, item.retain, item.identifiers, now_us, item.via)

    def came_late(self, item: Item, at_us: int, now_us: int) -> None:
        """Route an item of the session's earlier source along the loop."""
        key, loop = item.key, self.loops[at_us]
        message = message_of(item, now_us)
        if key is None or not self.is_holding:
            self.came(item, now_us)
        elif message is not None and key not in loop.known:
            outgoing = Outgoing(message, item.qos, item.retain, item.identifiers, via=item.via)
            self._send_round(loop, outgoing, now_us)
            if item.qos and key not in self._held_keys and self._has_room(message):
                self._late.add(key)
                self._hold_back(outgoing)

    def all_came_late(self, at_us: int, now_us: int) -> None:
        """Complete the loop: messages held here go before later ones of other brokers."""
        loop = self.loops.pop(at_us)
        if not self.is_holding:
            self._release_all(now_us)
        for outgoing in self.held:
            if outgoing.message.key is not None and outgoing.message.key not in loop.known:
                self._send_round(loop, outgoing, now_us)

    def _send_round(self, loop: Loop, outgoing: Outgoing, now_us: int) -> None:
        assert outgoing.message.key is not None
        loop.known[outgoing.message.key] = None
        self._send(outgoing, *loop.target, now_us)

    def note(self, key: tuple[str, int] | None) -> None:
        """Remember a received key."""
        self.session.has_got(key)
        if key is not None and self.arrival is not None and key not in self.known:
            self.known[key] = None
            if self.session.journal is not None:
                self.session.journal.came(self.session, (key,))

    def release(self, now_us: int) -> None:
        """Release the first held message; later ones go behind the last."""
        self.is_holding = False
        if self.held:
            each = self._take_held()
            self._pass_own(each.message, each.qos, each.retain, each.identifiers, now_us, each.via)

    def _release_all(self, now_us: int) -> None:
        """Release all, before a later message overtakes them."""
        while self.held:
            self.release(now_us)

    def close(self) -> None:
        """Complete the import."""
        self.arrival = self.session.arriving_us = None
        self.session.source = ""
        self.loops = {}
        if self.session.journal is not None:
            self.session.journal.moved(self.session)
        if self.target is None:
            self._await_latecomers()

    def _await_latecomers(self) -> None:
        """Drop duplicates of imported messages that may still arrive directly."""
        late = Latecomers(self.session, self.known) if self.known else None
        self.session.diversion = late

    def _has_come(self, key: tuple[str, int] | None) -> bool:
        """Whether the session has got a message by way of the source."""
        return key is not None and key in self.known and key not in self._own

    def _pass_own(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...] = (),
    ) -> None:
        key = message.key
        if self._has_come(key):
            return
        if key is not None and self.arrival is not None:
            self._own.add(key)
            self.note(key)
        self._pass_on(message, qos, retain, identifiers, now_us, via)

    def _pass_on(
        self,
        message: PublishedMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_us: int,
        via: tuple[str, ...] = (),
    ) -> None:
        if self.target is None:
            self.session.admit(message, qos, retain, identifiers, now_us, via)
            return
        outgoing = Outgoing(message, qos, retain, identifiers, via=via)
        if qos:  # in case the session stays; conflation at the target decides
            self.session.restore(outgoing)
        # After a restart: all messages go in order once the target asks for the earlier ones.
        if not self.is_restored:
            self._send(outgoing, *self.target, now_us)
