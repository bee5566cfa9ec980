"""Optional capabilities of an overlay system: one small protocol each, with what a system without
the capability does.

A system derives from `shoal.broker.strategy.BaseStrategy`, which has all of these defaults, and
overrides the methods of the capabilities that it has.

| capability | the system | default |
| --- | --- | --- |
| `MatchingCost` | says what matching a publication costs, before the broker handles it | free |
| `Introspection` | explains its routing to operators and planners | explains nothing |
| `Membership` | prepares the leave, the death and the return of brokers | leaves at once |
| `LoadReports` | listens to measured delays, loads and costs | ignores them |
| `Retransmission` | routes publications again that a lost link returned | drops them |
| `OperatorOrders` | follows orders of its own, from operators | refuses them |
| `ProcessControl` | starts and ends brokers as the load asks for it | starts none |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized
from typing import Any, Protocol

from shoal.broker.effects import (
    Costs,
    DropLink,
    Effect,
    Left,
    LinkState,
    Loads,
    MeasuredDelays,
    ProcessAnswered,
)
from shoal.broker.errors import ProtocolError
from shoal.broker.messages import Carrier
from shoal.broker.routing_decision import RoutingDecision, RoutingQuery
from shoal.broker.scaling_status import ScalingStatus
from shoal.model import Attributes, BrokerId


class MatchingCost(Protocol):
    """The cost of matching a publication, known before the broker handles it."""

    @property
    def searched(self) -> Sized:
        """The subscriptions that the broker matches a publication against while handling it.

        The same object for the strategy's life; empty if the system emits `MatchingWork` instead.
        """
        return ()

    @property
    def most_candidates(self) -> int:
        """An upper bound on the subscriptions that one publication is tested against."""
        return len(self.searched)

    def work_of(self, attributes: Attributes) -> int:
        """A bound like `most_candidates` for one publication, found without matching it."""
        return self.most_candidates

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Search a publication's texts, and evaluate costly expressions, for `work_us` in advance;
        True if nothing is left to do.

        A later call continues where this one stopped. Without time: whether it needs none.
        """
        return True


class Introspection(Protocol):
    """A system's state as operators and planners see it; asking changes nothing."""

    @property
    def awaited(self) -> Collection[BrokerId]:
        """The neighbours whose tables this broker still waits for."""
        return ()

    @property
    def ordered_by(self) -> str | None:
        """The attribute whose value separates ordered streams, if order is not by publisher."""
        return None

    @property
    def congested(self) -> Mapping[BrokerId, int]:
        """Neighbours behind congested links, with the time since when (µs)."""
        return {}

    def routing_decision(self, asked: RoutingQuery) -> RoutingDecision | None:
        """The next hops of a publication from this broker; None if the system does not say.

        ValueError if `asked.told` is not a text that this system wrote.
        """
        return None

    @property
    def survey(self) -> Mapping[str, Any] | None:
        """The system's state for an external planner, as JSON has it; None if there is none."""
        return None


class Membership(Protocol):
    """How brokers leave, die and are replaced."""

    def passing_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """A temporary link came up or failed; the system may make it part of the overlay.

        By default it is a link like any other.
        """
        self.link(neighbour, state, now_us, out)  # type: ignore[attr-defined]

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A disconnected neighbour has left the network and will not come back over its link."""
        return

    def succeeded(
        self, broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """A broker has departed, and `successor` has its place."""
        self.departed(broker, now_us, out)

    def declare_dead(
        self, broker: BrokerId, others: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """An operator declares a neighbour dead; `others` were linked to it as well.

        ProtocolError if the system cannot continue without that neighbour at this time.
        """
        out.append(DropLink(broker))
        self.departed(broker, now_us, out)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """This broker leaves the network; `Left` ends the leave, at once or later.

        ProtocolError if the leave cannot begin; `Stays` if it fails later.
        """
        out.append(Left())

    def stay(self, now_us: int, out: list[Effect]) -> None:
        """Take the leave back; the broker may leave again later.

        ProtocolError if it is too late for that.
        """
        return

    @property
    def obstacle(self) -> str:
        """The reason against a leave at this time; empty if this broker knows none."""
        return ""

    @property
    def is_leaving(self) -> bool:
        """Whether this broker began to leave before it was started again."""
        return False

    @property
    def successor(self) -> BrokerId | None:
        """The neighbour that would take this broker's place, if the system has one."""
        return None


class LoadReports(Protocol):
    """Measurements that the driver reports to a system that asked for them."""

    def measured(self, measured: MeasuredDelays) -> None:
        """Recent delays of this broker; the answer to `WatchDelays`."""
        return

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        """Loads of the links in the last window; the answer to `WatchLoads`."""
        return

    def costs(self, costs: Costs, now_us: int, out: list[Effect]) -> None:
        """Costs of messages; the answer to `WatchCosts`."""
        return


class Retransmission(Protocol):
    """The second way of publications that a neighbour never settled."""

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        """A given-up link returns an unsettled publication.

        The publication is settled here when it is settled wherever the system sends it; if the
        system sends it nowhere, at once.
        """
        return


class OperatorOrders(Protocol):
    """Orders that only one system knows."""

    def order(self, name: str, said: Mapping[str, str], now_us: int, out: list[Effect]) -> None:
        """Follow an operator's order; ProtocolError says why it cannot be followed."""
        raise ProtocolError("its system takes no such order")


class ProcessControl(Protocol):
    """The number of brokers that share the work, and their processes."""

    @property
    def scaling(self) -> ScalingStatus | None:
        """The state of the decisions; None at a broker that does not decide."""
        return None

    def process_answered(self, answered: ProcessAnswered, now_us: int, out: list[Effect]) -> None:
        """The outcome of a `StartBroker` or `EndBroker` of this system."""
        return

    def leave_refused(self, reason: str, now_us: int, out: list[Effect]) -> None:
        """The driver cannot follow a `LeaveNetwork` of this system now."""
        return
