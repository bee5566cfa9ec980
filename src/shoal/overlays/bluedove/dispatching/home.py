"""The subscriber side of a dispatcher: placement of its clients' subscriptions, and deliveries.

The dispatcher numbers a subscription's versions, stores it at every matcher with an overlapping
segment, and acknowledges it when all owners of its places have confirmed, and the segments that
they confirmed cover all its places. From then on matchers hand it over themselves; before that the
dispatcher asks again after a timeout, and whenever the member table changes.

Results for a subscription come through its dispatcher, which delivers those that its client still
wants, each publication once, and makes matchers remove unknown subscriptions. A client that
subscribes again after its broker was killed does so under the same name, with the same filter: so
the matchers' rows of the earlier incarnation serve it until it is stored anew.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from shoal.broker.effects import Deliver, Effect, Key, Notify, Settled, Unsettled
from shoal.broker.strategy import ProtocolError
from shoal.groups import Groups
from shoal.matching.segments import Range
from shoal.matching.semantics import matches
from shoal.model import BrokerId, ClientId, FilterError, MessageId, Subscription, SubscriptionId
from shoal.overlays.bluedove.cluster.members import Segment
from shoal.overlays.bluedove.cluster.planner import Ranges, copies, ranges_of
from shoal.overlays.bluedove.dispatching.mailboxes import Mailboxes
from shoal.overlays.bluedove.messages import (
    Fetch,
    FoundMatches,
    MatcherRow,
    Receipt,
    Remove,
    Store,
    Stored,
    SubscriptionStored,
)
from shoal.overlays.bluedove.node import BlueDoveNode
from shoal.overlays.bluedove.parameters import DeliveryOrder

# Deduplication window, in later publications: one that is sent to another matcher after a timeout
# is behind by the traffic of a few timeouts.
MAX_REMEMBERED = 500_000


class _RowPlacement:
    """A subscription of a client here, and how far it is stored."""

    __slots__ = ("asked", "asked_us", "awaited", "is_stored", "kept", "ranges", "row")

    def __init__(self, row: MatcherRow, ranges: Ranges) -> None:
        self.row = row
        self.ranges = ranges
        self.is_stored = False
        self.asked: dict[BrokerId, tuple[int, ...]] = {}
        self.asked_us = 0
        # The segment that each matcher served on a dimension when it stored the subscription.
        self.kept: dict[tuple[int, BrokerId], Segment] = {}
        # Owners of its places, by the member table, that have yet to confirm.
        self.awaited: set[tuple[int, BrokerId]] = set()


class SubscriberEdge:
    """The subscriptions of one dispatcher's clients."""

    def __init__(self, node: BlueDoveNode) -> None:
        self._node = node
        self._placements: dict[SubscriptionId, _RowPlacement] = {}
        self._owned: Groups[ClientId, SubscriptionId] = Groups()
        self._unstored: dict[SubscriptionId, None] = {}
        self._version = 0
        self._delivered: OrderedDict[MessageId, None] = OrderedDict()
        self.mailboxes = Mailboxes(node.broker)

    def __len__(self) -> int:
        """Number of the clients' subscriptions."""
        return len(self._placements)

    def __contains__(self, id: SubscriptionId) -> bool:
        """Whether a client here has this subscription."""
        return id in self._placements

    # --- clients' requests --------------------------------------------------------------------

    def subscribe(
        self, client: ClientId, subscription: Subscription, now_us: int, out: list[Effect]
    ) -> None:
        """Store a subscription; one of the same id is replaced."""
        self._check_owner(client, subscription)
        known = self._placements.get(subscription.id)
        if known is not None:
            if known.row.subscription == subscription:
                return
            self._forget_placement(known, now_us, out)
        self._version = max(self._version + 1, now_us)
        row = MatcherRow(subscription, self._node.broker, self._version)
        placement = _RowPlacement(row, ranges_of(self._node.dimensions, subscription.filter))
        self._placements[subscription.id] = placement
        self._owned.add(subscription.client, subscription.id)
        self._unstored[subscription.id] = None
        out.append(Unsettled(_key(subscription.id)))
        self._ask_owners(placement, now_us, out)
        self._settle(placement, out)

    def unsubscribe(
        self, client: ClientId, subscription_id: SubscriptionId, now_us: int, out: list[Effect]
    ) -> None:
        placement = self._placements.get(subscription_id)
        if placement is None or placement.row.subscription.client != client:
            raise ProtocolError(f"{client} has no subscription {subscription_id} here")
        self._forget_placement(placement, now_us, out)

    def leave(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        """The client has disconnected for good: remove its subscriptions."""
        for id in self._owned.of(client):
            self._forget_placement(self._placements[id], now_us, out)

    def _check_owner(self, client: ClientId, subscription: Subscription) -> None:
        known = self._placements.get(subscription.id)
        owner = subscription.client if known is None else known.row.subscription.client
        for name in (subscription.client, owner):
            if name != client:
                raise ProtocolError(f"subscription {subscription.id} belongs to {name}")
        try:
            subscription.filter.normal_form  # noqa: B018  # computed here so that its error is met
        except FilterError as error:
            raise ProtocolError(f"subscription {subscription.id}: {error}") from None

    def _forget_placement(self, placement: _RowPlacement, now_us: int, out: list[Effect]) -> None:
        id = placement.row.subscription.id
        del self._placements[id]
        self._owned.remove(placement.row.subscription.client, id)
        if id in self._unstored:
            del self._unstored[id]
            out.append(Settled(_key(id)))
        planned = copies(self._node.table, placement.ranges)
        holders = dict.fromkeys((*planned.searched, *planned.replicas, *placement.asked))
        for matcher in holders:
            self._node.send(matcher, Remove(id, placement.row.version), now_us, out)

    @property
    def unstored(self) -> list[SubscriptionId]:
        """The subscriptions that a publication might still miss, oldest first."""
        return list(self._unstored)

    # --- storing ------------------------------------------------------------------------------

    def _ask_owners(self, placement: _RowPlacement, now_us: int, out: list[Effect]) -> None:
        """Send the subscription to the owners that have not been asked."""
        planned = copies(self._node.table, placement.ranges)
        placement.asked_us = now_us
        for matcher in dict.fromkeys((*planned.searched, *planned.replicas)):
            searched = planned.searched.get(matcher, ())
            if matcher not in placement.asked or set(searched) - set(placement.asked[matcher]):
                placement.asked[matcher] = searched
                replicas = planned.replicas.get(matcher, ())
                self._node.send(matcher, Store(placement.row, searched, replicas), now_us, out)

    def stored(self, matcher: BrokerId, message: Stored, out: list[Effect]) -> None:
        placement = self._placements.get(message.subscription_id)
        if placement is None or placement.row.version != message.version or placement.is_stored:
            return
        for dimension, segment in message.segments.items():
            placement.kept[dimension, matcher] = segment
            placement.awaited.discard((dimension, matcher))
        if not placement.awaited:
            self._settle(placement, out)

    def _settle(self, placement: _RowPlacement, out: list[Effect]) -> None:
        """Call it stored, when it is: all owners have it, and they leave no place out."""
        owners = [
            [(dimension, owner) for owner in self._node.table.owners_met(dimension, ranges)]
            for dimension, ranges in enumerate(placement.ranges)
        ]
        placement.awaited = {
            pair for pairs in owners for pair in pairs if pair not in placement.kept
        }
        if placement.awaited:
            return
        for ranges, pairs in zip(placement.ranges, owners, strict=True):
            if not are_covered(ranges, [placement.kept[pair] for pair in pairs]):
                return
        placement.is_stored = True
        placement.kept.clear()
        placement.asked.clear()
        subscription = placement.row.subscription
        del self._unstored[subscription.id]
        out += [
            Notify(subscription.client, SubscriptionStored(subscription.id)),
            Settled(_key(subscription.id)),
        ]

    def members_changed(self, now_us: int, out: list[Effect]) -> None:
        """The member table has changed: unconfirmed subscriptions may need other matchers."""
        for id in list(self._unstored):
            placement = self._placements[id]
            self._ask_owners(placement, now_us, out)
            self._settle(placement, out)

    def tick(self, now_us: int, out: list[Effect]) -> bool:
        """Ask again after a timeout; returns whether any subscription is unconfirmed."""
        before_us = now_us - self._node.parameters.answer_timeout_us
        for id in list(self._unstored):
            placement = self._placements[id]
            if placement.asked_us <= before_us:
                placement.asked.clear()
                self._ask_owners(placement, now_us, out)
        return bool(self._unstored)

    def fetch(self, message: Fetch) -> list[MatcherRow]:
        """The subscriptions that meet a segment.

        Those that are not stored are among them: before this broker started they may have been.
        """
        if not 0 <= message.dimension < len(self._node.dimensions):
            raise ProtocolError(f"dimension {message.dimension} of {len(self._node.dimensions)}")
        return [
            placement.row
            for placement in self._placements.values()
            if message.segment.meets(placement.ranges[message.dimension])
        ]

    # --- deliveries ---------------------------------------------------------------------------

    def matched(self, found: Iterable[FoundMatches], now_us: int, out: list[Effect]) -> None:
        """Deliver new results, and confirm all to the dispatchers they came from."""
        broker = self._node.broker
        in_order = self._node.parameters.order is DeliveryOrder.PUBLISHER
        confirmed: dict[BrokerId, list[MessageId]] = {}
        for each in found:
            message_id, matcher = each.routed.message_id, each.matcher
            if in_order or message_id.broker != broker:
                confirmed.setdefault(message_id.broker, []).append(message_id)
            if message_id in self._delivered:
                continue
            self._delivered[message_id] = None
            if len(self._delivered) > MAX_REMEMBERED:
                self._delivered.popitem(last=False)
            last = message_id.broker if in_order else matcher
            hops = (message_id.broker != matcher) * (1 + in_order) + (last != broker)
            self._deliver(each, hops, now_us, out)
        for dispatcher, ids in confirmed.items():
            self._node.send(dispatcher, Receipt(tuple(ids)), now_us, out)

    def _deliver(self, found: FoundMatches, hops: int, now_us: int, out: list[Effect]) -> None:
        local: defaultdict[ClientId, list[SubscriptionId]] = defaultdict(list)
        placements = self._placements
        for id, version in found.subscriptions.items():
            placement = placements.get(id)
            row = None if placement is None else placement.row
            if row is not None and row.version == version:
                local[row.subscription.client].append(id)
                continue
            if row is None:
                # A version that is known under another number is replaced when that is stored.
                self._node.send(found.matcher, Remove(id, version), now_us, out)
            # The version may be of this broker's earlier incarnation: the present filter counts.
            elif matches(row.subscription.filter, found.routed.publication.attributes):
                local[row.subscription.client].append(id)
        for client, ids in local.items():
            delivery = Deliver(client, found.routed, tuple(ids), hops)
            if not self.mailboxes.keep(delivery, now_us, out):
                out.append(delivery)


def _key(subscription_id: SubscriptionId) -> Key:
    return ("subscription", subscription_id)


def are_covered(ranges: Iterable[Range], segments: Iterable[Segment]) -> bool:
    """Whether segments together cover the ranges.

    >>> are_covered([Range(1, 5)], [Segment(3, 6), Segment(0, 3)])
    True
    >>> are_covered([Range(1, 5)], [Segment(0, 3), Segment(4, 6)])
    False
    """
    ordered = sorted(segment for segment in segments if segment)
    for low, high in ranges:
        place = low
        for segment in ordered:
            if segment.low <= place < segment.high:
                place = segment.high
        if place <= high:
            return False
    return True
