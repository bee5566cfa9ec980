"""Notifications from a machine to its service, beside messages and timers.

It has left, or stays; it must know something when it starts again; a client is to go elsewhere;
it answers the orders of operators; and processes of other brokers are to start or end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from shoal.broker.effects import (
    Answered,
    Effect,
    EndBroker,
    LeaveNetwork,
    Left,
    MoveClient,
    Remember,
    StartBroker,
    Stays,
)
from shoal.model import BrokerId, ClientId


class Asides:
    """Callbacks for each notification; the defaults ignore it."""

    def __init__(self) -> None:
        self._orders: deque[Callable[[str], None]] = deque()
        # Told that the machine has left the network, or with a reason that it stays.
        self.at_leave: Callable[[str], None] = _ignore_leave
        # called with the facts that the machine must know after a restart
        self.at_remember: Callable[[Mapping[str, Any]], None] = _ignore_facts
        # Sends a client to another broker, for the machine.
        self.at_move: Callable[[ClientId, BrokerId], None] = _ignore_move
        # Starts a broker's process, or ends it.
        self.at_process: Callable[[StartBroker | EndBroker], None] = _ignore_process
        # Begins a leave of this broker that its system orders, or takes it back.
        self.at_leave_order: Callable[[bool], None] = _ignore_leave_order

    def expect(self, answered: Callable[[str], None]) -> None:
        """The machine is given an order; why it is not followed comes as the answer."""
        self._orders.append(answered)

    def take(self, effect: Effect) -> bool:
        """Pass it on; whether it is one of these."""
        match effect:
            case Remember(facts):
                self.at_remember(facts)
            case MoveClient(name, broker):
                self.at_move(name, broker)
            case Left():
                self.at_leave("")
            case Stays(reason):
                self.at_leave(reason)
            case StartBroker() | EndBroker():
                self.at_process(effect)
            case LeaveNetwork(leaves):
                self.at_leave_order(leaves)
            case Answered(problem):
                self._orders.popleft()(problem)
            case _:
                return False
        return True


def _ignore_facts(facts: Mapping[str, Any]) -> None:
    """A broker of which nothing outlasts its process."""


def _ignore_move(client: ClientId, broker: BrokerId) -> None:
    """Until there is a front end with clients."""


def _ignore_leave(reason: str) -> None:
    """Placeholder until an operator asks the broker to leave."""


def _ignore_process(order: StartBroker | EndBroker) -> None:
    """A node without a service starts no processes."""


def _ignore_leave_order(leaves: bool) -> None:
    """A node without a service does not leave."""
