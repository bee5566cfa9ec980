"""Reads parts of the broker's log for late subscribers, in slices of the loop.

Some parts are read at a time; more questions wait, up to a bound. A part ends after `PART_BYTES`,
or after some time: a rare match in a long log takes many parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from shoal.attributes import Json
from shoal.log.errors import LogError
from shoal.log.selections import RecordSelection
from shoal.log.slices import LogSlice, slice_steps
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.connection.effects import ClientEffect
from shoal.mqtt.federation.controls import LogAsked
from shoal.mqtt.replaying.log_replays import PART_BYTES
from shoal.mqtt.sessions.subscribed.rows import content_of
from shoal.runtime.node import Node
from shoal.runtime.storage.log_writer import LogWriter

# Time of the loop before other input has its turn, and of a part in all.
SLICE_S = 0.004
PART_S = 0.25
# Parts that are read at a time.
PARTS = 4
MOST_WAITING = 1_000


class LogReading:
    """Answers questions about one broker's log."""

    def __init__(
        self,
        node: Node,
        clients: BrokerClients,
        writer: LogWriter,
        json: Json,
        carry_out: Callable[[list[ClientEffect]], object],
    ) -> None:
        self._node = node
        self._clients = clients
        self._writer = writer
        self._json = json
        self._carry_out = carry_out
        self._free = asyncio.Semaphore(PARTS)
        self._tasks: set[asyncio.Task[None]] = set()
        clients.replays.has_log = True

    def read(self, asked: LogAsked) -> None:
        """Answer a question, when it is its turn; beyond a bound it is dropped, and asked again."""
        if len(self._tasks) >= MOST_WAITING:
            return
        task = self._node.loop.create_task(self._read_part(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Answer no more."""
        for task in self._tasks:
            task.cancel()

    async def _read_part(self, asked: LogAsked) -> None:
        part, problem = None, ""
        async with self._free:
            try:
                part = await self._part(asked)
            except (LogError, OSError, ValueError) as error:
                problem = str(error)
        self._clients.replays.told(asked, part, self._node.clock.now_us(), problem)
        self._carry_out(self._clients.take_effects())
        self._node.schedule_flush()

    async def _part(self, asked: LogAsked) -> LogSlice:
        loop = self._node.loop
        topics, where = (asked.topic_filter,), content_of(asked.where)
        selection = RecordSelection(topics, where, self._json)
        ends_s = loop.time() + PART_S
        steps = slice_steps(
            self._writer.log,
            selection,
            asked.place,
            asked.from_us,
            PART_BYTES,
            self._writer.reached_us(),
            lambda: loop.time() > ends_s,
        )
        sliced_s = loop.time()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: LogSlice = end.value
                return found
            if loop.time() - sliced_s > SLICE_S:
                await asyncio.sleep(0)
                sliced_s = loop.time()
