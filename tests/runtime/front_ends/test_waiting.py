"""However many connections wait, each has its turn, and the loop has its own."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from shoal.runtime.driving.cost_estimator import TURN_US
from shoal.runtime.front_ends.looking import MOST_LOOKED_AT
from shoal.runtime.front_ends.waiting import PendingConnections
from tests.runtime.live import on_loop, until

MANY = 3 * MOST_LOOKED_AT
# What it takes to look at a connection, and to take what one holds.
LOOK_US = 10
TAKES_US = 100


class Surroundings:
    """A node whose time passes with what is done, and a front end that flushes when it is due."""

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
    """Holds so many things, each of which is a turn's; counts how often it is looked at."""

    client_id = None
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
    """Nobody looks at connections any more."""
    looked = -1
    while looked != around.looked:
        looked = around.looked
        await asyncio.sleep(0.05)


@on_loop
async def test_who_need_not_wait_is_served_however_many_before_it_must() -> None:
    """It was not in 200 turns: those in front were looked at for all of each."""
    around = Surroundings()
    connect(around, MANY)
    (last,) = connect(around, 1, waits=False)
    around.flush()
    await until(lambda: around.served == [last])
    assert around.flushes <= MANY * LOOK_US // TURN_US + 2


@on_loop
async def test_nobody_looks_at_those_that_wait_until_something_happens() -> None:
    """The loop looked at them again and again."""
    around = Surroundings()
    connect(around, MANY)
    around.flush()
    await quiet(around)
    assert not around.served
    assert around.looked >= 2 * MANY  # for both: to be read, and to have a turn


@on_loop
async def test_a_flush_looks_at_some_of_them_and_each_has_its_turn_once_it_may() -> None:
    """50,000 were all looked at in each flush: 25 ms."""
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
async def test_who_holds_much_has_a_turn_when_others_had_theirs() -> None:
    around = Surroundings()
    connect(around, MANY)
    around.flush()
    first, second = connect(around, 2, holds=3, waits=False)
    around.flush()
    await until(lambda: len(around.served) == 6)
    assert around.served == [first, second] * 3


@on_loop
async def test_who_may_be_read_is_found_behind_all_that_may_not() -> None:
    around = Surroundings()
    connect(around, MANY)
    (last,) = connect(around, 1, holds=0)
    around.flush()
    last.waits = False
    around.flush()
    await until(lambda: last.is_read)


@on_loop
async def test_who_has_room_again_is_read_on_at_once() -> None:
    around = Surroundings()
    connect(around, MANY)
    around.flush()
    await quiet(around)
    (full,) = connect(around, 1)
    full.waits = False
    around.waiting.take_held()
    assert full.is_read
