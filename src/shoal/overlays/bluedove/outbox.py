"""A dispatcher's publications on their way: kept until a matcher and all homes have answered.

Each goes to one of its candidates, as the policy says.  It is done when that matcher has matched
it and the homes it named have what they are to deliver.  When the matcher's link breaks, when it
stays silent or says that it does not serve the place, the publication goes to another candidate;
when there is none, it waits.  Homes know second copies by the publication's number.  A client that
waits to hear of its publications waits until all that it sent together are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.effects import Effect, Settled, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId, MessageId, Publication
from shoal.overlays.bluedove.forwarding import Candidate, Load, choose
from shoal.overlays.bluedove.messages import Answer, LoadReport, Match
from shoal.overlays.bluedove.node import Node


class _Request:
    """Publications that a client sent together and waits for."""

    __slots__ = ("key", "left")

    def __init__(self, number: int, left: int) -> None:
        self.key = ("publications", str(number))
        self.left = left


class _Pending:
    """A publication that is not done, of a request that somebody waits for or of none."""

    __slots__ = ("homes", "matcher", "receipts", "request", "routed", "since_us", "tried")

    def __init__(self, routed: RoutedPublication, request: _Request | None) -> None:
        self.routed = routed
        self.request = request
        self.matcher: BrokerId | None = None
        self.since_us = 0
        self.tried: tuple[BrokerId, ...] = ()
        self.homes: set[BrokerId] | None = None  # those to confirm, once a matcher has answered
        self.receipts: set[BrokerId] = set()


class Outbox:
    """One dispatcher's publications."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._pending: dict[MessageId, _Pending] = {}
        self._at: dict[BrokerId, dict[MessageId, _Pending]] = {}
        self._stranded: dict[MessageId, _Pending] = {}
        self._heard_us: dict[BrokerId, int] = {}
        self._silent: set[BrokerId] = set()
        self._loads: dict[tuple[BrokerId, int], tuple[Load, int]] = {}
        self.utilisations: dict[BrokerId, float] = {}
        self._requests = 0

    def __len__(self) -> int:
        return len(self._pending)

    def publication(self, message_id: MessageId) -> Publication | None:
        """A publication that is on its way; None when it is done."""
        each = self._pending.get(message_id)
        return None if each is None else each.routed.publication

    # --- on the way ---------------------------------------------------------------------------

    def send(
        self, publications: Iterable[RoutedPublication], now_us: int, out: list[Effect]
    ) -> None:
        """Take publications in, and send each to one of its candidates."""
        taken = list(publications)
        awaited = sum(routed.publication.assured for routed in taken)
        request = None
        if awaited:
            self._requests += 1
            request = _Request(self._requests, awaited)
            out.append(Unsettled(request.key))
        pending = [
            _Pending(routed, request if routed.publication.assured else None) for routed in taken
        ]
        for each in pending:
            self._pending[each.routed.message_id] = each
        self._forward(pending, now_us, out)

    def _forward(self, pending: Iterable[_Pending], now_us: int, out: list[Effect]) -> None:
        batches: dict[tuple[BrokerId, int], list[RoutedPublication]] = {}
        policy, random = self._node.parameters.policy, self._node.random
        for each in pending:
            message_id = each.routed.message_id
            candidates = self._candidates(each)
            each.since_us = now_us
            each.homes = None
            if not candidates:
                each.matcher, each.tried = None, ()
                self._stranded[message_id] = each
                continue
            dimension, matcher, _, _ = choose(policy, candidates, now_us, random)
            each.matcher = matcher
            self._at.setdefault(matcher, {})[message_id] = each
            batches.setdefault((matcher, dimension), []).append(each.routed)
        for (matcher, dimension), batch in batches.items():
            self._node.send(matcher, Match(dimension, tuple(batch)), now_us, out)

    def _candidates(self, pending: _Pending) -> list[Candidate]:
        """Who can match it, by dimension; not those that failed it or do not answer."""
        attributes = pending.routed.publication.attributes
        owners, lost, silent = self._node.table.owners, self._node.lost, self._silent
        loads, tried = self._loads, pending.tried
        found = []
        for number, dimension in enumerate(self._node.dimensions):
            for matcher in owners(number, dimension.place(attributes)):
                if matcher not in lost and matcher not in silent and matcher not in tried:
                    load, at_us = loads.get((matcher, number), (None, 0))
                    found.append(Candidate(number, matcher, load, at_us))
        return found

    def _again(self, pending: Iterable[_Pending], now_us: int, out: list[Effect]) -> None:
        """Send publications to other candidates than the one they are at."""
        taken = list(pending)
        for each in taken:
            if each.matcher is not None:
                each.tried = (*each.tried, each.matcher)
                self._at[each.matcher].pop(each.routed.message_id, None)
        self._forward(taken, now_us, out)

    # --- answers ------------------------------------------------------------------------------

    def heard(self, matcher: BrokerId, now_us: int) -> None:
        """A sign of life."""
        self._heard_us[matcher] = now_us
        self._silent.discard(matcher)

    def answered(self, message: Answer, out: list[Effect]) -> None:
        """Matched; done, unless homes have yet to confirm.  Any attempt's answer will do."""
        lost, pending = self._node.lost, self._pending
        waiting: dict[MessageId, set[BrokerId]] = {}
        for home, ids in message.homes.items():
            if home not in lost:
                for id in ids:
                    waiting.setdefault(id, set()).add(home)
        for id in message.message_ids:
            each = pending.get(id)
            if each is None:
                continue
            each.homes = waiting.get(id, set()) - each.receipts if waiting else None
            if not each.homes:
                self._done(each, out)

    def receipt(self, home: BrokerId, message_ids: Iterable[MessageId], out: list[Effect]) -> None:
        """A home has what it is to deliver."""
        for id in message_ids:
            each = self._pending.get(id)
            if each is None:
                continue
            each.receipts.add(home)
            self._confirm(each, home, out)

    def not_served(
        self, matcher: BrokerId, ids: Iterable[MessageId], now_us: int, out: list[Effect]
    ) -> None:
        """The matcher serves other places by now: others are tried, it not before the next tick.

        The matcher may be this broker: then nothing goes back and forth within one input.
        """
        returned = [self._pending[id] for id in ids if id in self._pending]
        self._again([each for each in returned if each.matcher == matcher], now_us, out)

    def _confirm(self, each: _Pending, home: BrokerId, out: list[Effect]) -> None:
        if each.homes is not None:
            each.homes.discard(home)
            if not each.homes:
                self._done(each, out)

    def _done(self, each: _Pending, out: list[Effect]) -> None:
        id = each.routed.message_id
        del self._pending[id]
        if each.matcher is not None:
            self._at[each.matcher].pop(id, None)
        else:
            self._stranded.pop(id, None)
        request = each.request
        if request is not None:
            request.left -= 1
            if not request.left:
                out.append(Settled(request.key))

    # --- load ---------------------------------------------------------------------------------

    def load_reported(self, matcher: BrokerId, message: LoadReport, now_us: int) -> None:
        if len(message.loads) != len(self._node.dimensions):
            raise ProtocolError(f"loads of {len(message.loads)} dimensions")
        self.utilisations[matcher] = message.utilisation
        for dimension, load in enumerate(message.loads):
            self._loads[matcher, dimension] = load, now_us

    @property
    def loads(self) -> Mapping[tuple[BrokerId, int], Load]:
        """What each matcher reported last, by dimension."""
        return {key: load for key, (load, _) in self._loads.items()}

    # --- what goes wrong ----------------------------------------------------------------------

    def link_down(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """What the matcher had goes elsewhere; the home's clients are gone with it."""
        self._again(self._at.get(broker, {}).values(), now_us, out)
        for each in list(self._pending.values()):
            self._confirm(each, broker, out)

    def tick(self, now_us: int, out: list[Effect]) -> bool:
        """Pass over matchers that stay silent; whether any publication has no candidate."""
        timeout_us = self._node.parameters.answer_timeout_us
        overdue: list[_Pending] = []
        for matcher, pending in self._at.items():
            if not pending:
                continue
            oldest_us = next(iter(pending.values())).since_us
            if now_us - max(self._heard_us.get(matcher, 0), oldest_us) > timeout_us:
                self._silent.add(matcher)
                overdue += pending.values()
            else:
                overdue += [
                    each
                    for each in pending.values()
                    if each.homes is not None and now_us - each.since_us > 2 * timeout_us
                ]
        self._again(overdue, now_us, out)
        stranded, self._stranded = self._stranded, {}
        self._forward(stranded.values(), now_us, out)
        return bool(self._stranded)
