"""What an overlay system must provide to the broker machine.

The machine owns the door: it tells inputs apart and refuses what its own side did wrong.  All
else is the system's: a method per kind of input, each appending effects to `out`, and what it says
of itself to whoever looks at a broker from outside.

Neighbours are those at the start.  A system may ask for links to others (`OpenLink`), whatever
the shape of its overlay; whom it may talk to is its own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from random import Random
from typing import Any, Protocol

import msgspec

from shoal.broker.effects import (
    Costs,
    DropLink,
    Effect,
    Left,
    LinkState,
    Loads,
    Measured,
    Started,
    TimerKey,
)
from shoal.broker.messages import Carrier, Message, PublicationBatch
from shoal.broker.onward import Asked, Onward
from shoal.matching import Outcomes, OutcomesFactory
from shoal.model import Attributes, BrokerId, ClientId


class BrokerContext(msgspec.Struct, frozen=True):
    """What a system is built from: who this broker is, whom it is linked to, its randomness.

    `expected` are the neighbours that it has no link to yet, and will have if they live.
    A founder was there when its network began, and knows the other founders by its parameters.
    Another broker joins: it is outside until the members take it in, whatever its parameters say,
    and a member from then on (`Started.facts`).
    `outcomes` makes what it may route by: `Outcomes`, or those of brokers that share `Classes`.
    """

    broker: BrokerId
    neighbours: tuple[BrokerId, ...]
    random: Random
    expected: tuple[BrokerId, ...] = ()
    outcomes: OutcomesFactory = Outcomes
    is_founder: bool = True


# Takes a neighbour's batch at a time, and adds to the effects.
ReceiveBatch = Callable[[BrokerId, PublicationBatch, int, list[Effect]], object]


class Strategy(Protocol):
    """One overlay system at one broker."""

    @property
    def description(self) -> Mapping[str, int]:
        """What status and metrics show of it: how many of what it holds."""

    @property
    def searched(self) -> Sized:
        """The subscriptions that a publication is matched against as it is handled.

        The same object for the strategy's life; empty where that takes `Work` of its own.
        """

    @property
    def most_candidates(self) -> int:
        """How many subscriptions a publication is tested against, or matches, at most."""

    def work_of(self, attributes: Attributes) -> int:
        """As `most_candidates`, of one with these attributes; it is not matched for that."""

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """Look through a publication's texts for so long, before it comes; whether that is all.

        If not, the next time there is less to do.
        """

    @property
    def is_ready(self) -> bool:
        """Whether what is published here reaches all who subscribed, as far as that can be known.

        Until then publications of local clients should wait.
        """

    @property
    def awaited(self) -> Collection[BrokerId]:
        """Who has yet to say what this broker must know to do all it should."""

    @property
    def keeps_order(self) -> bool:
        """Whether a publisher's publications reach each subscriber in their order."""

    @property
    def ordered_by(self) -> str | None:
        """Where that is not so: the attribute by whose text it is, if by any."""

    @property
    def congested(self) -> Mapping[BrokerId, int]:
        """The neighbours that it sends less because their links are congested, and since when."""

    def onward(self, asked: Asked) -> Onward | None:
        """Where a publication would go from here; None: the system does not say.

        Nothing changes by asking.  ValueError if `asked.told` makes no sense.
        """

    @property
    def survey(self) -> Mapping[str, Any] | None:
        """What a planner has to know of the system, as JSON has it; None: it does not say."""

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        """The broker starts; comes once, before all else."""

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour's message.  ProtocolError when it makes no sense from that neighbour."""

    @property
    def receive_batch(self) -> ReceiveBatch:
        """What takes a neighbour's batch of publications, as `receive` would; for its whole life.

        Most messages are batches, so that it is worth while to have one step less on their way.
        """

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        """A client's request.  ProtocolError when a client cannot ask that."""

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        """A timer set earlier fired."""

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """The link to a neighbour came up, failed or ended."""

    def passing_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """A link that does not last came up, or failed: it is one of the overlay only if the
        system makes it one.
        """

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None:
        """What was sent to a neighbour whose link was given up, and never settled there, is back.

        It counts as settled here when it is settled wherever this sends it, which may be nowhere.
        """

    def measured(self, measured: Measured) -> None:
        """The monitor reports the broker's recent delays, to who asked (`WatchDelays`)."""

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None:
        """The monitor reports the links' loads of the last window, to who asked (`WatchLoads`)."""

    def costs(self, costs: Costs, now_us: int, out: list[Effect]) -> None:
        """What messages cost, to who asked (`WatchCosts`)."""

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        """A neighbour whose link is down has left the network: it is not to be looked for."""

    def succeeded(
        self, broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """A broker has departed, and another one has its place."""

    def declare_dead(
        self, broker: BrokerId, others: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """A neighbour is dead, as an operator says; these others were linked to it, too.

        ProtocolError when the system cannot do without it now.
        """

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """The broker is to leave the network; `Left`, now or later, says that it has.

        ProtocolError when it cannot now; `Stays` when that turns out later.
        """

    def stay(self, now_us: int, out: list[Effect]) -> None:
        """The broker takes its leave back: it goes on as if it had not been asked to leave.

        ProtocolError when it is too late.  It may be asked to leave again.
        """

    @property
    def obstacle(self) -> str:
        """Why the broker cannot leave now; empty if it can, as far as it knows."""

    @property
    def is_leaving(self) -> bool:
        """Whether the broker, which has just started, was about to leave before that."""

    @property
    def successor(self) -> BrokerId | None:
        """The neighbour that takes the place of the broker if it leaves now, if there is one."""

    def order(self, name: str, said: Mapping[str, str], now_us: int, out: list[Effect]) -> None:
        """Follow an operator's order.  ProtocolError says why it cannot be followed."""


class BaseStrategy:
    """What a system does about inputs that it need not look at: nothing.  Derive from it."""

    @property
    def searched(self) -> Sized:
        """Nothing."""
        return ()

    @property
    def most_candidates(self) -> int:
        """All that is searched."""
        return len(self.searched)

    def work_of(self, attributes: Attributes) -> int:
        """As if it were tested against all that it may be tested against."""
        return self.most_candidates

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        """There is nothing to do."""
        return True

    @property
    def awaited(self) -> Collection[BrokerId]:
        return ()

    @property
    def ordered_by(self) -> str | None:
        return None

    @property
    def congested(self) -> Mapping[BrokerId, int]:
        return {}

    def onward(self, asked: Asked) -> Onward | None:
        return None

    @property
    def survey(self) -> Mapping[str, Any] | None:
        return None

    @property
    def receive_batch(self) -> ReceiveBatch:
        """`receive` itself."""
        return self.receive  # type: ignore[attr-defined,no-any-return]

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None: ...

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None: ...

    def passing_link(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> None:
        """It is a link as any other."""
        self.link(neighbour, state, now_us, out)  # type: ignore[attr-defined]

    def returned(
        self, neighbour: BrokerId, carrier: Carrier, now_us: int, out: list[Effect]
    ) -> None: ...

    def measured(self, measured: Measured) -> None: ...

    def loads(self, loads: Loads, now_us: int, out: list[Effect]) -> None: ...

    def costs(self, costs: Costs, now_us: int, out: list[Effect]) -> None: ...

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None: ...

    def succeeded(
        self, broker: BrokerId, successor: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        """It has departed."""
        self.departed(broker, now_us, out)

    def declare_dead(
        self, broker: BrokerId, others: Collection[BrokerId], now_us: int, out: list[Effect]
    ) -> None:
        """It has departed."""
        out.append(DropLink(broker))
        self.departed(broker, now_us, out)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        """Nobody depends on it."""
        out.append(Left())

    def stay(self, now_us: int, out: list[Effect]) -> None:
        """A leave that is done at once leaves nothing to take back."""

    @property
    def obstacle(self) -> str:
        return ""

    @property
    def is_leaving(self) -> bool:
        return False

    @property
    def successor(self) -> BrokerId | None:
        return None

    def order(self, name: str, said: Mapping[str, str], now_us: int, out: list[Effect]) -> None:
        raise ProtocolError("its system takes no such order")


StrategyFactory = Callable[[BrokerContext], Strategy]


class ProtocolError(Exception):
    """A peer or client sent what the protocol does not allow here; the machine refuses it."""


def unexpected(message: object, sender: str) -> ProtocolError:
    return ProtocolError(f"{type(message).__name__} is not expected from {sender}")


__all__: Sequence[str] = (
    "BaseStrategy",
    "BrokerContext",
    "ProtocolError",
    "ReceiveBatch",
    "Strategy",
    "StrategyFactory",
    "unexpected",
)
