"""The clients that lose or wait most, without a walk over all sessions.

The backlog knows the sessions that queue messages. Some of them are looked at each second; the
worst so far are looked at again each time.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import nlargest

import msgspec

from shoal.mqtt.sessions.delivering.backlog import Backlog, Queue

SHOWN = 20
# Sessions that are looked at in one second.
MOST_LOOKED_AT = 2_000
# A client that has lost nothing for so long is no worse than others.
FORGIVEN_US = 600 * 1_000_000


class WorstClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client whose messages wait or are dropped.

    `waiting` messages are queued, `in_flight` sent and not acknowledged; `taken_us` ago its client
    last took a queued message; `dropped` since its session began, `dropped_us` ago the last, None
    if none was while this broker runs.
    """

    client: str
    waiting: int
    waiting_bytes: int
    in_flight: int
    dropped: int
    taken_us: int
    dropped_us: int | None


class WorstClients:
    """Those of one broker."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._place = 0
        self._worst: dict[Queue, None] = {}
        # When each client last lost a message, and the reason, by client; the oldest first.
        self.lost: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def has_lost(self, client: str, why: str, now_us: int) -> None:
        """A message was dropped for this client."""
        self.lost.pop(client, None)
        self.lost[client] = now_us, why
        if len(self.lost) > MOST_LOOKED_AT:
            self.lost.popitem(last=False)

    def look(self, now_us: int) -> list[WorstClient]:
        """Look at some more sessions; returns the worst clients."""
        for client, (at_us, _) in list(self.lost.items()):
            if at_us >= now_us - FORGIVEN_US:
                break
            del self.lost[client]
        queues, self._place = self._backlog.queues_from(self._place, MOST_LOOKED_AT)
        known = {queue: None for queue in self._worst if queue.queued} | dict.fromkeys(queues)
        self._worst = dict.fromkeys(nlargest(SHOWN, known, key=self._badness))
        return [self._row(queue, now_us) for queue in self._worst]

    def _badness(self, queue: Queue) -> tuple[bool, int]:
        return queue.client_id in self.lost, queue.queued

    def _row(self, queue: Queue, now_us: int) -> WorstClient:
        lost = self.lost.get(queue.client_id)
        return WorstClient(
            client=queue.client_id,
            waiting=queue.queued,
            waiting_bytes=queue.waiting_bytes,
            in_flight=queue.inflight,
            dropped=queue.dropped,
            taken_us=max(0, now_us - queue.took_us) if queue.took_us else 0,
            dropped_us=None if lost is None else now_us - lost[0],
        )
