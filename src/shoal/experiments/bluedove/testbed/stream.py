"""The messages of a loaded cluster at an even rate, and when each was answered.

Messages are drawn before they are sent, in the same order; the next one goes to the next
dispatcher. A message's index counts from the last time that responses were taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from shoal.broker.messages import Publish
from shoal.experiments.bluedove.testbed.workload import StudyTraffic
from shoal.model import BrokerId, ClientId, Publication
from shoal.simulation.world import World

NEVER = -1
Whole = npt.NDArray[np.int64]


def publisher_of(dispatcher: BrokerId) -> ClientId:
    """The client that publishes at a dispatcher."""
    return f"P{dispatcher}"


class MessageStream:
    """Messages of one measurement after the other.

    at_us        when the messages of the present part are sent
    values       theirs, by attribute
    first        index of the part's first message
    answered_us  by index, `NEVER` until then
    """

    def __init__(
        self, world: World, homes: Sequence[BrokerId], traffic: StudyTraffic, latency_us: int
    ) -> None:
        self._world = world
        self._homes = homes
        self._traffic = traffic
        self._latency_us = latency_us
        self.at_us: Whole = np.zeros(0, np.int64)
        self.values: npt.NDArray[np.float64] = np.zeros((0, len(traffic.attributes)))
        self.first = 0
        self.answered_us: Whole = np.zeros(0, np.int64)
        self._sent_us: list[Whole] = []
        self._count = 0
        # The sequence number of index 0.
        self.base = 0

    def begin(self, from_us: int, rate_per_s: float, count: int) -> None:
        """Let so many messages come, at least one."""
        count = max(1, count)
        self.at_us = from_us + np.rint(np.arange(count) * 1e6 / rate_per_s).astype(np.int64)
        self.values = self._traffic.messages(count)
        self.first = self._count
        self._count += count
        self._sent_us.append(self.at_us)
        if len(self.answered_us) < self._count:
            grown = np.full(max(self._count, 2 * len(self.answered_us)), NEVER)
            grown[: self.first] = self.answered_us[: self.first]
            self.answered_us = grown
        self._world.queue.push(from_us, self.send, 0)

    def send(self, now_us: int, number: int) -> None:
        """Send a message of the present part, by its number."""
        client = publisher_of(self._homes[number % len(self._homes)])
        publication = self.publication(self.first + number, client, now_us, self.values[number])
        self._world.request(now_us, client, Publish((publication,)))
        if number + 1 < len(self.at_us):
            self._world.queue.push(int(self.at_us[number + 1]), self.send, number + 1)

    def publication(
        self, index: int, client: ClientId, sent_us: int, values: npt.NDArray[np.float64]
    ) -> Publication:
        """A message as its dispatcher gets it."""
        return Publication(
            publisher=client,
            sequence=self.base + index,
            published_us=sent_us + self._latency_us,
            attributes=dict(zip(self._traffic.attributes, values.tolist(), strict=True)),
        )

    @property
    def sent_us(self) -> Whole:
        """When the messages since responses were taken were sent, by index."""
        return np.concatenate(self._sent_us) if self._sent_us else np.zeros(0, np.int64)

    def note(self, answered_us: Iterable[Mapping[tuple[ClientId, int], int]]) -> None:
        """These were answered, by publisher and sequence number."""
        for times in answered_us:
            for (_, sequence), at_us in times.items():
                index = sequence - self.base
                if index >= 0 and self.answered_us[index] == NEVER:
                    self.answered_us[index] = at_us

    def take(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """When the messages came, and how long each took (µs); they are dropped."""
        published_us = (self.sent_us + self._latency_us).astype(np.float64)
        answered_us = self.answered_us[: self._count].astype(np.float64)
        answered_us[answered_us == NEVER] = np.inf
        self.base += self._count
        self._count = 0
        self.first -= len(published_us)
        self._sent_us.clear()
        self.answered_us.fill(NEVER)
        return published_us, answered_us - published_us
