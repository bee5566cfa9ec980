"""DYNATOPS at one broker: topic trees on a structured overlay, whoever stands where.

    publisher -> entry -> ... -> root of the topic -> ... -> homes -> subscribers

Brokers agree on a view, who stands at which position of a structure (`members/`), and open the
links that its tables ask for.  A topic's root knows which homes want what (`topics/interests.py`)
and names those that a publication goes to (`topics/routing.py`).  The entry keeps it until all
have it (`topics/outbox.py`).  Bayeux and GeoPS are the same over other structures.

Beyond the paper: conditions on the content, filters for any topic, order per publisher, and that
nothing is lost, doubled or overtaken when brokers come, go or die: what is under way in one view is
sent again in the next.

Source: Zhao, Kim and Venkatasubramanian, DYNATOPS, section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized
from contextlib import suppress

from shoal.broker.custody import marked
from shoal.broker.effects import Effect, LinkState, SetTimer, Started, TimerKey
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.onward import Asked, Onward
from shoal.broker.strategy import BaseStrategy, BrokerContext, ProtocolError, unexpected
from shoal.model import BrokerId, ClientId
from shoal.overlays.dynatops.clients import Clients
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.members.view import MakeStructure
from shoal.overlays.dynatops.messages import (
    Arrived,
    Counted,
    Interest,
    Known,
    MembersMessage,
    Summary,
    ToHomes,
    TopicMessage,
    ToRoot,
    named,
)
from shoal.overlays.dynatops.parameters import Order, Parameters
from shoal.overlays.dynatops.reconfiguration.counting import Counting
from shoal.overlays.dynatops.reconfiguration.manager import Manager
from shoal.overlays.dynatops.topics.interests import Interests
from shoal.overlays.dynatops.topics.keys import key_of
from shoal.overlays.dynatops.topics.outbox import Outbox
from shoal.overlays.dynatops.topics.routing import Routing
from shoal.overlays.dynatops.topics.ways import OfView, Ways
from shoal.overlays.dynatops.users.placing import Placing

BEGIN: TimerKey = ("begin",)


class Dynatops(BaseStrategy):
    """One broker."""

    def __init__(
        self, context: BrokerContext, parameters: Parameters, make_structure: MakeStructure
    ) -> None:
        self.parameters = parameters
        self.membership = Membership(
            context, parameters, make_structure, self._begin, self._is_free
        )
        self.broker = context.broker
        self.ways = Ways(self.membership)
        self.interests = Interests(self.membership, parameters, self.ways.spread)
        self.routing = Routing(self.membership, parameters, self.interests, self.ways, self)
        self.outbox = Outbox(parameters, self._root_of, self.routing.publish)
        self._placing: Placing | None = None
        if parameters.cluster:
            self._placing = Placing(self.membership, parameters, self.ways.answer)
        self.clients = Clients(self.broker, self.interests, self.outbox, self._placing)
        self._is_ready = self._has_begun = False
        self._now_us = 0
        self._counting: Counting | None = None
        self._manager: Manager | None = None
        if parameters.reconfigure_us:
            self._counting = Counting(parameters.reconfigure_us)
            self._manager = Manager(self.membership, parameters)

    # --- what it says of itself ---------------------------------------------------------------

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
    def is_ready(self) -> bool:
        """Once it has known what all homes want; publications that come later wait for that."""
        membership = self.membership
        self._is_ready = self._is_ready or (membership.view is not None and not self.awaited)
        return self._is_ready

    @property
    def awaited(self) -> Collection[BrokerId]:
        return self.membership.unmet or self.interests.missing

    @property
    def keeps_order(self) -> bool:
        return self.parameters.order is Order.PUBLISHER

    def onward(self, asked: Asked) -> Onward:
        key = key_of(asked.attributes, self.parameters.topic)
        return self.routing.onward(asked, self._root_of(key))

    # --- inputs -------------------------------------------------------------------------------

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        self.membership.start(now_us, out)
        # What clients of an earlier life want comes before anything is said of it.
        out.append(SetTimer(BEGIN, now_us))

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        match key:
            case ("members", name):
                self.membership.timer(name, now_us, out)
            case ("begin",) if self.membership.view is not None and not self._has_begun:
                self._begin(now_us, out)
            case ("reconfiguration", "report"):
                self._report(now_us, out)
            case ("users", name) if self._placing is not None:
                self._placing.timer(name, now_us, out)
            case ("reconfiguration", name) if self._manager is not None:
                self._manager.timer(name, now_us, out)

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        self.membership.link(neighbour, state, now_us, out)
        self.ways.linked(neighbour, out)

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        self._now_us = now_us
        if neighbour not in self.membership.linked:
            raise ProtocolError(f"{neighbour} is not linked to {self.broker}")
        if isinstance(message, MembersMessage):
            self.membership.receive(neighbour, message, now_us, out)
        elif isinstance(message, TopicMessage | ToRoot | ToHomes):
            if self.ways.is_due(message):
                self._take(message, out)
                self._look(now_us, out)
        else:
            raise unexpected(message, f"neighbour {neighbour}")

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        self._now_us = now_us
        self.clients.request(client, request, now_us, out)
        self._look(now_us, out)

    def leave(self, now_us: int, out: list[Effect]) -> None:
        self.membership.leave(now_us, out)

    # --- what is said in a view ---------------------------------------------------------------

    def _take(self, message: OfView, out: list[Effect]) -> None:
        places = self.membership.places
        for broker in named(message):
            if places is None or broker not in places:
                raise ProtocolError(f"{broker} is not in the view")
        match message:
            case ToHomes():
                self.routing.to_homes(message, out)
            case ToRoot():
                self.routing.to_root(message, out)
            case Interest():
                self._hear_interest(message, out)
            case Known():
                if message.home == self.broker:
                    self.interests.known(message, out)
                else:
                    self.ways.answer(message.home, message, out)
            case Arrived():
                self.arrived(message, out)
            case Counted():
                self._counted(message, out)
            case Summary():
                if message.target != self.broker:
                    self.ways.answer(message.target, message, out)
                elif self._placing is not None:
                    self._placing.hear(message)
            case _:
                raise unexpected(message, "a neighbour")

    def _hear_interest(self, message: Interest, out: list[Effect]) -> None:
        if message.home == self.broker:
            raise ProtocolError("others do not say what is wanted here")
        others = tuple(each for each in message.targets if each != self.broker)
        if len(others) < len(message.targets):
            known = self.interests.hear(message)
            if known is not None:
                self.ways.answer(known.home, known, out)
            self.routing.look(out)
        if others:
            self.ways.spread(message, others, out)

    def deliver(self, routed: RoutedPublication, hops: int, out: list[Effect]) -> None:
        self.clients.deliver(routed, hops, out)

    def arrived(self, message: Arrived, out: list[Effect]) -> None:
        if message.entry == self.broker:
            self.outbox.arrived(message, out)
        else:
            self.ways.answer(message.entry, message, out)

    # --- who should stand where ---------------------------------------------------------------

    def rooted(self, topic: str, homes: Collection[BrokerId], out: list[Effect]) -> None:
        if self._counting is not None:
            self._counting.count(topic, homes, self._now_us, out)

    def _report(self, now_us: int, out: list[Effect]) -> None:
        """Tell the manager what was counted here."""
        view = self.membership.view
        assert self._counting is not None
        if view is not None:
            counts = self._counting.take(view.members)
            counted = Counted(view.age, self.membership.manager, counts)
            self._counted(counted, out)

    def _counted(self, message: Counted, out: list[Effect]) -> None:
        if message.manager != self.broker:
            self.ways.answer(message.manager, message, out)
        elif self._manager is not None:
            self._manager.hear(message.topics, self._now_us, out)

    # --- views --------------------------------------------------------------------------------

    def _root_of(self, key: str | None) -> BrokerId:
        """Who is responsible for a topic; of what has none its own broker is."""
        places = self.membership.places
        if places is None:
            return ""
        return self.broker if key is None else places.root(key)

    def _begin(self, now_us: int, out: list[Effect]) -> None:
        view = self.membership.view
        assert view is not None
        self._now_us, self._has_begun = now_us, True
        early = self.ways.begin()
        self.routing.begin(view.lives.items())
        self.interests.begin(out)
        self.outbox.begin(_again, out)
        for message in early:
            with suppress(ProtocolError):  # who sent it knows no better
                self._take(message, out)

    def _is_free(self) -> bool:
        return not (len(self.outbox) or len(self.interests) or self.clients.advertisements)

    def _look(self, now_us: int, out: list[Effect]) -> None:
        """Who is to leave may be free now."""
        if self.membership.is_leaving:
            self.membership.leave(now_us, out)


def _again(routed: RoutedPublication) -> RoutedPublication:
    """It marked as sent before, if anybody waits for it."""
    publication = routed.publication
    if not publication.assured or publication.again:
        return routed
    return RoutedPublication(marked(publication), routed.message_id)
