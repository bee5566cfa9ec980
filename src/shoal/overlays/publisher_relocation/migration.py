"""Moving a publisher along a path of brokers without loss (relocation paper, 3.3).

The publisher pauses and announces itself at the target. From there a migration update goes to the
source: each broker turns the publisher's advertisements towards the target and forwards the
subscriptions that belong there after the turn. From the source a migration complete goes back,
behind everything sent on the path before: when it reaches the target, every subscription is there,
and the publisher resumes. Two messages per link of the path, whatever the size of the network.

Deviations, needed to lose nothing. The paper removes subscriptions without an overlapping
advertisement when the update passes; publications from the source may be in transit then, so here
they are only marked, and removed when the complete message, which follows the last of those
publications, passes (`retractions.py`). The same holds for subscriptions that a neighbour on the
path retracts meanwhile for any other reason. And the source waits for the publisher's marker, which
follows its last publication to it, before it sends the complete message.

**Failures.** Only the publisher knows its place, so it alone decides: it counts its moves, and of
two announcements about it the one that counts more is valid, in an update or in a flood. There is
no rollback: a move that fails is followed by a move back, over the same path.

    a publisher's rows here   input                          become
    elsewhere or none         announcement (target)          local, attached; update to the source
    local, attached           marker                         local, held
    local, held               update                         turned; complete to the target
    local, held               announcement, newer flood      local, attached | elsewhere
    local, held               HOLD_US pass                   none: withdrawn
    turned by a move          update of a later move         turned; marked rows are removed
    turned by a move          update of an earlier move      as they are; that and complete back
    turned within HOLD_US     link towards the row breaks    local, held, adopted: yields to copies
    turned, not complete      link towards the source breaks as they are; complete (not whole)
    turned by a move          that is not whole              as they are, in doubt: announced to
                                                             others as of the move before

- *A broker on the path has left*: the move goes round it (`paths.py`).
- *The target leaves*: it admits no publisher any more, and this one goes back; if its source is
  gone as well it stays, and loses the target as one that dies.
- *The path breaks*: the rest of it ends in a complete message that is not whole. The target informs
  the publisher, which goes back to its source. There the rows are held or adopted by the broker at
  the break, so that no subscription was retracted and none has to come again. If the path heals
  meanwhile, its place at the target is not announced: subscriptions retracted because of that would
  miss its earlier publications. If it stays there after all, it announces that.
- *The target or a broker on the path dies*: the same; the target informs the publisher, or the
  publisher detects the loss of the target (`shoal.clients.publisher`).
- *The source dies*: its rows are turned already, and the publisher continues at the target; or the
  update has not passed the source's neighbour, and the target advertises anew.
- *The publisher dies* (`Goodbye`): its target withdraws its advertisements behind the update, its
  source HOLD_US after the marker.
- *Client libraries without relocation* ignore the request to move, and count as any other client
  after LEAVE_TIMEOUT_US: no change of links waits for them. Clients that cannot move decline.
- *No duplicates, no reordering*: a publication is handed over once, and the publisher resumes only
  behind a complete message, which follows all that it has sent before.

Publications in a failing link or broker are lost, and so are those sent right after the death of
the publisher's own broker, while its advertisements propagate anew.
"""

from __future__ import annotations

from shoal.broker.effects import CancelTimer, Effect, LinkState, Notify, Send, SetTimer, TimerKey
from shoal.broker.messages import Advertise
from shoal.broker.strategy import ProtocolError
from shoal.clients.messages import MigrationAdvertisement, Paused, Relocate, Resume
from shoal.model import Advertisement, BrokerId, ClientId, SubscriptionId
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from shoal.overlays.publisher_relocation.paths import (
    Path,
    PublisherMove,
    check_path,
    check_position,
    next_hop,
    without_next,
)
from shoal.overlays.publisher_relocation.retractions import Retractions
from shoal.overlays.tree.routing import TreeRouting
from shoal.overlays.tree.routing_rows import NO_OTHERS, AdvertisementEntry

# Hold of rows for a publisher that may come back: longer than its timeout
# (`shoal.clients.publisher.MOVE_TIMEOUT_US`) plus the way back and the update along the longest
# path.
HOLD_US = 30_000_000

# Timeout of a publisher's answer to the request to move; one without an answer does not support
# relocation, stays, and counts as any other.
LEAVE_TIMEOUT_US = 10_000_000

# The first part of the keys of the timers set here; the second is the publisher.
TIMER = "migration"


class Migrations:
    """The migrations that pass through one broker, as changes to its tree routing."""

    def __init__(self, tree: TreeRouting) -> None:
        self._tree = tree
        self._propagation, self._publishers = tree.propagation, tree.publishers
        # Migrations with an update that has passed here and a complete message that has not.
        self._passing: dict[ClientId, PublisherMove] = {}
        # Local publishers, and the number of the move that brought each here.
        self._arrived: dict[ClientId, int] = {}
        # At a source: publishers with a request to move but without a marker yet; whether the
        # broker waits for that.
        self._sent_away: dict[ClientId, bool] = {}
        # Local clients that have declined, as they cannot move.
        self.fixed: set[ClientId] = set()
        # Publishers that may come back, with held local rows.
        self._held: set[ClientId] = set()
        self._retractions = Retractions(tree.propagation)

    # --- inputs -------------------------------------------------------------------------------

    def send_away(self, publisher: ClientId, path: Path, now_us: int, out: list[Effect]) -> None:
        """At the source: request a publisher to move; one that never answered is not awaited."""
        self._sent_away.setdefault(publisher, True)
        out.append(SetTimer(_timer(publisher), now_us + LEAVE_TIMEOUT_US))
        out.append(Notify(publisher, Relocate(path)))

    def announce(
        self,
        publisher: ClientId,
        message: MigrationAdvertisement,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """At the target: the publisher is coming."""
        path, here = message.path, self._tree.broker
        check_path(path)
        if path[-1] != here:
            raise ProtocolError(f"{publisher} does not migrate to {here}: {path}")
        for advertisement in message.advertisements:
            self._tree.check_advertisement(publisher, advertisement)
        if self._is_outdated(publisher, message.moves, message.advertisements):
            return  # it has given up meanwhile, and that came first
        if self._tree.changes.is_leaving:
            out.append(Notify(publisher, Resume(message.moves, whole=False)))
            return
        move = self._receive_move(path, message.moves, message.advertisements)
        self._publishers.detach(publisher)
        self._publishers.attach(publisher, message.advertisements)
        self.arrived(publisher, move.moves)
        self._begin_migration(publisher, move, message.advertisements, out)
        self._turn(publisher, move, message.advertisements, now_us, out)

    def arrived(self, publisher: ClientId, moves: int) -> None:
        """The publisher is here since that move."""
        self._arrived[publisher] = moves

    def update(
        self, neighbour: BrokerId, message: MigrationUpdate, now_us: int, out: list[Effect]
    ) -> None:
        """On the path: the publisher now is in `neighbour`'s direction."""
        publisher, path = message.publisher, message.path
        check_position(path, self._tree.broker, neighbour, 1)
        for advertisement in message.advertisements:
            self._tree.check_advertisement(publisher, advertisement)
        move = self._receive_move(path, message.moves, message.advertisements)
        outdated = self._is_outdated(publisher, move.moves, message.advertisements)
        if not outdated:
            self._begin_migration(publisher, move, message.advertisements, out)
        for subscription_id in message.retracted:
            self._take_back(neighbour, subscription_id, out)
        if outdated:
            self._send_newer(neighbour, message.advertisements, move, out)
            out.append(Send(neighbour, _complete(publisher, move, whole=False)))
        else:
            self._turn(publisher, move, message.advertisements, now_us, out)

    def paused(self, publisher: ClientId, message: Paused, now_us: int, out: list[Effect]) -> None:
        """At the source: the publisher has sent its last publication here."""
        check_path(message.path)
        if message.path[0] != self._tree.broker:
            raise ProtocolError(f"{publisher} does not leave {self._tree.broker}: {message.path}")
        # A broker that restarted meanwhile knows nothing of it, and has nothing to hold.
        if self.is_leaving(publisher) or publisher in self._publishers:
            self._close_source(publisher, now_us, out)

    def complete(self, neighbour: BrokerId, message: MigrationComplete, out: list[Effect]) -> None:
        """On the path: everything the source sent has passed."""
        check_position(message.path, self._tree.broker, neighbour, -1)
        move = self._passing.get(message.publisher)
        # Else it comes late: the publisher has moved on, or the move ended at a break.
        if move is not None and move.is_said(message.path, message.moves):
            self._finish(message.publisher, message.whole, out)

    def declined(self, client: ClientId, out: list[Effect]) -> None:
        """At the source: the client cannot move."""
        self.fixed.add(client)
        if self._sent_away.pop(client, None) is not None:
            out.append(CancelTimer(_timer(client)))

    def left(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        """The client has disconnected; one with a request to move may be at its target."""
        self.fixed.discard(client)
        if self.is_leaving(client):
            self._close_source(client, now_us, out)
        elif client in self._publishers:
            self._publishers.detach(client)
            passing = self._passing.get(client)
            if passing is None or passing.path[-1] != self._tree.broker:
                self._withdraw(client, out)  # else behind the last publication from its source
        self._propagation.unsubscribe_all(client, out)

    def is_leaving(self, publisher: ClientId) -> bool:
        """At the source: whether the publisher has a request to move and may still send messages
        here.
        """
        return publisher in self._sent_away

    @property
    def is_moving(self) -> bool:
        """Whether a publisher is moving through here, or may still come back.

        A publisher without an answer to its request does not count after LEAVE_TIMEOUT_US.
        """
        return bool(self._passing or self._held) or any(self._sent_away.values())

    def subscribed(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> None:
        """The neighbour subscribes (again): the subscription is not retracted any more."""
        self._retractions.undo(neighbour, subscription_id)

    def unsubscribed(self, neighbour: BrokerId, subscription_id: SubscriptionId) -> bool:
        """The neighbour retracts a subscription.

        Returns whether to keep it until a move completes.
        """
        moving = self._moving_to(neighbour)
        if moving:
            self._retractions.keep(neighbour, subscription_id, moving)
        return bool(moving)

    def timer(self, publisher: ClientId, out: list[Effect]) -> bool:
        """A timer fired: the hold of rows is over, or the publisher ignores its request to move.

        Returns whether it ignores the request.
        """
        if self.is_leaving(publisher):
            self._sent_away[publisher] = False
            return True
        self._held.discard(publisher)
        if publisher not in self._publishers:
            self._arrived.pop(publisher, None)
        self._propagation.unadvertise_all(publisher, out, but=self._publishers.promises(publisher))
        return False

    def link(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        """Announcements of a neighbour before its link changed are void.

        Exceptions are rows that a move has just turned there: their publisher may come back, unless
        the link has ended, as there is another path then. A path that breaks towards the source
        brings no more publications: the migration ends here. If it breaks towards the target, the
        publisher is out of reach.
        """
        tables = self._tree.tables
        rows = () if state is LinkState.ENDED else tables.advertised_from(neighbour)
        for row in rows:
            if row.turned_us is not None and now_us < row.turned_us + HOLD_US:
                tables.turn_advertisement(row, None)
                row.adopted = row.has_turned = True
                self._hold_publisher(row.advertisement.publisher, now_us, out)
        self._tree.relink(neighbour, state, now_us, out)
        self._retractions.forget(neighbour)
        for publisher, move in list(self._passing.items()):
            if neighbour == self._hop(move.path, -1):
                self._finish(publisher, False, out)
            elif neighbour == self._hop(move.path, 1):
                del self._passing[publisher]

    # --- validation ---------------------------------------------------------------------------

    def _is_outdated(
        self, publisher: ClientId, moves: int, advertisements: tuple[Advertisement, ...]
    ) -> bool:
        """Whether a later move of the publisher is known here."""
        passing = self._passing.get(publisher)
        if passing is not None and passing.moves >= moves:
            return True
        if self._arrived.get(publisher, -1) >= moves:
            return True
        rows = (self._tree.tables.advertisements.get(row.id) for row in advertisements)
        return any(row is not None and row.moves > moves for row in rows)

    # --- steps --------------------------------------------------------------------------------

    def _hop(self, path: Path, step: int) -> BrokerId | None:
        """The next broker on the path towards the target (1) or the source (-1)."""
        return next_hop(path, self._tree.broker, step)

    def _receive_move(
        self, path: Path, moves: int, advertisements: tuple[Advertisement, ...]
    ) -> PublisherMove:
        """A move comes here; if the next broker has left, its path follows the present rows."""
        source_hop, now = self._hop(path, -1), path
        if source_hop is not None and not self._tree.is_neighbour(source_hop):
            rows = map(self._tree.tables.advertisements.get, (each.id for each in advertisements))
            hops = (row.last_hop for row in rows if row is not None)
            hop = next((each for each in hops if each is not None), None)
            if hop is not None and self._tree.is_neighbour(hop):
                now = without_next(path, self._tree.broker, hop)
        return PublisherMove(now, moves, path)

    def _begin_migration(
        self,
        publisher: ClientId,
        move: PublisherMove,
        advertisements: tuple[Advertisement, ...],
        out: list[Effect],
    ) -> None:
        """A move starts here, and replaces one that is incomplete.

        In the same direction it waits for the same publications. Going back it has come behind
        them, and sends the complete message itself on the path of the other. Elsewhere the other
        one ends here.
        """
        before = self._passing.get(publisher)
        if before is not None and self._hop(before.path, 1) != self._hop(move.path, 1):
            if self._hop(before.path, 1) == self._hop(move.path, -1):
                self._retractions.complete(publisher, out)
            else:
                self._finish(publisher, False, out)
        self._passing[publisher] = move
        if publisher in self._held:
            self._held.discard(publisher)
            out.append(CancelTimer(_timer(publisher)))
            kept = {row.id for row in advertisements}
            self._propagation.unadvertise_all(publisher, out, but=kept)

    def _turn(
        self,
        publisher: ClientId,
        move: PublisherMove,
        advertisements: tuple[Advertisement, ...],
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Turn the advertisements towards the target and pass the update on to the source."""
        propagation, known = self._propagation, self._tree.tables.advertisements
        source_hop, target_hop = self._hop(move.path, -1), self._hop(move.path, 1)
        before = [known[each.id] for each in advertisements if each.id in known]
        left = [row for row in before if row.last_hop in (source_hop, None)]
        rows = [self._turn_row(each, move, now_us, out) for each in advertisements]
        if target_hop is not None:
            propagation.follow(target_hop, rows, out)
        if source_hop is None:
            # A publisher without a request to move has sent nothing here since it announced itself,
            # or ever.
            if not self.is_leaving(publisher):
                self._detach(publisher)
                self._finish(publisher, True, out)
        elif not self._tree.is_neighbour(source_hop):
            self._finish(publisher, False, out)
        else:
            retracted = tuple(entry.id for entry in propagation.release(source_hop, left, out))
            update = MigrationUpdate(publisher, move.path, advertisements, retracted, move.moves)
            out.append(Send(source_hop, update))

    def _turn_row(
        self, advertisement: Advertisement, move: PublisherMove, now_us: int, out: list[Effect]
    ) -> AdvertisementEntry:
        """The advertisement's row, which lies towards the target from now on."""
        propagation = self._propagation
        source_hop, target_hop = self._hop(move.path, -1), self._hop(move.path, 1)
        row = self._tree.tables.advertisements.get(advertisement.id)
        is_on_path = row is not None and row.last_hop in (source_hop, None)
        if row is not None and row.advertisement != advertisement:
            # The publisher's own announcement has overtaken the flood from its source.
            if is_on_path:
                propagation.withdraw(row, out)
            else:
                row.others = NO_OTHERS
                propagation.remove_advertisement(advertisement.id, row.last_hop, out)
            row = None
        elif row is not None and not is_on_path and row.last_hop != target_hop:  # an old copy
            propagation.turn(row, target_hop, move.moves, out)
        if row is None:
            row = propagation.place(advertisement, target_hop, move.moves, source_hop, out)
        row.has_turned |= row.last_hop != target_hop
        propagation.tables.turn_advertisement(row, target_hop)
        row.moves, row.adopted, row.turned_us = move.moves, False, now_us
        return row

    def _send_newer(
        self,
        neighbour: BrokerId,
        advertisements: tuple[Advertisement, ...],
        move: PublisherMove,
        out: list[Effect],
    ) -> None:
        """The neighbour may not be on the path of the later move, and would never learn of it."""
        for advertisement in advertisements:
            row = self._tree.tables.advertisements.get(advertisement.id)
            if row is not None and row.moves > move.moves and row.last_hop != neighbour:
                out.append(Send(neighbour, Advertise(row.advertisement, row.rank)))

    def _close_source(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        """At the source: nothing more comes from the publisher."""
        self._sent_away.pop(publisher, None)
        self._publishers.detach(publisher)
        passing = self._passing.get(publisher)
        if passing is not None and passing.path[0] == self._tree.broker:
            self._arrived.pop(publisher, None)
            self._finish(publisher, True, out)
            out.append(CancelTimer(_timer(publisher)))
        else:
            self._hold_publisher(publisher, now_us, out)

    def _detach(self, publisher: ClientId) -> None:
        self._arrived.pop(publisher, None)
        self._publishers.detach(publisher)

    def _withdraw(self, publisher: ClientId, out: list[Effect]) -> None:
        self._arrived.pop(publisher, None)
        self._propagation.unadvertise_all(publisher, out)

    def _hold_publisher(self, publisher: ClientId, now_us: int, out: list[Effect]) -> None:
        self._held.add(publisher)
        out.append(SetTimer(_timer(publisher), now_us + HOLD_US))

    def _moving_to(self, neighbour: BrokerId) -> set[ClientId]:
        """The publishers whose publications may still come from and go to this neighbour."""
        return {
            publisher
            for publisher, move in self._passing.items()
            if self._hop(move.path, 1) == neighbour
        }

    def _take_back(
        self, neighbour: BrokerId, subscription_id: SubscriptionId, out: list[Effect]
    ) -> None:
        if not self.unsubscribed(neighbour, subscription_id):
            self._propagation.remove_subscription(subscription_id, neighbour, out)

    def _finish(self, publisher: ClientId, whole: bool, out: list[Effect]) -> None:
        """Nothing more comes from the source: remove rows kept for that, and forward the
        message.
        """
        move = self._passing.pop(publisher)
        self._retractions.complete(publisher, out)
        if not whole:
            self._doubt(publisher, move)
        target_hop = self._hop(move.path, 1)
        if target_hop is None:
            if publisher in self._publishers:
                out.append(Notify(publisher, Resume(move.moves, whole)))
            elif publisher not in self._held:
                self._withdraw(publisher, out)
        elif self._tree.is_neighbour(target_hop):
            out.append(Send(target_hop, _complete(publisher, move, whole=whole)))

    def _doubt(self, publisher: ClientId, move: PublisherMove) -> None:
        """A publisher without confirmation of a whole move goes back, or announces that it stays.

        Until then its place here is not announced anew: subscriptions retracted because of that
        would miss its earlier publications.
        """
        tables = self._tree.tables
        for id in tables.published.of(publisher):
            row = tables.advertisements[id]
            if row.moves == move.moves:
                row.adopted = True


def _complete(publisher: ClientId, move: PublisherMove, *, whole: bool) -> MigrationComplete:
    return MigrationComplete(publisher, move.heard, move.moves, whole)


def _timer(publisher: ClientId) -> TimerKey:
    return TIMER, publisher
