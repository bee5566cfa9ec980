"""Moving a publisher along a path of brokers without loss (relocation paper, 3.3).

The publisher pauses and announces itself at the target.  From there a migration update walks to
the source: each broker turns the publisher's advertisements towards the target and forwards the
subscriptions that now belong there.  From the source a migration complete walks back, behind
everything sent on the path before: when it reaches the target, every subscription is there, and
the publisher resumes.  Two messages per link of the path, whatever the size of the network.

Deviations, both needed to lose nothing.  The paper removes subscriptions that no advertisement
asks for when the update passes; publications from the source may still be under way then, so
here they are only marked and go when the complete message, which follows the last of those
publications, passes.  The same holds for what a neighbour on the path takes back meanwhile for
any other reason, and while several publishers move, for all of them.  And the source waits for
the publisher's marker, which follows its last publication to it, before it sends the complete
message.

A path that breaks behind the update ends the migration at the break.  Where it breaks before the
update, the source does not learn that its publisher has arrived elsewhere, and keeps its rows;
and a publisher whose target crashes meanwhile waits for it in vain.
"""

from __future__ import annotations

from itertools import pairwise

from shoal.broker.effects import Effect, Notify, Send
from shoal.broker.messages import MigrationAdvertisement, Paused, Relocate, Resume
from shoal.broker.strategy import ProtocolError
from shoal.model import Advertisement, BrokerId, ClientId, SubscriptionId
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.tree.routing import TreeRouting

Path = tuple[BrokerId, ...]


class Migrations:
    """The migrations that pass through one broker, as changes to its tree routing."""

    def __init__(self, tree: TreeRouting) -> None:
        self._tree = tree
        # Migrations whose update has passed here and whose complete message has not.
        self._passing: dict[ClientId, Path] = {}
        # At a source: publishers that were told to go; of them, those whose marker has come.
        self._sent_away: dict[ClientId, Path] = {}
        self._paused: dict[ClientId, Path] = {}
        # Subscriptions a neighbour has taken back while publications of these moves may still
        # be on their way to it; they go when the last of the moves completes.
        self._kept: dict[tuple[BrokerId, SubscriptionId], set[ClientId]] = {}

    # --- messages -----------------------------------------------------------------------------

    def send_away(self, publisher: ClientId, path: Path, out: list[Effect]) -> None:
        """At the source: tell the publisher to go."""
        self._sent_away[publisher] = path
        out.append(Notify(publisher, Relocate(path)))

    def announce(
        self, publisher: ClientId, message: MigrationAdvertisement, out: list[Effect]
    ) -> None:
        """At the target: the publisher is coming."""
        path = message.path
        self._check_path(path)
        if path[-1] != self._tree.broker:
            raise ProtocolError(f"{publisher} does not migrate to {self._tree.broker}: {path}")
        self._tree.check_neighbour(path[-2])
        for advertisement in message.advertisements:
            self._tree.check_advertisement(publisher, advertisement)
        self._tree.attach_publisher(publisher, message.advertisements)
        self._passing[publisher] = path
        self._turn(publisher, path, message.advertisements, out)

    def update(self, neighbour: BrokerId, message: MigrationUpdate, out: list[Effect]) -> None:
        """On the path: the publisher now is in `neighbour`'s direction."""
        self._check_position(message.path, neighbour, towards_target=True)
        for advertisement in message.advertisements:
            self._tree.check_advertisement(message.publisher, advertisement)
        self._passing[message.publisher] = message.path
        for subscription_id in message.retracted:
            self._keep(neighbour, subscription_id)
        self._turn(message.publisher, message.path, message.advertisements, out)

    def paused(self, publisher: ClientId, message: Paused, out: list[Effect]) -> None:
        """At the source: the publisher has sent its last publication here."""
        path = self._sent_away.get(publisher)
        if path is None or path != message.path:
            raise ProtocolError(f"{publisher} was not told to migrate over {message.path}")
        del self._sent_away[publisher]
        if self._passing.get(publisher) == path:
            self._leave(publisher, path, out)
        elif self._tree.is_neighbour(path[1]):
            self._paused[publisher] = path
        else:
            self._tree.detach_publisher(publisher)

    def complete(self, neighbour: BrokerId, message: MigrationComplete, out: list[Effect]) -> None:
        """On the path: everything the source sent has passed."""
        self._check_position(message.path, neighbour, towards_target=False)
        if self._passing.get(message.publisher) != message.path:
            raise ProtocolError(f"{message.publisher} is not migrating over {message.path}")
        self._finish(message.publisher, message.path, out)

    def is_leaving(self, publisher: ClientId) -> bool:
        """At the source: whether the publisher was told to go and may still have words for us."""
        return publisher in self._sent_away

    def subscribed(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> None:
        """The neighbour wants this subscription (again): it is no longer taken back."""
        self._kept.pop((neighbour, subscription_id), None)

    def unsubscribed(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> bool:
        """The neighbour takes a subscription back; whether to keep it until a move completes."""
        if not self._moves_to(neighbour):
            return False
        self._keep(neighbour, subscription_id)
        return True

    def link_changed(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """What a neighbour said before its link changed no longer counts.

        A path that breaks towards the source brings no more publications: the migration ends
        here.  Where it breaks towards the target, the publisher is out of reach.
        """
        for key in [key for key in self._kept if key[0] == neighbour]:
            del self._kept[key]
        for publisher, path in list(self._passing.items()):
            if neighbour == self._hop(path, -1):
                self._finish(publisher, path, out)
            elif neighbour == self._hop(path, 1):
                del self._passing[publisher]
        for publisher, path in list(self._paused.items()):
            if neighbour == path[1]:
                del self._paused[publisher]
                self._tree.detach_publisher(publisher)

    # --- what is refused ----------------------------------------------------------------------

    def _check_path(self, path: Path) -> None:
        if len(path) < 2 or len(set(path)) != len(path):
            raise ProtocolError(f"{path} is not a path of a migration")

    def _check_position(self, path: Path, neighbour: BrokerId, *, towards_target: bool) -> None:
        """ProtocolError unless `neighbour` is the one next to this broker on the path."""
        self._check_path(path)
        here = self._tree.broker
        link = (here, neighbour) if towards_target else (neighbour, here)
        if link not in pairwise(path):
            raise ProtocolError(f"{neighbour} cannot send a migration over {path} to {here}")

    # --- steps --------------------------------------------------------------------------------

    def _hop(self, path: Path, step: int) -> BrokerId | None:
        """The next broker on the path towards the target (1) or the source (-1)."""
        position = path.index(self._tree.broker) + step
        return path[position] if 0 <= position < len(path) else None

    def _turn(
        self,
        publisher: ClientId,
        path: Path,
        advertisements: tuple[Advertisement, ...],
        out: list[Effect],
    ) -> None:
        """Turn the advertisements towards the target and pass the update on to the source."""
        source_hop, target_hop = self._hop(path, -1), self._hop(path, 1)
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
        if source_hop is None:
            # A source that restarted meanwhile has sent nobody away, and waits for nobody.
            if self._sent_away.get(publisher) != path:
                self._leave(publisher, path, out)
        elif not self._tree.is_neighbour(source_hop):
            self._finish(publisher, path, out)
        else:
            retracted = tuple(entry.id for entry in self._tree.release(source_hop, left))
            out.append(
                Send(source_hop, MigrationUpdate(publisher, path, advertisements, retracted))
            )

    def _leave(self, publisher: ClientId, path: Path, out: list[Effect]) -> None:
        """At the source: the update and the marker are both there."""
        self._paused.pop(publisher, None)
        self._tree.detach_publisher(publisher)
        self._finish(publisher, path, out)

    def _moves_to(self, neighbour: BrokerId) -> set[ClientId]:
        """The publishers whose publications may still come and go to this neighbour."""
        return {
            publisher
            for publisher, path in self._passing.items()
            if self._hop(path, 1) == neighbour
        }

    def _keep(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> None:
        entry = self._tree.tables.subscriptions.get(subscription_id)
        if entry is not None and entry.last_hop == neighbour:
            self._kept[neighbour, subscription_id] = self._moves_to(neighbour)

    def _finish(self, publisher: ClientId, path: Path, out: list[Effect]) -> None:
        """Remove what was kept for this migration, and pass on."""
        del self._passing[publisher]
        for key, moves in list(self._kept.items()):
            moves.discard(publisher)
            if not moves:
                del self._kept[key]
                neighbour, subscription_id = key
                self._tree.remove_subscription(subscription_id, neighbour, out)
        target_hop = self._hop(path, 1)
        if target_hop is None:
            out.append(Notify(publisher, Resume()))
        else:
            out.append(Send(target_hop, MigrationComplete(publisher, path)))
