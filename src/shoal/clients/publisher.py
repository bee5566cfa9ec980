"""A publisher's side of a relocation: the thin layer in its client library (paper, 3.3).

A pure machine like the broker, one per publisher.  It answers requests for ping times, and when
it is told to relocate it pauses, announces itself at the target behind a marker to the source,
holds back what the application asks meanwhile, and goes on at the target when told to resume.
The application notices nothing but a delay.

When the path was broken, the target is lost or nothing is heard for too long, it goes back to its
source in the same way, over the same path.  Should that fail, it tries both ends in turn: it goes
on at whichever lives, even if that is all that is left of the path.  Each attempt counts as a
move, so that brokers know which is the last.

An attempt of *last resort* ends where it arrives, whatever is left of the path: on the way back,
and on the way there when there is no source to go back to.  The *target* is where it goes or, while
it is attached, where it is.

| input | attached | moving | last resort | gone |
| --- | --- | --- | --- | --- |
| request of the application | sent to the broker | held back | held back | refused |
| PingRequest | pings sent | | | |
| Pong | times told, at the last | | | |
| Relocate | goes there → moving | | | |
| Resume, whole | | goes on there → attached | goes on there → attached | |
| Resume, not whole | | turns round → last resort | stays there, and says so → attached | |
| its target is lost, or silent | | turns round → last resort | turns round → last resort | |
| its target came back | advertises anew | turns round → last resort | tries again | |
| its source is lost, or came back | | → last resort | | |
| what was never handled | sent to the broker | held back, first | held back, first | |
| its brokers are gone | comes home → attached | comes home → attached | comes home → attached | |
| leave | goodbye → gone | goodbye → gone | goodbye → gone | |

What is no answer to this attempt, and what brokers say to which it is not attached, is no input.
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


class State(Label):
    """Where a publisher is in its life."""

    ATTACHED = "attached"
    MOVING = "moving"
    LAST_RESORT = "last resort"
    GONE = "gone"


class Word(Label):
    """What a publisher hears."""

    REQUEST = "request of the application"
    PING_REQUEST = "PingRequest"
    PONG = "Pong"
    RELOCATE = "Relocate"
    RESUME = "Resume, whole"
    RESUME_BROKEN = "Resume, not whole"
    TARGET_LOST = "its target is lost, or silent"
    TARGET_BACK = "its target came back"
    SOURCE_LOST = "its source is lost, or came back"
    AGAIN = "what was never handled"
    COME_HOME = "its brokers are gone"
    LEAVE = "leave"


class Publisher:
    """One publisher, attached to `broker`.

    `moves` is how often it has moved before: a client that starts again under its name begins
    above what it had reached, for instance with the time.
    """

    def __init__(self, client: ClientId, broker: BrokerId, moves: int = 0) -> None:
        self.client = client
        self.broker = broker
        self.moved = 0  # how often it has gone on at another broker
        self._moves = moves
        self._advertisements: dict[AdvertisementId, Advertisement] = {}
        self._state = State.ATTACHED
        self._attempt: _Attempt | None = None  # while moving
        self._paused_us = 0
        self._held_back: deque[Message] = deque()
        self._pings: Pings | None = None

    @property
    def gone(self) -> bool:
        return self._state is State.GONE

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

    # --- inputs -------------------------------------------------------------------------------

    def _hear(self, word: Word, *about: Any) -> list[PublisherEffect]:
        """What the table says."""
        do, then = LIFE[self._state, word]
        if isinstance(then, State):
            self._state = then
        effects: list[PublisherEffect] = []
        return effects if do is None else [*getattr(self, do.__name__)(*about)]

    def request(self, request: Message, now_us: int) -> list[PublisherEffect]:
        """The application asks: Advertise, Unadvertise or Publish."""
        return self._hear(Word.REQUEST, request)

    def notified(self, broker: BrokerId, message: Message, now_us: int) -> list[PublisherEffect]:
        """A broker tells: PingRequest, Pong, Relocate or Resume.  Others are the application's."""
        is_here = broker == self.broker
        match message:
            case Pong(session):
                return self._hear(Word.PONG, broker, session, now_us)
            case PingRequest() if is_here:
                return self._hear(Word.PING_REQUEST, message, now_us)
            case Relocate(path) if is_here and len(path) > 1 and path[0] == broker:
                return self._hear(Word.RELOCATE, path, now_us)
            case Resume(moves, whole) if (broker, moves) == (self.brokers[-1], self._moves):
                return self._hear(Word.RESUME if whole else Word.RESUME_BROKEN, now_us)
        return []

    def lost(self, broker: BrokerId, now_us: int) -> list[PublisherEffect]:
        """The connection to a broker is gone, or could not be made."""
        if broker == self.brokers[-1]:
            return self._hear(Word.TARGET_LOST, now_us)
        return self._hear(Word.SOURCE_LOST) if broker in self.brokers else []

    def reconnected(self, broker: BrokerId, now_us: int) -> list[PublisherEffect]:
        """A broker came back without knowing this publisher: say again what it must know."""
        if broker == self.brokers[-1]:
            return self._hear(Word.TARGET_BACK, now_us)
        return self._hear(Word.SOURCE_LOST) if broker in self.brokers else []

    def woken(self, now_us: int) -> list[PublisherEffect]:
        """The time of a `WakeUp` has come."""
        if self._attempt is None or now_us < self._attempt.until_us:
            return []
        return self._hear(Word.TARGET_LOST, now_us)

    def again(self, requests: Iterable[Message], now_us: int) -> list[PublisherEffect]:
        """What a broker has not handled and never will: ask it before all that is held back."""
        return self._hear(Word.AGAIN, requests)

    def come_home(
        self, home: BrokerId, requests: Iterable[Message], now_us: int
    ) -> list[PublisherEffect]:
        """Its brokers are gone and have not handled these: it goes on at one that lives.

        What is published before the advertisements have spread does not reach everybody.
        """
        return self._hear(Word.COME_HOME, home, requests)

    def leave(self) -> list[PublisherEffect]:
        """The application is done: nothing stays behind, wherever the publisher is."""
        return self._hear(Word.LEAVE)

    # --- what the table names -----------------------------------------------------------------

    def _ask(self, request: Message) -> list[PublisherEffect]:
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

    def _refuse(self, request: Message) -> list[PublisherEffect]:
        """Refused."""
        raise ValueError(f"{self.client} has left and asks for {type(request).__name__}")

    def _ask_again(self, requests: Iterable[Message]) -> list[PublisherEffect]:
        """Sent to the broker."""
        return [effect for request in requests for effect in self._ask(request)]

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

    def _leave(self) -> list[PublisherEffect]:
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
        """Times told, at the last."""
        times = None if self._pings is None else self._pings.answered(broker, session, now_us)
        if times is None:
            return []
        self._pings = None
        return [ToBroker(self.broker, times)]

    def _pause(self, path: Path, now_us: int) -> list[PublisherEffect]:
        """Goes there."""
        self._paused_us = now_us
        self._pings = None
        return self._try(path, now_us)

    def _turn_round(self, now_us: int) -> list[PublisherEffect]:
        """Turns round."""
        assert self._attempt is not None
        return self._try(self._attempt.path[::-1], now_us)

    def _try_again(self, now_us: int) -> list[PublisherEffect]:
        """Tries again."""
        assert self._attempt is not None
        return self._try(self._attempt.path, now_us)

    def _try(self, path: Path, now_us: int) -> list[PublisherEffect]:
        """Go to the end of the path."""
        self._moves += 1
        self._attempt = _Attempt(path, now_us + MOVE_TIMEOUT_US)
        rows = tuple(self._advertisements.values())
        # The marker travels behind the last publication, so the source knows when it has all.
        return [
            ToBroker(path[0], Paused(path, self._moves)),
            ToBroker(path[-1], MigrationAdvertisement(path, rows, self._moves)),
            WakeUp(self._attempt.until_us),
        ]

    def _resume(self, now_us: int) -> list[PublisherEffect]:
        """Goes on there."""
        return [self._arrive(now_us), *self._catch_up()]

    def _stay(self, now_us: int) -> list[PublisherEffect]:
        """Stays there, and says so."""
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
        """Ask what was held back."""
        waiting, self._held_back = self._held_back, deque()
        return self._ask_again(_join_publications(waiting))


def _life_cycle() -> LifeCycle[State, Word]:
    p, no = Publisher, IGNORED
    ask, hold, first = does(p._ask), does(p._hold_back), does(p._hold_back_first)
    turn, resume = does(p._turn_round, State.LAST_RESORT), does(p._resume, State.ATTACHED)
    home, leave = does(p._come_home, State.ATTACHED), does(p._leave, State.GONE)
    rows = {  # in the order of the states: attached, moving, last resort, gone
        Word.REQUEST: (ask, hold, hold, does(p._refuse)),
        Word.PING_REQUEST: (does(p._ping), no, no, no),
        Word.PONG: (does(p._pong), no, no, no),
        Word.RELOCATE: (does(p._pause, State.MOVING), no, no, no),
        Word.RESUME: (no, resume, resume, no),
        Word.RESUME_BROKEN: (no, turn, does(p._stay, State.ATTACHED), no),
        Word.TARGET_LOST: (no, turn, turn, no),
        Word.TARGET_BACK: (does(p._advertise_anew), turn, does(p._try_again), no),
        Word.SOURCE_LOST: (no, to(State.LAST_RESORT), no, no),
        Word.AGAIN: (does(p._ask_again), first, first, no),
        Word.COME_HOME: (home, home, home, no),
        Word.LEAVE: (leave, leave, leave, no),
    }
    return LifeCycle(State, Word, rows)


LIFE = _life_cycle()


class _Attempt:
    """One try to move: where from and to, and until when."""

    def __init__(self, path: Path, until_us: int) -> None:
        self.path = path
        self.ends = (path[0], path[-1])
        self.until_us = until_us


def _join_publications(requests: deque[Message]) -> list[Message]:
    """One batch for each run of publications, so that catching up costs few messages."""
    joined: list[Message] = []
    for request in requests:
        if isinstance(request, Publish) and joined and isinstance(joined[-1], Publish):
            joined[-1] = Publish(joined[-1].publications + request.publications)
        else:
            joined.append(request)
    return joined
