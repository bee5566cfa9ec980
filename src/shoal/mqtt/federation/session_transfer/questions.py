"""Repeated questions of clients that wait for their sessions.

A question may be lost on a link that is not ready, or with a broker that is killed. A broker that
was heard of since is alive: all clients that wait for it ask it. For a broker that is down
thousands may wait: a few of them at a time ask every broker, in turn, as their sessions may have
moved on; each answer allows two more questions.

>>> said = []
>>> def send(to, client_id, now_us):
...     said.append((to, client_id))
>>> questions = TransferQuestions(MqttTimers(), send)
>>> for number in range(12):
...     questions.begin(f"c{number}", "B2", now_us=0)
>>> questions.ask_some("B2", ASK_AGAIN_US), len(said), set(to for to, _ in said)
(None, 10, {'*'})
>>> later_us = ASK_AGAIN_US + 1
>>> questions.on_alive("B2", later_us), questions.ask_some("B2", later_us), said[10:]
(None, None, [('B2', 'c10'), ('B2', 'c11')])
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from shoal.model import BrokerId
from shoal.mqtt.front_end.network import EVERY_BROKER
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.timers import MqttTimers

ASK_AGAIN_US = MICROSECONDS // 2
# Questions per time slice, some 2 ms, and questions to all brokers in ASK_AGAIN_US.
MOST_AT_ONCE, MOST_TO_ALL = 100, 10

ASKING_TIMER = "asking"


class _Home:
    """The clients that wait for a broker, the one with the oldest question first.

    `left` more may ask all brokers until ASK_AGAIN_US after `since_us`.
    """

    __slots__ = ("clients", "heard_us", "left", "since_us")

    def __init__(self, now_us: int) -> None:
        self.clients: OrderedDict[str, int] = OrderedDict()
        self.heard_us = -1
        self.left, self.since_us = MOST_TO_ALL, now_us


class TransferQuestions:
    """The questions of one broker. `ask` asks a broker, or all, for the session of a client."""

    def __init__(self, timers: MqttTimers, ask: Callable[[str, str, int], None]) -> None:
        self._timers = timers
        self._ask = ask
        self._homes: dict[BrokerId, _Home] = {}

    def begin(self, client_id: str, broker: BrokerId, now_us: int) -> None:
        """Begin to ask for a client's session; all brokers were just asked, that one should have
        it."""
        home = self._homes.get(broker)
        if home is None:
            home = self._homes[broker] = _Home(now_us)
            self._timers.set((ASKING_TIMER, (broker, 0)), now_us + ASK_AGAIN_US)
        home.clients[client_id] = now_us

    def end(self, client_id: str, broker: BrokerId) -> None:
        """Stop asking for a client's session."""
        home = self._homes.get(broker)
        if home is not None:
            home.clients.pop(client_id, None)
            if not home.clients:
                del self._homes[broker]
                self._timers.cancel((ASKING_TIMER, (broker, 0)))

    def on_alive(self, broker: BrokerId, now_us: int) -> None:
        """Handle a sign of life of a broker."""
        home = self._homes.get(broker)
        if home is not None:
            home.heard_us = now_us
            if not home.left:
                self._timers.set((ASKING_TIMER, (broker, 0)), now_us)

    def answered(self, broker: BrokerId, now_us: int) -> None:
        """A session that this broker should own has come, perhaps from another."""
        home = self._homes.get(broker)
        if home is not None:
            home.left = min(home.left + 2, MOST_AT_ONCE)
            self._timers.set((ASKING_TIMER, (broker, 0)), now_us)

    def ask_some(self, broker: BrokerId, now_us: int) -> None:
        """Ask for some of the sessions of a broker."""
        home = self._homes[broker]
        if now_us - home.since_us >= ASK_AGAIN_US:
            home.left, home.since_us = max(home.left, MOST_TO_ALL), now_us
        again_us = now_us + 1  # after a time slice of other inputs
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
