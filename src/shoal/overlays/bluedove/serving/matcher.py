"""The matcher: sets and queues by dimension, as many jobs at once as there are cores.

It serves a segment of each dimension, and for every place in it the set holds every stored
subscription that can match there. A publication that lies elsewhere is returned with the matcher's
segments. The results of a match go to the publication's dispatcher, which forwards them in order;
if order is free they go to the subscribers' dispatchers at once, and the publication's dispatcher
gets the list of these.

A publication that takes more than a time slice is matched in several: its texts are searched and
its expressions evaluated before (`SubscriptionSet.prepare`), a part at each firing of the core's
timer, so that other input of the broker comes in between. A set keeps the results of one
publication, so one core at a time prepares on a dimension; others wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from shoal.broker.effects import Effect, MatchingWork, Record, SetTimer
from shoal.broker.strategy import ProtocolError
from shoal.matching import MatchIndex
from shoal.model import Attributes, BrokerId, MessageId, SubscriptionId
from shoal.overlays.bluedove.cluster.forwarding import Load, has_changed
from shoal.overlays.bluedove.cluster.members import NOTHING, Segment
from shoal.overlays.bluedove.cluster.planner import Ranges, ranges_of
from shoal.overlays.bluedove.messages import (
    FoundMatches,
    LoadReport,
    MatchAnswer,
    Matched,
    MatcherRow,
    MatchRequest,
    MatchResult,
    MatchResults,
    NotServed,
    Remove,
    Store,
    Stored,
)
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.parameters import DeliveryOrder
from shoal.overlays.bluedove.records import ServedRecord
from shoal.overlays.bluedove.serving.queues import (
    DimensionQueue,
    Index,
    QueuedMatch,
    QueueTurns,
    SubscriptionSet,
)

# A report without changes, now and then: a dispatcher without reports assumes the worst.
REPORTS_SKIPPED = 10
# A utilisation that differs by more than this is reported if matchers are added by it.
UTILISATION_CHANGE = 0.05


# The most time slices in which one publication is prepared.
MOST_SLICES = 200

# Matching subscriptions and their versions, by dispatcher.
ByHome: TypeAlias = dict[BrokerId, dict[SubscriptionId, int]]


class MatchingJob:
    """Publications of one queue that a core is busy with."""

    __slots__ = ("dimension", "found", "is_void", "searched", "since_us", "slices", "taken")

    def __init__(
        self, dimension: int, taken: list[QueuedMatch], searched: int, now_us: int
    ) -> None:
        self.dimension = dimension
        self.taken = taken
        self.searched = searched
        self.since_us = now_us
        self.is_void = False
        # The results of the first publications, by dispatcher of the subscriptions.
        self.found: list[ByHome] = []
        # Time slices that the next publication has had.
        self.slices = 0


class Matcher:
    """Sets, queues and segments of one matcher."""

    def __init__(self, node: BlueDoveNode, make_index: Callable[[], Index] = MatchIndex) -> None:
        self._node = node
        parameters = node.parameters
        self.segments: list[Segment] = [NOTHING for _ in node.dimensions]
        # The segments that the sets are being filled for, beside the served ones.
        self.incoming: list[Segment] = [NOTHING for _ in node.dimensions]
        self.sets = [
            SubscriptionSet(number, make_index()) for number in range(len(node.dimensions))
        ]
        self.queues = [
            DimensionQueue(parameters.rate_window_us, parameters.cores) for _ in node.dimensions
        ]
        self._jobs: dict[int, MatchingJob] = {}
        # The core that prepares a publication, by dimension.
        self._preparing: dict[int, int] = {}
        self._turns = QueueTurns(len(self.queues))
        # Dimensions whose segment is served before its subscriptions are there: nothing is matched.
        self.unready: set[int] = set()
        # Publications that a dimension had accepted before its segment shrank, still to match.
        self._before_shrinking = [0 for _ in node.dimensions]
        self.work_us = self._searched = self._reported_us = self._reported_work_us = 0
        self._reported: dict[BrokerId, tuple[tuple[Load, ...], int]] = {}
        # The busy part of the broker's time, if its driver measures that.
        self.busy: float | None = None
        self._reported_utilisation = 0.0

    def dimension(self, number: int) -> int:
        """ProtocolError unless there is such a dimension."""
        if not 0 <= number < len(self.sets):
            raise ProtocolError(f"dimension {number} of {len(self.sets)}")
        return number

    # --- subscriptions ------------------------------------------------------------------------

    def store(self, message: Store, now_us: int, out: list[Effect]) -> None:
        row = message.row
        ranges = ranges_of(self._node.dimensions, row.subscription.filter)
        for dimension in message.dimensions:
            self.sets[self.dimension(dimension)].add(row, ranges)
        for dimension in message.replicas:
            self.sets[self.dimension(dimension)].add_replica(row, ranges)
        served = {dimension: self.segments[dimension] for dimension in message.dimensions}
        answer = Stored(row.subscription.id, row.version, served)
        self._node.send(row.home, answer, now_us, out)

    def remove(self, message: Remove) -> None:
        for rows in self.sets:
            rows.remove(message.subscription_id, message.version)

    def known_rows(self, dimension: int, segment: Segment) -> list[tuple[MatcherRow, Ranges]]:
        """All rows of any set, and replicas, that meet a segment of this dimension."""
        newest: dict[SubscriptionId, tuple[MatcherRow, Ranges]] = {}
        for rows in self.sets:
            for row, ranges in rows.with_ranges():
                id = row.subscription.id
                if id not in newest or newest[id][0].version < row.version:
                    newest[id] = row, ranges
        return [known for known in newest.values() if segment.meets(known[1][dimension])]

    def take_in(self, dimension: int, rows: Iterable[MatcherRow]) -> None:
        """Add subscriptions to the set of a dimension."""
        found = self.sets[dimension]
        for row in rows:
            # Most are known: each matcher that has one sends it.
            if found.lacks(row):
                found.add(row, ranges_of(self._node.dimensions, row.subscription.filter))

    # --- served segments ----------------------------------------------------------------------

    def serve(self, dimension: int, segment: Segment, now_us: int, out: list[Effect]) -> None:
        """Serve this segment of a dimension from now on; its subscriptions are complete.

        Publications that were accepted before are still matched, against the set of that time.
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

    def mark_ready(self, dimension: int, now_us: int, out: list[Effect]) -> None:
        """The subscriptions of the served segment are complete."""
        self.unready.discard(dimension)
        self._start_work(now_us, out)

    def tidy(self, dimension: int) -> None:
        """Forget the subscriptions that are neither served, nor awaited, nor still matched."""
        if not self._before_shrinking[dimension]:
            self.sets[dimension].keep(self.segments[dimension], self.incoming[dimension])

    def forget(self) -> list[QueuedMatch]:
        """Serve and store nothing, as a matcher declared dead must.

        Returns the queued publications.
        """
        waiting: list[QueuedMatch] = []
        self.unready.clear()
        for dimension, rows in enumerate(self.sets):
            self.segments[dimension] = self.incoming[dimension] = NOTHING
            rows.clear()
            self._before_shrinking[dimension] = 0
            waiting += self.queues[dimension].clear()
        for job in self._jobs.values():
            if not job.is_void:
                waiting += job.taken
            job.is_void = True
        return waiting

    def hand_back(self, waiting: Iterable[QueuedMatch], now_us: int, out: list[Effect]) -> None:
        """Return these publications to their dispatchers, with the served segments."""
        member = self._node.table.members[self._node.broker]
        ids: dict[BrokerId, list[MessageId]] = {}
        for dispatcher, routed in waiting:
            ids.setdefault(dispatcher, []).append(routed.message_id)
        for dispatcher, message_ids in ids.items():
            self._node.send(dispatcher, NotServed(tuple(message_ids), member), now_us, out)

    # --- publications -------------------------------------------------------------------------

    def match(
        self, dispatcher: BrokerId, message: MatchRequest, now_us: int, out: list[Effect]
    ) -> None:
        """Accept publications; those that lie elsewhere are returned."""
        number = self.dimension(message.dimension)
        queue = self.queues[number]
        elsewhere: list[QueuedMatch] = []
        for routed in message.publications:
            if self.serves(number, routed.publication.attributes):
                if not queue:
                    self._turns.wake(number)
                if not queue.put(QueuedMatch(dispatcher, routed)):
                    self.forget_report(dispatcher)  # the next one shows that we are here
            else:
                elsewhere.append(QueuedMatch(dispatcher, routed))
        self.hand_back(elsewhere, now_us, out)
        self._start_work(now_us, out)

    def serves(self, number: int, attributes: Attributes) -> bool:
        """Whether publications with these attributes are matched here on a dimension."""
        low, high = self.segments[self.dimension(number)]
        return low <= self._node.dimensions[number].place(attributes) < high

    def _start_work(self, now_us: int, out: list[Effect]) -> None:
        """Start work on free cores, with an equal share of time for each queue."""
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
            self._jobs[core] = MatchingJob(number, taken, searched, now_us)
            out.append(SetTimer(("match", str(core)), now_us, MatchingWork(len(taken), searched)))

    def work_done(self, core: int, now_us: int, out: list[Effect]) -> None:
        """A core's time has passed: match, deliver, answer."""
        job = self._jobs[core]
        if not job.is_void and not self._match_some(core, job):
            out.append(SetTimer(("match", str(core)), now_us))
            return
        del self._jobs[core]
        if self._preparing.get(job.dimension) == core:
            del self._preparing[job.dimension]
        if job.is_void:
            return
        worked_us = now_us - job.since_us
        self.work_us += worked_us
        self._searched += job.searched
        if self._node.parameters.order is DeliveryOrder.PUBLISHER:
            self._answer_in_order(job, now_us, out)
        else:
            self._send_results(job, now_us, out)
        self.queues[job.dimension].done(job.taken, worked_us)
        self._drained(job.dimension, len(job.taken))
        self._start_work(now_us, out)

    def _match_some(self, core: int, job: MatchingJob) -> bool:
        """Match the job's publications, as many as one time slice allows; whether it is done."""
        rows = self.sets[job.dimension]
        while len(job.found) < len(job.taken):
            attributes = job.taken[len(job.found)].routed.publication.attributes
            is_long = rows.is_long(attributes) and job.slices < MOST_SLICES
            if is_long:
                if self._preparing.setdefault(job.dimension, core) != core:
                    return False
                job.slices += 1
                if not rows.prepare(attributes):
                    return False
            job.found.append(self.by_home(job.dimension, attributes))
            if job.slices:
                job.slices = 0
                self._preparing.pop(job.dimension, None)
                return len(job.found) == len(job.taken)
        return True

    def _answer_in_order(self, job: MatchingJob, now_us: int, out: list[Effect]) -> None:
        """Send each dispatcher the results; it forwards them."""
        results: dict[BrokerId, list[MatchResult]] = {}
        for (dispatcher, routed), homes in zip(job.taken, job.found, strict=True):
            results.setdefault(dispatcher, []).append(MatchResult(routed.message_id, homes))
        for dispatcher, found in results.items():
            self._node.send(dispatcher, MatchResults(tuple(found)), now_us, out)

    def _send_results(self, job: MatchingJob, now_us: int, out: list[Effect]) -> None:
        """Send the results to the subscribers' dispatchers, and their list to the publication's."""
        matched: dict[BrokerId, list[FoundMatches]] = {}
        answers: dict[BrokerId, tuple[list[MessageId], dict[BrokerId, list[MessageId]]]] = {}
        for (dispatcher, routed), found in zip(job.taken, job.found, strict=True):
            ids, homes = answers.setdefault(dispatcher, ([], {}))
            ids.append(routed.message_id)
            for home, subscriptions in found.items():
                row = FoundMatches(routed, subscriptions, self._node.broker)
                matched.setdefault(home, []).append(row)
                if home != dispatcher:
                    homes.setdefault(home, []).append(routed.message_id)
        send = self._node.send
        for home, rows in matched.items():
            send(home, Matched(tuple(rows)), now_us, out)
        for dispatcher, (ids, homes) in answers.items():
            confirming = {home: tuple(names) for home, names in homes.items()}
            send(dispatcher, MatchAnswer(confirming, tuple(ids)), now_us, out)

    def by_home(self, dimension: int, attributes: Attributes) -> ByHome:
        """Results on a dimension: the subscriptions and their versions, by dispatcher."""
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
        """Report the load to each dispatcher, if it changed enough since the last report."""
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
        if self.busy is not None:
            # A live broker has one thread for matching, messages and gossip.
            utilisation = max(utilisation, self.busy)
        self._reported_us, self._reported_work_us = now_us, self.work_us
        is_new = parameters.elastic and (
            abs(utilisation - self._reported_utilisation) > UTILISATION_CHANGE
        )
        if is_new:
            self._reported_utilisation = utilisation
        share = parameters.load_change_percent / 100
        for dispatcher in self._node.dispatchers:
            told, skipped = self._reported.get(dispatcher, (None, 0))
            if told is not None and skipped < REPORTS_SKIPPED and not is_new:
                pairs = zip(told, loads, strict=True)
                if not any(has_changed(before, after, share) for before, after in pairs):
                    self._reported[dispatcher] = told, skipped + 1
                    continue
            self._reported[dispatcher] = loads, 0
            self._node.send(dispatcher, LoadReport(utilisation, loads), now_us, out)

    def forget_report(self, dispatcher: BrokerId) -> None:
        """A dispatcher may have lost the report: send it at the next opportunity."""
        self._reported.pop(dispatcher, None)


def _contains(outer: Segment, inner: Segment) -> bool:
    return not inner or (outer.low <= inner.low and inner.high <= outer.high)
