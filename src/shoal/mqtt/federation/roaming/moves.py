"""What is kept of a session while it moves between brokers (see `roaming`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from shoal.model import BrokerId
from shoal.mqtt.access import Admission
from shoal.mqtt.federation.controls import (
    Entered,
    Item,
    Journey,
    SessionPart,
    SessionState,
)
from shoal.mqtt.federation.roaming.filling import ITEMS_AT_ONCE, Filling
from shoal.mqtt.federation.said import message_of
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection, Outgoing
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.presence import MOST_AT_ONCE
from shoal.mqtt.sessions.subscribed.rows import SubscriptionState
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions

SendItem = Callable[[Outgoing, BrokerId, Journey, int], None]


class Waiting:
    """A client whose session is to come, and what has come of it."""

    def __init__(
        self,
        connection: ClientConnection,
        admission: Admission,
        home: BrokerId,
        since_us: int,
        until_us: int,
    ) -> None:
        """It waits by this broker's clock; its journey's stamp may be another's, which is ahead."""
        self.connection = connection
        self.admission = admission
        self.home = home
        self.since_us = since_us
        self.until_us = until_us
        # When some of it came last.
        self.heard_us: int | None = None
        self.state: SessionState | None = None
        # Once all has come.
        self.filling: Filling | None = None
        self.subscriptions: dict[str, SubscriptionState] = {}
        self.came: dict[tuple[str, int], None] = {}
        self._items: dict[int, Item] = {}
        # Those that nobody has read yet.
        self._unread: deque[int] = deque()
        self._parts = 0

    def go_on(self, now_us: int) -> bool:
        """Fill some more of what has come into the session; whether all but a bit is in it."""
        assert self.filling is not None
        if not self.filling.go_on(self.admission.permissions):
            return False
        if len(self._unread) <= ITEMS_AT_ONCE:
            return True
        self.filling.take(self._read(ITEMS_AT_ONCE), now_us)
        return False

    def read_on(self, now_us: int) -> list[Outgoing]:
        """The rest; messages that have come for it and are not in the session."""
        assert self.filling is not None
        self.filling.take(self._read(len(self._unread)), now_us)
        return self.filling.read

    def _read(self, most: int) -> list[Item]:
        count = min(most, len(self._unread))
        return [self._items[self._unread.popleft()] for _ in range(count)]

    def take(self, control: Item | SessionPart | SessionState) -> SessionState | None:
        """Something came; the state, once all that belongs to it has."""
        match control:
            case Item():
                # A giver that was killed sends all again, under the same numbers.
                number = control.serial or -1 - len(self._items)
                if number not in self._items:
                    self._unread.append(number)
                self._items[number] = control
            case SessionPart(_, subscriptions, came):
                self._parts += 1
                self.subscriptions.update((row.text, row) for row in subscriptions)
                self.came.update(dict.fromkeys(came))
            case SessionState():
                self.state = control
        state = self.state
        if state is None or len(self._items) < state.items or self._parts < state.parts:
            return None
        return state


class Latecomers:
    """Takes what this broker gets for a session that has just arrived, but for what it has.

    Where publications go several ways, what came from where the session was may come again by
    another, later than the word that this was all.
    """

    def __init__(self, session: Session, known: dict[tuple[str, int], None]) -> None:
        self.known = known
        self.held: list[Outgoing] = []
        self.is_departed = self.may_have_departed = False
        self._session = session

    def deliver(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """This broker got something for the session."""
        if message.key is None or message.key not in self.known:
            self._session.accept(message, qos, retain, identifiers, now_us)


class Loop:
    """The way that a session went from here and back, while it still came here from elsewhere.

    `target` is where that way begins, `known` are the keys of what went there.
    """

    def __init__(
        self, broker: BrokerId, journey: Journey, known: Iterable[tuple[str, int]] = ()
    ) -> None:
        self.target = (broker, journey)
        self.known = dict.fromkeys(known)


class Move:
    """Where messages for a session go while it arrives, departs, or both.

    What came from where the session was is passed on at once.  What this broker got by itself is
    held back until all of that has come, and then passed on but for what is `known` by its key.
    What is passed on to another broker stays in the session here until the other has it.

    What comes late for a session that was here before goes round its `Loop`, as it would overtake
    what went before it; meanwhile it is held back here, so that it is not lost on its way.
    """

    def __init__(self, session: Session, arrival: Journey | None, send: SendItem) -> None:
        self.session = session
        # The journey on which more may come from where it was.
        self.arrival = arrival
        self.is_holding = arrival is not None
        # Whether every broker knows the subscriptions made here.
        self.is_spread = False
        # Shared subscriptions whose groups have yet to hear that the session is here, or is not.
        self.untold: list[ClientSubscription] = []
        # The keys of what the session has got on that journey, or shortly before; those that came
        # from elsewhere are not `_own`.
        self.known: dict[tuple[str, int], None] = {}
        self._own: set[tuple[str, int]] = set()
        # What is held back; once it `is_holding` no more, it is released bit by bit.
        self.held: deque[Outgoing] = deque()
        self._held_bytes = 0
        # By the stamp of the journey on which late ones come; and which of those are held back.
        self.loops: dict[int, Loop] = {}
        self._late: set[tuple[str, int]] = set()
        self._held_keys: set[tuple[str, int]] = set()
        self._send = send
        # Where the session goes, and how far it is.
        self.target: tuple[BrokerId, Journey] | None = None
        self.is_adopted = False
        self.is_departed = False
        self.departs_us = 0
        # Until when something may come over a link that was down.
        self.linked_us = 0
        # Whether the last question to the target is still under way.
        self.is_asking = False
        # Whether the target waits to hear that what was published here is settled; and whether the
        # last word of that is still under way.
        self.is_settling = self.is_telling = False
        # Who else has asked for the session meanwhile.
        self.question: Entered | None = None
        # Whether this broker was killed since: what it had sent may be lost, and it may have said
        # that it has departed.
        self.is_restored = self.may_have_departed = False

    def give_to(self, broker: BrokerId, journey: Journey) -> None:
        """The session goes there; whatever was said about it to another counts no more."""
        self.target = (broker, journey)
        self.is_adopted = self.is_departed = self.is_asking = self.is_restored = False
        self.may_have_departed = False
        self.question = None

    def tell_groups(self, subscriptions: Subscriptions) -> bool:
        """Tell some of the groups that have yet to hear; whether none is left."""
        some, self.untold = self.untold[:MOST_AT_ONCE], self.untold[MOST_AT_ONCE:]
        for each in some:
            if self.session.subscriptions.get(each.text) is each:
                subscriptions.presence_changed(each)
        return not self.untold

    def stay(self) -> None:
        """It does not go after all."""
        self.target = None
        self.is_departed = self.is_restored = self.may_have_departed = False
        if self.arrival is None:
            self._await_latecomers()

    def deliver(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        """This broker got something for the session."""
        if not (self.is_holding or self.held):
            self._pass_own(message, qos, retain, identifiers, now_us)
        elif message.key is not None and message.key in self._late:
            return
        elif not self._has_room(message) or (not qos and self.session.backlog.is_full):
            self.session.count_dropped()
        else:
            self._hold_back(Outgoing(message, qos, retain, identifiers))

    def _has_room(self, message: Message) -> bool:
        """Whether so much may be held back as may wait for a client; what has come goes first."""
        while self._is_full(message) and self.held and self._has_come(self.held[0].message.key):
            self._take_held()
        return not self._is_full(message)

    def _is_full(self, message: Message) -> bool:
        limits = self.session.limits
        return (
            len(self.held) >= limits.maximum_queued_messages
            or self._held_bytes + message.size > limits.maximum_queued_bytes
            or self.session.has_its_share
        )

    def _hold_back(self, outgoing: Outgoing) -> None:
        outgoing.is_held = True
        self.hold((outgoing,))
        if outgoing.qos and self.session.journal is not None:
            self.session.journal.item(self.session, outgoing)

    def hold(self, held: Iterable[Outgoing]) -> None:
        """Hold these back, too."""
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
        """The broker where the session was sends something on."""
        if not self.is_holding:
            self._release_all(now_us)
        message = message_of(item, now_us)
        if message is None or (item.key is not None and item.key in self.known):
            return
        self.note(item.key)
        self._pass_on(message, item.qos, item.retain, item.identifiers, now_us)

    def came_late(self, item: Item, at_us: int, now_us: int) -> None:
        """The broker where the session was before it was here first sends something on."""
        key, loop = item.key, self.loops[at_us]
        message = message_of(item, now_us)
        if key is None or not self.is_holding:
            self.came(item, now_us)
        elif message is not None and key not in loop.known:
            outgoing = Outgoing(message, item.qos, item.retain, item.identifiers)
            self._send_round(loop, outgoing, now_us)
            if item.qos and key not in self._held_keys and self._has_room(message):
                self._late.add(key)
                self._hold_back(outgoing)

    def all_came_late(self, at_us: int, now_us: int) -> None:
        """It has no more: what this broker got by itself comes next, and before what others got."""
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
        """Remember what came."""
        self.session.has_got(key)
        if key is not None and self.arrival is not None and key not in self.known:
            self.known[key] = None
            if self.session.journal is not None:
                self.session.journal.came(self.session, (key,))

    def release(self, now_us: int) -> None:
        """Hold the first one back no more; what comes meanwhile goes behind the last."""
        self.is_holding = False
        if self.held:
            each = self._take_held()
            self._pass_own(each.message, each.qos, each.retain, each.identifiers, now_us)

    def _release_all(self, now_us: int) -> None:
        """What comes next would overtake them."""
        while self.held:
            self.release(now_us)

    def close(self) -> None:
        """All has come from where the session was."""
        self.arrival = self.session.arriving_us = None
        self.loops = {}
        if self.session.journal is not None:
            self.session.journal.moved(self.session)
        if self.target is None:
            self._await_latecomers()

    def _await_latecomers(self) -> None:
        """The session is here: of what came from elsewhere, some may come by itself, too."""
        late = Latecomers(self.session, self.known) if self.known else None
        self.session.diversion = late

    def _has_come(self, key: tuple[str, int] | None) -> bool:
        """Whether the session has got it from elsewhere."""
        return key is not None and key in self.known and key not in self._own

    def _pass_own(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        key = message.key
        if self._has_come(key):
            return
        if key is not None and self.arrival is not None:
            self._own.add(key)
            self.note(key)
        self._pass_on(message, qos, retain, identifiers, now_us)

    def _pass_on(
        self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], now_us: int
    ) -> None:
        if self.target is None:
            self.session.accept(message, qos, retain, identifiers, now_us)
            return
        outgoing = Outgoing(message, qos, retain, identifiers)
        if qos:
            self.session.restore(outgoing)
        # Else it goes behind what was there before the kill, all of it in order, once that is asked
        # for.
        if not self.is_restored:
            self._send(outgoing, *self.target, now_us)
