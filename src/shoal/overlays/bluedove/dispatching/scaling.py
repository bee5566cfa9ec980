"""The number of matchers: the first dispatcher adds and removes one at a time, as load asks for it.

A matcher that runs and waits is added first. Without one, the process of a spare is started. Only
spares are removed for good if there are any; without, a removed matcher stays ready. A spare that
runs and is not needed is removed, too.

| step | until | after its time |
| --- | --- | --- |
| starting | the driver has started the spare's process | ending |
| joining | the spare serves a segment of each dimension | leaving if it serves some, else ending |
| leaving | the spare has handed its segments over and left | the spare stays |
| ending | the driver has ended its process | the failure is recorded |

Each step is bounded, and its end is recorded with the reason. A pause follows. A dispatcher that
ceases to be the first completes its step; a new first one knows nothing of an earlier one's step: a
spare that still joins is then a matcher that runs and waits.

Source: Li et al., BlueDove, section IV-E; processes and bounds are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from shoal.broker.effects import Effect, EndBroker, ProcessAnswered, Record, StartBroker
from shoal.broker.scaling_status import ScalingState, ScalingStatus
from shoal.model import BrokerId
from shoal.overlays.bluedove.cluster.members import Status
from shoal.overlays.bluedove.cluster.planner import Controller, Elasticity, ScaleOrder
from shoal.overlays.bluedove.messages import LeaveCluster, StayInCluster
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.records import ScaleRecord

# Joiners ask every round of gossip; one that has not asked for this many rounds is not ready any
# more.
ROUNDS_READY = 3
# A spare is asked to leave again after this time: a message may be lost with a link.
ASK_AGAIN_US = 2_000_000

# Admits a matcher on all dimensions.
Admit = Callable[[BrokerId, int, list[Effect]], None]


class ScaleStep(msgspec.Struct):
    """The change that is under way.

    `since_us` is the begin of its state, `begun_us` that of the change; `failed` is why it is being
    taken back, empty if it is not.
    """

    state: ScalingState
    order: ScaleOrder
    matcher: BrokerId
    begun_us: int
    since_us: int
    why: str
    failed: str = ""
    refusal: str = ""
    asked_us: int = 0

    def fail(self, problem: str) -> None:
        """Add a problem to those before."""
        self.failed = f"{self.failed}; {problem}" if self.failed else problem


class Scaling:
    """Decisions and steps of one dispatcher; `utilisations` are those that matchers report."""

    def __init__(
        self, node: BlueDoveNode, utilisations: Mapping[BrokerId, float], admit: Admit
    ) -> None:
        self._node = node
        self._utilisations = utilisations
        self._admit = admit
        self._elasticity: Elasticity = node.parameters.elasticity
        self._controller = Controller(self._elasticity)
        # When matchers that run and wait have asked last, and since when they ask.
        self._ready_us: dict[BrokerId, int] = {}
        self._ready_since_us: dict[BrokerId, int] = {}
        self._admitted: set[BrokerId] = set()
        self._step: ScaleStep | None = None
        # The spares, those that failed last at the end.
        self._spares = list(self._elasticity.spares)
        self._last, self._last_us, self._problem = "", 0, ""

    # --- joiners ------------------------------------------------------------------------------

    def admits(self, joiner: BrokerId, now_us: int) -> bool:
        """Whether a matcher that asks gets segments now; else it counts as ready."""
        if joiner in self._admitted or not self._has_enough():
            return True
        asked_us = self._ready_us.get(joiner)
        if asked_us is None or asked_us < self._recent_us(now_us):
            self._ready_since_us[joiner] = now_us
        self._ready_us[joiner] = now_us
        return False

    def _recent_us(self, now_us: int) -> int:
        """The time after which a matcher that is ready has asked."""
        return now_us - ROUNDS_READY * self._node.parameters.gossip_interval_us

    def _ready(self, now_us: int) -> list[BrokerId]:
        """Matchers that run and wait."""
        recent_us = self._recent_us(now_us)
        return sorted(name for name, at_us in self._ready_us.items() if at_us >= recent_us)

    def is_awaited(self, joiner: BrokerId) -> bool:
        """Whether the present step is about adding this matcher."""
        return self._step is not None and self._step.matcher == joiner and not self._step.failed

    def _has_enough(self) -> bool:
        """At least one matcher serves; another is a matter of load."""
        return any(any(member.segments) for member in self._node.table.serving())

    # --- decisions ----------------------------------------------------------------------------

    def tick(self, now_us: int, out: list[Effect], *, is_first: bool) -> None:
        """Continue the present step, or decide about another one."""
        if self._step is not None:
            self._go_on(self._step, now_us, out)
        elif is_first:
            self._decide(now_us, out)

    def _decide(self, now_us: int, out: list[Effect]) -> None:
        serving = self._serving()
        removable = self._removable(serving)
        order = self._controller.decide(serving, now_us, may_remove=bool(removable))
        if order is None:
            self._end_surplus(now_us, out)
        elif order is ScaleOrder.ADD:
            self._add(now_us, out)
        else:
            self._remove(min(removable, key=lambda name: (serving[name], name)), now_us, out)

    def _end_surplus(self, now_us: int, out: list[Effect]) -> None:
        """End a spare that has been running for a pause, and is not needed: an earlier first
        dispatcher may have started it, or it has been started again with the whole cluster.
        """
        controller, pause_us = self._controller, self._elasticity.settle_us
        load = controller.utilisation
        if load is None or controller.is_resting(now_us) or load > self._elasticity.saturated:
            return
        recent_us = self._recent_us(now_us)
        for name in self._elasticity.spares:
            since_us = self._ready_since_us.get(name, now_us)
            is_ready = self._ready_us.get(name, 0) >= recent_us
            if is_ready and now_us - since_us >= pause_us and not self._serves_some(name):
                del self._ready_us[name]
                self._remove(name, now_us, out, "it runs, and serves nothing")
                return

    def _serving(self) -> dict[BrokerId, float]:
        """Utilisations of the matchers that serve."""
        node, known = self._node, self._utilisations
        return {
            member.broker: known[member.broker]
            for member in node.table.serving()
            if any(member.segments) and member.broker in known and member.broker not in node.lost
        }

    def _removable(self, serving: Mapping[BrokerId, float]) -> list[BrokerId]:
        spares = self._elasticity.spares
        return [name for name in serving if name in spares] if spares else list(serving)

    def _add(self, now_us: int, out: list[Effect]) -> None:
        ready = self._ready(now_us)
        name = next((each for each in (*ready, *self._stopped())), None)
        if name is None or self._elasticity.dry_run:
            self._record(ScaleOrder.ADD, name, "dry run" if name else "begun", now_us, out)
            return
        self._record(ScaleOrder.ADD, name, "begun", now_us, out)
        if ready:
            del self._ready_us[name]
            self._begin(ScalingState.JOINING, ScaleOrder.ADD, name, now_us)
            self._admitted.add(name)
            self._admit(name, now_us, out)
        else:
            self._begin(ScalingState.STARTING, ScaleOrder.ADD, name, now_us)
            self._admitted.add(name)
            out.append(StartBroker(name))

    def _remove(self, name: BrokerId, now_us: int, out: list[Effect], why: str = "") -> None:
        if self._elasticity.dry_run:
            self._record(ScaleOrder.REMOVE, name, "dry run", now_us, out, why)
            self._controller.rest(now_us)
            return
        self._record(ScaleOrder.REMOVE, name, "begun", now_us, out, why)
        self._admitted.discard(name)
        if name in self._elasticity.spares:
            self._begin(ScalingState.LEAVING, ScaleOrder.REMOVE, name, now_us, why)
            self._ask_to_leave(name, now_us, out)
        else:
            self._node.send(name, LeaveCluster(stay_ready=True), now_us, out)

    def _stopped(self) -> list[BrokerId]:
        """Spares that do not run, as far as this dispatcher knows."""
        members = self._node.table.members
        return [
            name
            for name in self._spares
            if name not in self._node.linked
            and (name not in members or members[name].status is not Status.ALIVE)
        ]

    # --- steps --------------------------------------------------------------------------------

    def _begin(
        self,
        state: ScalingState,
        order: ScaleOrder,
        matcher: BrokerId,
        now_us: int,
        why: str = "",
    ) -> None:
        because = why or self._controller.why
        self._step = ScaleStep(state, order, matcher, now_us, now_us, because)

    def _go_on(self, step: ScaleStep, now_us: int, out: list[Effect]) -> None:
        if step.state is ScalingState.LEAVING:
            self._follow_leave(step, now_us, out)
        elif step.state is ScalingState.ENDING:
            self._follow_end(step, now_us, out)
        elif step.state is ScalingState.JOINING and self._serves_all(step.matcher):
            self._finish(step, "done", now_us, out)
        elif now_us - step.begun_us >= self._elasticity.ready_within_us:
            lasted = f"{self._elasticity.ready_within_us / 1e6:g} s"
            verb = "starting" if step.state is ScalingState.STARTING else "joining"
            self._take_back(step, f"it was still {verb} after {lasted}", now_us, out)

    def answered(self, answered: ProcessAnswered, now_us: int, out: list[Effect]) -> None:
        """The driver has started or ended the process, or says why not."""
        step = self._step
        if step is None or step.matcher != answered.broker:
            return  # too late: the step has ended by its own bound
        if answered.is_end:
            if step.state is ScalingState.ENDING:
                self._ended(step, answered.problem, now_us, out)
        elif step.state is ScalingState.STARTING:
            if answered.problem:
                self._take_back(step, answered.problem, now_us, out)
            else:
                step.state, step.since_us = ScalingState.JOINING, now_us

    def stays(self, matcher: BrokerId, reason: str) -> None:
        """A spare cannot leave yet; it is asked again."""
        step = self._step
        if step is not None and step.state is ScalingState.LEAVING and step.matcher == matcher:
            step.refusal = reason

    def _take_back(self, step: ScaleStep, problem: str, now_us: int, out: list[Effect]) -> None:
        """End a spare that was to be added."""
        step.failed = problem
        self._admitted.discard(step.matcher)
        if self._is_alive(step.matcher):
            step.state, step.since_us = ScalingState.LEAVING, now_us
            self._ask_to_leave(step.matcher, now_us, out)
        else:
            self._end(step, now_us, out)

    def _follow_leave(self, step: ScaleStep, now_us: int, out: list[Effect]) -> None:
        is_over = now_us - step.since_us >= self._elasticity.leave_within_us
        if not self._is_alive(step.matcher):
            # Its links end when all that it has sent is settled.
            if is_over or step.matcher not in self._node.linked:
                self._end(step, now_us, out)
        elif is_over:
            lasted = f"{self._elasticity.leave_within_us / 1e6:g} s"
            because = f": {step.refusal}" if step.refusal else ""
            problem = f"it had not left after {lasted}{because}"
            step.fail(problem)
            self._admitted.add(step.matcher)
            self._node.send(step.matcher, StayInCluster(), now_us, out)
            self._finish(step, "stays", now_us, out)
        elif now_us - step.asked_us >= ASK_AGAIN_US:
            self._ask_to_leave(step.matcher, now_us, out)

    def _ask_to_leave(self, matcher: BrokerId, now_us: int, out: list[Effect]) -> None:
        if self._step is not None:
            self._step.asked_us = now_us
        self._node.send(matcher, LeaveCluster(for_good=True), now_us, out)

    def _end(self, step: ScaleStep, now_us: int, out: list[Effect]) -> None:
        step.state, step.since_us = ScalingState.ENDING, now_us
        if step.matcher in self._elasticity.spares:
            out.append(EndBroker(step.matcher))
        else:  # its process was not started from here
            self._ended(step, "", now_us, out)

    def _follow_end(self, step: ScaleStep, now_us: int, out: list[Effect]) -> None:
        if now_us - step.since_us >= self._elasticity.ready_within_us:
            lasted = f"{self._elasticity.ready_within_us / 1e6:g} s"
            self._ended(step, f"no answer within {lasted}", now_us, out)

    def _ended(self, step: ScaleStep, problem: str, now_us: int, out: list[Effect]) -> None:
        if problem:
            problem = f"its process may still run: {problem}"
            step.fail(problem)
        self._finish(step, "failed" if step.failed else "done", now_us, out)

    def _finish(self, step: ScaleStep, outcome: str, now_us: int, out: list[Effect]) -> None:
        self._step = None
        self._controller.rest(now_us)
        self._problem = step.failed
        if step.failed and step.matcher in self._spares:
            self._spares.remove(step.matcher)
            self._spares.append(step.matcher)
        took_us = now_us - step.begun_us
        why = step.failed or step.why
        self._record(step.order, step.matcher, outcome, now_us, out, why, took_us)

    def _record(
        self,
        order: ScaleOrder,
        matcher: BrokerId | None,
        step: str,
        now_us: int,
        out: list[Effect],
        why: str = "",
        took_us: int = 0,
    ) -> None:
        record = ScaleRecord(
            dispatcher=self._node.broker,
            action=order.value,
            matcher=matcher,
            step=step,
            why=why or self._controller.why,
            took_us=took_us,
            at_us=now_us,
        )
        self._last, self._last_us = record.in_words(), now_us
        out.append(Record(record))

    def _is_alive(self, matcher: BrokerId) -> bool:
        """Whether it is a part of the cluster."""
        return self._node.table.is_serving(matcher)

    def _serves_some(self, matcher: BrokerId) -> bool:
        member = self._node.table.members.get(matcher)
        return member is not None and self._is_alive(matcher) and any(member.segments)

    def _serves_all(self, matcher: BrokerId) -> bool:
        member = self._node.table.members.get(matcher)
        return member is not None and self._is_alive(matcher) and all(member.segments)

    # --- status -------------------------------------------------------------------------------

    def status(self, now_us: int, *, is_first: bool) -> ScalingStatus | None:
        """The state at this dispatcher; None if another one decides."""
        step = self._step
        if not is_first and step is None:
            return None
        is_resting = self._controller.is_resting(now_us)
        idle = ScalingState.RESTING if is_resting else ScalingState.WATCHING
        elasticity = self._elasticity
        return ScalingStatus(
            state=idle if step is None else step.state,
            broker="" if step is None else step.matcher,
            since_us=self._last_us if step is None else step.since_us,
            serving=sum(any(each.segments) for each in self._node.table.serving()),
            spare=len({*self._stopped(), *self._ready(now_us)}),
            least=elasticity.least,
            most=elasticity.most,
            utilisation=self._controller.utilisation,
            adds_above=elasticity.saturated,
            removes_below=elasticity.idle,
            is_dry_run=elasticity.dry_run,
            why="" if step is None else step.why,
            last=self._last,
            last_us=self._last_us,
            problem=self._problem,
        )
