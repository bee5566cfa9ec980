"""A dispatcher's publications in transit: kept until a matcher and all receivers have answered.

Each goes to one of its candidates, by the policy. It is done when that matcher has matched it and
the subscribers' dispatchers have their results: from the matcher or, with order per publisher, from
here, in order (`lines.py`). If the matcher's link breaks, or it does not answer, or does not serve
the place, the publication goes to another candidate; if there is none, it waits. Receivers
recognise duplicates by the publication's number. An assured request is acknowledged when all its
publications are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.ack_tracker import marked
from shoal.broker.effects import Effect, Settled, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.broker.strategy import ProtocolError
from shoal.model import Attributes, BrokerId, ClientId, MessageId, Publication
from shoal.overlays.bluedove.cluster.forwarding import Candidate, Load, choose
from shoal.overlays.bluedove.dispatching.lines import DispatchLines, OwedMatch, Pending, Request
from shoal.overlays.bluedove.messages import (
    FoundMatches,
    LoadReport,
    MatchAnswer,
    Matched,
    MatchRequest,
    MatchResult,
)
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.parameters import DeliveryOrder

# Batch size of publications to a dispatcher that has reconnected.
FOUND_PER_MESSAGE = 100


class DispatchOutbox:
    """One dispatcher's publications."""

    def __init__(self, node: BlueDoveNode) -> None:
        self._node = node
        self._pending: dict[MessageId, Pending] = {}
        self._at: dict[BrokerId, dict[MessageId, Pending]] = {}
        self._stranded: dict[MessageId, Pending] = {}
        self._heard_us: dict[BrokerId, int] = {}
        self._silent: set[BrokerId] = set()
        self._loads: dict[tuple[BrokerId, int], tuple[Load, int]] = {}
        self.utilisations: dict[BrokerId, float] = {}
        self._requests = 0
        self._keeps_order = node.parameters.order is DeliveryOrder.PUBLISHER
        self._lines = DispatchLines()
        self._owed = OwedMatch()

    def __len__(self) -> int:
        return len(self._pending)

    def publication(self, message_id: MessageId) -> Publication | None:
        """A publication in transit; None when it is done."""
        each = self._pending.get(message_id)
        return None if each is None else each.routed.publication

    # --- in transit ---------------------------------------------------------------------------

    def send(
        self, publications: Iterable[RoutedPublication], now_us: int, out: list[Effect]
    ) -> None:
        """Accept publications, and send each to one of its candidates."""
        taken = list(publications)
        awaited = sum(routed.publication.assured for routed in taken)
        request = None
        if awaited:
            self._requests += 1
            request = Request(self._requests, awaited)
            out.append(Unsettled(request.key))
        pending = [
            Pending(routed, request if routed.publication.assured else None) for routed in taken
        ]
        for each in pending:
            self._pending[each.routed.message_id] = each
            if self._keeps_order:
                self._lines.join(each)
        self._forward(pending, now_us, out)

    def _forward(self, pending: Iterable[Pending], now_us: int, out: list[Effect]) -> None:
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
            self._node.send(matcher, MatchRequest(dimension, tuple(batch)), now_us, out)

    def _candidates(self, pending: Pending) -> list[Candidate]:
        return self.candidates(pending.routed.publication.attributes, pending.tried)

    def candidates(
        self, attributes: Attributes, tried: tuple[BrokerId, ...] = ()
    ) -> list[Candidate]:
        """Possible matchers, by dimension; without those that failed it or do not answer."""
        owners, lost, silent = self._node.table.owners, self._node.lost, self._silent
        loads = self._loads
        found = []
        for number, dimension in enumerate(self._node.dimensions):
            for matcher in owners(number, dimension.place(attributes)):
                if matcher not in lost and matcher not in silent and matcher not in tried:
                    load, at_us = loads.get((matcher, number), (None, 0))
                    found.append(Candidate(number, matcher, load, at_us))
        return found

    def _again(self, pending: Iterable[Pending], now_us: int, out: list[Effect]) -> None:
        """Send publications to other candidates than the one they are at."""
        taken = list(pending)
        for each in taken:
            if each.matcher is not None:
                each.tried = (*each.tried, each.matcher)
                self._at[each.matcher].pop(each.routed.message_id, None)
        self._forward(taken, now_us, out)

    # --- answers ------------------------------------------------------------------------------

    def on_news(self, matcher: BrokerId, now_us: int) -> None:
        """A sign of life."""
        self._heard_us[matcher] = now_us
        self._silent.discard(matcher)

    def on_answer(self, message: MatchAnswer, now_us: int, out: list[Effect]) -> None:
        """Matched; done, unless dispatchers have yet to confirm.  Any attempt's answer will do."""
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
            each.passed_us = now_us
            if not each.homes:
                self._settle_pending(each, out)

    def matched(
        self, matcher: BrokerId, results: Iterable[MatchResult], now_us: int, out: list[Effect]
    ) -> None:
        """A matcher's results; those that leave their publisher's line are forwarded."""
        publishers: dict[ClientId, None] = {}
        for result in results:
            id = result.message_id
            each = self._pending.get(id)
            if each is None or each.matcher != matcher:
                continue  # of an earlier attempt, which may lack the latest subscriptions
            each.result, each.matched_by, each.matched_us = result, matcher, now_us
            self._at[matcher].pop(id, None)
            each.matcher = None
            publishers[id.publisher] = None
        batches: dict[BrokerId, list[FoundMatches]] = {}
        for publisher in publishers:
            for each in self._lines.leave(publisher, now_us):
                self._pass_on(each, batches, now_us, out)
            self._match_again(self._lines.stale(publisher, now_us), now_us, out)
        for home, found in batches.items():
            self._node.send(home, Matched(tuple(found)), now_us, out)

    def _match_again(self, stale: list[Pending], now_us: int, out: list[Effect]) -> None:
        for each in stale:
            each.result, each.tried = None, ()
            each.may_wait_us *= 2
        self._forward(stale, now_us, out)

    def _pass_on(
        self,
        each: Pending,
        batches: dict[BrokerId, list[FoundMatches]],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Forward to the connected dispatchers; it waits for those that may come back."""
        node = self._node
        assert each.result is not None
        each.homes, each.passed_us = set(), now_us
        for home in each.result.homes:
            is_there = home == node.broker or home in node.linked
            is_waited_for = home not in node.lost or (
                each.request is not None and not node.absences.is_given_up(home)
            )
            if not is_there and not is_waited_for:
                continue
            each.homes.add(home)
            self._owed.put(home, each)
            if is_there:
                batches.setdefault(home, []).append(self._found(each, home))
            else:
                node.open(home, now_us, out)
        if not each.homes:
            self._settle_pending(each, out)

    def _found(self, each: Pending, home: BrokerId, *, again: bool = False) -> FoundMatches:
        assert each.result is not None
        routed = each.routed
        if again:
            routed = RoutedPublication(marked(routed.publication), routed.message_id)
        return FoundMatches(routed, each.result.homes[home], each.matched_by)

    def receipt(self, home: BrokerId, message_ids: Iterable[MessageId], out: list[Effect]) -> None:
        """A dispatcher has its results."""
        for id in message_ids:
            each = self._pending.get(id)
            if each is None:
                continue
            each.receipts.add(home)
            self._confirm(each, home, out)
            self._owed.confirm(home, id)

    def not_served(
        self, matcher: BrokerId, ids: Iterable[MessageId], now_us: int, out: list[Effect]
    ) -> None:
        """The matcher serves other places by now: others are tried, it not before the next tick.

        The matcher may be this broker: then nothing goes back and forth within one input.
        """
        returned = [self._pending[id] for id in ids if id in self._pending]
        self._again([each for each in returned if each.matcher == matcher], now_us, out)

    def _confirm(self, each: Pending, home: BrokerId, out: list[Effect]) -> None:
        if each.homes is not None:
            each.homes.discard(home)
            if not each.homes:
                self._settle_pending(each, out)

    def _settle_pending(self, each: Pending, out: list[Effect]) -> None:
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
        """The last report of each matcher, by dimension."""
        return {key: load for key, (load, _) in self._loads.items()}

    # --- failures -----------------------------------------------------------------------------

    def link_down(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """The matcher's publications go elsewhere; the dispatcher's clients may be lost with it."""
        self._again(self._at.get(broker, {}).values(), now_us, out)
        if not self._keeps_order:
            for each in list(self._pending.values()):
                self._confirm(each, broker, out)
            return
        self._forgo(broker, out, all_of_it=False)

    def link_up(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A dispatcher has connected, maybe again: it may lack results that it has not
        confirmed.
        """
        found = [self._found(each, broker, again=True) for each in self._owed.to(broker).values()]
        for start in range(0, len(found), FOUND_PER_MESSAGE):
            part = tuple(found[start : start + FOUND_PER_MESSAGE])
            self._node.send(broker, Matched(part), now_us, out)

    def given_up(self, home: BrokerId, out: list[Effect]) -> None:
        """The dispatcher is declared dead."""
        self._forgo(home, out, all_of_it=True)

    def _forgo(self, home: BrokerId, out: list[Effect], *, all_of_it: bool) -> None:
        """Wait no more for a dispatcher's confirmation, of unassured publications or all."""
        for id, each in list(self._owed.to(home).items()):
            if all_of_it or each.request is None:
                self._owed.confirm(home, id)
                self._confirm(each, home, out)

    def tick(self, now_us: int, out: list[Effect]) -> bool:
        """Skip silent matchers; returns whether any publication has no candidate."""
        parameters = self._node.parameters
        for home in self._node.absences.awaited:
            self._node.open(home, now_us, out)
        timeout_us = parameters.answer_timeout_us
        overdue: list[Pending] = []
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
                    if each.homes is not None and now_us - each.passed_us > 2 * timeout_us
                ]
        self._again(overdue, now_us, out)
        stranded, self._stranded = self._stranded, {}
        self._forward(stranded.values(), now_us, out)
        return bool(self._stranded)
