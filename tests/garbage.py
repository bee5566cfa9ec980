"""Random inputs for one broker's machine; its timers fire as time passes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from shoal.broker.effects import Deliver, Send, SetTimer, Started, TimerFired
from shoal.broker.machine import Broker
from shoal.broker.wire import Codec


def feed(
    machine: Broker, happenings: Iterable[Any], codec: Codec, neighbours: Collection[str]
) -> None:
    """Give inputs to a machine; a number lets so many us pass. Messages to these neighbours must be
    encodable.

    Only the subscriptions `n1`, `n2` and `n3` may be delivered to.
    """
    now_us, timers = 0, {}
    for happening in [Started(), *happenings]:
        due = []
        if isinstance(happening, int):
            now_us += happening
            due = [key for key, at_us in timers.items() if at_us <= now_us]
        for key in due:
            del timers[key]
        inputs = [TimerFired(key) for key in due] if isinstance(happening, int) else [happening]
        for input in inputs:
            for effect in machine.handle(input, now_us):
                match effect:
                    case SetTimer(key, at_us):
                        timers[key] = at_us
                    case Send(neighbour, message):
                        assert neighbour in neighbours
                        codec.encode(message)
                    case Deliver(subscriptions=subscriptions):
                        assert set(subscriptions) <= {"n1", "n2", "n3"}
