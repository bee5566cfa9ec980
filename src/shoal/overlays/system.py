"""The description of an overlay system: one `System` for each, from which all else follows.

Scenarios, network files, the command line, both drivers, the judges and the contract suite read it;
none of them knows a system by name. `shoal.overlays.registry` has the list.

Sizes and parameters do not need the machine: a system module of ours imports its strategy, oracle
and planner in the functions that call them, not at its top.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import msgspec

from shoal.broker.effects import Input
from shoal.broker.wire import Vocabulary
from shoal.model import Advertisement, BrokerId, Subscription
from shoal.overlays.planning import Planner
from shoal.overlays.shapes import TREE, Link, Shape, TopologyError
from shoal.overlays.trace_rows import EventRow

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy

MAX_BROKERS = 200


class NoParameters(msgspec.Struct, frozen=True):
    """Parameters of a system without any."""


class Spares(NamedTuple):
    """Brokers that run only while load asks for them; `are_started`: the system starts them."""

    names: tuple[BrokerId, ...] = ()
    are_started: bool = False


class SystemLayout(NamedTuple):
    """A new network: brokers for clients, brokers without, and parameters."""

    front_ends: Sequence[BrokerId]
    others: Sequence[BrokerId] = ()
    parameters: msgspec.Struct | None = None


class SystemSize(msgspec.Struct, frozen=True, kw_only=True):
    """Size of a new network of a system: each field is an option of `shoal up`.

    Fields are integers with bounds, or tuples of texts (an option that may be repeated); their
    `msgspec.Meta` gives the option's description, and its title what stands for a value.
    """

    @abstractmethod
    def layout(self) -> SystemLayout:
        """The network; ValueError names an invalid option."""


class BrokerMachines(SystemSize, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., all of which take clients."""

    brokers: Annotated[int, msgspec.Meta(ge=1, le=MAX_BROKERS, description="How many brokers.")] = 3

    def layout(self) -> SystemLayout:
        return SystemLayout([f"B{number}" for number in range(1, self.brokers + 1)])


class Picture(NamedTuple):
    """An outside view of a stable network: links that are up, and clients' requests by broker."""

    links: Iterable[Link]
    advertisements: Iterable[tuple[Advertisement, BrokerId]]
    subscriptions: Iterable[tuple[Subscription, BrokerId]]


class Oracle(Protocol):
    """A judge of tables: a line for each missing or superfluous item of stable brokers."""

    def __call__(self, picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]: ...


# Inputs for the second broker, whose neighbour, the first, is disconnected.
Placeholder = Callable[[BrokerId, BrokerId], list[Input]]


def _as_they_are(parameters: Any, brokers: Sequence[BrokerId]) -> Any:
    return parameters


def _nobody(parameters: Any) -> Mapping[str, Iterable[BrokerId]]:
    return {}


def _no_spares(parameters: Any) -> Spares:
    return Spares()


def _for_ever(parameters: Any) -> int | None:
    return None


def nobody_moves(parameters: Any) -> bool:
    """False for any parameters: no subscriber moves."""
    return False


def _everybody(parameters: Any, broker: BrokerId) -> bool:
    return True


class System(msgspec.Struct, frozen=True, kw_only=True):
    """One overlay system.

    strategy       builds it at a broker
    shape          the shape of its brokers' links
    links          the links of just these brokers by the parameters, if these define them; else any
                   of the shape; TopologyError names an invalid parameter
    parameters     the type of its parameters, with defaults; a scenario and a network file have a
                   section of the system's name
    messages       its brokers' messages beside `shoal.broker.wire.COMMON`
    records        tables of the trace that its brokers write (`Record`): their rows, by name; rows
                   that are `EventRow` are in reports, those of them that are shown in status as
                   well
    shown          the tables whose last rows brokers show in their status
    size           the size of a new network
    complete       parameters for just these brokers, if they do not name them themselves
    takes_clients  whether clients connect to a broker, by the parameters
    placeholder    inputs that stand for a neighbour disconnected since before the broker started;
                   with it, publications for a disconnected neighbour may be acknowledged once they
                   are on disk
    give_up_us     time until a disconnected neighbour is dead, unless a network file sets it
    most_silent_us by the parameters, the longest wait of a message on a link before it is given up;
                   None: any.  Beyond that it comes too late
    grows          brokers join a running network, and leave it; if not, it is as its file says
    is_quiet       brokers send nothing while clients do nothing, so that messages can be counted
    by_tables      brokers forward publications by a `TreeForwarding` alone (`forwarding` of their
                   strategies), so that a simulator can do it for them
    decides_after  the parameter with the number of one publisher's publications before a decision
    oracle         the expected tables
    planner        computes parameters for brokers, from round trips and rates (`shoal plan`)
    moves_subscribers   whether brokers ask front ends, by the parameters, for their clients'
                        deliveries and subscriptions, and move these clients
    named          brokers that parameters name and no network needs to have, by key
    on_earth       parameters with the latitude and longitude of brokers, as a network file names
                   them
    spares         by the parameters, brokers whose processes the system starts and ends
    """

    name: str
    strategy: Callable[[BrokerContext, Any], Strategy]
    shape: Shape = TREE
    links: Callable[[Any, Sequence[BrokerId]], Sequence[Link]] | None = None
    parameters: type[msgspec.Struct] = NoParameters
    messages: Vocabulary = ()
    records: Mapping[str, type[msgspec.Struct]] = {}
    shown: Sequence[str] = ()
    size: type[SystemSize] = BrokerMachines
    complete: Callable[[Any, Sequence[BrokerId]], Any] = _as_they_are
    takes_clients: Callable[[Any, BrokerId], bool] = _everybody
    placeholder: Placeholder | None = None
    give_up_us: int = 60_000_000
    most_silent_us: Callable[[Any], int | None] = _for_ever
    grows: bool = True
    by_tables: bool = False
    is_quiet: bool = True
    decides_after: str = ""
    oracle: Oracle | None = None
    planner: Planner | None = None
    moves_subscribers: Callable[[Any], bool] = nobody_moves
    named: Callable[[Any], Mapping[str, Iterable[BrokerId]]] = _nobody
    on_earth: Callable[[Any, Mapping[BrokerId, tuple[float, float]]], Any] | None = None
    spares: Callable[[Any], Spares] = _no_spares

    @property
    def stores(self) -> bool:
        """Whether publications for a disconnected neighbour may be acknowledged once they are on
        disk.
        """
        return self.placeholder is not None

    @property
    def shown_rows(self) -> Mapping[str, type[msgspec.Struct]]:
        """The rows that brokers show in their status, by table."""
        return {name: self.records[name] for name in self.shown}

    @property
    def told(self) -> Mapping[str, type[EventRow]]:
        """The tables whose rows describe events in words."""
        return {name: row for name, row in self.records.items() if issubclass(row, EventRow)}

    def make_links(self, parameters: Any, brokers: Sequence[BrokerId]) -> Sequence[Link]:
        """The default links of these brokers; TopologyError if there are none."""
        if self.links is None:
            return self.shape.make(brokers)
        return self.links(self.parameters() if parameters is None else parameters, brokers)

    def strangers(self, parameters: Any, brokers: Iterable[BrokerId]) -> list[str]:
        """A line for each name in the parameters that none of these brokers has."""
        there = set(brokers)
        named = self.named(self.parameters() if parameters is None else parameters)
        return [
            f"{self.name}.{key}: no broker {name!r}"
            for key, names in named.items()
            for name in dict.fromkeys(names)
            if name not in there
        ]

    def check_links(
        self, parameters: Any, brokers: Sequence[BrokerId], links: Sequence[Link]
    ) -> None:
        """TopologyError unless brokers of this system may have just these links."""
        wanted = () if self.links is None else self.make_links(parameters, brokers)
        there = {frozenset(link) for link in links}
        for left, right in wanted:
            if frozenset((left, right)) not in there:
                raise TopologyError(f"link {left} - {right} is missing; {self.name} needs it")
        self.shape.check(brokers, links)
        extra = there - {frozenset(link) for link in wanted} if wanted else ()
        for left, right in links:
            if frozenset((left, right)) in extra:
                raise TopologyError(f"link {left} - {right} is none of {self.shape.name}")
