"""The dispatchers that are away: until when each is waited for, and who is waited for no more.

Who was there before this broker started is waited for as one whose link breaks now: its clients'
sessions outlive it, and with them what they subscribed to.

>>> absences = Absences(patience_us=10)
>>> absences.expect(["D2"], until_us=60)
>>> absences.went("D2", now_us=5)
>>> absences.went("D3", now_us=5)
>>> absences.give_up(now_us=20), absences.awaited, absences.is_given_up("D3")
(['D3'], ['D2'], True)
>>> absences.came("D3")
>>> absences.is_given_up("D3")
False
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.model import BrokerId


class Absences:
    """What one broker knows of who is away; `patience_us` after a link went down it is given up."""

    def __init__(self, patience_us: int) -> None:
        self._patience_us = patience_us
        self._until_us: dict[BrokerId, int] = {}
        self._given_up: set[BrokerId] = set()

    def expect(self, brokers: Iterable[BrokerId], until_us: int) -> None:
        """These were there before this broker started."""
        self._until_us.update(dict.fromkeys(brokers, until_us))

    def went(self, broker: BrokerId, now_us: int) -> None:
        """The link went down, or did not come up."""
        if broker not in self._given_up:
            self._until_us.setdefault(broker, now_us + self._patience_us)

    def left(self, broker: BrokerId) -> None:
        """It has left: it will not come back, and is not waited for."""
        self._until_us.pop(broker, None)
        self._given_up.add(broker)

    def came(self, broker: BrokerId) -> None:
        """The link is up."""
        self._until_us.pop(broker, None)
        self._given_up.discard(broker)

    @property
    def awaited(self) -> list[BrokerId]:
        """Those that are away and may come back."""
        return list(self._until_us)

    def is_given_up(self, broker: BrokerId) -> bool:
        """Whether nobody waits for it any more."""
        return broker in self._given_up

    def give_up(self, now_us: int) -> list[BrokerId]:
        """Those that have been away for too long, from now on."""
        late = [broker for broker, until_us in self._until_us.items() if until_us < now_us]
        for broker in late:
            del self._until_us[broker]
            self._given_up.add(broker)
        return late
