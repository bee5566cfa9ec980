"""Decisions on past exchanges, for brokers that were cut off from them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from shoal.broker.effects import Effect, Send
from shoal.model import BrokerId
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import (
    ExchangeDecision,
    ExchangeForgotten,
    ExchangeKey,
)

MOST_VERDICTS = 64


class KnownDecisions:
    """The latest decisions that one broker knows; `is_up` tests whether it has a link."""

    def __init__(self, is_up: Callable[[BrokerId], bool]) -> None:
        self._is_up = is_up
        self.known: OrderedDict[ExchangeKey, ExchangeDecision] = OrderedDict()

    def remember(self, decision: ExchangeDecision) -> None:
        """Store this one in place of any other on that exchange."""
        self.known.pop(decision.key, None)
        self.known[decision.key] = decision
        while len(self.known) > MOST_VERDICTS:
            self.known.popitem(last=False)

    def are_revised_by(self, decision: ExchangeDecision) -> bool:
        """Whether this decision is "done", and unknown or "not done" here."""
        known = self.known.get(decision.key)
        return decision.is_done and (known is None or not (known.is_done or known.is_void))

    def have_taken_a_link_since(self, decision: ExchangeDecision) -> bool:
        """Whether another exchange, known later than this one, has removed a link of its cycle.

        Its own new link does not count: it was none then. False for an unknown exchange.
        """
        keys = list(self.known)
        if decision.key not in self.known:
            return False
        path = [{*ends} for ends in decision.exchange.links[:-1]]
        later = (self.known[key] for key in keys[keys.index(decision.key) + 1 :])
        return any(each.is_done and {*each.exchange.old_link} in path for each in later)

    def between(self, left: BrokerId, right: BrokerId) -> tuple[ExchangeDecision, ...]:
        """Those on exchanges in which both had a part, beside each other."""
        return tuple(
            decision
            for decision in self.known.values()
            if any({*ends} == {left, right} for ends in decision.exchange.links)
        )

    def send_if_known(self, neighbour: BrokerId, key: ExchangeKey, out: list[Effect]) -> None:
        """Send the decision on an exchange, if it is known, to a connected broker."""
        if (decision := self.known.get(key)) is not None:
            self.send([neighbour], decision, out)

    def answer_query(self, neighbour: BrokerId, key: ExchangeKey, out: list[Effect]) -> None:
        """Send the decision on an exchange, or ExchangeForgotten."""
        self.send_if_known(neighbour, key, out)
        if key not in self.known and self._is_up(neighbour):
            out.append(Send(neighbour, ExchangeForgotten(key)))

    def send(
        self, listeners: Iterable[BrokerId], decision: ExchangeDecision, out: list[Effect]
    ) -> None:
        """Send this decision to the connected ones of them."""
        out.extend(Send(each, decision) for each in listeners if self._is_up(each))
