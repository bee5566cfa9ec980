"""Schedules password checks when more wait than can run at once.

A check costs a core for tens of milliseconds, so a client with many attempts must not keep others
out:

- attempts with fewer failures come first: failures under this name from this address, and all from
  this address; the latter do not count for a user that was admitted from there before;
- of equal attempts those of users that were admitted from that address come first, then those of
  the address whose last turn was longest ago;
- the answer to a failure is delayed, longer each time, from 0.1 to 5 s, which costs no core;
- attempts per address and in total are bounded; beyond that the newest attempt with most failures,
  of the address with the most attempts, is refused as busy, after the delay of a failure;
- attempts of clients that have hung up are dropped.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from shoal.ledger import Ledger, LedgerMeasure

# Passwords that are checked at once: each takes a core and 16 MB for as long.
MAX_CHECKS = 2
MAX_WAITING = 1_024
MAX_WAITING_PER_ADDRESS = 64
# Number of failures that are remembered, and how long after the last; and number of admitted users.
MAX_REMEMBERED = 4_096
NAME_BYTES = 400
REMEMBERED_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

# Host, or the network of an IPv6 host, since a host has as many of its addresses as it likes.
Source = str


class Failures(NamedTuple):
    """Number of failures in a row, and the time of the last."""

    times: int
    at_s: float

    @property
    def pause_s(self) -> float:
        """Return how long the answer to the last of them is held back."""
        doubled = min(self.times - 1, 10)
        return min(FIRST_PAUSE_S * 2.0**doubled, LONGEST_PAUSE_S) if self.times else 0.0


_NONE = Failures(0, 0.0)


class FailureMemory:
    """Recent failures, the last MAX_REMEMBERED of them."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, ...], Failures] = OrderedDict()

    def measure(self) -> LedgerMeasure:
        return LedgerMeasure(len(self._failures), len(self._failures) * NAME_BYTES, MAX_REMEMBERED)

    def failures_of(self, name: tuple[str, ...], now_s: float) -> Failures:
        found = self._failures.get(name, _NONE)
        return found if now_s - found.at_s < REMEMBERED_S else _NONE

    def add(self, name: tuple[str, ...], now_s: float) -> None:
        self._failures[name] = Failures(self.failures_of(name, now_s).times + 1, now_s)
        self._failures.move_to_end(name)
        if len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)

    def forget(self, name: tuple[str, ...]) -> None:
        self._failures.pop(name, None)


class RememberedUsers:
    """Users that were admitted, and their addresses: the last MAX_REMEMBERED."""

    def __init__(self) -> None:
        self._names: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def measure(self) -> LedgerMeasure:
        return LedgerMeasure(len(self._names), len(self._names) * NAME_BYTES, MAX_REMEMBERED)

    def __contains__(self, name: tuple[str, ...]) -> bool:
        return name in self._names

    def add(self, name: tuple[str, ...]) -> None:
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > MAX_REMEMBERED:
            self._names.popitem(last=False)


class _PasswordAttempt(NamedTuple):
    user: str
    source: Source
    is_gone: Callable[[], bool]
    # Set to whether the password is to be checked now, or not at all.
    turn: asyncio.Future[bool]

    @property
    def name(self) -> tuple[str, ...]:
        return (self.source, self.user)


class PasswordChecks:
    """Checks passwords off the loop; `matches` says whether one is right, and takes its time."""

    def __init__(self, matches: Callable[[str, bytes], bool]) -> None:
        self._matches = matches
        self._failures = FailureMemory()
        self._welcome = RememberedUsers()
        # In the order in which they came, by source.
        self._waiting: dict[Source, list[_PasswordAttempt]] = {}
        self._waiting_count = 0
        # Of each source that waits, the number of the check that was its last.
        self._turns: dict[Source, int] = {}
        self._numbers = itertools.count(1)
        self._checking = 0

    def register(self, ledger: Ledger) -> None:
        for name, table in (("failed logins", self._failures), ("logins", self._welcome)):
            ledger.register(name, table.measure)

    async def check(
        self, user: str, password: bytes, address: str | None, is_gone: Callable[[], bool]
    ) -> bool | None:
        """Return whether this is the user's password; None if there is no time for that now.

        `address` is the client's, as `host:port`; `is_gone` says whether it has hung up.
        """
        loop = asyncio.get_running_loop()
        attempt = _PasswordAttempt(user, source_of(address), is_gone, loop.create_future())
        self._waiting.setdefault(attempt.source, []).append(attempt)
        self._waiting_count += 1
        self._turn_away(attempt.source, loop.time())
        self._next()
        if not await attempt.turn:
            await self._hold_back(attempt)
            return None
        try:
            right = await asyncio.to_thread(self._matches, user, password)
        finally:
            self._checking -= 1
            loop.call_soon(self._next)
        if right:
            self._failures.forget(attempt.name)
            self._welcome.add(attempt.name)
            return True
        for name in (attempt.name, (attempt.source,)):
            self._failures.add(name, loop.time())
        await self._hold_back(attempt)
        return False

    async def _hold_back(self, attempt: _PasswordAttempt) -> None:
        """Wait with an answer as long as failures under this name from this address ask for."""
        now_s = asyncio.get_running_loop().time()
        if pause_s := self._failures.failures_of(attempt.name, now_s).pause_s:
            await asyncio.sleep(pause_s)

    def _turn_away(self, source: Source, now_s: float) -> None:
        """Keep to the bounds: drop attempts of clients that have hung up, else the newest of the
        worst.
        """
        crowded = self._waiting[source]
        if len(crowded) <= MAX_WAITING_PER_ADDRESS:
            if self._waiting_count <= MAX_WAITING:
                return
            crowded = max(self._waiting.values(), key=len)
        gone = [each for each in crowded if each.is_gone()]
        for attempt in gone or [max(reversed(crowded), key=lambda each: self._rank(each, now_s))]:
            self._end_attempt(attempt)

    def _end_attempt(self, attempt: _PasswordAttempt, *, is_checked: bool = False) -> None:
        waiting = self._waiting[attempt.source]
        waiting.remove(attempt)
        self._waiting_count -= 1
        if is_checked:
            self._checking += 1
            self._turns[attempt.source] = next(self._numbers)
        if not waiting:
            del self._waiting[attempt.source]
            self._turns.pop(attempt.source, None)
        if not attempt.turn.done():
            attempt.turn.set_result(is_checked)

    def _rank(self, attempt: _PasswordAttempt, now_s: float) -> tuple[int, bool, int]:
        """The smaller, the sooner it is checked."""
        is_welcome = attempt.name in self._welcome
        times = self._failures.failures_of(attempt.name, now_s).times
        if not is_welcome:
            times += self._failures.failures_of((attempt.source,), now_s).times
        return times, not is_welcome, self._turns.get(attempt.source, 0)

    def _next(self) -> None:
        """Check as many as can be checked now."""
        now_s = asyncio.get_running_loop().time()
        while self._waiting and self._checking < MAX_CHECKS:
            everyone = itertools.chain.from_iterable(self._waiting.values())
            attempt = min(everyone, key=lambda each: self._rank(each, now_s))
            self._end_attempt(attempt, is_checked=not attempt.turn.done() and not attempt.is_gone())


def source_of(address: str | None) -> Source:
    """Return the source to which a failure is attributed.

    >>> source_of("192.0.2.7:40123"), source_of("[2001:db8::1:2:3:4]:1883"), source_of(None)
    ('192.0.2.7', '2001:db8::/64', '')
    """
    host = (address or "").rpartition(":")[0].strip("[]")
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if parsed.version == 4:
        return host
    return str(ipaddress.ip_network((parsed, 64), strict=False))
