"""Ended objects leave no cycles, and collections of a large broker read new objects only."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from shoal.matching import MatchIndex
from shoal.model import Filter, Operator, predicate
from shoal.runtime import serving
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.driving.timing.pauses import Alarm
from shoal.runtime.front_ends.reading import ReadRounds, SocketReading
from tests.runtime.live import on_loop, until


@on_loop
async def test_an_alarm_that_has_fired_is_gone() -> None:
    fired: list[int] = []
    gc.collect()
    gc.disable()
    try:
        alarms = [
            Alarm(asyncio.get_running_loop(), Clock(), 0, lambda: fired.append(1)) for _ in range(2)
        ]
        alarms[1].cancel()
        left = [weakref.ref(each) for each in alarms]
        alarms.clear()
        await until(lambda: bool(fired))
        await asyncio.sleep(0)
        assert [each() for each in left] == [None, None]
    finally:
        gc.enable()


def test_an_ended_reader_has_no_references() -> None:
    class Socket:
        def take(self, data: bytes) -> None: ...

        def lost(self) -> None: ...

    socket = Socket()
    socket.reading = SocketReading(None, socket.take, ReadRounds(lambda: 0.0))  # type: ignore[attr-defined,arg-type]
    left = weakref.ref(socket)
    socket.reading.end(socket.lost)  # type: ignore[attr-defined]
    gc.disable()
    try:
        del socket
        assert left() is None
    finally:
        gc.enable()


def test_collections_read_new_objects_only() -> None:
    """With the objects of a million subscriptions a full collection takes a second."""
    before = gc.get_threshold()
    try:
        serving.calm_collector()
        full = _full()
        kept: list[list[int]] = [[] for _ in range(500_000)]
        assert len(kept) == 500_000
        assert _full() == full
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _full() -> int:
    return gc.get_stats()[2]["collections"]


def test_a_live_broker_never_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 1,000 non-range tests must not load numba in the loop: 0.5 s, then more."""
    monkeypatch.setattr(MatchIndex, "may_wait", False)
    index = MatchIndex()
    for number in range(1_100):
        index.add(number, Filter(predicate("a", Operator.NE, number)))
    assert len(index.match({"a": 5})) == 1_099
    assert [len(each) for each in index.match_each([{"a": 5}] * 20)] == [1_099] * 20
    assert index._compiled is None
