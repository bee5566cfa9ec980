"""Which clients ask again for the sessions that they wait for, and whom they ask.

A question may be lost on a link that is not there yet, or with a broker that is killed.  Whoever
was heard of since is there, and is asked by all that wait for it.  For a broker that is down
thousands may wait: a few of them at a time ask every broker, each in its turn, as their sessions
may have moved on; each answer lets two more do so.

>>> said = []
>>> questions = Questions(Timers(), lambda to, client_id, now_us: said.append((to, client_id)))
>>> for number in range(12):
...     questions.begin(f"c{number}", "B2", now_us=0)
>>> questions.due("B2", ASK_AGAIN_US), len(said), set(to for to, _ in said)
(None, 10, {'*'})
>>> questions.heard_of("B2", ASK_AGAIN_US + 1), questions.due("B2", ASK_AGAIN_US + 1), said[10:]
(None, None, [('B2', 'c10'), ('B2', 'c11')])
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from shoal.model import BrokerId
from shoal.mqtt.door.network import EVERY_BROKER
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.timers import Timers

ASK_AGAIN_US = MICROSECONDS // 2
# So many questions are said in a turn, some 2 ms, and so many to all in ASK_AGAIN_US.
MOST_AT_ONCE, MOST_TO_ALL = 100, 10

ASKING_TIMER = "asking"


class _Home:
    """A broker that clients wait for, by when each has asked last: who did so first comes first.

    `left` more may ask all until ASK_AGAIN_US after `since_us`.
    """

    __slots__ = ("clients", "heard_us", "left", "since_us")

    def __init__(self, now_us: int) -> None:
        self.clients: OrderedDict[str, int] = OrderedDict()
        self.heard_us = -1
        self.left, self.since_us = MOST_TO_ALL, now_us


class Questions:
    """Those of one broker.  `ask` asks a broker, or all, for the session of a client."""

    def __init__(self, timers: Timers, ask: Callable[[str, str, int], None]) -> None:
        self._timers = timers
        self._ask = ask
        self._homes: dict[BrokerId, _Home] = {}

    def begin(self, client_id: str, broker: BrokerId, now_us: int) -> None:
        """All have just been asked for the session of a client, which that broker should have."""
        home = self._homes.get(broker)
        if home is None:
            home = self._homes[broker] = _Home(now_us)
            self._timers.set((ASKING_TIMER, (broker, 0)), now_us + ASK_AGAIN_US)
        home.clients[client_id] = now_us

    def end(self, client_id: str, broker: BrokerId) -> None:
        """It asks no more."""
        home = self._homes.get(broker)
        if home is not None:
            home.clients.pop(client_id, None)
            if not home.clients:
                del self._homes[broker]
                self._timers.cancel((ASKING_TIMER, (broker, 0)))

    def heard_of(self, broker: BrokerId, now_us: int) -> None:
        """A broker is there."""
        home = self._homes.get(broker)
        if home is not None:
            home.heard_us = now_us
            if not home.left:
                self._timers.set((ASKING_TIMER, (broker, 0)), now_us)

    def answered(self, broker: BrokerId, now_us: int) -> None:
        """A session has come that this broker should have had; perhaps from another."""
        home = self._homes.get(broker)
        if home is not None:
            home.left = min(home.left + 2, MOST_AT_ONCE)
            self._timers.set((ASKING_TIMER, (broker, 0)), now_us)

    def due(self, broker: BrokerId, now_us: int) -> None:
        """Ask for some of those that wait for a broker."""
        home = self._homes[broker]
        if now_us - home.since_us >= ASK_AGAIN_US:
            home.left, home.since_us = max(home.left, MOST_TO_ALL), now_us
        again_us = now_us + 1  # others have their turn before that
        for client_id, asked_us in tuple(islice(home.clients.items(), MOST_AT_ONCE)):
            is_there = home.heard_us >= asked_us
            if now_us - asked_us < ASK_AGAIN_US:
                again_us = asked_us + ASK_AGAIN_US
                break
            if not (is_there or home.left):
                again_us = home.since_us + ASK_AGAIN_US
                break
            home.left -= not is_there
            home.clients[client_id] = now_us
            home.clients.move_to_end(client_id)
            self._ask(broker if is_there else EVERY_BROKER, client_id, now_us)
        self._timers.set((ASKING_TIMER, (broker, 0)), again_us)
