"""Shared subscriptions over the network: one member of each group gets a message.

Every broker knows the brokers with members of each group, and the groups' filters. The publisher's
broker chooses one of them, by a hash of the publication's key, and sends it the message for the
group; no other broker gets it. Brokers with connected members are chosen first. The chosen broker
answers whether it has delivered the message to a member's session; the publisher gets its
acknowledgement when all groups' messages are delivered. Until then the message is kept here: a
broker without members answers so, a broker that is given up does not answer, and then another one
is chosen. A restarted broker finds its messages in its links, and answers; so a message that may be
delivered twice, at QoS 1, does not wait for it if another broker has members.

| broker | hears or sees | does |
| --- | --- | --- |
| any | a member comes, leaves or connects | sends its counts to all (`FederationMembers`) |
| publisher's | a message for a group | chooses a broker: delivers it itself, or `Shared` → open |
| chosen | Shared | delivers it to a member: `Took`; or has none: `Took`, with a negative answer |
| publisher's | Took | done; or chooses another that has not had it |
| publisher's | Shared was settled, a second over, no answer | Shared, again |
| publisher's | the same, TOOK_US over since it was first sent to that broker | chooses another |
| publisher's | the same, LEFT_US after the chosen broker has left the network | chooses another |
| publisher's | at QoS 1, each PATIENCE_US without an answer | chooses another, if there is one |
| publisher's | has chosen all | done, there is no subscriber |
| publisher's | killed and started again | asks the same, for publications sent again |
| publisher's | nothing is open any more | informs the brokers that it has asked: `Closed` |
| publisher's | a message for many groups | chooses for some in each time slice (`time_slices`) |
| chosen | Shared, Closed | forgets its answers about earlier messages (see `taking`) |

Source: MQTT Version 5.0, section 4.8.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from zlib import crc32

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    Closed,
    FederationMembers,
    GroupName,
    Shared,
    Took,
    encode_control,
)
from shoal.mqtt.federation.conversions import message_of, shared_of
from shoal.mqtt.federation.membership import FederationMembership
from shoal.mqtt.federation.shares import PATIENCE_US, GroupShare, GroupShares, key_of
from shoal.mqtt.federation.taking import Taking
from shoal.mqtt.federation.time_slices import TimeSlices, copy_work
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.memory.journal_records import AnswerPut, ClosedPut, GroupPut
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.timers import MqttTimers

# A neighbour may spool an answer for a disconnected broker, for as long as that is waited for.
TOOK_US = 60 * MICROSECONDS
# The last answers of a broker that has left are under way for less.
LEFT_US = 3 * MICROSECONDS
# A broker that has started does not know the groups' members yet.
START_US = 12 * MICROSECONDS
# The interval of checks of open shares.
CHECK_US = MICROSECONDS

SHARING_TIMER = "sharing"
LOSING_TIMER = "losing"
_CHECK, _TELL, _NOTE = 1, 0, 2
# The empty group: open until all groups of a message are chosen for.
_ALL = ""
# With more groups, the matching ones are found in time slices; so many topic filter nodes are
# visited in the time of sending one message.
MANY_GROUPS, PLACES_PER_WORK = 5_000, 20
# Open shares that are not late: so many are checked in that time.
LOOKED_PER_WORK = 20
# With so many groups per message, their choices are not recorded again for each answer.
_SEVERAL = 20


class Sharing:
    """The shared subscriptions of one broker.

    `deliver` gives a message to a local member; `told` gets the number of each announcement of
    members; `is_held` returns whether input of clients is suspended. `left_us` has the brokers that
    have left the network, and since when.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        front_end: FrontEnd,
        timers: MqttTimers,
        subscriptions: SessionSubscriptions,
        deliver: Callable[[PublishedMessage, ClientSubscription, int], None],
        told: Callable[[int], None],
        is_held: Callable[[], bool],
        left_us: Mapping[BrokerId, int],
        now_us: int,
    ) -> None:
        self._broker_id = broker_id
        self._front_end = front_end
        self._timers = timers
        self._subscriptions = subscriptions
        self._deliver = deliver
        self._started_us = now_us
        self._now_us = now_us
        self.membership = FederationMembership(
            broker_id, front_end, subscriptions, told, self._announce_soon
        )
        self._open = GroupShares()
        # Brokers asked since the last `Closed`; and the highest number used.
        self._asked: set[BrokerId] = set()
        self._last = 0
        self._left_us = left_us
        # Numbers of messages with choices to be recorded again.
        self._to_note: dict[int, None] = {}
        self.handing = TimeSlices(timers, is_held)
        # The groups of brokers that have left, which may be tens of thousands.
        self.losing = TimeSlices(timers, lambda: False, LOSING_TIMER)
        self.taking = Taking()
        self._is_checking = False

    # --- what happens here --------------------------------------------------------------------

    def begin_journal(self, journal: SessionJournal) -> None:
        """Begin to record changes in this journal."""
        self.membership.journal = self.taking.journal = journal

    def _announce_soon(self) -> None:
        self._timers.set((SHARING_TIMER, _TELL), 0)

    def on_sharing_timer(self, what: int, now_us: int) -> None:
        """Handle a timer of this module."""
        if what == _TELL:
            self.membership.announce_changes(now_us)
        elif what == _CHECK:
            self._check_shares(now_us)
        else:
            self._write_notes()

    def hand_on(self, now_us: int) -> None:
        """Run the next time slice of messages for many groups."""
        self._now_us = now_us
        self.handing.run_slice(now_us)
        self._write_notes()

    def finish(self, now_us: int) -> None:
        """Like `hand_on`, for all of them."""
        self.handing.finish(now_us)
        self._write_notes()

    def restore(self, put: GroupPut) -> None:
        """Restore the members of a group after a restart."""
        self.membership.restore(put)

    def puts(self) -> Iterator[GroupPut | AnswerPut | ClosedPut]:
        """The members at other brokers, and the answers to them, for the journal."""
        # In one step: there are few, and later changes are recorded later.
        yield from self.membership.puts()
        yield from self.taking.puts()

    def _send_share_control(
        self, to: str, control: FederationMembers | Shared | Closed | Took, now_us: int
    ) -> int:
        return self._front_end.send(to, encode_control(control), now_us)

    def left(self, broker: BrokerId, now_us: int) -> None:
        """Handle a broker that has left the network: it has no members, and will answer no more."""
        self.losing.take(self._lose_groups(broker), now_us)

    def _lose_groups(self, broker: BrokerId) -> Iterator[int]:
        for name in self.membership.groups_of(broker):
            if broker not in self._left_us:
                return  # it is back, and announces its members
            self.membership.lose(broker, name)
            yield 1

    # --- messages published here --------------------------------------------------------------

    def share(self, message: PublishedMessage, now_us: int) -> None:
        """Give a message published here to a member of each matching group."""
        self.membership.announce_changes(now_us)
        if not self.membership:
            return
        self._open_share(message, _ALL)
        if self.handing.is_on:
            self.handing.take(self._share_later(message), now_us)
            return
        is_long = len(self.membership) > MANY_GROUPS
        steps = (
            self._share_later(message) if is_long else self._share(message, self._names(message))
        )
        self.handing.take(steps, now_us)
        self._write_notes()

    def share_again(self, message: PublishedMessage, now_us: int) -> None:
        """Like `share`, for a message that was not settled at the stop."""
        self._open_share(message, _ALL)
        self.handing.take(self._share(message, dict(message.shares or {})), now_us)
        self._write_notes()

    def _names(self, message: PublishedMessage) -> dict[GroupName, BrokerId]:
        """The matching groups of a message, without chosen brokers."""
        names: list[GroupName] = []
        deque(self.membership.wanting(message, names), maxlen=0)
        return _noted(message, names)

    def _share_later(self, message: PublishedMessage) -> Iterator[int]:
        names: list[GroupName] = []
        for places in self.membership.wanting(message, names):
            yield 1 + places // PLACES_PER_WORK
        yield from self._share(message, _noted(message, names))

    def _share(self, message: PublishedMessage, names: dict[GroupName, BrokerId]) -> Iterator[int]:
        """Choose a broker for each of these groups, or ask the chosen one again."""
        for name, broker in names.items():
            share = self._open_share(message, name)
            if broker:
                self._hand(share, broker, self.handing.now_us)
            else:
                self._choose(share, self.handing.now_us)
            is_here = share.target in (None, self._broker_id)
            yield 1 if is_here else copy_work(message.size)
        chosen = self._open.get(key_of(message), _ALL)
        assert chosen is not None
        self._close_share(chosen)

    def _open_share(self, message: PublishedMessage, name: GroupName) -> GroupShare:
        _, number = key_of(message)
        self._last = max(self._last, number)
        self._front_end.defer_ack(number)
        return self._open.begin(message, name)

    def _choose(self, share: GroupShare, now_us: int) -> None:
        """Send it to the next of the brokers that have not had it."""
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
            self._close_share(share)

    def _hand(
        self, share: GroupShare, broker: BrokerId, now_us: int, *, is_any: bool = True
    ) -> None:
        message = share.message
        self._open.handed(share, broker, is_any=is_any, now_us=now_us)
        if broker == self._broker_id:
            self._take_here(share, now_us)
            return
        self._note(message, share.group, broker)
        self._ask_member_broker(share, broker, now_us)
        if not message.qos:
            self._close_share(share)

    def _take_here(self, share: GroupShare, now_us: int) -> None:
        own = self._broker_id
        took = self._give_to_member(own, share.group, share.message, now_us, is_any=share.is_any)
        if took is None:
            self._note(share.message, share.group, self._broker_id)
            self._open.settled(share, now_us)
            self._check_soon(now_us)
        elif took:
            self._close_share(share)
        else:
            self._choose(share, now_us)

    def _note(self, message: PublishedMessage, name: GroupName, broker: BrokerId | None) -> None:
        """Record the chosen broker, or that the share is done."""
        shares = message.shares if message.shares is not None else {}
        if shares.get(name) != broker:
            if broker is None:
                del shares[name]
            else:
                shares[name] = broker
            self._to_note[key_of(message)[1]] = None

    def _write_notes(self) -> None:
        """Write the recorded choices to the journal."""
        to_note, self._to_note = self._to_note, {}
        for number in to_note:
            self._front_end.note(number)

    def _ask_member_broker(self, share: GroupShare, broker: BrokerId, now_us: int) -> None:
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

        self._front_end.notice(self._send_share_control(broker, control, now_us), settled)
        self._check_soon(now_us)

    def _close_share(self, share: GroupShare) -> None:
        self._open.done(share)
        self._note(share.message, share.group, None)
        self._front_end.release_ack(key_of(share.message)[1])

    def _check_shares(self, now_us: int) -> None:
        """Check the shares without an answer."""
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
                self._send_share_control(broker, Closed(self._broker_id, self._last + 1), now_us)

    def _is_too_late(self, share: GroupShare, now_us: int) -> bool:
        """Whether the timeout of a message that may be delivered twice is over."""
        is_late = now_us >= share.handed_us + PATIENCE_US
        return is_late and share.message.qos == 1 and self._has_others(share)

    def _look_after(self, since_us: int) -> Iterator[int]:
        """Ask again, or another broker, for the shares without an answer since that time."""
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

    def _see_to(self, share: GroupShare, now_us: int) -> None:
        """Handle a share whose chosen broker has the message, and does not answer."""
        if share.target is None:
            self._choose(share, now_us)
        elif now_us >= share.handed_us + TOOK_US or self._has_left(share.target, now_us):
            self.membership.lose(share.target, share.group)
            self._choose(share, now_us)
        elif share.target == self._broker_id:
            self._take_here(share, now_us)
        else:  # it was killed before it answered, or its answer is under way
            self._ask_member_broker(share, share.target, now_us)

    def _has_left(self, broker: BrokerId, now_us: int) -> bool:
        """Whether a broker has left the network so long ago that its last answers have come."""
        left_us = self._left_us.get(broker)
        return left_us is not None and now_us >= left_us + LEFT_US

    def _has_others(self, share: GroupShare) -> bool:
        """Whether another broker might take it."""
        return share.target is not None and any(
            broker != share.target and not share.tried & {(broker, False), (broker, True)}
            for broker in self.membership.members_of(share.group)
        )

    # --- controls of other brokers ------------------------------------------------------------

    def on_control(self, control: FederationMembers | Shared | Closed | Took, now_us: int) -> None:
        self._now_us = now_us
        match control:
            case FederationMembers(broker) if broker != self._broker_id:
                self.membership.learn(control)
            case Shared(name, broker, key=key, any=is_any):
                self.taking.close(broker, control.open_from)
                message = message_of(control, now_us)
                if message is not None and key is not None:
                    took = self._give_to_member(broker, name, message, now_us, is_any=is_any)
                    if message.qos and took is not None:
                        answer = Took(self._broker_id, name, key, took=took, any=is_any)
                        self._send_share_control(broker, answer, now_us)
            case Closed(broker, open_from):
                self.taking.close(broker, open_from)
            case Took(broker, name, key, took, is_any):
                share = self._open.get(key, name)
                if share is not None and share.target == broker:
                    if took:
                        self._close_share(share)
                        if len(share.message.shares or ()) >= _SEVERAL:
                            # A repeated question after a kill gets the same answer.
                            self._timers.set((SHARING_TIMER, _NOTE), 0)
                            return
                    elif is_any == share.is_any:
                        # It was killed, and has not announced that its members are gone.
                        if is_any:
                            self.membership.lose(broker, name)
                        else:
                            self.membership.lose_present(broker, name)
                        self._choose(share, now_us)
        self._write_notes()

    def _give_to_member(
        self,
        asking: BrokerId,
        name: GroupName,
        message: PublishedMessage,
        now_us: int,
        *,
        is_any: bool,
    ) -> bool | None:
        """Give a message to a local member; returns whether there is one, None if not known yet."""
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


def _noted(message: PublishedMessage, names: list[GroupName]) -> dict[GroupName, BrokerId]:
    """The groups that a message is for, without chosen brokers."""
    message.shares = dict.fromkeys(names, "") if names else None
    return dict.fromkeys(names, "")
