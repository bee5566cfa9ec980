"""One broker's ties: by whom it links up in its cluster, and by whom it enters each other one.

Who may be used follows from the product and from who goes; who is used, from who is there
(`attachments.py`).  A broker that is to be used for a cluster is told what is advertised here, and
says the bits for it; who is used no more is told so when all that went by it has arrived
(`sweeps.py`).  Who links up to another one sees to it that nothing is overtaken (`relinking.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import Advertise, Unadvertise
from shoal.model import BrokerId
from shoal.overlays.octopia.known.hosted import Hosted
from shoal.overlays.octopia.known.tables import Tables
from shoal.overlays.octopia.links.attachments import Attachment, Attachments, is_worse
from shoal.overlays.octopia.links.relinking import Relinking
from shoal.overlays.octopia.links.sweeps import Sweeps
from shoal.overlays.octopia.messages import EntryLeft
from shoal.overlays.octopia.places.labels import Product
from shoal.overlays.octopia.places.roster import Roster
from shoal.overlays.tree.messages import AdvertisementsSaid


class Ties:
    """The ties of a broker of `roster`'s product.

    `linked` are all neighbours, `given` those that the driver links by itself.  `say_up` tells the
    cluster to whom this one links up; with `has_linked_up` it was told.  `catch_up` tells a broker
    what it was not while another was linked up to, or only the own table.  A link that another end
    needs (`is_needed`) is not ended.  `is_doubtful` says of a cluster, at a time, whether what went
    to who entered it before may still come back.  Without `keeps_order` who is used for anything is
    left at once.
    """

    def __init__(
        self,
        broker: BrokerId,
        roster: Roster,
        product: Product,
        tables: Tables,
        hosted: Hosted,
        sweeps: Sweeps,
        relinking: Relinking,
        linked: Collection[BrokerId],
        given: list[BrokerId],
        retry_us: int,
        say_up: Callable[[list[Effect]], None],
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
        self._say_up = say_up
        self._catch_up = catch_up
        self._is_doubtful = is_doubtful
        self._keeps_order = keeps_order
        # Whether others know to whom it links up: of who was there from the beginning they do.
        self._has_linked_up = has_linked_up
        self.up = Attachment(())
        # Who took the place of the one that this broker linked up to.
        self._centre: BrokerId | None = None
        # Those that others do without in the tree.
        self._done_without: set[BrokerId] = set()
        self.entries: dict[int, Attachment] = {}
        self._cluster_of: dict[Attachment, int] = {}
        # Who knows what is advertised here.
        self.advertised_to: set[BrokerId] = set()
        # Who was asked for the bits of that, and has yet to say all of them.
        self._unanswered: set[BrokerId] = set()
        self.attachments = Attachments(
            [], given, retry_us, self._await, self._switch, is_needed, self._may_leave
        )
        self.choose_candidates([])

    def begin_linked(self, neighbours: Iterable[BrokerId]) -> None:
        """These were there before anything was said, so there is nothing to say."""
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

    # --- who may be used ----------------------------------------------------------------------

    def choose_candidates(self, out: list[Effect]) -> None:
        """Brokers have come or gone: others may be used for each purpose."""
        product, going = self._product, self._roster.is_going
        above = self._brokers(product.above(self._region, self._cluster), self._cluster)
        found = [each for each in above if each not in self._done_without]
        # Who goes says itself when it is done without.
        now = self.up.current
        found.sort(key=lambda each: (each != self._centre, each != now and going(each)))
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
                for each in entries:  # one that stays after all is told anew
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
        self, leaver: BrokerId, centre: BrokerId, others: Iterable[BrokerId], out: list[Effect]
    ) -> None:
        """The centre leads to the others now, in the place of a broker that goes."""
        product, tables = self._product, self._tables
        gone = product.position(leaver).region
        self._done_without.add(leaver)
        if centre == self._broker:
            for region in [product.position(each).region for each in others]:
                if tables.homes[region].up == gone:
                    tables.link_up(region, self._region)
        if tables.own.up == gone:
            self._centre = None if centre == self._broker else centre
            self.up.current = self._centre
            up = None if self._centre is None else product.position(centre).region
            tables.link_up(self._region, up)
            self._say_up(out)
        self.choose_candidates(out)
        if self._centre is not None:
            self.attachments.ready(self.up, self._centre)

    # --- who is used --------------------------------------------------------------------------

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
        """By whom a cluster is entered now; while another takes the place of one: by nobody."""
        if cluster in self._sweeps or cluster not in self.entries:
            return None
        return self.entries[cluster].current

    @property
    def entered_by(self) -> dict[int, BrokerId | None]:
        """By whom each cluster is entered, or was last while that changes."""
        return {cluster: purpose.current for cluster, purpose in self.entries.items()}

    def former_of(self, cluster: int) -> BrokerId | None:
        """By whom it was entered, until all that went there has arrived."""
        return self._sweeps.former(cluster)

    def settle(self, now_us: int, out: list[Effect], *, is_ending: bool) -> bool:
        """After any change, use who should be used; whether what is kept may have a way now."""
        arrived = self._sweeps.go_on(out)
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
            self._say_up(out)
        return bool(arrived) or has_way

    def _await(self, purpose: Attachment, broker: BrokerId, out: list[Effect]) -> None:
        """A broker is to say what must be known of it: the bits of what is advertised here."""
        if purpose is self.up or broker in self.advertised_to:
            return
        if broker in self._unanswered:
            # It is told no more what it was asked about: its late answer comes before another.
            return
        self._unanswered.add(broker)
        self.advertised_to.add(broker)
        self._hosted.begins(broker)
        rows = self._hosted.rows.values()
        out += [Send(broker, Advertise(row.advertisement)) for row in rows]
        out.append(Send(broker, AdvertisementsSaid()))

    def answered(self, broker: BrokerId) -> Attachment | None:
        """A broker has said all that must be known of it; for which purpose, if there is one."""
        self._unanswered.discard(broker)
        cluster = self._product.position(broker).cluster
        return self.up if cluster == self._cluster else self.entries.get(cluster)

    def unlinked(self, broker: BrokerId) -> None:
        """A broker has forgotten what it was told, or is gone."""
        self.advertised_to.discard(broker)
        self._unanswered.discard(broker)

    def _switch(self, purpose: Attachment, before: BrokerId | None, out: list[Effect]) -> None:
        """Another broker is used for a purpose, or nobody."""
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
        """Not who has just become an entry: what came back to be sent there may not be all yet."""
        if purpose is not self.up:
            return not self._is_doubtful(self._cluster_of[purpose], now_us)
        assert purpose.current is not None
        return not self._keeps_order or self._relinking.may_relink(purpose.current, out)

    def _withdraw(self, purpose: Attachment, broker: BrokerId, out: list[Effect]) -> None:
        """Tell a broker no more what is advertised here."""
        if broker in self.advertised_to:
            self.advertised_to.discard(broker)
            self.attachments.forgotten(purpose, broker)
            self._hosted.forget(broker)
            out += [Send(broker, Unadvertise(id)) for id in self._hosted.rows]

    def _withdraw_if_worse(self, broker: BrokerId, out: list[Effect]) -> None:
        """Who was to be used, and was not there before a better one."""
        purpose = self.entries.get(self._product.position(broker).cluster)
        if purpose is not None and is_worse(broker, purpose):
            self._withdraw(purpose, broker, out)
            self._leave_entry(broker, out)

    def _leave_entry(self, before: BrokerId, out: list[Effect]) -> None:
        """A broker by which a cluster was entered is used no more."""
        used = [purpose.current for purpose in self.entries.values()]
        if before in self._linked and before not in used:
            out.append(Send(before, EntryLeft()))

    def _link_up(self, broker: BrokerId, before: BrokerId | None, out: list[Effect]) -> None:
        """Say by whom this broker links up now, to that one.

        Who did so before learns it from there, behind what is on its way from there.
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
            self._say_up(out)
            if is_lost and self._keeps_order:
                self._relinking.linked_up(broker, out)
        if before is not None and is_orderly:
            self._relinking.relinked(before, broker, self._tables.own.version)
