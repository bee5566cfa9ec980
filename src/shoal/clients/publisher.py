"""A publisher's side of a relocation: the thin layer in its client library (paper, 3.3).

A pure machine like the broker, one per publisher. It answers requests for ping times, and when it
gets Relocate it pauses, announces itself at the target after a marker to the source, holds the
application's requests meanwhile, and goes on at the target after Resume. The application notices
nothing but a delay.

When the path is broken, the target is lost or no answer comes for too long, it returns to its
source in the same way, over the same path. If that fails, it tries both ends in turn: it goes on at
the one that lives, even if no other broker of the path is left. Each attempt counts as a move, so
that brokers know the last one.

An attempt of *last resort* ends where it arrives, at whatever is left of the path: on the way back,
and on the way there when there is no source to return to. The *target* is the end of the present
move or, while the publisher is attached, its broker.

| input | attached | moving | last resort | gone |
| --- | --- | --- | --- | --- |
| request of the application | sent to the broker | held back | held back | refused |
| PingRequest | pings sent | | | |
| Pong | times reported, at the last | | | |
| Relocate | moves to the target → moving | | | |
| Resume, whole | | resumes there → attached | resumes there → attached | |
| Resume, not whole | | turns back → last resort | stays, advertises anew → attached | |
| target lost, or silent | | turns back → last resort | turns back → last resort | |
| target back | advertises anew | turns back → last resort | tries again | |
| source lost, or back | | → last resort | | |
| requests never handled | sent to the broker | held back, first | held back, first | |
| brokers dead | comes home → attached | comes home → attached | comes home → attached | |
| leave | goodbye → gone | goodbye → gone | goodbye → gone | |

Answers to another attempt, and messages of brokers that it is not attached to, are ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from shoal.broker.effects import Record
from shoal.broker.life_cycle import IGNORED, Label, LifeCycle, does, to
from shoal.broker.messages import Advertise, Goodbye, Message, Pong, Publish, Unadvertise
from shoal.clients.messages import (
    MigrationAdvertisement,
    Paused,
    PingRequest,
    Relocate,
    Resume,
)
from shoal.clients.pings import Pings
from shoal.clients.records import MigrationRecord, ReturnRecord
from shoal.model import Advertisement, AdvertisementId, BrokerId, ClientId, MessageId

# A migration takes seconds; a publisher that fills this meanwhile outruns any broker, and must be
# slowed down by its caller.
MAX_HELD_BACK = 100_000
# The timeout of an attempt: the longest paths take some seconds.
MOVE_TIMEOUT_US = 20_000_000


class ToBroker(msgspec.Struct, frozen=True):
    """Effect: send a request to this broker, connecting to it if need be."""

    broker: BrokerId
    request: Message


class WakeUp(msgspec.Struct, frozen=True):
    """Effect: call `woken` at this time (a driver need not cancel it)."""

    at_us: int


class HeldBackError(Exception):
    """The application published more than MAX_HELD_BACK requests during one migration."""


PublisherEffect = ToBroker | Record | WakeUp

Path = tuple[BrokerId, ...]


class PublisherState(Label):
    """A state of a publisher."""

    ATTACHED = "attached"
    MOVING = "moving"
    LAST_RESORT = "last resort"
    GONE = "gone"


class PublisherInput(Label):
    """An input of a publisher."""

    REQUEST = "request of the application"
    PING_REQUEST = "PingRequest"
    PONG = "Pong"
    RELOCATE = "Relocate"
    RESUME = "Resume, whole"
    RESUME_BROKEN = "Resume, not whole"
    TARGET_LOST = "target lost, or silent"
    TARGET_BACK = "target back"
    SOURCE_LOST = "source lost, or back"
    AGAIN = "requests never handled"
    COME_HOME = "brokers dead"
    LEAVE = "leave"


class Publisher:
    """One publisher, attached to `broker`.

    `moves` is the number of its earlier moves: a client that restarts under its name begins above
    its last number, for instance with the time.
    """

    def __init__(self, client: ClientId, broker: BrokerId, moves: int = 0) -> None:
        self.client = client
        self.broker = broker
        self.moved = 0  # how often it has gone on at another broker
        self._moves = moves
        self._advertisements: dict[AdvertisementId, Advertisement] = {}
        self._state = PublisherState.ATTACHED
        self._attempt: _SendAttempt | None = None  # while moving
        self._paused_us = 0
        self._held_back: deque[Message] = deque()
        self._pings: Pings | None = None

    @property
    def gone(self) -> bool:
        return self._state is PublisherState.GONE

    @property
    def moving(self) -> bool:
        return self._attempt is not None

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        """Its broker; while it moves, its source and its target."""
        return (self.broker,) if self._attempt is None else self._attempt.ends

    @property
    def held_back(self) -> int:
        """The number of requests that wait until it has moved."""
        return len(self._held_back)

    # --- inputs -------------------------------------------------------------------------------

    def _hear(self, word: PublisherInput, *about: Any) -> list[PublisherEffect]:
        """Apply the table."""
        do, then = LIFE[self._state, word]
        if isinstance(then, PublisherState):
            self._state = then
        effects: list[PublisherEffect] = []
        return effects if do is None else [*getattr(self, do.__name__)(*about)]

    def request(self, request: Message, now_us: int) -> list[PublisherEffect]:
        """Handle a request of the application: Advertise, Unadvertise or Publish."""
        return self._hear(PublisherInput.REQUEST, request)

    def notified(self, broker: BrokerId, message: Message, now_us: int) -> list[PublisherEffect]:
        """Handle a broker's PingRequest, Pong, Relocate or Resume; others are the application's."""
        is_here = broker == self.broker
        match message:
            case Pong(session):
                return self._hear(PublisherInput.PONG, broker, session, now_us)
            case PingRequest() if is_here:
                return self._hear(PublisherInput.PING_REQUEST, message, now_us)
            case Relocate(path) if is_here and len(path) > 1 and path[0] == broker:
                return self._hear(PublisherInput.RELOCATE, path, now_us)
            case Resume(moves, whole) if (broker, moves) == (self.brokers[-1], self._moves):
                return self._hear(
                    PublisherInput.RESUME if whole else PublisherInput.RESUME_BROKEN, now_us
                )
        return []

    def lost(self, broker: BrokerId, now_us: int) -> list[PublisherEffect]:
        """Handle a lost connection to a broker, or one that could not be made."""
        if broker == self.brokers[-1]:
            return self._hear(PublisherInput.TARGET_LOST, now_us)
        return self._hear(PublisherInput.SOURCE_LOST) if broker in self.brokers else []

    def reconnected(self, broker: BrokerId, now_us: int) -> list[PublisherEffect]:
        """Handle a broker that came back without its state: send the advertisements again."""
        if broker == self.brokers[-1]:
            return self._hear(PublisherInput.TARGET_BACK, now_us)
        return self._hear(PublisherInput.SOURCE_LOST) if broker in self.brokers else []

    def woken(self, now_us: int) -> list[PublisherEffect]:
        """Handle the time of a `WakeUp`."""
        if self._attempt is None or now_us < self._attempt.until_us:
            return []
        return self._hear(PublisherInput.TARGET_LOST, now_us)

    def again(self, requests: Iterable[Message], now_us: int) -> list[PublisherEffect]:
        """Repeat requests that a broker has not handled and never will, before all held ones."""
        return self._hear(PublisherInput.AGAIN, requests)

    def come_home(
        self, home: BrokerId, requests: Iterable[Message], now_us: int
    ) -> list[PublisherEffect]:
        """Attach it to its edge broker: its brokers are dead and have not handled these requests.

        Publications made before the advertisements have spread do not reach all subscribers.
        """
        return self._hear(PublisherInput.COME_HOME, home, requests)

    def leave(self) -> list[PublisherEffect]:
        """End the publisher: no advertisement stays at any broker."""
        return self._hear(PublisherInput.LEAVE)

    # --- what the table names -----------------------------------------------------------------

    def _send_request(self, request: Message) -> list[PublisherEffect]:
        """Sent to the broker."""
        match request:
            case Advertise(advertisement):
                self._advertisements[advertisement.id] = advertisement
                request = Advertise(advertisement, self._moves)
            case Unadvertise(advertisement_id):
                self._advertisements.pop(advertisement_id, None)
        return [ToBroker(self.broker, request)]

    def _hold_back(self, request: Message) -> list[PublisherEffect]:
        """Held back."""
        if len(self._held_back) >= MAX_HELD_BACK:
            raise HeldBackError(f"{self.client} is moving and has {MAX_HELD_BACK} waiting")
        self._held_back.append(request)
        return []

    def _refuse_request(self, request: Message) -> list[PublisherEffect]:
        """Refused."""
        raise ValueError(f"{self.client} has left and asks for {type(request).__name__}")

    def _ask_again(self, requests: Iterable[Message]) -> list[PublisherEffect]:
        """Sent to the broker."""
        return [effect for request in requests for effect in self._send_request(request)]

    def _hold_back_first(self, requests: Iterable[Message]) -> list[PublisherEffect]:
        """Held back, first."""
        self._held_back.extendleft(reversed(tuple(requests)))
        return []

    def _advertise(self, moves: int) -> list[PublisherEffect]:
        rows = self._advertisements.values()
        return [ToBroker(self.broker, Advertise(row, moves)) for row in rows]

    def _advertise_anew(self, now_us: int) -> list[PublisherEffect]:
        """Advertises anew."""
        return self._advertise(self._moves)

    def _come_home(self, home: BrokerId, requests: Iterable[Message]) -> list[PublisherEffect]:
        """Comes home."""
        self._moves += 1
        self.broker, self._attempt, self._pings = home, None, None
        effects = self._advertise(self._moves)
        self._hold_back_first(requests)
        return effects + self._catch_up()

    def _send_goodbye(self) -> list[PublisherEffect]:
        """Goodbye."""
        brokers = self.brokers
        self._attempt, self._pings = None, None
        self._advertisements.clear()
        self._held_back.clear()
        return [ToBroker(broker, Goodbye()) for broker in brokers]

    def _ping(self, request: PingRequest, now_us: int) -> list[PublisherEffect]:
        """Pings sent."""
        self._pings = Pings(request, now_us)
        return [ToBroker(candidate, ping) for candidate, ping in self._pings.asks]

    def _pong(self, broker: BrokerId, session: MessageId, now_us: int) -> list[PublisherEffect]:
        """Times reported, at the last."""
        times = None if self._pings is None else self._pings.answered(broker, session, now_us)
        if times is None:
            return []
        self._pings = None
        return [ToBroker(self.broker, times)]

    def _pause(self, path: Path, now_us: int) -> list[PublisherEffect]:
        """Moves to the target."""
        self._paused_us = now_us
        self._pings = None
        return self._try(path, now_us)

    def _turn_round(self, now_us: int) -> list[PublisherEffect]:
        """Turns back."""
        assert self._attempt is not None
        return self._try(self._attempt.path[::-1], now_us)

    def _try_again(self, now_us: int) -> list[PublisherEffect]:
        """Tries again."""
        assert self._attempt is not None
        return self._try(self._attempt.path, now_us)

    def _try(self, path: Path, now_us: int) -> list[PublisherEffect]:
        """Go to the end of the path."""
        self._moves += 1
        self._attempt = _SendAttempt(path, now_us + MOVE_TIMEOUT_US)
        rows = tuple(self._advertisements.values())
        # The marker follows the last publication, so the source knows when it has all.
        return [
            ToBroker(path[0], Paused(path, self._moves)),
            ToBroker(path[-1], MigrationAdvertisement(path, rows, self._moves)),
            WakeUp(self._attempt.until_us),
        ]

    def _resume(self, now_us: int) -> list[PublisherEffect]:
        """Resumes there."""
        return [self._arrive(now_us), *self._catch_up()]

    def _stay(self, now_us: int) -> list[PublisherEffect]:
        """Stays, advertises anew."""
        return [self._arrive(now_us), *self._advertise(self._moves), *self._catch_up()]

    def _arrive(self, now_us: int) -> PublisherEffect:
        assert self._attempt is not None
        path = self._attempt.path
        source, target = self.broker, path[-1]
        self.broker = target
        self.moved += source != target
        self._attempt = None
        if source == target:
            return Record(
                ReturnRecord(
                    publisher=self.client,
                    broker=source,
                    target=path[0],
                    paused_us=self._paused_us,
                    resumed_us=now_us,
                )
            )
        return Record(
            MigrationRecord(
                publisher=self.client,
                source=source,
                target=target,
                path_hops=len(path) - 1,
                paused_us=self._paused_us,
                resumed_us=now_us,
            )
        )

    def _catch_up(self) -> list[PublisherEffect]:
        """Send the held requests."""
        waiting, self._held_back = self._held_back, deque()
        return self._ask_again(_join_publications(waiting))


def _life_cycle() -> LifeCycle[PublisherState, PublisherInput]:
    p, no = Publisher, IGNORED
    ask, hold, first = does(p._send_request), does(p._hold_back), does(p._hold_back_first)
    turn, resume = (
        does(p._turn_round, PublisherState.LAST_RESORT),
        does(p._resume, PublisherState.ATTACHED),
    )
    home, leave = (
        does(p._come_home, PublisherState.ATTACHED),
        does(p._send_goodbye, PublisherState.GONE),
    )
    rows = {  # in the order of the states: attached, moving, last resort, gone
        PublisherInput.REQUEST: (ask, hold, hold, does(p._refuse_request)),
        PublisherInput.PING_REQUEST: (does(p._ping), no, no, no),
        PublisherInput.PONG: (does(p._pong), no, no, no),
        PublisherInput.RELOCATE: (does(p._pause, PublisherState.MOVING), no, no, no),
        PublisherInput.RESUME: (no, resume, resume, no),
        PublisherInput.RESUME_BROKEN: (no, turn, does(p._stay, PublisherState.ATTACHED), no),
        PublisherInput.TARGET_LOST: (no, turn, turn, no),
        PublisherInput.TARGET_BACK: (does(p._advertise_anew), turn, does(p._try_again), no),
        PublisherInput.SOURCE_LOST: (no, to(PublisherState.LAST_RESORT), no, no),
        PublisherInput.AGAIN: (does(p._ask_again), first, first, no),
        PublisherInput.COME_HOME: (home, home, home, no),
        PublisherInput.LEAVE: (leave, leave, leave, no),
    }
    return LifeCycle(PublisherState, PublisherInput, rows)


LIFE = _life_cycle()


class _SendAttempt:
    """One attempt to move: its path, and its timeout."""

    def __init__(self, path: Path, until_us: int) -> None:
        self.path = path
        self.ends = (path[0], path[-1])
        self.until_us = until_us


def _join_publications(requests: deque[Message]) -> list[Message]:
    """Join each run of publications into one batch, so that catching up costs few messages."""
    joined: list[Message] = []
    for request in requests:
        if isinstance(request, Publish) and joined and isinstance(joined[-1], Publish):
            joined[-1] = Publish(joined[-1].publications + request.publications)
        else:
            joined.append(request)
    return joined
