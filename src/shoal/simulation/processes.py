"""Processes of brokers that a system starts and ends, in virtual time.

A started broker joins at once, and one that is to leave is asked as an operator would; each order
is followed, and answered when it is.
"""

from __future__ import annotations

from shoal.broker.effects import EndBroker, LeaveNetwork, ProcessAnswered, StartBroker
from shoal.model import BrokerId
from shoal.simulation.surroundings import SimulatedNetwork


def follow_order(
    order: StartBroker | EndBroker | LeaveNetwork,
    broker: BrokerId,
    network: SimulatedNetwork,
    now_us: int,
) -> ProcessAnswered | None:
    """Follow an order of this broker's system; returns the answer, if there is one."""
    match order:
        case StartBroker(name):
            network.start_broker(now_us, name)
            return ProcessAnswered(name)
        case EndBroker(name):
            network.left(name)
            return ProcessAnswered(name, is_end=True)
        case LeaveNetwork(leaves):
            (network.remove_broker if leaves else network.keep_broker)(now_us, broker)
            return None
