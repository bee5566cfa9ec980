"""Joining: a broker that joins a network, or comes back, gets the retained messages it missed.

The joiner sends Hello, three times or until another broker answers. A broker that is no member yet
sends it without a limit, and so does one whose connected neighbour is silent: an answer proves a
path through the system in both directions. It sends Hello again, also when more of its links are
ready, to brokers that it must hear from (see `session_transfer.starting`) and that have not
answered. Every broker answers with a digest of its retained messages, and with its clients; the
joiner sends its own clients to each that answers. The joiner asks brokers with a digest other than
its own for their messages, one after the other, and for each digest once: in a network that agrees,
a single one. Of two messages for one topic the later one stays, removals too, so that all brokers
end with the same state in any order. Long answers are sent in time slices; publications made
meanwhile arrive as everywhere.

When a link that was given up is back, the network was split, and the brokers beyond its ends have
missed as much. Each end sends Rejoined, asks the other part, and forwards the messages that are new
to it to all; and every broker announces its clients to all others. If another link has reconnected
the parts, one end may not know of the split: then the other end sends to all also the messages that
the other part did not have.

A broker that is no member yet is no end of a split, whichever of its links fail: it has nothing
that others miss.

| hears | sends |
| --- | --- |
| FederationHello | Here, its own clients |
| Rejoined | Here, and to all its own clients |
| Here | its own clients |
| Here, another digest, no question open | Tell |
| Tell | RetainedState for each retained message or removal, AllTold |
| RetainedState | to all the same, if it has rejoined and this is news |
| AllTold | Tell to the next with another digest; RetainedState to all if messages were missing |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

from shoal.model import BrokerId
from shoal.mqtt.federation.controls import (
    AllTold,
    Control,
    FederationHello,
    Here,
    Rejoined,
    RetainedState,
    Tell,
    encode_control,
)
from shoal.mqtt.federation.conversions import kept_of, message_of
from shoal.mqtt.federation.time_slices import BYTES_PER_WORK, TimeSlices
from shoal.mqtt.front_end.network import EVERY_BROKER, FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.timers import MqttTimers

# The first Hello may be lost, as this broker's subscriptions have yet to reach the others.
HELLO_AFTER_US = (MICROSECONDS // 2, 2 * MICROSECONDS, 10 * MICROSECONDS)
# Links mostly come up together: one Hello for all of them.
LINKED_US = MICROSECONDS // 100
HELLO_AGAIN_US = MICROSECONDS
# The timeout of an answer with all retained messages; then the broker begins again with Hello.
TOLD_US = 30 * MICROSECONDS

HELLO_TIMER = "hello"
LINKED_TIMER = "linked"
TOLD_TIMER = "told"
JOINING_TIMER = "joining"


class FederationJoining:
    """Exchanges retained messages for one broker.

    `send_clients` sends a broker the local clients, `announce_groups` the local group members.
    `unheard` are the brokers that this one must hear from after its start.
    """

    def __init__(
        self,
        broker_id: str,
        front_end: FrontEnd,
        retained: RetainedStore,
        timers: MqttTimers,
        send_clients: Callable[[str, int], None],
        announce_groups: Callable[[str, TimeSlices], Iterator[int]],
        unheard: Callable[[int], Sequence[BrokerId]],
    ) -> None:
        self._broker_id = broker_id
        self._front_end = front_end
        self._retained = retained
        self._timers = timers
        self._send_clients = send_clients
        self._announce_groups = announce_groups
        # The receivers of retained messages, with the last question of each.
        self._telling: dict[str, object] = {}
        self._turns = TimeSlices(timers, lambda: False, JOINING_TIMER)
        self._unheard = unheard
        self._hellos = 0
        self._asked_us = -HELLO_AGAIN_US
        # Whether a broker has answered since the first Hello.
        self._is_answered = False
        # Neighbours whose links were given up and have not come back.
        self._apart: set[BrokerId] = set()
        # Whether this is an end at which two parts came together.
        self._has_rejoined = False
        # Whether it may be the only end that knows; and the messages received since it asked, by
        # topic.
        self._is_alone = False
        self._heard: dict[str, PublishedMessage] = {}
        self._asked: str | None = None
        # Digests of brokers that were not asked yet; and digests of messages that have come.
        self._others: OrderedDict[str, int] = OrderedDict()
        # Whether a broker has answered, and all differing state has come.
        self.is_told = False
        # Whether this broker is no member yet: it repeats Hello until another one answers.
        self.is_joining = False
        self._told: set[int] = set()

    def join(self, now_us: int) -> None:
        """Begin to ask for the state of other brokers."""
        self._hellos = 0
        self._is_answered = False
        self._told.clear()
        self._timers.set((HELLO_TIMER, ()), now_us + HELLO_AFTER_US[0])

    def linked(self, neighbour: BrokerId, is_ready: bool, now_us: int) -> None:
        """Handle a link that is ready, or one that was given up and has split the network."""
        if not is_ready:
            if not self.is_joining:
                self._apart.add(neighbour)
        elif self._apart:
            self._has_rejoined = True
            # If the other end never gave its link up, it may not know of the split.
            self._is_alone = neighbour not in self._apart
            self._apart.discard(neighbour)
            self.join(now_us)
        elif not self._has_rejoined and self._unheard(now_us):
            at_us = max(now_us + LINKED_US, self._asked_us + HELLO_AGAIN_US)
            self._timers.set((LINKED_TIMER, ()), at_us)

    def came(self, now_us: int) -> None:
        """Handle a broker that has joined again: ask for its session list, if that is awaited.

        It sends the list as it starts, which other brokers may not receive before it is a member.
        """
        if self._unheard(now_us):
            self._timers.set((HELLO_TIMER, ()), now_us + HELLO_AFTER_US[0])

    def on_joining_timer(self, kind: str, now_us: int) -> None:
        """Handle a timer of this module."""
        if kind == TOLD_TIMER:
            self._asked = None
            self.join(now_us)
            return
        if kind == JOINING_TIMER:
            self._turns.run_slice(now_us)
            return
        if kind == LINKED_TIMER:
            if not self._has_rejoined:
                self._send_hello(now_us)
            return
        self._told.add(self._retained.digest)
        if self._has_rejoined and not self._hellos:
            # All routing tables have been sent on the link before, so this is not lost.
            self._send_join_control(EVERY_BROKER, Rejoined(self._broker_id), now_us)
            self._send_clients_and_members(EVERY_BROKER, now_us)
        self._send_hello(now_us)
        self._hellos += 1
        if self.is_joining and not self._is_answered:
            self._timers.set((HELLO_TIMER, ()), now_us + HELLO_AGAIN_US)
            return
        is_early = not self._has_rejoined and self._hellos < len(HELLO_AFTER_US)
        if is_early or self._unheard(now_us):
            after_us = HELLO_AFTER_US[min(self._hellos, len(HELLO_AFTER_US) - 1)]
            self._timers.set((HELLO_TIMER, ()), now_us + after_us)

    def _send_hello(self, now_us: int) -> None:
        """Send Hello to all, or to those that have not answered."""
        self._asked_us = now_us
        is_known = self._is_answered or self._has_rejoined
        for broker in self._unheard(now_us) if is_known else (EVERY_BROKER,):
            self._send_join_control(broker, FederationHello(self._broker_id), now_us)

    def on_control(self, control: Control, now_us: int) -> None:
        """Handle a control of another broker."""
        match control:
            case FederationHello(broker):
                self._send_join_control(broker, self._here(), now_us)
                self._send_clients_and_members(broker, now_us)
            case Rejoined(broker):
                self._send_join_control(broker, self._here(), now_us)
                self._send_clients_and_members(EVERY_BROKER, now_us)
            case Here(broker, digest):
                self._is_answered = True
                if not self._has_rejoined:
                    if not self._unheard(now_us):
                        self._timers.cancel((HELLO_TIMER, ()))
                    self._send_clients_and_members(broker, now_us)
                self._others[broker] = digest
                self._ask_next(now_us)
            case Tell(broker):
                question = self._telling[broker] = object()
                self._turns.take(self._send_retained(broker, question), now_us)
            case RetainedState():
                if self._asked is not None:  # a long answer takes its time
                    self._timers.set((TOLD_TIMER, ()), now_us + TOLD_US)
                kept = message_of(control, now_us)
                if kept is not None:
                    is_told = self._has_rejoined and self._asked is not None
                    if is_told and self._retained.is_news(kept):
                        self._send_join_control(EVERY_BROKER, control, now_us)
                    self._retained.keep(kept, now_us)
                    if self._is_alone and self._asked is not None:
                        self._heard[kept.topic] = kept
            case AllTold(broker) if broker == self._asked:
                self._timers.cancel((TOLD_TIMER, ()))
                self._asked = None
                heard, self._heard = self._heard, {}
                if self._is_alone:
                    self._turns.take(self._send_missing(heard), now_us)
                self._ask_next(now_us)

    def _here(self) -> Here:
        return Here(self._broker_id, self._retained.digest)

    def _send_retained(self, broker: str, question: object) -> Iterator[int]:
        """Send all retained messages; a repeated question starts from the beginning."""
        for message in self._retained.history():
            if self._telling.get(broker) is not question:
                return
            self._send_join_control(
                broker, kept_of(message, self._turns.now_us), self._turns.now_us
            )
            yield 1 + message.size // BYTES_PER_WORK
        if self._telling.get(broker) is not question:
            return
        del self._telling[broker]
        self._send_join_control(broker, AllTold(self._broker_id), self._turns.now_us)

    def _send_missing(self, heard: Mapping[str, PublishedMessage]) -> Iterator[int]:
        """Send the messages that the other part has not sent, and so does not have."""
        for message in self._retained.history():
            told = heard.get(message.topic)
            if told is None or told.payload != message.payload:
                self._send_join_control(
                    EVERY_BROKER, kept_of(message, self._turns.now_us), self._turns.now_us
                )
            yield 1 + message.size // BYTES_PER_WORK

    def _send_clients_and_members(self, broker: str, now_us: int) -> None:
        """Send the local clients and group members."""
        self._send_clients(broker, now_us)
        self._turns.take(self._announce_groups(broker, self._turns), now_us)

    def _ask_next(self, now_us: int) -> None:
        while self._asked is None and self._others:
            broker, digest = self._others.popitem(last=False)
            if digest not in self._told and digest != self._retained.digest:
                self._told.add(digest)
                self._asked = broker
                self._timers.set((TOLD_TIMER, ()), now_us + TOLD_US)
                self._send_join_control(broker, Tell(self._broker_id), now_us)
        self.is_told = self._asked is None

    def _send_join_control(self, to: str, control: Control, now_us: int) -> None:
        self._front_end.send(to, encode_control(control), now_us)
