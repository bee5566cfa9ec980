"""What an overlay system says of itself: one `System` for each, from which all else follows.

Scenarios, network files, the command line, both drivers, the judges and the contract suite read it;
none of them knows a system by name.  `shoal.overlays.registry` has the list.

What a size or a parameter is can be known without the machine: a module of ours imports its
strategy, oracle and planner in the functions that call them, not at its top.
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
from shoal.overlays.trace_rows import Told

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy

MAX_BROKERS = 200


class NoParameters(msgspec.Struct, frozen=True):
    """Of a system that has nothing to set."""


class Layout(NamedTuple):
    """A new network: brokers for clients, brokers without, and what to set."""

    doors: Sequence[BrokerId]
    others: Sequence[BrokerId] = ()
    parameters: msgspec.Struct | None = None


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large a new network of a system is: each field is an option of `shoal up`.

    Fields are integers with bounds, or tuples of texts (an option that may be repeated); their
    `msgspec.Meta` gives the option's description, and its title what stands for a value.
    """

    @abstractmethod
    def layout(self) -> Layout:
        """The network; ValueError names the option that is wrong."""


class Brokers(Size, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., all of which take clients."""

    brokers: Annotated[int, msgspec.Meta(ge=1, le=MAX_BROKERS, description="How many brokers.")] = 3

    def layout(self) -> Layout:
        return Layout([f"B{number}" for number in range(1, self.brokers + 1)])


class Picture(NamedTuple):
    """What an outsider knows of a network at rest: links that are up, what clients asked where."""

    links: Iterable[Link]
    advertisements: Iterable[tuple[Advertisement, BrokerId]]
    subscriptions: Iterable[tuple[Subscription, BrokerId]]


class Oracle(Protocol):
    """A judge of tables: a line for each thing that brokers at rest lack, or should not have."""

    def __call__(self, picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]: ...


# Inputs for the second broker, whose neighbour, the first, is away.
StandIn = Callable[[BrokerId, BrokerId], list[Input]]


def _as_they_are(parameters: Any, brokers: Sequence[BrokerId]) -> Any:
    return parameters


def _nobody(parameters: Any) -> Mapping[str, Iterable[BrokerId]]:
    return {}


def _for_ever(parameters: Any) -> int | None:
    return None


def nobody_moves(parameters: Any) -> bool:
    """No subscriber does, whatever the parameters are."""
    return False


def _everybody(parameters: Any, broker: BrokerId) -> bool:
    return True


class System(msgspec.Struct, frozen=True, kw_only=True):
    """One overlay system.

    strategy       builds it at a broker
    shape          which links its brokers have
    links          which links just these brokers have by the parameters, if these say it; else any
                   of the shape; TopologyError says what of the parameters is wrong
    parameters     the type of what sets it, with its defaults; a scenario and a network file have
                   a section of the system's name
    messages       what its brokers say beside `shoal.broker.wire.COMMON`
    records        tables of the trace that its brokers write (`Record`): their rows, by name; rows
                   that are `Told` are in reports, those of them that are shown in status as well
    shown          those of which brokers show the last rows in their status
    size           how large a new network is
    complete       parameters for just these brokers, where they do not name them themselves
    takes_clients  whether clients connect to a broker, by the parameters
    stand_in       what is said in the place of a neighbour that is away since before the broker
                   started; with it, what is for who is away may be acknowledged once it is on disk
    give_up_us     how long a neighbour that is away counts as there, unless a network file says it
    most_silent_us by the parameters, for how long what is on a link may wait before it is given up;
                   None: for any time.  Beyond that it comes too late
    grows          brokers join a running network, and leave it; if not, it is as its file says
    is_quiet       brokers say nothing while clients do nothing, so that messages can be counted
    decides_after  which parameter says how many publications of one publisher it needs to decide
    oracle         what its tables must be
    planner        which parameters suit some brokers, by round trips and rates (`shoal plan`)
    moves_subscribers   whether brokers ask doors, by the parameters, who gets or wants what, and
                   move them
    named          brokers that parameters name and no network needs to have, by key
    """

    name: str
    strategy: Callable[[BrokerContext, Any], Strategy]
    shape: Shape = TREE
    links: Callable[[Any, Sequence[BrokerId]], Sequence[Link]] | None = None
    parameters: type[msgspec.Struct] = NoParameters
    messages: Vocabulary = ()
    records: Mapping[str, type[msgspec.Struct]] = {}
    shown: Sequence[str] = ()
    size: type[Size] = Brokers
    complete: Callable[[Any, Sequence[BrokerId]], Any] = _as_they_are
    takes_clients: Callable[[Any, BrokerId], bool] = _everybody
    stand_in: StandIn | None = None
    give_up_us: int = 60_000_000
    most_silent_us: Callable[[Any], int | None] = _for_ever
    grows: bool = True
    is_quiet: bool = True
    decides_after: str = ""
    oracle: Oracle | None = None
    planner: Planner | None = None
    moves_subscribers: Callable[[Any], bool] = nobody_moves
    named: Callable[[Any], Mapping[str, Iterable[BrokerId]]] = _nobody

    @property
    def stores(self) -> bool:
        """Whether what is for a neighbour that is away may be acknowledged once it is on disk."""
        return self.stand_in is not None

    @property
    def shown_rows(self) -> Mapping[str, type[msgspec.Struct]]:
        """The rows that brokers show in their status, by table."""
        return {name: self.records[name] for name in self.shown}

    @property
    def told(self) -> Mapping[str, type[Told]]:
        """The tables whose rows say what happened, in words."""
        return {name: row for name, row in self.records.items() if issubclass(row, Told)}

    def make_links(self, parameters: Any, brokers: Sequence[BrokerId]) -> Sequence[Link]:
        """The links of these brokers where nobody names any; TopologyError if there are none."""
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
