"""Base of systems whose brokers agree on views.

They agree on the members (`members/`), and send each other their clients' subscriptions
(`topics/interests.py`). An entry keeps a publication until all homes have it (`topics/outbox.py`),
and retransmits it in a new view. The routing of publications is up to the system.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sized
from contextlib import suppress
from typing import Protocol

from shoal.broker.ack_tracker import marked
from shoal.broker.effects import Effect, LinkState, SetTimer, Started, TimerKey
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import BaseStrategy, BrokerContext, ProtocolError, unexpected
from shoal.model import Attributes, BrokerId, ClientId
from shoal.overlays.dynatops.clients import TopicClients
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import (
    KnownTopics,
    MembersMessage,
    OfView,
    PublicationArrived,
    RowsHandedOver,
    RowsWanted,
    TopicInterest,
    TopicMessage,
    ViewCarrier,
    named,
)
from shoal.overlays.dynatops.parameters import ViewParameters
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.outbox import TopicOutbox
from shoal.overlays.dynatops.topics.ways import Ways
from shoal.overlays.dynatops.view import View, ViewPlaces

BEGIN: TimerKey = ("begin",)


class Routes(Protocol):
    """Status of a system's routing: numbers of waiting and of forwarded messages."""

    @property
    def held(self) -> int: ...

    @property
    def relayed(self) -> int: ...


class InViews(BaseStrategy):
    """One broker; a subclass makes `interests`, `routing`, `outbox` and `clients`."""

    interests: Interests
    routing: Routes
    outbox: TopicOutbox
    clients: TopicClients

    def __init__(
        self,
        context: BrokerContext,
        parameters: ViewParameters,
        place: Callable[[View], ViewPlaces],
    ) -> None:
        self.broker = context.broker
        self.membership = ViewMembership(
            context, parameters, place, self._enter_view, self._is_free
        )
        self.ways = Ways(self.membership)
        self._is_ready = False
        self._now_us = 0
        # The view whose paths are in use.
        self._begun: View | None = None

    # --- operations of a system ---------------------------------------------------------------

    @abstractmethod
    def begin_routing(self, view: View, out: list[Effect]) -> None:
        """A view begins: paths of the last one are invalid."""

    @abstractmethod
    def look(self, out: list[Effect]) -> None:
        """A member has announced its subscriptions: publications that wait for that may go."""

    @abstractmethod
    def take(self, message: OfView, out: list[Effect]) -> None:
        """Something of this view that systems do not have in common."""

    # --- own status ---------------------------------------------------------------------------

    @property
    def description(self) -> Mapping[str, int]:
        view = self.membership.view
        return {
            "subscriptions": len(self.clients.subscriptions),
            "members": 0 if view is None else len(view.members),
            "version": 0 if view is None else view.version,
            "rows": len(self.interests.rows),
            "pending": len(self.outbox),
            "held": self.routing.held,
            "waiting": len(self.ways),
            "relayed": self.routing.relayed,
        }

    @property
    def searched(self) -> Sized:
        return self.interests.rows

    @property
    def most_candidates(self) -> int:
        return self.interests.most_candidates

    def work_of(self, attributes: Attributes) -> int:
        return self.interests.work_of(attributes)

    def prepare(self, attributes: Attributes, work_us: float) -> bool:
        return self.interests.prepare(attributes, work_us)

    @property
    def is_ready(self) -> bool:
        """Whether it has known the subscriptions of all homes; later publications wait for that."""
        membership = self.membership
        self._is_ready = self._is_ready or (membership.view is not None and not self.awaited)
        return self._is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self.membership.unmet or self.interests.missing

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.membership.start(started.facts, now_us, out)
        # Subscriptions of an earlier incarnation's clients come before any announcement.
        out.append(SetTimer(BEGIN, now_us))

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        match key:
            case ("members", name):
                self.membership.timer(name, now_us, out)
            case ("begin",) if self.membership.view is not None and not self.ways.has_begun:
                self._enter_view(now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        self.membership.link(neighbour, state, now_us, out)
        self.ways.linked(neighbour, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        self._now_us = now_us
        if neighbour not in self.membership.links.linked:
            raise ProtocolError(f"{neighbour} is not linked to {self.broker}")
        if isinstance(message, MembersMessage):
            self.membership.receive(neighbour, message, now_us, out)
            self.ways.linked(neighbour, out)
        elif isinstance(message, TopicMessage | ViewCarrier):
            if self.ways.is_due(message):
                self._handle_of_view(message, out)
                self._look(now_us, out)
        else:
            raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        self.clients.request(client, request, now_us, out)
        self._look(now_us, out)

    def departed(self, broker: BrokerId, now_us: int, out: list[Effect]) -> None:
        self.membership.departed(broker)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        self.membership.leave(now_us, out)

    def stay(self, now_us: int, out: list[Effect]) -> None:
        self.membership.stay(out)

    @property
    def obstacle(self) -> str:
        if not self.membership.is_leaving:
            return ""
        if len(self.clients.advertisements):
            return "clients publish here"
        if not self._is_free():
            return "publications or interests wait here"
        return self.membership.problem

    # --- messages of a view -------------------------------------------------------------------

    def _handle_of_view(self, message: OfView, out: list[Effect]) -> None:
        places = self.membership.places
        for broker in named(message):
            if places is None or broker not in places:
                raise ProtocolError(f"{broker} is not in the view")
        match message:
            case TopicInterest():
                self._on_interest(message, out)
            case KnownTopics():
                if message.home == self.broker:
                    self.interests.known(message, out)
                else:
                    self.ways.answer(message.home, message, out)
            case PublicationArrived():
                self.arrived(message, out)
            case RowsWanted():
                self._on_rows_wanted(message, out)
            case RowsHandedOver():
                if message.target == self.broker:
                    self.interests.on_handed_over(message)
                    self.look(out)
                else:
                    self.ways.hand_over(message, out)
            case _:
                self.take(message, out)

    def _on_interest(self, message: TopicInterest, out: list[Effect]) -> None:
        if message.home == self.broker:
            raise ProtocolError("only this broker announces its own subscriptions")
        others = tuple(each for each in message.targets if each != self.broker)
        if len(others) < len(message.targets):
            known = self.interests.on_interest(message)
            if known is not None:
                self.ways.answer(known.home, known, out)
            self.look(out)
        if others:
            self.ways.spread(message, others, out)

    def _on_rows_wanted(self, message: RowsWanted, out: list[Effect]) -> None:
        if message.broker == self.broker:
            raise ProtocolError("only this broker asks for the rows that it needs")
        others = tuple(each for each in message.targets if each != self.broker)
        if len(others) < len(message.targets):
            self.interests.rows_wanted(message, out)
        if others:
            self.ways.spread_question(message, others, out)

    def deliver(self, routed: RoutedPublication, hops: int, out: list[Effect]) -> None:
        self.clients.deliver(routed, hops, out)

    def arrived(self, message: PublicationArrived, out: list[Effect]) -> None:
        if message.entry == self.broker:
            self.outbox.arrived(message, out)
        else:
            self.ways.answer(message.entry, message, out)

    # --- views --------------------------------------------------------------------------------

    def _enter_view(self, now_us: int, out: list[Effect]) -> None:
        view = self.membership.view
        assert view is not None
        self._now_us = now_us
        is_next = self._begun is not None and view.continues(self._begun)
        continues = is_next and self.interests.is_complete
        early = self.ways.begin()
        former = self._begun or view
        self._begun = view
        self.begin_routing(view, out)
        self.interests.begin(out, continues=continues)
        self.outbox.begin(former.age, _again, out)
        for message in early:
            with suppress(ProtocolError):  # the sender has the same view
                self._handle_of_view(message, out)

    def _is_free(self) -> bool:
        return not (len(self.outbox) or len(self.interests) or self.clients.advertisements)

    def _look(self, now_us: int, out: list[Effect]) -> None:
        """Check whether a broker that wants to leave may."""
        if self.membership.is_leaving:
            self.membership.leave(now_us, out)


def _again(routed: RoutedPublication) -> RoutedPublication:
    """The publication marked as a retransmission, if it is assured."""
    publication = routed.publication
    if not publication.assured or publication.again:
        return routed
    return RoutedPublication(marked(publication), routed.message_id)
