"""What an operator should know of clients: refused, denied, taken over, sent elsewhere.

>>> notices = Notices()
>>> notices.refuse("publish refused", 0x87, Party("c", "ann", None), where="a/b", why="no rule")
>>> notices.take()[0].where, dict(notices.refusals)
('a/b', {('publish refused', 'not authorized'): 1})

Who is refused a million times costs as many counts and no more: of what nobody has taken yet only
so much is kept, the rest is counted.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from shoal.mqtt.codec.reason_codes import ReasonCode

# Notices that wait to be taken.
MOST_WAITING = 64


class Party(NamedTuple):
    """Who it was: the client, whose it says to be, and from where it is connected."""

    client: str
    user: str | None
    address: str | None


class Notice(NamedTuple):
    """What happened to whom, about which topic or broker, and why; `times` at once."""

    what: str
    who: Party
    where: str
    why: str
    is_refusal: bool = False
    # An operator's order is written in any case: operators are few, and known.
    is_order: bool = False
    times: int = 1


class Notices:
    """Those of one broker, since they were last taken."""

    def __init__(self) -> None:
        # Since the start, by what was refused, and the reason code in words.
        self.refusals: Counter[tuple[str, str]] = Counter()
        # How many were not kept since the last ones were taken.
        self.beyond = 0
        # What nobody has taken yet.
        self.waiting: list[Notice] = []

    def refuse(
        self, what: str, code: int, who: Party, where: str, why: str, *, times: int = 1
    ) -> None:
        """A client was refused something, or so many things in one packet: the first is `where`."""
        words = ReasonCode(code).name.lower().replace("_", " ")
        self.refusals[what, words] += times
        self._keep(Notice(what, who, where, why or words, is_refusal=True, times=times))

    def no_tls(self, who: Party, where: str, why: str) -> None:
        """A client did not get as far as MQTT at that listener."""
        self.refusals["connect refused", "no tls"] += 1
        self._keep(Notice("connect refused", who, where, why, is_refusal=True))

    def note(self, what: str, who: Party, where: str, why: str, *, is_order: bool = False) -> None:
        """Something happened to a client, or was ordered by an operator."""
        self._keep(Notice(what, who, where, why, is_order=is_order))

    def _keep(self, notice: Notice) -> None:
        if notice.is_order or len(self.waiting) < MOST_WAITING:
            self.waiting.append(notice)
        else:
            self.beyond += 1

    def take(self) -> list[Notice]:
        """Those that wait."""
        taken, self.waiting = self.waiting, []
        return taken
