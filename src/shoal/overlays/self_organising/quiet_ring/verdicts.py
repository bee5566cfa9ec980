"""What became of exchanges in which a broker had a part, for those who were cut off."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.self_organising.quiet_ring.ring_messages import (
    ExchangeKey,
    Forgotten,
    Verdict,
)

MOST_VERDICTS = 64


class Verdicts:
    """The latest verdicts that one broker knows; `is_up` says whether it has a link."""

    def __init__(self, is_up: Callable[[BrokerId], bool]) -> None:
        self._is_up = is_up
        self.known: OrderedDict[ExchangeKey, Verdict] = OrderedDict()

    def remember(self, verdict: Verdict) -> None:
        """Know this one, and no other of that exchange."""
        self.known.pop(verdict.key, None)
        self.known[verdict.key] = verdict
        while len(self.known) > MOST_VERDICTS:
            self.known.popitem(last=False)

    def are_revised_by(self, verdict: Verdict) -> bool:
        """Whether the links are exchanged, which was not known here."""
        known = self.known.get(verdict.key)
        return verdict.is_done and (known is None or not (known.is_done or known.is_void))

    def have_taken_a_link_since(self, verdict: Verdict) -> bool:
        """Whether another exchange, known later than this one, has ended a link of its cycle.

        Not its own new link: that was none then.  False when nothing is known of this one.
        """
        keys = list(self.known)
        if verdict.key not in self.known:
            return False
        path = [{*ends} for ends in verdict.exchange.links[:-1]]
        later = (self.known[key] for key in keys[keys.index(verdict.key) + 1 :])
        return any(each.is_done and {*each.exchange.old_link} in path for each in later)

    def between(self, left: BrokerId, right: BrokerId) -> tuple[Verdict, ...]:
        """Those on exchanges in which both had a part, beside each other."""
        return tuple(
            verdict
            for verdict in self.known.values()
            if any({*ends} == {left, right} for ends in verdict.exchange.links)
        )

    def tell(self, neighbour: BrokerId, key: ExchangeKey, out: list[Effect]) -> None:
        """Say what became of an exchange, if it is known, to a broker that there is a link to."""
        if (verdict := self.known.get(key)) is not None:
            self.say([neighbour], verdict, out)

    def answer(self, neighbour: BrokerId, key: ExchangeKey, out: list[Effect]) -> None:
        """Say what became of an exchange, or that nothing is known of it."""
        self.tell(neighbour, key, out)
        if key not in self.known and self._is_up(neighbour):
            out.append(Send(neighbour, Forgotten(key)))

    def say(self, listeners: Iterable[BrokerId], verdict: Verdict, out: list[Effect]) -> None:
        """Say this one to those of them to whom there is a link."""
        out.extend(Send(each, verdict) for each in listeners if self._is_up(each))
