"""Shared subscriptions over a whole network: of each group one member gets a message, wherever.

Every broker knows of each group which brokers have members, and what they ask for.  The broker that
a message is published at chooses one of them, by a hash of the publication's key, and hands it the
message for the group; nobody else gets it.  Brokers with connected members go first, as long as
there are any.  The chosen one answers whether it has taken the message into a member's session; the
publisher is told when all groups' messages are taken.  Until then the message is kept here: a
broker that has no member any more says so, and one that is given up says nothing, and then
another is chosen.  Who is killed and comes back finds in its links what it was handed, and answers;
so what may come twice, at QoS 1, does not wait for it where somebody else would take it.

| broker | hears or sees | does |
| --- | --- | --- |
| any | a member comes, leaves, connects or is gone | tells its counts to all (`Members`) |
| publisher's | a message for a group | chooses a broker: delivers it itself, or `Shared` → open |
| chosen | Shared | delivers it to a member: `Took`; or has none: `Took`, without having done so |
| publisher's | Took | done; or chooses another that has not had it |
| publisher's | Shared was settled, a second over, no word | Shared, again |
| publisher's | the same, TOOK_US over since it was first handed to that broker | chooses another |
| publisher's | at QoS 1, each PATIENCE_US without a word | chooses another, if there is one |
| publisher's | has chosen all | done, there is no subscriber |
| publisher's | killed and started again | asks the same, for what is published again |
| publisher's | nothing is open any more | tells those that it has asked: `Closed` |
| publisher's | a message for many groups | chooses for some of them in each turn (see `handing`) |
| chosen | Shared, Closed | forgets what it has answered about earlier messages (see `taking`) |

Source: MQTT Version 5.0, section 4.8.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from zlib import crc32

from shoal.model import BrokerId
from shoal.mqtt.door.network import Door
from shoal.mqtt.federation.controls import (
    Closed,
    GroupName,
    Members,
    Shared,
    Took,
    encode_control,
)
from shoal.mqtt.federation.handing import Handing, copy_work
from shoal.mqtt.federation.membership import Membership
from shoal.mqtt.federation.said import message_of, shared_of
from shoal.mqtt.federation.shares import PATIENCE_US, Share, Shares, key_of
from shoal.mqtt.federation.taking import Taking
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.memory.journal_records import AnswerPut, ClosedPut, GroupPut
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.timers import Timers

# An answer may be kept by a neighbour for a broker that is away, as long as that is waited for.
TOOK_US = 60 * MICROSECONDS
# A broker that has started does not know yet who is in a group.
START_US = 12 * MICROSECONDS
# How often what is open is looked at.
CHECK_US = MICROSECONDS

SHARING_TIMER = "sharing"
_CHECK, _TELL, _NOTE = 1, 0, 2
# The group of none: open until all groups of a message have been chosen for.
_ALL = ""
# Of more groups it is found out bit by bit which a message is for; so many places of their topic
# filters are looked at in the time in which it is handed to one.
MANY_GROUPS, PLACES_PER_WORK = 5_000, 20
# What is open and not late: so many are looked at in that time.
LOOKED_PER_WORK = 20
# A message's groups are said as one; of so many they are not said again for each answer.
_SEVERAL = 20


class Sharing:
    """One broker's part.

    `deliver` gives a message to a member here; `told` hears under which number members were told;
    `is_held` says whether the driver wants nothing taken from clients.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        door: Door,
        timers: Timers,
        subscriptions: Subscriptions,
        deliver: Callable[[Message, ClientSubscription, int], None],
        told: Callable[[int], None],
        is_held: Callable[[], bool],
        now_us: int,
    ) -> None:
        self._broker_id = broker_id
        self._door = door
        self._timers = timers
        self._subscriptions = subscriptions
        self._deliver = deliver
        self._started_us = now_us
        self._now_us = now_us
        self.membership = Membership(broker_id, door, subscriptions, told, self._tell_soon)
        self._open = Shares()
        # Who was asked since all were told that nothing is open; and above what nothing was.
        self._asked: set[BrokerId] = set()
        self._last = 0
        # Numbers of messages whose groups are to be said again.
        self._to_note: dict[int, None] = {}
        self.handing = Handing(timers, is_held)
        self.taking = Taking()
        self._is_checking = False

    # --- what happens here --------------------------------------------------------------------

    def begin_journal(self, journal: Journal) -> None:
        """From now on say what changes."""
        self.membership.journal = self.taking.journal = journal

    def _tell_soon(self) -> None:
        self._timers.set((SHARING_TIMER, _TELL), 0)

    def due(self, what: int, now_us: int) -> None:
        """One of this module's timers."""
        if what == _TELL:
            self.membership.tell_changes(now_us)
        elif what == _CHECK:
            self._check(now_us)
        else:
            self._write_notes()

    def hand_on(self, now_us: int) -> None:
        """Go on with what is for many groups."""
        self._now_us = now_us
        self.handing.go_on(now_us)
        self._write_notes()

    def finish(self, now_us: int) -> None:
        """As `hand_on`, with all of it."""
        self.handing.finish(now_us)
        self._write_notes()

    def restore(self, put: GroupPut) -> None:
        """Who was in a group when the broker stopped."""
        self.membership.restore(put)

    def puts(self) -> Iterator[GroupPut | AnswerPut | ClosedPut]:
        """What is known of other brokers' members, and what they were answered."""
        # At once: there are few, and what changes later is said later.
        yield from self.membership.puts()
        yield from self.taking.puts()

    def _say(self, to: str, control: Members | Shared | Closed | Took, now_us: int) -> int:
        return self._door.send(to, encode_control(control), now_us)

    # --- messages that are published here -----------------------------------------------------

    def share(self, message: Message, now_us: int) -> None:
        """A message was published here: give it to a member of each group that wants it."""
        self.membership.tell_changes(now_us)
        if not self.membership:
            return
        self._begin(message, _ALL)
        if self.handing.is_on:
            self.handing.take(self._share_later(message), now_us)
            return
        is_long = len(self.membership) > MANY_GROUPS
        steps = (
            self._share_later(message) if is_long else self._share(message, self._names(message))
        )
        self.handing.take(steps, now_us)
        self._write_notes()

    def share_again(self, message: Message, now_us: int) -> None:
        """As `share`, for one that was under way when the broker stopped."""
        self._begin(message, _ALL)
        self.handing.take(self._share(message, dict(message.shares or {})), now_us)
        self._write_notes()

    def _names(self, message: Message) -> dict[GroupName, BrokerId]:
        """The groups that a message is for, nobody chosen."""
        names: list[GroupName] = []
        deque(self.membership.wanting(message, names), maxlen=0)
        return _noted(message, names)

    def _share_later(self, message: Message) -> Iterator[int]:
        names: list[GroupName] = []
        for places in self.membership.wanting(message, names):
            yield 1 + places // PLACES_PER_WORK
        yield from self._share(message, _noted(message, names))

    def _share(self, message: Message, names: dict[GroupName, BrokerId]) -> Iterator[int]:
        """Choose for each of these groups, or ask again whom was chosen."""
        for name, broker in names.items():
            share = self._begin(message, name)
            if broker:
                self._hand(share, broker, self.handing.now_us)
            else:
                self._choose(share, self.handing.now_us)
            is_here = share.target in (None, self._broker_id)
            yield 1 if is_here else copy_work(message.size)
        chosen = self._open.get(key_of(message), _ALL)
        assert chosen is not None
        self._done(chosen)

    def _begin(self, message: Message, name: GroupName) -> Share:
        _, number = key_of(message)
        self._last = max(self._last, number)
        self._door.keep_back(number)
        return self._open.begin(message, name)

    def _choose(self, share: Share, now_us: int) -> None:
        """Hand it to one whose turn it is, of those who have not had it."""
        number = crc32(repr(share.message.key).encode())
        for is_any in (False, True):
            broker = self.membership.choose(share.group, number, share.tried, is_any=is_any)
            if broker is not None:
                share.tried.add((broker, is_any))
                self._hand(share, broker, now_us, is_any=is_any)
                return
        if not share.tried and now_us < self._started_us + START_US:
            share.target = None
            self._open.settled(share, now_us)
            self._check_soon(now_us)
        else:
            self._done(share)

    def _hand(self, share: Share, broker: BrokerId, now_us: int, *, is_any: bool = True) -> None:
        message = share.message
        self._open.handed(share, broker, is_any=is_any, now_us=now_us)
        if broker == self._broker_id:
            self._take_here(share, now_us)
            return
        self._note(message, share.group, broker)
        self._ask(share, broker, now_us)
        if not message.qos:
            self._done(share)

    def _take_here(self, share: Share, now_us: int) -> None:
        own = self._broker_id
        took = self._take(own, share.group, share.message, now_us, is_any=share.is_any)
        if took is None:
            self._note(share.message, share.group, self._broker_id)
            self._open.settled(share, now_us)
            self._check_soon(now_us)
        elif took:
            self._done(share)
        else:
            self._choose(share, now_us)

    def _note(self, message: Message, name: GroupName, broker: BrokerId | None) -> None:
        """Remember who was chosen, or that it is done."""
        shares = message.shares if message.shares is not None else {}
        if shares.get(name) != broker:
            if broker is None:
                del shares[name]
            else:
                shares[name] = broker
            self._to_note[key_of(message)[1]] = None

    def _write_notes(self) -> None:
        """Say of which messages something was noted."""
        to_note, self._to_note = self._to_note, {}
        for number in to_note:
            self._door.note(number)

    def _ask(self, share: Share, broker: BrokerId, now_us: int) -> None:
        control = shared_of(
            share.group,
            self._broker_id,
            share.message,
            now_us,
            is_any=share.is_any,
            open_from=self._open.first,
        )
        if share.message.qos:
            self._asked.add(broker)

        def settled(_: int) -> None:
            self._open.settled(share, self._now_us)

        self._door.notice(self._say(broker, control, now_us), settled)
        self._check_soon(now_us)

    def _done(self, share: Share) -> None:
        self._open.done(share)
        self._note(share.message, share.group, None)
        self._door.let_go(key_of(share.message)[1])

    def _check(self, now_us: int) -> None:
        """See to shares that nobody answers for."""
        self._now_us = now_us
        self._is_checking = False
        if not self.handing.is_on:
            self.handing.take(self._look_after(now_us), now_us)
            self._write_notes()
        if self._open:
            self._check_soon(now_us)
        else:
            asked, self._asked = self._asked, set()
            for broker in sorted(asked):
                self._say(broker, Closed(self._broker_id, self._last + 1), now_us)

    def _is_too_late(self, share: Share, now_us: int) -> bool:
        """Whether who was chosen is waited for no more, as it may come twice."""
        is_late = now_us >= share.handed_us + PATIENCE_US
        return is_late and share.message.qos == 1 and self._has_others(share)

    def _look_after(self, since_us: int) -> Iterator[int]:
        """Ask again, or another, where there is no answer yet; of what is late since then."""
        for share in self._open.unanswered(since_us):
            now_us = self.handing.now_us
            if self._is_too_late(share, now_us):
                self._choose(share, now_us)
            else:
                self._open.under_way(share)
                self._see_to(share, now_us)
            yield copy_work(share.message.size)
        for looked, share in enumerate(self._open.patient(since_us)):
            if self._is_too_late(share, self.handing.now_us):
                self._choose(share, self.handing.now_us)
                yield copy_work(share.message.size)
            elif looked % LOOKED_PER_WORK == 0:
                yield 1

    def _check_soon(self, now_us: int) -> None:
        if not self._is_checking:
            self._is_checking = True
            self._timers.set((SHARING_TIMER, _CHECK), now_us + CHECK_US)

    def _see_to(self, share: Share, now_us: int) -> None:
        """Who was chosen must have it, and says nothing."""
        if share.target is None:
            self._choose(share, now_us)
        elif now_us >= share.handed_us + TOOK_US:
            self.membership.lose(share.target, share.group)
            self._choose(share, now_us)
        elif share.target == self._broker_id:
            self._take_here(share, now_us)
        else:  # it was killed before it answered, or what it said is under way
            self._ask(share, share.target, now_us)

    def _has_others(self, share: Share) -> bool:
        """Whether somebody else might take it."""
        return share.target is not None and any(
            broker != share.target and not share.tried & {(broker, False), (broker, True)}
            for broker in self.membership.of(share.group)
        )

    # --- what other brokers say ---------------------------------------------------------------

    def hear(self, control: Members | Shared | Closed | Took, now_us: int) -> None:
        self._now_us = now_us
        match control:
            case Members(broker) if broker != self._broker_id:
                self.membership.learn(control)
            case Shared(name, broker, key=key, any=is_any):
                self.taking.close(broker, control.open_from)
                message = message_of(control, now_us)
                if message is not None and key is not None:
                    took = self._take(broker, name, message, now_us, is_any=is_any)
                    if message.qos and took is not None:
                        answer = Took(self._broker_id, name, key, took=took, any=is_any)
                        self._say(broker, answer, now_us)
            case Closed(broker, open_from):
                self.taking.close(broker, open_from)
            case Took(broker, name, key, took, is_any):
                share = self._open.get(key, name)
                if share is not None and share.target == broker:
                    if took:
                        self._done(share)
                        if len(share.message.shares or ()) >= _SEVERAL:
                            # Who asks again after a kill hears the same.
                            self._timers.set((SHARING_TIMER, _NOTE), 0)
                            return
                    elif is_any == share.is_any:
                        # It was killed, and has not told that they are gone.
                        if is_any:
                            self.membership.lose(broker, name)
                        else:
                            self.membership.lose_present(broker, name)
                        self._choose(share, now_us)
        self._write_notes()

    def _take(
        self, asking: BrokerId, name: GroupName, message: Message, now_us: int, *, is_any: bool
    ) -> bool | None:
        """Give a message to a member here; whether there is one, None if that is not known yet."""
        key = key_of(message)
        known = self.taking.answer(asking, key, name, is_any=is_any)
        if known is not None:
            return known
        chosen = self._subscriptions.member(name, is_any=is_any)
        if chosen is None and is_any and self._subscriptions.members(name).total:
            return None
        if message.qos and asking != self._broker_id:
            self.taking.answered(asking, key, name, is_any=is_any, took=chosen is not None)
        if chosen is not None:
            self._deliver(message, chosen, now_us)
        return chosen is not None


def _noted(message: Message, names: list[GroupName]) -> dict[GroupName, BrokerId]:
    """The groups that a message is for, nobody chosen."""
    message.shares = dict.fromkeys(names, "") if names else None
    return dict.fromkeys(names, "")
