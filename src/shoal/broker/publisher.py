"""A publisher's side of a relocation: the thin layer in its client library (paper, 3.3).

A pure machine like the broker, one per publisher.  It answers requests for ping times, and when
it is told to relocate it pauses, announces itself at the target behind a marker to the source,
holds back what the application asks meanwhile, and goes on at the target when told to resume.
The application notices nothing but a delay.

| state | request of the application | PingRequest | Relocate | Resume from target |
| --- | --- | --- | --- | --- |
| attached | sent to the broker | pings sent | pause → moving | ignored |
| moving | held back | ignored | ignored | held back requests sent → attached |
"""

from __future__ import annotations

from collections import deque

import msgspec

from shoal.broker.effects import Record
from shoal.broker.messages import (
    Advertise,
    Message,
    MigrationAdvertisement,
    Paused,
    Ping,
    PingRequest,
    PingTimes,
    Pong,
    Publish,
    Relocate,
    Resume,
    Unadvertise,
)
from shoal.broker.records import MigrationRecord
from shoal.model import Advertisement, AdvertisementId, BrokerId, ClientId, MessageId

# A migration takes seconds; a publisher that fills this meanwhile outruns any broker, and must
# be slowed down by whoever feeds it.
MAX_HELD_BACK = 100_000


class ToBroker(msgspec.Struct, frozen=True):
    """Effect: send a request to this broker, connecting to it if need be."""

    broker: BrokerId
    request: Message


class HeldBackError(Exception):
    """The application published more than MAX_HELD_BACK requests during one migration."""


PublisherEffect = ToBroker | Record


class Publisher:
    """One publisher, attached to `broker`."""

    def __init__(self, client: ClientId, broker: BrokerId) -> None:
        self.client = client
        self.broker = broker
        self._advertisements: dict[AdvertisementId, Advertisement] = {}
        self._path: tuple[BrokerId, ...] | None = None  # while moving
        self._paused_us = 0
        self._held_back: deque[Message] = deque()
        self._pings: _Pings | None = None

    @property
    def moving(self) -> bool:
        return self._path is not None

    def request(self, request: Message, now_us: int) -> list[PublisherEffect]:
        """The application asks: Advertise, Unadvertise or Publish."""
        if self.moving:
            if len(self._held_back) >= MAX_HELD_BACK:
                raise HeldBackError(f"{self.client} is moving and has {MAX_HELD_BACK} waiting")
            self._held_back.append(request)
            return []
        match request:
            case Advertise(advertisement):
                self._advertisements[advertisement.id] = advertisement
            case Unadvertise(advertisement_id):
                self._advertisements.pop(advertisement_id, None)
        return [ToBroker(self.broker, request)]

    def notified(self, broker: BrokerId, message: Message, now_us: int) -> list[PublisherEffect]:
        """A broker tells: PingRequest, Pong, Relocate or Resume.  Others are the application's."""
        match message:
            case Pong(session):
                return self._pong(broker, session, now_us)
            case PingRequest(session, brokers) if not self.moving and broker == self.broker:
                self._pings = _Pings(session, brokers, now_us)
                return [ToBroker(candidate, Ping(session)) for candidate in brokers]
            case Relocate(path) if not self.moving and path[:1] == (broker,) == (self.broker,):
                return self._pause(path, now_us) if len(path) > 1 else []
            case Resume() if self._path is not None and broker == self._path[-1]:
                return self._resume(self._path, now_us)
        return []

    def reconnected(self) -> list[PublisherEffect]:
        """The broker came back without knowing this publisher: advertise anew.

        A publisher that is on its way elsewhere has announced itself there.
        """
        if self.moving:
            return []
        return [ToBroker(self.broker, Advertise(row)) for row in self._advertisements.values()]

    def _pong(self, broker: BrokerId, session: MessageId, now_us: int) -> list[PublisherEffect]:
        pings = self._pings
        if pings is None or pings.session != session or broker not in pings.waiting:
            return []
        pings.waiting.discard(broker)
        pings.round_trip_us[broker] = now_us - pings.sent_us
        if pings.waiting:
            return []
        self._pings = None
        return [ToBroker(self.broker, PingTimes(session, pings.round_trip_us))]

    def _pause(self, path: tuple[BrokerId, ...], now_us: int) -> list[PublisherEffect]:
        self._path = path
        self._paused_us = now_us
        self._pings = None
        # The marker travels behind the last publication, so the source knows when it has all.
        return [
            ToBroker(path[0], Paused(path)),
            ToBroker(path[-1], MigrationAdvertisement(path, tuple(self._advertisements.values()))),
        ]

    def _resume(self, path: tuple[BrokerId, ...], now_us: int) -> list[PublisherEffect]:
        record = MigrationRecord(
            publisher=self.client,
            source=path[0],
            target=path[-1],
            path_hops=len(path) - 1,
            paused_us=self._paused_us,
            resumed_us=now_us,
        )
        self.broker = path[-1]
        self._path = None
        effects: list[PublisherEffect] = [Record(record)]
        waiting, self._held_back = self._held_back, deque()
        for request in _join_publications(waiting):
            effects += self.request(request, now_us)
        return effects


class _Pings:
    def __init__(self, session: MessageId, brokers: tuple[BrokerId, ...], now_us: int) -> None:
        self.session = session
        self.waiting = set(brokers)
        self.round_trip_us: dict[BrokerId, int] = {}
        self.sent_us = now_us


def _join_publications(requests: deque[Message]) -> list[Message]:
    """One batch for each run of publications, so that catching up costs few messages."""
    joined: list[Message] = []
    for request in requests:
        if isinstance(request, Publish) and joined and isinstance(joined[-1], Publish):
            joined[-1] = Publish(joined[-1].publications + request.publications)
        else:
            joined.append(request)
    return joined
