"""Moving a publisher along a path of brokers without loss (relocation paper, 3.3).

The publisher pauses and announces itself at the target.  From there a migration update walks to
the source: each broker turns the publisher's advertisements towards the target and forwards the
subscriptions that now belong there.  From the source a migration complete walks back, behind
everything sent on the path before: when it reaches the target, every subscription is there, and
the publisher resumes.  Two messages per link of the path, whatever the size of the network.

Deviations, both needed to lose nothing.  The paper removes subscriptions that no advertisement
asks for when the update passes; publications from the source may still be under way then, so
here they are only marked and go when the complete message, which follows the last of those
publications, passes.  And the source waits for the publisher's marker, which follows its last
publication to it, before it sends the complete message.
"""

from __future__ import annotations

from itertools import pairwise

from shoal.broker.effects import Effect, Notify, Send
from shoal.broker.messages import MigrationAdvertisement, Paused, Resume
from shoal.broker.strategy import ProtocolError
from shoal.model import Advertisement, BrokerId, ClientId, SubscriptionId
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.tree.routing import TreeRouting

Path = tuple[BrokerId, ...]


class Migrations:
    """The migrations that pass through one broker, as changes to its tree routing."""

    def __init__(self, tree: TreeRouting) -> None:
        self._tree = tree
        # At a source: which of the publisher's marker and the update have come.
        self._paused: dict[ClientId, Path] = {}
        self._updated: dict[ClientId, Path] = {}
        # Subscriptions a neighbour has taken back, kept until this publisher's move completes.
        self._retracted: dict[tuple[BrokerId, SubscriptionId], ClientId] = {}

    # --- messages -----------------------------------------------------------------------------

    def announce(
        self, publisher: ClientId, message: MigrationAdvertisement, out: list[Effect]
    ) -> None:
        """At the target: the publisher is coming."""
        path = message.path
        if len(path) < 2 or path[-1] != self._tree.broker:
            raise ProtocolError(f"{publisher} does not migrate to {self._tree.broker}: {path}")
        for advertisement in message.advertisements:
            if advertisement.publisher != publisher:
                raise ProtocolError(f"{advertisement.id} is not an advertisement of {publisher}")
        self._tree.attach_publisher(publisher, message.advertisements)
        self._turn(publisher, path, message.advertisements, out)

    def update(self, neighbour: BrokerId, message: MigrationUpdate, out: list[Effect]) -> None:
        """On the path: the publisher now is in `neighbour`'s direction."""
        self._position(message.path, neighbour, towards_target=True)
        for subscription_id in message.retracted:
            entry = self._tree.tables.subscriptions.get(subscription_id)
            if entry is not None and entry.last_hop == neighbour:
                self._retracted[neighbour, subscription_id] = message.publisher
        self._turn(message.publisher, message.path, message.advertisements, out)

    def paused(self, publisher: ClientId, message: Paused, out: list[Effect]) -> None:
        """At the source: the publisher has sent its last publication here."""
        if message.path[:1] != (self._tree.broker,):
            raise ProtocolError(f"{publisher} does not migrate from {self._tree.broker}")
        self._paused[publisher] = message.path
        self._leave(publisher, out)

    def complete(self, neighbour: BrokerId, message: MigrationComplete, out: list[Effect]) -> None:
        """On the path: everything the source sent has passed."""
        self._position(message.path, neighbour, towards_target=False)
        self._finish(message.publisher, message.path, out)

    def restated(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> None:
        """The neighbour spoke of this subscription again: its word then no longer counts."""
        self._retracted.pop((neighbour, subscription_id), None)

    def link_changed(self, neighbour: BrokerId) -> None:
        """What a neighbour said before its link changed no longer counts."""
        for key in [key for key in self._retracted if key[0] == neighbour]:
            del self._retracted[key]

    # --- steps --------------------------------------------------------------------------------

    def _position(self, path: Path, neighbour: BrokerId, *, towards_target: bool) -> None:
        """ProtocolError unless `neighbour` is the one next to this broker on the path."""
        here = self._tree.broker
        link = (here, neighbour) if towards_target else (neighbour, here)
        if link not in pairwise(path):
            raise ProtocolError(f"{neighbour} cannot send a migration over {path} to {here}")

    def _turn(
        self,
        publisher: ClientId,
        path: Path,
        advertisements: tuple[Advertisement, ...],
        out: list[Effect],
    ) -> None:
        """Turn the advertisements towards the target and pass the update on to the source."""
        position = path.index(self._tree.broker)
        target_hop = path[position + 1] if position + 1 < len(path) else None
        rows, left = [], []
        for advertisement in advertisements:
            known = self._tree.tables.advertisements.get(advertisement.id)
            if known is not None and known.advertisement == advertisement:
                known.last_hop = target_hop
                left.append(known)
            else:  # the publisher's own word has overtaken the flood from its source
                if known is not None:
                    self._tree.withdraw(known, out)
                    left.append(known)
                self._tree.add_advertisement(advertisement, target_hop, out)
            rows.append(self._tree.tables.advertisements[advertisement.id])
        if target_hop is not None:
            self._tree.follow(target_hop, rows, out)
        if position > 0:
            source_hop = path[position - 1]
            retracted = tuple(entry.id for entry in self._tree.release(source_hop, left))
            out.append(
                Send(source_hop, MigrationUpdate(publisher, path, advertisements, retracted))
            )
        else:
            self._updated[publisher] = path
            self._leave(publisher, out)

    def _leave(self, publisher: ClientId, out: list[Effect]) -> None:
        """At the source: complete, once the marker and the update are both there."""
        path = self._paused.get(publisher)
        if path is None or self._updated.get(publisher) != path:
            return
        del self._paused[publisher], self._updated[publisher]
        self._tree.detach_publisher(publisher)
        self._finish(publisher, path, out)

    def _finish(self, publisher: ClientId, path: Path, out: list[Effect]) -> None:
        """Remove what this migration retracted, and pass on."""
        for key in [key for key, owner in self._retracted.items() if owner == publisher]:
            del self._retracted[key]
            neighbour, subscription_id = key
            self._tree.remove_subscription(subscription_id, neighbour, out)
        position = path.index(self._tree.broker)
        if position + 1 < len(path):
            out.append(Send(path[position + 1], MigrationComplete(publisher, path)))
        else:
            out.append(Notify(publisher, Resume()))
