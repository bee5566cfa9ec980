"""Brokers whose clocks differ: a machine with its own clock in the world's time.

Its inputs' times, and its timers, are on its clock; so are its records.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from shoal.broker.effects import Effect, Input, SetTimer

Handle = Callable[[Input, int], list[Effect]]


def ahead(handle: Handle, ahead_us: int) -> Handle:
    """The same front end, behind a clock that is ahead of the world's by so many µs (below 0:
    behind).

    >>> late = ahead(lambda input, now_us: [SetTimer(("tick",), now_us + 5)], 1_000)
    >>> late(None, 20)
    [SetTimer(key=('tick',), at_us=25, work=None)]
    """
    if not ahead_us:
        return handle

    def handle_ahead(input: Input, now_us: int) -> list[Effect]:
        return [
            msgspec.structs.replace(effect, at_us=effect.at_us - ahead_us)
            if type(effect) is SetTimer
            else effect
            for effect in handle(input, now_us + ahead_us)
        ]

    return handle_ahead
