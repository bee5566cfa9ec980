"""The matcher: sets and queues by dimension, as many publications in work as there are cores.

What it serves on a dimension is a segment, and for every place in it the set holds every stored
subscription that can match there.  A publication that lies elsewhere is handed back with what the
matcher does serve.  Of one that is matched its dispatcher hears what was found, to pass it on in
order; where order is free it goes to the homes at once, and its dispatcher hears which those are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from shoal.broker.effects import Effect, Record, SetTimer, Work
from shoal.broker.strategy import ProtocolError
from shoal.matching import MatchIndex
from shoal.model import Attributes, BrokerId, MessageId, SubscriptionId
from shoal.overlays.bluedove.cluster.forwarding import Load, has_changed
from shoal.overlays.bluedove.cluster.members import NOTHING, Segment
from shoal.overlays.bluedove.messages import (
    Answer,
    Found,
    LoadReport,
    Match,
    Matched,
    NotServed,
    Remove,
    Result,
    Results,
    Row,
    Store,
    Stored,
)
from shoal.overlays.bluedove.node import Node
from shoal.overlays.bluedove.parameters import Order
from shoal.overlays.bluedove.records import ServedRecord
from shoal.overlays.bluedove.serving.queues import (
    DimensionQueue,
    Index,
    SubscriptionSet,
    Turns,
    Waiting,
)

# A report that nothing has changed, now and then: who hears nothing assumes the worst.
REPORTS_SKIPPED = 10


class _Job:
    """Publications of one queue that a core is busy with."""

    __slots__ = ("dimension", "is_void", "searched", "since_us", "taken")

    def __init__(self, dimension: int, taken: list[Waiting], searched: int, now_us: int) -> None:
        self.dimension = dimension
        self.taken = taken
        self.searched = searched
        self.since_us = now_us
        self.is_void = False


class Matcher:
    """What one matcher stores and matches."""

    def __init__(self, node: Node, make_index: Callable[[], Index] = MatchIndex) -> None:
        self._node = node
        parameters = node.parameters
        self.segments: list[Segment] = [NOTHING for _ in node.dimensions]
        # What the sets are being filled for, beside what is served.
        self.incoming: list[Segment] = [NOTHING for _ in node.dimensions]
        self.sets = [SubscriptionSet(dimension, make_index()) for dimension in node.dimensions]
        self.queues = [
            DimensionQueue(parameters.rate_window_us, parameters.cores) for _ in node.dimensions
        ]
        self._jobs: dict[int, _Job] = {}
        self._turns = Turns(len(self.queues))
        # Dimensions whose segment is served before its subscriptions are there: nothing is matched.
        self.unready: set[int] = set()
        # Publications that a dimension had taken in before its segment shrank, still to match.
        self._before_shrinking = [0 for _ in node.dimensions]
        self.work_us = self._searched = self._reported_us = self._reported_work_us = 0
        self._reported: dict[BrokerId, tuple[tuple[Load, ...], int]] = {}

    def dimension(self, number: int) -> int:
        """ProtocolError unless there is such a dimension."""
        if not 0 <= number < len(self.sets):
            raise ProtocolError(f"dimension {number} of {len(self.sets)}")
        return number

    # --- subscriptions ------------------------------------------------------------------------

    def store(self, message: Store, now_us: int, out: list[Effect]) -> None:
        row = message.row
        for dimension in message.dimensions:
            self.sets[self.dimension(dimension)].add(row)
        for dimension in message.replicas:
            self.sets[self.dimension(dimension)].add_replica(row)
        served = {dimension: self.segments[dimension] for dimension in message.dimensions}
        answer = Stored(row.subscription.id, row.version, served)
        self._node.send(row.home, answer, now_us, out)

    def remove(self, message: Remove) -> None:
        for rows in self.sets:
            rows.remove(message.subscription_id, message.version)

    def known_rows(self, dimension: int, segment: Segment) -> list[Row]:
        """All rows of any set, and replicas, that meet a segment of this dimension."""
        ranges = self._node.dimensions[dimension].ranges
        newest: dict[SubscriptionId, Row] = {}
        for rows in self.sets:
            for row in (*rows.rows.values(), *rows.replicas.values()):
                known = newest.get(row.subscription.id)
                if known is None or known.version < row.version:
                    newest[row.subscription.id] = row
        return [row for row in newest.values() if segment.meets(ranges(row.subscription.filter))]

    # --- what is served -----------------------------------------------------------------------

    def serve(self, dimension: int, segment: Segment, now_us: int, out: list[Effect]) -> None:
        """Serve this segment of a dimension from now on, whose subscriptions are all there.

        Publications that were taken in before are still matched, against what was there then.
        """
        shrinks = not _contains(segment, self.segments[dimension])
        self.segments[dimension] = segment
        out.append(
            Record(
                ServedRecord(
                    matcher=self._node.broker,
                    dimension=dimension,
                    low=segment.low,
                    high=segment.high,
                    at_us=now_us,
                )
            )
        )
        if shrinks:
            self._before_shrinking[dimension] = len(self.queues[dimension])
        self.tidy(dimension)

    def be_ready(self, dimension: int, now_us: int, out: list[Effect]) -> None:
        """The subscriptions of what is served are all there."""
        self.unready.discard(dimension)
        self._start_work(now_us, out)

    def tidy(self, dimension: int) -> None:
        """Forget the subscriptions that are neither served, nor awaited, nor still matched."""
        if not self._before_shrinking[dimension]:
            self.sets[dimension].keep(self.segments[dimension], self.incoming[dimension])

    def forget(self) -> list[Waiting]:
        """Serve and know nothing, as one taken for dead must; what was to be matched."""
        waiting: list[Waiting] = []
        self.unready.clear()
        for dimension, rows in enumerate(self.sets):
            self.segments[dimension] = self.incoming[dimension] = NOTHING
            rows.keep()
            rows.replicas.clear()
            self._before_shrinking[dimension] = 0
            waiting += self.queues[dimension].clear()
        for job in self._jobs.values():
            if not job.is_void:
                waiting += job.taken
            job.is_void = True
        return waiting

    def hand_back(self, waiting: Iterable[Waiting], now_us: int, out: list[Effect]) -> None:
        """Tell dispatchers that these are not matched here, and what is served here."""
        member = self._node.table.members[self._node.broker]
        ids: dict[BrokerId, list[MessageId]] = {}
        for dispatcher, routed in waiting:
            ids.setdefault(dispatcher, []).append(routed.message_id)
        for dispatcher, message_ids in ids.items():
            self._node.send(dispatcher, NotServed(tuple(message_ids), member), now_us, out)

    # --- publications -------------------------------------------------------------------------

    def match(self, dispatcher: BrokerId, message: Match, now_us: int, out: list[Effect]) -> None:
        """Take publications in; those that lie elsewhere are handed back."""
        number = self.dimension(message.dimension)
        queue = self.queues[number]
        elsewhere: list[Waiting] = []
        for routed in message.publications:
            if self.serves(number, routed.publication.attributes):
                if not queue:
                    self._turns.wake(number)
                if not queue.put(Waiting(dispatcher, routed)):
                    self.forget_report(dispatcher)  # the next one shows that we are here
            else:
                elsewhere.append(Waiting(dispatcher, routed))
        self.hand_back(elsewhere, now_us, out)
        self._start_work(now_us, out)

    def serves(self, number: int, attributes: Attributes) -> bool:
        """Whether publications with these attributes are matched here on a dimension."""
        low, high = self.segments[self.dimension(number)]
        return low <= self._node.dimensions[number].place(attributes) < high

    def _start_work(self, now_us: int, out: list[Effect]) -> None:
        """Give free cores something to do, each queue its share of their time."""
        parameters, queues = self._node.parameters, self.queues
        while len(self._jobs) < parameters.cores:
            waiting = [
                number
                for number, queue in enumerate(queues)
                if queue.waiting and number not in self.unready
            ]
            if not waiting:
                return
            number = self._turns.next(waiting)
            free = parameters.cores - len(self._jobs)
            share = -(-len(queues[number].waiting) // free)
            taken = queues[number].take(min(parameters.publications_per_job, share))
            searched = len(taken) * len(self.sets[number])
            # A publication is some work even where there is nothing to search.
            self._turns.worked(number, searched + len(taken))
            core = next(core for core in range(parameters.cores) if core not in self._jobs)
            self._jobs[core] = _Job(number, taken, searched, now_us)
            out.append(SetTimer(("match", str(core)), now_us, Work(len(taken), searched)))

    def work_done(self, core: int, now_us: int, out: list[Effect]) -> None:
        """The time a core needed has passed: match, deliver, answer."""
        job = self._jobs.pop(core)
        if job.is_void:
            return
        worked_us = now_us - job.since_us
        self.work_us += worked_us
        self._searched += job.searched
        if self._node.parameters.order is Order.PUBLISHER:
            self._answer_in_order(job, now_us, out)
        else:
            self._answer(job, now_us, out)
        self.queues[job.dimension].done(job.taken, worked_us)
        self._drained(job.dimension, len(job.taken))
        self._start_work(now_us, out)

    def _answer_in_order(self, job: _Job, now_us: int, out: list[Effect]) -> None:
        """Tell each dispatcher what was found; it is passed on by it."""
        results: dict[BrokerId, list[Result]] = {}
        for dispatcher, routed in job.taken:
            homes = self.by_home(job.dimension, routed.publication.attributes)
            results.setdefault(dispatcher, []).append(Result(routed.message_id, homes))
        for dispatcher, found in results.items():
            self._node.send(dispatcher, Results(tuple(found)), now_us, out)

    def _answer(self, job: _Job, now_us: int, out: list[Effect]) -> None:
        """Send what was found to the homes, and tell each dispatcher which homes those are."""
        matched: dict[BrokerId, list[Found]] = {}
        answers: dict[BrokerId, tuple[list[MessageId], dict[BrokerId, list[MessageId]]]] = {}
        for dispatcher, routed in job.taken:
            ids, homes = answers.setdefault(dispatcher, ([], {}))
            ids.append(routed.message_id)
            found = self.by_home(job.dimension, routed.publication.attributes)
            for home, subscriptions in found.items():
                row = Found(routed, subscriptions, self._node.broker)
                matched.setdefault(home, []).append(row)
                if home != dispatcher:
                    homes.setdefault(home, []).append(routed.message_id)
        send = self._node.send
        for home, rows in matched.items():
            send(home, Matched(tuple(rows)), now_us, out)
        for dispatcher, (ids, homes) in answers.items():
            confirming = {home: tuple(names) for home, names in homes.items()}
            send(dispatcher, Answer(confirming, tuple(ids)), now_us, out)

    def by_home(
        self, dimension: int, attributes: Attributes
    ) -> dict[BrokerId, dict[SubscriptionId, int]]:
        """What is found on a dimension: the subscriptions and their versions, by home."""
        homes: defaultdict[BrokerId, dict[SubscriptionId, int]] = defaultdict(dict)
        for row in self.sets[dimension].match(attributes):
            homes[row.home][row.subscription.id] = row.version
        return dict(homes)

    def _drained(self, dimension: int, count: int) -> None:
        before = self._before_shrinking[dimension]
        if before:
            self._before_shrinking[dimension] = max(0, before - count)
            self.tidy(dimension)

    @property
    def is_idle(self) -> bool:
        return not any(map(len, self.queues))

    # --- load ---------------------------------------------------------------------------------

    def report(self, now_us: int, out: list[Effect]) -> None:
        """Tell each dispatcher the load, if it changed enough since it was told."""
        parameters = self._node.parameters
        search_ns = (
            self.work_us * 1_000 / self._searched
            if self._searched and self.work_us
            else float(parameters.search_prior_ns)
        )
        loads = tuple(
            queue.load(len(rows), search_ns, now_us)
            for queue, rows in zip(self.queues, self.sets, strict=True)
        )
        passed_us = max(1, now_us - self._reported_us) * parameters.cores
        utilisation = (self.work_us - self._reported_work_us) / passed_us
        self._reported_us, self._reported_work_us = now_us, self.work_us
        share = parameters.load_change_percent / 100
        for dispatcher in self._node.dispatchers:
            told, skipped = self._reported.get(dispatcher, (None, 0))
            if told is not None and skipped < REPORTS_SKIPPED:
                pairs = zip(told, loads, strict=True)
                if not any(has_changed(before, after, share) for before, after in pairs):
                    self._reported[dispatcher] = told, skipped + 1
                    continue
            self._reported[dispatcher] = loads, 0
            self._node.send(dispatcher, LoadReport(utilisation, loads), now_us, out)

    def forget_report(self, dispatcher: BrokerId) -> None:
        """A dispatcher may not know what it was told: tell it at the next opportunity."""
        self._reported.pop(dispatcher, None)


def _contains(outer: Segment, inner: Segment) -> bool:
    return not inner or (outer.low <= inner.low and inner.high <= outer.high)
