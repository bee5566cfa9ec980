"""One broker's ties: its parent in its cluster, and its entry broker in each other one.

The candidates follow from the product and from leaves; the broker in use, from the connected ones
(`attachments.py`). A candidate for a cluster's entry gets the advertisements of this broker, and
sends the bits for them; a former entry broker is released when all publications by it have arrived
(`sweeps.py`). A change of the parent keeps the order of publications (`relinking.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Advertise, Unadvertise
from shoal.model import BrokerId
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.links.attachments import Attachment, Attachments, is_worse
from shoal.overlays.octopia.links.relinking import OctopiaRelinking
from shoal.overlays.octopia.links.sweeps import Sweeps
from shoal.overlays.octopia.messages import EntryLeft
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.places.roster import Roster
from shoal.overlays.tree.messages import AdvertisementsSaid


class Ties:
    """The ties of a broker of `roster`'s product.

    `linked` are all neighbours, `given` those that the driver links by itself. `announce_parent`
    announces this broker's parent to the cluster; with `has_linked_up` that is done. `catch_up`
    sends a broker the tables that it missed while another was the parent, or only the own table. A
    link that another end needs (`is_needed`) is not ended. `is_doubtful` tests whether, at a time,
    publications to a cluster's former entry may still be returned. Without `keeps_order` any broker
    in use may be left at once.
    """

    def __init__(
        self,
        broker: BrokerId,
        roster: Roster,
        product: Product,
        tables: Tables,
        hosted: Hosted,
        sweeps: Sweeps,
        relinking: OctopiaRelinking,
        linked: Collection[BrokerId],
        given: list[BrokerId],
        retry_us: int,
        announce_parent: Callable[[list[Effect]], None],
        catch_up: Callable[[BrokerId, bool, list[Effect]], None],
        is_needed: Callable[[BrokerId], bool],
        is_doubtful: Callable[[int, int], bool],
        *,
        keeps_order: bool,
        has_linked_up: bool,
    ) -> None:
        self._broker = broker
        self._roster = roster
        self._product = product
        self._region, self._cluster = product.position(broker)
        self._tables = tables
        self._hosted = hosted
        self._sweeps = sweeps
        self._relinking = relinking
        self._linked = linked
        self._announce_parent = announce_parent
        self._catch_up = catch_up
        self._is_doubtful = is_doubtful
        self._keeps_order = keeps_order
        # Whether others know its parent: they do for founders.
        self._has_linked_up = has_linked_up
        self.up = Attachment(())
        # The successor of this broker's parent.
        self._successor: BrokerId | None = None
        # Those that others do without in the tree.
        self._done_without: set[BrokerId] = set()
        self.entries: dict[int, Attachment] = {}
        self._cluster_of: dict[Attachment, int] = {}
        # Brokers that have this broker's advertisements.
        self.advertised_to: set[BrokerId] = set()
        # Those of them that have yet to send all bits.
        self._unanswered: set[BrokerId] = set()
        self.attachments = Attachments(
            [], given, retry_us, self._await, self._switch, is_needed, self._may_leave
        )
        self.choose_candidates([])

    def begin_linked(self, neighbours: Iterable[BrokerId]) -> None:
        """These were linked from the beginning, so there is nothing to send."""
        for neighbour in neighbours:
            self.attachments.linked(neighbour)
        for purpose in self.attachments.purposes:
            if purpose.candidates[0] in self._linked:
                purpose.current = purpose.candidates[0]
                self.attachments.ready(purpose, purpose.current)
        for cluster, purpose in self.entries.items():
            if purpose.current is not None:
                self.advertised_to.add(purpose.current)
                self._hosted.enter(cluster, purpose.current)

    # --- candidates ---------------------------------------------------------------------------

    def choose_candidates(self, out: list[Effect]) -> None:
        """Brokers have joined or left: update the candidates of each purpose."""
        product, going = self._product, self._roster.is_going
        above = self._brokers(product.above(self._region, self._cluster), self._cluster)
        found = [each for each in above if each not in self._done_without]
        # A leaving broker announces itself when no broker depends on it.
        now = self.up.current
        found.sort(key=lambda each: (each != self._successor, each != now and going(each)))
        self.up.choose_from(found)
        for cluster in range(product.clusters):
            entries = self._brokers(product.entries(self._region, cluster), cluster)
            if cluster == self._cluster:
                continue
            if not all(map(going, entries)):
                if cluster not in self.entries:
                    self.entries[cluster] = purpose = Attachment(())
                    self._cluster_of[purpose] = cluster
                    self._hosted.add_cluster(cluster)
                self.entries[cluster].choose_from(sorted(entries, key=going))
            elif cluster in self.entries:
                purpose = self.entries.pop(cluster)
                for each in entries:  # one that stays after all is announced anew
                    self._withdraw(purpose, each, out)
                self._hosted.remove_cluster(cluster)
                if purpose.current is not None:
                    self._leave_entry(purpose.current, out)
        purposes = [self.up, *self.entries.values()]
        self.attachments.purposes = [each for each in purposes if each.candidates]

    def _brokers(self, regions: Iterable[int], cluster: int) -> list[BrokerId]:
        return [self._product.broker(region, cluster) for region in regions]

    def do_with(self, broker: BrokerId) -> None:
        """A broker does not go, or is there again."""
        self._done_without.discard(broker)

    def do_without(
        self,
        leaving_broker: BrokerId,
        successor: BrokerId,
        others: Iterable[BrokerId],
        out: list[Effect],
    ) -> None:
        """The successor leads to the others from now on, in the place of the leaving broker."""
        product, tables = self._product, self._tables
        gone = product.position(leaving_broker).region
        self._done_without.add(leaving_broker)
        if successor == self._broker:
            for region in [product.position(each).region for each in others]:
                if tables.homes[region].up == gone:
                    tables.link_up(region, self._region)
        if tables.own.up == gone:
            self._successor = None if successor == self._broker else successor
            self.up.current = self._successor
            up = None if self._successor is None else product.position(successor).region
            tables.link_up(self._region, up)
            self._announce_parent(out)
        self.choose_candidates(out)
        if self._successor is not None:
            self.attachments.ready(self.up, self._successor)

    # --- brokers in use -----------------------------------------------------------------------

    @property
    def preferred(self) -> list[BrokerId]:
        """Those that it links to first for its purposes."""
        return [each.candidates[0] for each in self.attachments.purposes]

    @property
    def tree_neighbours(self) -> list[BrokerId]:
        """Those it leads to in its cluster, the one that it links up to first."""
        below = [each for each, home in self._tables.homes.items() if home.up == self._region]
        there = [each for each in self._product.regions_of(self._cluster) if each in below]
        found = [each for each in self._brokers(there, self._cluster) if each in self._linked]
        return found if self.up.current is None else [self.up.current, *found]

    def entry_of(self, cluster: int) -> BrokerId | None:
        """The entry broker of a cluster; None while it changes."""
        if cluster in self._sweeps or cluster not in self.entries:
            return None
        return self.entries[cluster].current

    @property
    def entered_by(self) -> dict[int, BrokerId | None]:
        """The entry broker of each cluster, or the last one while it changes."""
        return {cluster: purpose.current for cluster, purpose in self.entries.items()}

    def former_of(self, cluster: int) -> BrokerId | None:
        """The former entry broker, until all publications by it have arrived."""
        return self._sweeps.former(cluster)

    def settle(self, now_us: int, out: list[Effect], *, is_ending: bool) -> bool:
        """After any change, use the best candidates.

        Returns whether kept publications may have a path.
        """
        arrived = self._sweeps.forward_waiting(out)
        self._relinking.begin_round()
        if not is_ending:
            self.attachments.settle(now_us, out)
        has_way = self._relinking.end_round(now_us, out)
        for broker in sorted(self.advertised_to):
            self._withdraw_if_worse(broker, out)
        for before in arrived:
            if self._product.position(before).cluster != self._cluster:
                self._leave_entry(before, out)
        if not self.up.candidates and self._tables.own.up is not None:
            self._tables.link_up(self._region, None)
            self._announce_parent(out)
        return bool(arrived) or has_way

    def _await(self, purpose: Attachment, broker: BrokerId, out: list[Effect]) -> None:
        """A broker's announcements are needed: the bits of this broker's advertisements."""
        if purpose is self.up or broker in self.advertised_to:
            return
        if broker in self._unanswered:
            # It gets no advertisements any more: its late answer precedes another.
            return
        self._unanswered.add(broker)
        self.advertised_to.add(broker)
        self._hosted.begins(broker)
        rows = self._hosted.rows.values()
        out += [Send(broker, Advertise(row.advertisement)) for row in rows]
        out.append(Send(broker, AdvertisementsSaid()))

    def on_complete(self, broker: BrokerId) -> Attachment | None:
        """A broker has sent all its announcements; returns their purpose, if there is one."""
        self._unanswered.discard(broker)
        cluster = self._product.position(broker).cluster
        return self.up if cluster == self._cluster else self.entries.get(cluster)

    def unlinked(self, broker: BrokerId) -> None:
        """A broker has restarted, or is lost."""
        self.advertised_to.discard(broker)
        self._unanswered.discard(broker)

    def _switch(self, purpose: Attachment, before: BrokerId | None, out: list[Effect]) -> None:
        """Another broker is used for a purpose, or none."""
        if purpose is self.up:
            if purpose.current is not None:
                self._link_up(purpose.current, before, out)
            return
        cluster = self._cluster_of[purpose]
        self._hosted.enter(cluster, purpose.current)
        if before is None or before not in self._linked:
            return
        self._withdraw(purpose, before, out)
        if self._keeps_order:
            self._sweeps.begin(cluster, before, out)
        else:
            self._leave_entry(before, out)

    def _may_leave(self, purpose: Attachment, now_us: int, out: list[Effect]) -> bool:
        """Not a new entry broker: publications returned for it may not be complete yet."""
        if purpose is not self.up:
            return not self._is_doubtful(self._cluster_of[purpose], now_us)
        assert purpose.current is not None
        return not self._keeps_order or self._relinking.may_relink(purpose.current, out)

    def _withdraw(self, purpose: Attachment, broker: BrokerId, out: list[Effect]) -> None:
        """Send a broker no advertisements any more."""
        if broker in self.advertised_to:
            self.advertised_to.discard(broker)
            self.attachments.forgotten(purpose, broker)
            self._hosted.forget(broker)
            out += [Send(broker, Unadvertise(id)) for id in self._hosted.rows]

    def _withdraw_if_worse(self, broker: BrokerId, out: list[Effect]) -> None:
        """Withdraw from a candidate that was not ready before a better one."""
        purpose = self.entries.get(self._product.position(broker).cluster)
        if purpose is not None and is_worse(broker, purpose):
            self._withdraw(purpose, broker, out)
            self._leave_entry(broker, out)

    def _leave_entry(self, before: BrokerId, out: list[Effect]) -> None:
        """A cluster's former entry broker is released."""
        used = [purpose.current for purpose in self.entries.values()]
        if before in self._linked and before not in used:
            out.append(Send(before, EntryLeft()))

    def _link_up(self, broker: BrokerId, before: BrokerId | None, out: list[Effect]) -> None:
        """Announce the new parent, to that parent.

        The former one learns it from there, behind the publications in transit from there.
        """
        is_there = before is not None and self.attachments.is_ready(self.up, before)
        is_orderly = is_there and self._keeps_order
        # All else comes to it over the tree, behind publications.
        self._catch_up(broker, is_orderly, out)
        up = self._product.position(broker).region
        if self._tables.own.up != up or not self._has_linked_up:
            is_lost = self._has_linked_up and self._tables.own.up is not None and not is_there
            self._has_linked_up = True
            self._tables.link_up(self._region, up)
            self._announce_parent(out)
            if is_lost and self._keeps_order:
                self._relinking.linked_up(broker, out)
        if before is not None and is_orderly:
            self._relinking.relinked(before, broker, self._tables.own.version)
