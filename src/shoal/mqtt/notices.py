"""Notices for an operator about clients: refused, denied, taken over, redirected.

>>> notices = Notices()
>>> notices.refuse("publish refused", 0x87, Party("c", "ann", None), where="a/b", why="no rule")
>>> notices.take()[0].where, dict(notices.refusals)
('a/b', {('publish refused', 'not authorized'): 1})

A client that is refused a million times costs a million counts and no more memory: the broker keeps
a bounded number of notices until they are taken, and counts the rest.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from shoal.mqtt.codec.reason_codes import ReasonCode

# Notices that wait to be taken.
MOST_WAITING = 64


class Party(NamedTuple):
    """The client of a notice: its identifier, its user, and its address."""

    client: str
    user: str | None
    address: str | None


class Notice(NamedTuple):
    """An event of a client: the topic or broker, and the reason; `times` is its count."""

    what: str
    who: Party
    where: str
    why: str
    is_refusal: bool = False
    # An operator's order is always kept: operators are few, and known.
    is_order: bool = False
    times: int = 1


class Notices:
    """The notices of one broker since they were last taken."""

    def __init__(self) -> None:
        # Since the start, by what was refused, and the reason code in words.
        self.refusals: Counter[tuple[str, str]] = Counter()
        # Notices that were dropped since the last call of `take`.
        self.beyond = 0
        # Notices until the next call of `take`.
        self.waiting: list[Notice] = []

    def refuse(
        self, what: str, code: int, who: Party, where: str, why: str, *, times: int = 1
    ) -> None:
        """Note a refusal, or `times` refusals of one packet, the first of them at `where`."""
        words = ReasonCode(code).name.lower().replace("_", " ")
        self.refusals[what, words] += times
        self._keep_notice(Notice(what, who, where, why or words, is_refusal=True, times=times))

    def no_tls(self, who: Party, where: str, why: str) -> None:
        """Note a client that failed the TLS handshake at a listener."""
        self.refusals["connect refused", "no tls"] += 1
        self._keep_notice(Notice("connect refused", who, where, why, is_refusal=True))

    def note(self, what: str, who: Party, where: str, why: str, *, is_order: bool = False) -> None:
        """Note an event of a client, or an operator's order."""
        self._keep_notice(Notice(what, who, where, why, is_order=is_order))

    def _keep_notice(self, notice: Notice) -> None:
        if notice.is_order or len(self.waiting) < MOST_WAITING:
            self.waiting.append(notice)
        else:
            self.beyond += 1

    def take(self) -> list[Notice]:
        """Take out the waiting notices."""
        taken, self.waiting = self.waiting, []
        return taken
