"""A broker that joins a network, or comes back, learns what was retained meanwhile.

It says Hello, three times or until another broker answers, and a broker that is no member yet as
often as it takes: an answer proves that both hear each other through the system.  It says so again,
also when more of its links can carry it, to those that it must hear (see `roaming.starting`) and
who have not answered.  Everyone answers with a digest of the retained messages, and with the
clients that are there; to whoever answers it tells those that it has kept itself.  Whose digest
differs from its own is asked to tell, one broker after the other, and each digest once: in a
network that agrees, a single one.  Of two messages for one topic the later stays, removals too, so
that all end with the same, whoever tells whom.  What is much to tell is told in turns; what is
published meanwhile comes as to everybody.

When a link is back that was given up, the network was in two parts, and those beyond its ends have
missed as much.  Each end says Rejoined, learns what the other part has, and says to all what was
news to it; and every broker tells all others of its clients.  Where another link than the one that
was given up has brought them together, one end may know nothing of it: the other says to all what
that part has not told, too.

| hears | says |
| --- | --- |
| Hello | Here, its own clients |
| Rejoined | Here, and to all its own clients |
| Here | its own clients |
| Here, another digest, nobody asked | Tell |
| Tell | Kept for each retained message or removal, Told |
| Kept | to all the same, if it has rejoined and this is news |
| Told | Tell to the next whose digest differs; perhaps Kept to all for what was not told |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

from shoal.model import BrokerId
from shoal.mqtt.door.network import EVERY_BROKER, Door
from shoal.mqtt.federation.controls import (
    Control,
    Hello,
    Here,
    Kept,
    Rejoined,
    Tell,
    Told,
    encode_control,
)
from shoal.mqtt.federation.handing import BYTES_PER_WORK, Handing
from shoal.mqtt.federation.said import kept_of, message_of
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.timers import Timers

# A broker's first words may be lost, since its subscriptions have yet to reach the others.
HELLO_AFTER_US = (MICROSECONDS // 2, 2 * MICROSECONDS, 10 * MICROSECONDS)
# Links mostly come together, and many of them are no reason to ask ever again.
LINKED_US = MICROSECONDS // 100
HELLO_AGAIN_US = MICROSECONDS
# Whoever is asked and has not told within this has died; it begins again with Hello.
TOLD_US = 30 * MICROSECONDS

HELLO_TIMER = "hello"
LINKED_TIMER = "linked"
TOLD_TIMER = "told"
JOINING_TIMER = "joining"


class Joining:
    """What one broker tells and is told about retained messages.

    `tell_clients` says to a broker which clients are here, `tell_groups` who is in which group.
    `unheard` are those that this one, which has just started, must hear first.
    """

    def __init__(
        self,
        broker_id: str,
        door: Door,
        retained: RetainedStore,
        timers: Timers,
        tell_clients: Callable[[str, int], None],
        tell_groups: Callable[[str, Handing], Iterator[int]],
        unheard: Callable[[int], Sequence[BrokerId]],
    ) -> None:
        self._broker_id = broker_id
        self._door = door
        self._retained = retained
        self._timers = timers
        self._tell_clients = tell_clients
        self._tell_groups = tell_groups
        # Who is being told, by the last question of each.
        self._telling: dict[str, object] = {}
        self._turns = Handing(timers, lambda: False, JOINING_TIMER)
        self._unheard = unheard
        self._hellos = 0
        self._asked_us = -HELLO_AGAIN_US
        # Whether anybody has answered since it asked first.
        self._is_answered = False
        # Neighbours whose links were given up and have not come back.
        self._apart: set[BrokerId] = set()
        # Whether this is one of the ends at which two parts came together.
        self._has_rejoined = False
        # Whether it may be the only one that knows; by topic what it was told since it asked.
        self._is_alone = False
        self._heard: dict[str, Message] = {}
        self._asked: str | None = None
        # Who has what, of those that have not been asked; and what was told already.
        self._others: OrderedDict[str, int] = OrderedDict()
        # Whether some broker has answered, and all has been told that differed.
        self.is_told = False
        # Whether this broker says Hello for as long as no other has answered.
        self.repeats = False
        self._told: set[int] = set()

    def join(self, now_us: int) -> None:
        """Find out what others have."""
        self._hellos = 0
        self._is_answered = False
        self._told.clear()
        self._timers.set((HELLO_TIMER, ()), now_us + HELLO_AFTER_US[0])

    def linked(self, neighbour: BrokerId, is_ready: bool, now_us: int) -> None:
        """A link can carry publications now, or was given up, and the network fell in two."""
        if not is_ready:
            self._apart.add(neighbour)
        elif self._apart:
            self._has_rejoined = True
            # The other end of a link that was never given up may know of no such.
            self._is_alone = neighbour not in self._apart
            self._apart.discard(neighbour)
            self.join(now_us)
        elif not self._has_rejoined and self._unheard(now_us):
            at_us = max(now_us + LINKED_US, self._asked_us + HELLO_AGAIN_US)
            self._timers.set((LINKED_TIMER, ()), at_us)

    def due(self, kind: str, now_us: int) -> None:
        """One of this module's timers."""
        if kind == TOLD_TIMER:
            self._asked = None
            self.join(now_us)
            return
        if kind == JOINING_TIMER:
            self._turns.go_on(now_us)
            return
        if kind == LINKED_TIMER:
            if not self._has_rejoined:
                self._say_hello(now_us)
            return
        self._told.add(self._retained.digest)
        if self._has_rejoined:
            # All tables have been told behind the link, and nothing is lost.
            self._say(EVERY_BROKER, Rejoined(self._broker_id), now_us)
            self._tell(EVERY_BROKER, now_us)
            return
        self._say_hello(now_us)
        self._hellos += 1
        if self.repeats and not self._is_answered:
            self._timers.set((HELLO_TIMER, ()), now_us + HELLO_AGAIN_US)
        elif self._hellos < len(HELLO_AFTER_US):
            self._timers.set((HELLO_TIMER, ()), now_us + HELLO_AFTER_US[self._hellos])

    def _say_hello(self, now_us: int) -> None:
        """To all, or to those who have not answered."""
        self._asked_us = now_us
        for broker in self._unheard(now_us) if self._is_answered else (EVERY_BROKER,):
            self._say(broker, Hello(self._broker_id), now_us)

    def hear(self, control: Control, now_us: int) -> None:
        """Another broker says something."""
        match control:
            case Hello(broker):
                self._say(broker, self._here(), now_us)
                self._tell(broker, now_us)
            case Rejoined(broker):
                self._say(broker, self._here(), now_us)
                self._tell(EVERY_BROKER, now_us)
            case Here(broker, digest):
                if not self._has_rejoined:
                    self._is_answered = True
                    if not self._unheard(now_us):
                        self._timers.cancel((HELLO_TIMER, ()))
                    self._tell(broker, now_us)
                self._others[broker] = digest
                self._ask_next(now_us)
            case Tell(broker):
                question = self._telling[broker] = object()
                self._turns.take(self._tell_retained(broker, question), now_us)
            case Kept():
                if self._asked is not None:  # who tells much takes its time
                    self._timers.set((TOLD_TIMER, ()), now_us + TOLD_US)
                kept = message_of(control, now_us)
                if kept is not None:
                    is_told = self._has_rejoined and self._asked is not None
                    if is_told and self._retained.is_news(kept):
                        self._say(EVERY_BROKER, control, now_us)
                    self._retained.keep(kept, now_us)
                    if self._is_alone and self._asked is not None:
                        self._heard[kept.topic] = kept
            case Told(broker) if broker == self._asked:
                self._timers.cancel((TOLD_TIMER, ()))
                self._asked = None
                heard, self._heard = self._heard, {}
                if self._is_alone:
                    self._turns.take(self._say_untold(heard), now_us)
                self._ask_next(now_us)

    def _here(self) -> Here:
        return Here(self._broker_id, self._retained.digest)

    def _tell_retained(self, broker: str, question: object) -> Iterator[int]:
        """All that is retained here, unless it asks again meanwhile: then from the beginning."""
        for message in self._retained.history():
            if self._telling.get(broker) is not question:
                return
            self._say(broker, kept_of(message, self._turns.now_us), self._turns.now_us)
            yield 1 + message.size // BYTES_PER_WORK
        if self._telling.get(broker) is not question:
            return
        del self._telling[broker]
        self._say(broker, Told(self._broker_id), self._turns.now_us)

    def _say_untold(self, heard: Mapping[str, Message]) -> Iterator[int]:
        """What the other part has not told it does not have."""
        for message in self._retained.history():
            told = heard.get(message.topic)
            if told is None or told.payload != message.payload:
                self._say(EVERY_BROKER, kept_of(message, self._turns.now_us), self._turns.now_us)
            yield 1 + message.size // BYTES_PER_WORK

    def _tell(self, broker: str, now_us: int) -> None:
        """Who is here."""
        self._tell_clients(broker, now_us)
        self._turns.take(self._tell_groups(broker, self._turns), now_us)

    def _ask_next(self, now_us: int) -> None:
        while self._asked is None and self._others:
            broker, digest = self._others.popitem(last=False)
            if digest not in self._told and digest != self._retained.digest:
                self._told.add(digest)
                self._asked = broker
                self._timers.set((TOLD_TIMER, ()), now_us + TOLD_US)
                self._say(broker, Tell(self._broker_id), now_us)
        self.is_told = self._asked is None

    def _say(self, to: str, control: Control, now_us: int) -> None:
        self._door.send(to, encode_control(control), now_us)
