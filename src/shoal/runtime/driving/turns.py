"""What has come for a machine, in its order, and how much of it is handled in one turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from shoal.broker.custody import Custody
from shoal.broker.effects import Input, Received, Requested, Returned
from shoal.broker.holding import Holding
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.weighing import TURN_US, Weighing

# An input, who waits for it, and since when (µs) it has.
Handle = Callable[[Input, Custody | None, int | None], None]


class Turns:
    """Inputs on their way to `handle`.

    What comes up while one is handled is handled after it; what takes longer than a turn is gone on
    with when others have had theirs.  `deliver` hands on what has been delivered, so that it counts
    for the turn; `at_end` is called after each turn, and `at_change` when the machine falls behind,
    and when it has caught up.
    """

    def __init__(
        self,
        handle: Handle,
        holding: Holding[Custody | None],
        weighing: Weighing,
        clock: Clock,
        deliver: Callable[[], None],
        at_end: Callable[[], None],
        at_change: Callable[[bool], None],
    ) -> None:
        self._handle = handle
        self._holding = holding
        self._weighing = weighing
        self._clock = clock
        self._deliver, self._at_end, self._at_change = deliver, at_end, at_change
        self._inputs: deque[tuple[Input, Custody | None]] = deque()
        self._is_handling = False
        # Whether what is next has been looked at in part.
        self._is_preparing = False
        # Whether what has come waits for the next turn.
        self.is_behind = False
        self._is_paused = False

    def bring(self, inputs: Iterable[tuple[Input, Custody | None]], since_us: int | None) -> None:
        """Handle these, after what came before; together they have one turn."""
        self._inputs += inputs
        if not (self._is_handling or self.is_behind):
            self._take(since_us)

    def finish(self) -> None:
        """Handle all that has come."""
        while self.is_behind:
            self._is_paused = False
            if not self._take():
                self._has_caught_up()

    def pause(self, is_paused: bool) -> None:
        """What has been delivered takes several turns, or no longer: all waits behind it."""
        if is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        if not is_paused:
            self._go_on_soon()
        elif not self.is_behind:
            self.is_behind = True
            self._at_change(True)

    def _take(self, since_us: int | None = None) -> bool:
        """One turn; whether there is more for the next."""
        is_more = False
        end_us = self._clock.now_us() + TURN_US
        self._is_handling = True
        try:
            while self._inputs or self._holding.kept:
                if not (self._holding.is_on or self._holding.kept):
                    self._take_piece(*self._inputs.popleft(), self._inputs, since_us)
                elif not self._take_held(since_us):
                    break
                has_more = self._inputs or self._holding.kept
                if has_more and self._clock.now_us() < end_us:
                    self._deliver()  # which may be the longer part of it
                if self._is_paused:
                    is_more = True
                    break
                if self._is_preparing or self._clock.now_us() >= end_us:
                    is_more = True
                    self._at_end()  # what comes of it has its turn before what is next
                    self._go_on_soon()
                    break
        finally:
            self._is_handling = False
        self._at_end()
        return is_more

    def _take_piece(
        self,
        input: Input,
        custody: Custody | None,
        rest_to: deque[tuple[Input, Custody | None]],
        since_us: int | None,
    ) -> None:
        """Handle an input, or as much of it as is enough, or nothing while that is prepared.

        The rest is put where it came from, in front.
        """
        if type(input) is Received or type(input) is Requested:
            input, *rest = self._weighing.cut(input)
            if rest:
                if custody is not None:
                    custody.extend()
                rest_to.appendleft((rest[0], custody))
        self._is_preparing = self._weighing.prepares(input)
        if self._is_preparing:
            rest_to.appendleft((input, custody))
        else:
            self._handle(input, custody, since_us)

    def _take_held(self, since_us: int | None) -> bool:
        """Handle what was held back and need not be, then what has come; whether there is more.

        What was recalled is older than both.
        """
        is_recalled = bool(self._inputs) and type(self._inputs[0][0]) is Returned
        released = None if is_recalled else self._holding.next()
        if released is not None:
            self._take_piece(*released, self._holding.kept, None)
        elif not self._inputs:
            return False
        else:
            input, custody = self._inputs.popleft()
            if not self._holding.keep(input, custody):
                self._take_piece(input, custody, self._inputs, since_us)
        return True

    def _go_on_soon(self) -> None:
        if not self.is_behind:
            self.is_behind = True
            self._at_change(True)
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._is_paused or not self.is_behind:
            return  # or all was handled meanwhile
        if not self._take():
            self._has_caught_up()

    def _has_caught_up(self) -> None:
        self.is_behind = False
        self._at_change(False)
