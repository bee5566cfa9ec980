"""Effects of publications inside a cluster, repeated as a broker's machine had them before.

Without changes of tables and links, where publications go inside a cluster (OctopiA), or along
their publisher's tree (static TID), depends on their source, their lot and the neighbour that they
come from, and on no load. A broker's machine handles the first of each; its effects are the form
of all later ones. At the paper's size a broker has some 30 publications of each.

The machine handles everything else: copies that owe clusters or are numbered, those of a broker's
own publishers, with ordering those from other clusters, and all of a broker that waits to number.
A message that is no publication may change tables: all forms are forgotten then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from shoal.broker.effects import Deliver, Effect, Send
from shoal.broker.messages import Message, RoutedPublication
from shoal.broker.strategy import Strategy
from shoal.model import BrokerId, ClientId, SubscriptionId
from shoal.overlays.octopia.messages import Notification, SpreadCopy
from shoal.overlays.octopia.parameters import Congestion, Dynamic
from shoal.overlays.octopia.protocol import Octopia
from shoal.overlays.tid.messages import TreeCopy
from shoal.overlays.tid.protocol import Tid

# A copy's type and its route, beside hops.
_Along = tuple[type[Notification] | type[TreeCopy] | type[SpreadCopy], tuple[Any, ...]]


class _Form(NamedTuple):
    """The effects of one publication.

    deliveries  clients and their subscriptions
    copies      by route, as it is beside hops and publications: the neighbours that get one
    """

    deliveries: tuple[tuple[ClientId, tuple[SubscriptionId, ...]], ...]
    copies: tuple[tuple[_Along, tuple[BrokerId, ...]], ...]


class RepeatedEffects:
    """The forms of one broker, from a time on when all clients' words have spread."""

    def __init__(self, broker: BrokerId, strategy: Strategy, from_us: int) -> None:
        self._broker = broker
        self._from_us = from_us
        self._forms: dict[Hashable, _Form | None] = {}
        # Each form once: many publications have the same.
        self._same: dict[_Form, _Form] = {}
        self._octopia = strategy if isinstance(strategy, Octopia) else None
        # Only this rule counts what a broker has sent since the last window.
        is_counted = self._octopia and self._octopia.parameters.congestion is Congestion.STEADY
        self._counts = self._octopia.outputs.sent if self._octopia and is_counted else None
        self._is_ordered = (
            self._octopia is not None and self._octopia.parameters.dynamic is Dynamic.ORDERED
        )
        self._is_tid = isinstance(strategy, Tid) and not strategy.parameters.dynamic

    def receive(
        self,
        neighbour: BrokerId,
        message: Message,
        now_us: int,
        out: list[Effect],
        handle: Callable[[BrokerId, Message, int, list[Effect]], None],
    ) -> None:
        """Add the effects of a neighbour's message: the machine's (`handle`), or the same."""
        key = self._key(neighbour, message, now_us)
        if key is None:
            if not message.carries:
                self._forms.clear()
                self._same.clear()
            handle(neighbour, message, now_us, out)
        elif (form := self._forms.get(key)) is not None:
            self._repeat(form, message, out)
        elif key in self._forms:
            handle(neighbour, message, now_us, out)
        else:
            made: list[Effect] = []
            handle(neighbour, message, now_us, made)
            form = _form(message, made)
            self._forms[key] = form and self._same.setdefault(form, form)
            out += made

    def _key(self, neighbour: BrokerId, message: Any, now_us: int) -> Hashable | None:
        """All that the effects depend on; None if there is more than a key can hold."""
        if now_us < self._from_us or not message.carries or len(message.publications) != 1:
            return None
        routed: RoutedPublication = message.publications[0]
        if self._octopia is None:
            if not self._is_tid or type(message) is not TreeCopy:
                return None
        elif type(message) is Notification:
            octopia = self._octopia
            if (
                message.owed
                or message.shifts
                or routed.message_id.broker == self._broker
                or octopia.routing.numbering.is_late
                or (self._is_ordered and self._is_of_another_cluster(neighbour))
            ):
                return None
        elif type(message) is not SpreadCopy:
            return None
        attributes = routed.publication.attributes
        return neighbour, _along(message), attributes["source"], attributes["lot"]

    def _is_of_another_cluster(self, neighbour: BrokerId) -> bool:
        octopia = self._octopia
        assert octopia is not None
        return octopia.product.position(neighbour).cluster != octopia.cluster

    def _repeat(self, form: _Form, message: Any, out: list[Effect]) -> None:
        publications, hops = message.publications, message.hops
        (routed,) = publications
        for client, subscriptions in form.deliveries:
            out.append(Deliver(client, routed, subscriptions, hops))
        for along, neighbours in form.copies:
            copy = _copy(along, publications, hops + 1)
            for neighbour in neighbours:
                out.append(Send(neighbour, copy))
                if self._counts is not None:
                    self._counts(neighbour, 1)


def _along(copy: Any) -> _Along:
    """The route of a copy that owes no cluster and is not numbered."""
    kind = type(copy)
    if kind is Notification:
        return kind, (0, copy.only)
    if kind is TreeCopy:
        return kind, (copy.trees,)
    return kind, (copy.clusters, copy.regions)


def _copy(along: _Along, publications: tuple[RoutedPublication, ...], hops: int) -> Message:
    kind, route = along
    return kind(publications, hops, *route)


def _form(message: Any, effects: list[Effect]) -> _Form | None:
    """The form of a publication's effects; None if they are more than deliveries, then copies."""
    (routed,) = message.publications
    deliveries: list[tuple[ClientId, tuple[SubscriptionId, ...]]] = []
    copies: list[tuple[_Along, list[BrokerId]]] = []
    for effect in effects:
        if isinstance(effect, Deliver) and not copies:
            if effect != Deliver(effect.client, routed, effect.subscriptions, message.hops):
                return None
            deliveries.append((effect.client, effect.subscriptions))
            continue
        if not isinstance(effect, Send):
            return None
        copy: Any = effect.message
        if type(copy) not in (Notification, TreeCopy, SpreadCopy):
            return None
        along = _along(copy)
        if copy != _copy(along, message.publications, message.hops + 1):
            return None
        if not copies or copies[-1][0] != along:
            copies.append((along, []))
        copies[-1][1].append(effect.neighbour)
    return _Form(tuple(deliveries), tuple((along, tuple(each)) for along, each in copies))
