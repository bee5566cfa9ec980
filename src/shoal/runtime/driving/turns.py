"""Input queue of a machine, in order, handled in time slices."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import Input, Received, Requested, Returned
from shoal.broker.holding import Holding
from shoal.runtime.driving.cost_estimator import TURN_US, CostEstimator
from shoal.runtime.driving.timing.clock import Clock

# An input, its acknowledgement tracker, and the time (µs) since when it waits.
Handle = Callable[[Input, AckTracker | None, int | None], None]


class MachineTurns:
    """Inputs on their way to `handle`.

    An input that arises while another is handled is handled after it; handling that exceeds a time
    slice continues in a later slice. `deliver` hands deliveries to their clients within the slice
    that caused them; `at_end` is called after each turn, and `at_change` when the machine falls
    behind, and when it has caught up.
    """

    def __init__(
        self,
        handle: Handle,
        holding: Holding[AckTracker | None],
        cost_estimator: CostEstimator,
        clock: Clock,
        deliver: Callable[[], None],
        at_end: Callable[[], None],
        at_change: Callable[[bool], None],
    ) -> None:
        self._handle = handle
        self._holding = holding
        self._cost_estimator = cost_estimator
        self._clock = clock
        self._deliver, self._at_end, self._at_change = deliver, at_end, at_change
        self._inputs: deque[tuple[Input, AckTracker | None]] = deque()
        self._is_handling = False
        # True if the next input has been searched in part.
        self._is_preparing = False
        # True if input waits for the next time slice.
        self.is_behind = False
        self._is_paused = False

    def bring(
        self, inputs: Iterable[tuple[Input, AckTracker | None]], since_us: int | None
    ) -> None:
        """Handle these inputs, after earlier ones; together they have one time slice."""
        self._inputs += inputs
        if not (self._is_handling or self.is_behind):
            self._take_turn(since_us)

    def finish(self) -> None:
        """Handle all that has come."""
        while self.is_behind:
            self._is_paused = False
            if not self._take_turn():
                self._has_caught_up()

    def pause(self, is_paused: bool) -> None:
        """Hold all input while deliveries take several slices."""
        if is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        if not is_paused:
            self._resume_soon()
        elif not self.is_behind:
            self.is_behind = True
            self._at_change(True)

    def _take_turn(self, since_us: int | None = None) -> bool:
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
                    self._deliver()  # this may take most of the slice
                if self._is_paused:
                    is_more = True
                    break
                if self._is_preparing or self._clock.now_us() >= end_us:
                    is_more = True
                    self._at_end()  # resulting input is handled before the next one
                    self._resume_soon()
                    break
        finally:
            self._is_handling = False
        self._at_end()
        return is_more

    def _take_piece(
        self,
        input: Input,
        ack_tracker: AckTracker | None,
        rest_to: deque[tuple[Input, AckTracker | None]],
        since_us: int | None,
    ) -> None:
        """Handle an input, or as much of it as is enough, or nothing while that is prepared.

        The rest is put where it came from, in front.
        """
        if type(input) is Received or type(input) is Requested:
            input, *rest = self._cost_estimator.cut(input)
            if rest:
                if ack_tracker is not None:
                    ack_tracker.extend()
                rest_to.appendleft((rest[0], ack_tracker))
        self._is_preparing = self._cost_estimator.prepares(input)
        if self._is_preparing:
            rest_to.appendleft((input, ack_tracker))
        else:
            self._handle(input, ack_tracker, since_us)

    def _take_held(self, since_us: int | None) -> bool:
        """Handle held input that may go on, then queued input; return whether more is left.

        Retransmitted input is older than both.
        """
        is_recalled = bool(self._inputs) and type(self._inputs[0][0]) is Returned
        released = None if is_recalled else self._holding.next()
        if released is not None:
            self._take_piece(*released, self._holding.kept, None)
        elif not self._inputs:
            return False
        else:
            input, ack_tracker = self._inputs.popleft()
            if not self._holding.keep(input, ack_tracker):
                self._take_piece(input, ack_tracker, self._inputs, since_us)
        return True

    def _resume_soon(self) -> None:
        if not self.is_behind:
            self.is_behind = True
            self._at_change(True)
        asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        if self._is_paused or not self.is_behind:
            return  # or all was handled meanwhile
        if not self._take_turn():
            self._has_caught_up()

    def _has_caught_up(self) -> None:
        self.is_behind = False
        self._at_change(False)
