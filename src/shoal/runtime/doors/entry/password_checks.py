"""Whose password is checked next, when more wait than can be checked at once.

A check costs a core for tens of milliseconds, so whoever asks for many must not keep others out:

- who has failed less, under this name from this address, then from this address, comes first;
- who fails hears it later each time, from 0.1 to 5 s: a guess takes as long, and a core does not;
- of one address so many wait, and so many of all; beyond that the last of those who have failed
  most is told to come again;
- who has hung up meanwhile is not checked.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

# Passwords that are checked at once: each takes a core and 16 MB for as long.
MAX_CHECKS = 2
MAX_WAITING = 1_024
MAX_WAITING_PER_ADDRESS = 64
# Failures that are remembered, and for how long after the last.
MAX_REMEMBERED = 4_096
REMEMBERED_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

# Host, or the network of an IPv6 host, since a host has as many of its addresses as it likes.
Source = str


class Failures(NamedTuple):
    """How often somebody failed in a row, and when the last time was."""

    times: int
    at_s: float

    @property
    def pause_s(self) -> float:
        """How long the answer to the last of them is held back."""
        doubled = min(self.times - 1, 10)
        return min(FIRST_PAUSE_S * 2.0**doubled, LONGEST_PAUSE_S) if self.times else 0.0


_NONE = Failures(0, 0.0)


class FailureMemory:
    """Who has failed lately, the last MAX_REMEMBERED of them."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, ...], Failures] = OrderedDict()

    def of(self, name: tuple[str, ...], now_s: float) -> Failures:
        found = self._failures.get(name, _NONE)
        return found if now_s - found.at_s < REMEMBERED_S else _NONE

    def add(self, name: tuple[str, ...], now_s: float) -> None:
        self._failures[name] = Failures(self.of(name, now_s).times + 1, now_s)
        self._failures.move_to_end(name)
        if len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)

    def forget(self, name: tuple[str, ...]) -> None:
        self._failures.pop(name, None)


class _Attempt(NamedTuple):
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
        self._waiting: list[_Attempt] = []
        self._checking = 0

    async def check(
        self, user: str, password: bytes, address: str | None, is_gone: Callable[[], bool]
    ) -> bool | None:
        """Whether this is the user's password; None if there is no time for that now.

        `address` is the client's, as `host:port`; `is_gone` says whether it has hung up.
        """
        loop = asyncio.get_running_loop()
        attempt = _Attempt(user, source_of(address), is_gone, loop.create_future())
        self._waiting.append(attempt)
        self._turn_away(attempt.source, loop.time())
        self._next()
        if not await attempt.turn:
            return None
        try:
            right = await asyncio.to_thread(self._matches, user, password)
        finally:
            self._checking -= 1
            loop.call_soon(self._next)
        if right:
            self._failures.forget(attempt.name)
            return True
        for name in (attempt.name, (attempt.source,)):
            self._failures.add(name, loop.time())
        await asyncio.sleep(self._failures.of(attempt.name, loop.time()).pause_s)
        return False

    def _turn_away(self, source: Source, now_s: float) -> None:
        """Keep to the bounds: who has hung up goes, else the last of those who failed most."""
        waiting = self._waiting
        mine = [each for each in waiting if each.source == source]
        if len(mine) <= MAX_WAITING_PER_ADDRESS:
            mine = waiting if len(waiting) > MAX_WAITING else []
        gone = [each for each in mine if each.is_gone()]
        if mine and not gone:
            gone = [max(reversed(mine), key=lambda each: self._rank(each, now_s))]
        for attempt in gone:
            self._end(attempt)

    def _end(self, attempt: _Attempt, *, is_checked: bool = False) -> None:
        self._waiting.remove(attempt)
        self._checking += is_checked
        if not attempt.turn.done():
            attempt.turn.set_result(is_checked)

    def _rank(self, attempt: _Attempt, now_s: float) -> tuple[int, int]:
        return (
            self._failures.of(attempt.name, now_s).times,
            self._failures.of((attempt.source,), now_s).times,
        )

    def _next(self) -> None:
        """Check as many as can be checked now."""
        now_s = asyncio.get_running_loop().time()
        for attempt in sorted(self._waiting, key=lambda each: self._rank(each, now_s)):
            if self._checking >= MAX_CHECKS:
                break
            self._end(attempt, is_checked=not attempt.turn.done() and not attempt.is_gone())


def source_of(address: str | None) -> Source:
    """Whom a failure is put down to.

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
