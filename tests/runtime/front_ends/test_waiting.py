"""However many connections wait, each is served in turn, and the loop stays responsive."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from shoal.runtime.driving.cost_estimator import TURN_US
from shoal.runtime.front_ends.looking import MOST_LOOKED_AT
from shoal.runtime.front_ends.waiting import PendingConnections
from tests.runtime.live import on_loop, until

MANY = 3 * MOST_LOOKED_AT
# The times to check a connection, and to handle one held packet.
LOOK_US = 10
TAKES_US = 100


class Surroundings:
    """A node whose clock moves with the work, and a front end that flushes when due."""

    def __init__(self) -> None:
        self.now_us = 0
        self.flushes = self.looked = 0
        self.served: list[Connection] = []
        self._is_due = False
        self.sockets: dict[Any, Any] = {}
        clock = SimpleNamespace(now_us=lambda: self.now_us)
        node: Any = SimpleNamespace(clock=clock, schedule_flush=self.flush_soon)
        self.waiting = PendingConnections(node, self.sockets, None, None, lambda effects: None)

    def flush_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._is_due = False
        self.flushes += 1
        self.waiting.read_on()
        self.waiting.take_held()


class Connection:
    """Holds so many packets of a slice each; counts the checks."""

    client_id = None
    is_entering = False
    is_held = False

    def __init__(self, around: Surroundings, holds: int = 1, *, waits: bool = True) -> None:
        self._around = around
        self.left = holds
        self.waits = waits
        self.is_read = False
        around.sockets[self] = self
        self.pause_reading()

    @property
    def holds(self) -> bool:
        return self.left > 0

    @property
    def is_through(self) -> bool:
        return not (self.left or self.waits)

    @property
    def must_wait(self) -> bool:
        self._look()
        return self.waits

    @property
    def wants_reading(self) -> bool:
        self._look()
        return not self.waits

    def _look(self) -> None:
        self._around.looked += 1
        self._around.now_us += LOOK_US

    def take_held(self, now_us: int) -> list[Any]:
        self.left -= 1
        self._around.now_us += TAKES_US
        self._around.served.append(self)
        return []

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


def connect(around: Surroundings, count: int, **how: Any) -> list[Any]:
    found: list[Any] = [Connection(around, **how) for _ in range(count)]
    for each in found:
        around.waiting.see_to(each)
    around.looked = 0
    return found


async def quiet(around: Surroundings) -> None:
    """Stop all checks of connections."""
    looked = -1
    while looked != around.looked:
        looked = around.looked
        await asyncio.sleep(0.05)


@on_loop
async def test_a_ready_connection_is_served_behind_many_waiting_ones() -> None:
    """Waiting connections in front must not use all of 200 slices."""
    around = Surroundings()
    connect(around, MANY)
    (last,) = connect(around, 1, waits=False)
    around.flush()
    await until(lambda: around.served == [last])
    assert around.flushes <= MANY * LOOK_US // TURN_US + 2


@on_loop
async def test_waiting_connections_are_not_checked_without_an_event() -> None:
    """The loop must not check them again and again."""
    around = Surroundings()
    connect(around, MANY)
    around.flush()
    await quiet(around)
    assert not around.served
    assert around.looked >= 2 * MANY  # for both: to be read, and to have a turn


@on_loop
async def test_a_flush_checks_some_connections_and_all_are_served_in_turn() -> None:
    """A check of 50,000 in each flush would take 25 ms."""
    around = Surroundings()
    waiting = connect(around, MANY)
    around.flush()
    await quiet(around)
    for each in waiting:
        each.waits = False
    around.looked = 0
    around.flush()
    most_taken = TURN_US // TAKES_US
    assert around.looked <= 2 * (MOST_LOOKED_AT + most_taken)
    assert len(around.served) <= most_taken
    await until(lambda: len(around.served) == MANY)
    assert set(around.served) == set(waiting)
    await until(lambda: all(each.is_read for each in waiting))
    assert not around.waiting.holds


@on_loop
async def test_a_connection_with_many_packets_is_served_in_turn() -> None:
    around = Surroundings()
    connect(around, MANY)
    around.flush()
    first, second = connect(around, 2, holds=3, waits=False)
    around.flush()
    await until(lambda: len(around.served) == 6)
    assert around.served == [first, second] * 3


@on_loop
async def test_a_readable_connection_is_found_behind_all_others() -> None:
    around = Surroundings()
    connect(around, MANY)
    (last,) = connect(around, 1, holds=0)
    around.flush()
    last.waits = False
    around.flush()
    await until(lambda: last.is_read)


@on_loop
async def test_a_connection_with_room_is_read_at_once() -> None:
    around = Surroundings()
    connect(around, MANY)
    around.flush()
    await quiet(around)
    (full,) = connect(around, 1)
    full.waits = False
    around.waiting.take_held()
    assert full.is_read
