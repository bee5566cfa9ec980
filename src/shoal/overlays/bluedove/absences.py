"""Disconnected dispatchers: the deadline of each, and those that are declared dead.

A dispatcher that was there before this broker started gets the deadline of a link that breaks now:
its clients' sessions survive its crash, and their subscriptions with them.

>>> absences = Absences(patience_us=10)
>>> absences.expect(["D2"], until_us=60)
>>> absences.disconnected("D2", now_us=5)
>>> absences.disconnected("D3", now_us=5)
>>> absences.give_up(now_us=20), absences.awaited, absences.is_given_up("D3")
(['D3'], ['D2'], True)
>>> absences.connected("D3")
>>> absences.is_given_up("D3")
False
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.model import BrokerId


class Absences:
    """Disconnected dispatchers of one broker.

    Each is dead `patience_us` after its link was lost.
    """

    def __init__(self, patience_us: int) -> None:
        self._patience_us = patience_us
        self._until_us: dict[BrokerId, int] = {}
        self._given_up: set[BrokerId] = set()

    def expect(self, brokers: Iterable[BrokerId], until_us: int) -> None:
        """These were there before this broker started."""
        self._until_us.update(dict.fromkeys(brokers, until_us))

    def disconnected(self, broker: BrokerId, now_us: int) -> None:
        """The link went down, or did not come up."""
        if broker not in self._given_up:
            self._until_us.setdefault(broker, now_us + self._patience_us)

    def left(self, broker: BrokerId) -> None:
        """It has left: it will not come back, and is not waited for."""
        self._until_us.pop(broker, None)
        self._given_up.add(broker)

    def connected(self, broker: BrokerId) -> None:
        """The link is up."""
        self._until_us.pop(broker, None)
        self._given_up.discard(broker)

    @property
    def awaited(self) -> list[BrokerId]:
        """Those that are disconnected and may come back."""
        return list(self._until_us)

    def is_given_up(self, broker: BrokerId) -> bool:
        """Whether it is declared dead."""
        return broker in self._given_up

    def give_up(self, now_us: int) -> list[BrokerId]:
        """The dispatchers that are dead from now on, as their deadline has passed."""
        late = [broker for broker, until_us in self._until_us.items() if until_us < now_us]
        for broker in late:
            del self._until_us[broker]
            self._given_up.add(broker)
        return late
