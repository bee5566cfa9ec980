"""A publisher's side of a relocation: the thin layer in its client library (paper, 3.3).

A pure machine like the broker, one per publisher.  It answers requests for ping times, and when
it is told to relocate it pauses, announces itself at the target behind a marker to the source,
holds back what the application asks meanwhile, and goes on at the target when told to resume.
The application notices nothing but a delay.

When the path was broken, the target is lost or nothing is heard for too long, it goes back to its
source in the same way, over the same path.  Should that fail, it tries both ends in turn: it goes
on at whichever lives, even if that is all that is left of the path.  Each attempt counts as a
move, so that brokers know which is the last.

| input | attached | moving | going back |
| --- | --- | --- | --- |
| request of the application | sent to the broker | held back | held back |
| PingRequest | pings sent | ignored | ignored |
| Relocate | pause → moving | ignored | ignored |
| Resume of this move, whole | ignored | attached | attached |
| Resume of this move, not whole | ignored | going back | attached |
| where it goes is lost, or timeout | ignored | going back | the other way |
| the broker there came back | advertise anew | going back | announced again |
| where it came from is lost | ignored | goes on here, whole or not | no difference |
| come home: its brokers count as gone | advertise anew there | attached there | attached there |
| again: what was never handled | sent to the broker | held back, first | held back, first |
| leave | gone | gone | gone |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from shoal.broker.effects import Record
from shoal.broker.messages import (
    Advertise,
    Goodbye,
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
from shoal.broker.records import MigrationRecord, ReturnRecord
from shoal.model import Advertisement, AdvertisementId, BrokerId, ClientId, MessageId

# A migration takes seconds; a publisher that fills this meanwhile outruns any broker, and must
# be slowed down by whoever feeds it.
MAX_HELD_BACK = 100_000
# The longest paths take some seconds; who waits longer gains nothing from going on waiting.
MOVE_TIMEOUT_US = 20_000_000


class ToBroker(msgspec.Struct, frozen=True):
    """Effect: send a request to this broker, connecting to it if need be."""

    broker: BrokerId
    request: Message


class WakeUp(msgspec.Struct, frozen=True):
    """Effect: call `woken` at this time (a driver need not take back what it promised)."""

    at_us: int


class HeldBackError(Exception):
    """The application published more than MAX_HELD_BACK requests during one migration."""


PublisherEffect = ToBroker | Record | WakeUp

Path = tuple[BrokerId, ...]


class Publisher:
    """One publisher, attached to `broker`.

    `moves` is how often it has moved before: a client that starts again under its name begins
    above what it had reached, for instance with the time.
    """

    def __init__(self, client: ClientId, broker: BrokerId, moves: int = 0) -> None:
        self.client = client
        self.broker = broker
        self.gone = False
        self.moved = 0  # how often it has gone on at another broker
        self._moves = moves
        self._advertisements: dict[AdvertisementId, Advertisement] = {}
        self._attempt: _Attempt | None = None  # while moving
        self._paused_us = 0
        self._held_back: deque[Message] = deque()
        self._pings: _Pings | None = None

    @property
    def moving(self) -> bool:
        return self._attempt is not None

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        """Where it is; while it moves, where it comes from and where it goes."""
        return (self.broker,) if self._attempt is None else self._attempt.ends

    @property
    def held_back(self) -> int:
        """How many requests wait until it has moved."""
        return len(self._held_back)

    def request(self, request: Message, now_us: int) -> list[PublisherEffect]:
        """The application asks: Advertise, Unadvertise or Publish."""
        if self.gone:
            raise ValueError(f"{self.client} has left and asks for {type(request).__name__}")
        if self.moving:
            if len(self._held_back) >= MAX_HELD_BACK:
                raise HeldBackError(f"{self.client} is moving and has {MAX_HELD_BACK} waiting")
            self._held_back.append(request)
            return []
        match request:
            case Advertise(advertisement):
                self._advertisements[advertisement.id] = advertisement
                request = Advertise(advertisement, self._moves)
            case Unadvertise(advertisement_id):
                self._advertisements.pop(advertisement_id, None)
        return [ToBroker(self.broker, request)]

    def notified(self, broker: BrokerId, message: Message, now_us: int) -> list[PublisherEffect]:
        """A broker tells: PingRequest, Pong, Relocate or Resume.  Others are the application's."""
        attempt = self._attempt
        if self.gone:
            return []
        match message:
            case Pong(session):
                return self._pong(broker, session, now_us)
            case PingRequest(session, brokers) if not self.moving and broker == self.broker:
                self._pings = _Pings(session, brokers, now_us)
                return [ToBroker(candidate, Ping(session)) for candidate in brokers]
            case Relocate(path) if not self.moving and path[:1] == (broker,) == (self.broker,):
                return self._pause(path, now_us) if len(path) > 1 else []
            case Resume(moves, whole) if attempt is not None and (broker, moves) == (
                attempt.path[-1],
                self._moves,
            ):
                if whole or attempt.is_last_resort:
                    return self._resume(attempt.path, now_us)
                return self._turn_round(now_us)
        return []

    def lost(self, broker: BrokerId, now_us: int) -> list[PublisherEffect]:
        """The connection to a broker is gone, or could not be made."""
        attempt = self._attempt
        if attempt is None:
            return []
        if broker == attempt.path[-1]:
            return self._turn_round(now_us)
        if broker == attempt.path[0]:
            attempt.is_last_resort = True
        return []

    def reconnected(self, broker: BrokerId, now_us: int) -> list[PublisherEffect]:
        """A broker came back without knowing this publisher: say again what it must know."""
        attempt = self._attempt
        if attempt is None:
            if broker != self.broker:
                return []
            rows = self._advertisements.values()
            return [ToBroker(broker, Advertise(row, self._moves)) for row in rows]
        if broker == attempt.path[-1] and attempt.is_last_resort:
            return self._try(attempt.path, now_us, is_last_resort=True)
        return self.lost(broker, now_us)

    def woken(self, now_us: int) -> list[PublisherEffect]:
        """The time of a `WakeUp` has come."""
        if self._attempt is None or now_us < self._attempt.until_us:
            return []
        return self._turn_round(now_us)

    def again(self, requests: Iterable[Message], now_us: int) -> list[PublisherEffect]:
        """What a broker has not handled and never will: ask it before all that is held back."""
        if self.moving:
            self._held_back.extendleft(reversed(tuple(requests)))
            return []
        return [effect for request in requests for effect in self.request(request, now_us)]

    def come_home(
        self, home: BrokerId, requests: Iterable[Message], now_us: int
    ) -> list[PublisherEffect]:
        """Its brokers are gone and have not handled these: it goes on at one that lives.

        What is published before the advertisements have spread does not reach everybody.
        """
        self._moves += 1
        self.broker, self._attempt, self._pings = home, None, None
        rows = self._advertisements.values()
        effects: list[PublisherEffect] = [
            ToBroker(home, Advertise(row, self._moves)) for row in rows
        ]
        self._held_back.extendleft(reversed(tuple(requests)))
        return effects + self._catch_up(now_us)

    def leave(self) -> list[PublisherEffect]:
        """The application is done: nothing stays behind, wherever the publisher is."""
        brokers = self.brokers
        self.gone, self._attempt, self._pings = True, None, None
        self._advertisements.clear()
        self._held_back.clear()
        return [ToBroker(broker, Goodbye()) for broker in brokers]

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

    def _pause(self, path: Path, now_us: int) -> list[PublisherEffect]:
        self._paused_us = now_us
        self._pings = None
        return self._try(path, now_us, is_last_resort=False)

    def _turn_round(self, now_us: int) -> list[PublisherEffect]:
        assert self._attempt is not None
        return self._try(self._attempt.path[::-1], now_us, is_last_resort=True)

    def _try(self, path: Path, now_us: int, *, is_last_resort: bool) -> list[PublisherEffect]:
        """Go to the end of the path."""
        self._moves += 1
        self._attempt = _Attempt(path, now_us + MOVE_TIMEOUT_US, is_last_resort)
        rows = tuple(self._advertisements.values())
        # The marker travels behind the last publication, so the source knows when it has all.
        return [
            ToBroker(path[0], Paused(path, self._moves)),
            ToBroker(path[-1], MigrationAdvertisement(path, rows, self._moves)),
            WakeUp(self._attempt.until_us),
        ]

    def _resume(self, path: Path, now_us: int) -> list[PublisherEffect]:
        source, target = self.broker, path[-1]
        self.broker = target
        self.moved += source != target
        self._attempt = None
        effects: list[PublisherEffect] = [
            Record(
                MigrationRecord(
                    publisher=self.client,
                    source=source,
                    target=target,
                    path_hops=len(path) - 1,
                    paused_us=self._paused_us,
                    resumed_us=now_us,
                )
                if source != target
                else ReturnRecord(
                    publisher=self.client,
                    broker=source,
                    target=path[0],
                    paused_us=self._paused_us,
                    resumed_us=now_us,
                )
            )
        ]
        return effects + self._catch_up(now_us)

    def _catch_up(self, now_us: int) -> list[PublisherEffect]:
        """Ask what was held back."""
        waiting, self._held_back = self._held_back, deque()
        joined = _join_publications(waiting)
        return [effect for request in joined for effect in self.request(request, now_us)]


class _Attempt:
    """One try to move: where from and to, until when, and whether to stay in any case."""

    def __init__(self, path: Path, until_us: int, is_last_resort: bool) -> None:
        self.path = path
        self.ends = (path[0], path[-1])
        self.until_us = until_us
        self.is_last_resort = is_last_resort


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
