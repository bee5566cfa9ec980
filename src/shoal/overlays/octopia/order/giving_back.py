"""Return of carried publications that would overtake others to their host.

A sequencer that has lost the link to a host returns the publications that came by carriers; a
carrier without a link to the sequencer returns those that it was to carry. The host sends all of
them to the cluster's present entry. A dead host's publishers send again all that is not
acknowledged: then carried publications are dropped, and so are returned ones of a host that was
killed meanwhile. A host that is linked again and has yet to complete its announcements is waited
for: only it knows the publications of its present incarnation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby

import msgspec

from shoal.broker.effects import Continue, Effect, Key, Send, Settled, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId, ClientId
from shoal.overlays.octopia.messages import Notification
from shoal.overlays.octopia.order.lines import LineEntry
from shoal.overlays.octopia.order.ordering import shifts_of
from shoal.overlays.octopia.ways.keeping import again

# The most former publishers whose publications of this incarnation are still known.
MOST_LEFT = 50_000
# The hops of a carried publication that its sequencer returns to its carrier.
THERE_AND_BACK = 3


class GivingBack:
    """At `broker` of a cluster; `near` are the other brokers of its region.

    `entry_of`, `former_of` and `is_usable` are those of `OctopiaRouting`; `is_silent` tests whether
    a broker's link is up and its announcements are incomplete, `is_linked` only the first.
    """

    def __init__(
        self,
        broker: BrokerId,
        cluster: int,
        near: Collection[BrokerId],
        entry_of: Callable[[int], BrokerId | None],
        former_of: Callable[[int], BrokerId | None],
        is_usable: Callable[[BrokerId], bool],
        is_linked: Callable[[BrokerId], bool],
        is_silent: Callable[[BrokerId], bool],
    ) -> None:
        self._broker = broker
        self._cluster = cluster
        self._near = near
        self._entry_of = entry_of
        self._former_of = former_of
        self._is_usable = is_usable
        self._is_linked = is_linked
        self._is_silent = is_silent
        # By publisher, above the numbers of all that it published since this broker started.
        self._unused_numbers: dict[ClientId, int] = {}
        # Those of publishers that have left, in this order; and above all that are forgotten.
        self._left: OrderedDict[ClientId, int] = OrderedDict()
        self._long_left = 0
        # Publications for hosts with incomplete announcements.
        self._waiting: dict[BrokerId, list[tuple[Key, Notification]]] = {}
        self._keys = 0

    def __len__(self) -> int:
        """Number of publications that wait for hosts."""
        return sum(map(len, self._waiting.values()))

    def published(self, publications: Sequence[RoutedPublication]) -> None:
        """A client of this broker has published these, in this order."""
        if publications:
            _, client, number = publications[-1].message_id
            self._unused_numbers[client] = number + 1

    def left(self, client: ClientId) -> None:
        """A client of this broker has left; its publications may be returned yet.

        A forgotten one is sent again rather than lost: a new client has numbers above all former
        ones.
        """
        number = self._unused_numbers.pop(client, None)
        if number is None:
            return
        self._left[client] = number
        self._left.move_to_end(client)
        if len(self._left) > MOST_LEFT:
            self._long_left = max(self._long_left, self._left.popitem(last=False)[1])

    def _unused_number(self, client: ClientId) -> int:
        number = self._unused_numbers.get(client)
        return self._left.get(client, self._long_left) if number is None else number

    def of_this_life(self, message: Notification) -> Notification:
        """The message without returned publications of this broker's earlier incarnation.

        A link batches publications of one path, whatever hosts they are of.
        """
        if all(each.message_id.broker != self._broker for each in message.publications):
            return message
        found = tuple(
            each
            for each in message.publications
            if each.message_id.broker != self._broker
            or each.message_id.number < self._unused_number(each.message_id.publisher)
            or not each.publication.assured
        )
        return msgspec.structs.replace(message, publications=found)

    def from_sequencer(self, entry: LineEntry, out: list[Effect]) -> bool:
        """Return a carried publication to its host, by a carrier, if the link to the host is lost.

        It owes this cluster, by which the receiver sees that it is being returned.
        """
        host, _, number = entry.routed.message_id
        others = [each for each in self._near if each != host and self._is_usable(each)]
        if host not in self._near or self._is_usable(host) or not others:
            return False
        shifts = {} if entry.number is None else {self._cluster: entry.number - number}
        routed, owed = again(entry.routed), 1 << self._cluster
        # No other broker than its carrier may take it for one that it carried.
        by, hops = (entry.source, 1) if entry.source in others else (min(others), 2)
        out.append(Send(by, Notification((routed,), entry.hops + hops, owed, (), shifts)))
        return True

    def pass_back(self, message: Notification, out: list[Effect]) -> tuple[RoutedPublication, ...]:
        """A sequencer has lost the links to hosts: return each one's publications, once it is
        ready.

        Returns the rest, which enters at the sequencer without a wait.
        """
        left: list[RoutedPublication] = []
        for host, run in groupby(message.publications, lambda each: each.message_id.broker):
            its = msgspec.structs.replace(message, publications=tuple(run))
            if self._is_usable(host):
                self._hand_back(host, its, out)
            elif self._is_silent(host):
                self._keys += 1
                key = ("back", str(self._keys))
                out.append(Unsettled(key))
                self._waiting.setdefault(host, []).append((key, its))
            else:
                left += its.publications if self._is_linked(host) else self.without_host(its)
        return tuple(left)

    def without_host(self, message: Notification) -> tuple[RoutedPublication, ...]:
        """The publications that may enter at the sequencer without a link to their host."""
        if message.hops == THERE_AND_BACK:
            return tuple(each for each in message.publications if not each.publication.assured)
        return message.publications

    def spoken(self, host: BrokerId, out: list[Effect]) -> None:
        """A host has completed its announcements."""
        for key, message in self.waiting_for(host):
            out.append(Continue(key))
            self._hand_back(host, message, out)
            out += [Settled(key), Continue(None)]

    def waits_for(self, host: BrokerId) -> bool:
        """Whether anything waits for a host."""
        return bool(self._waiting.get(host))

    def waiting_for(self, host: BrokerId) -> list[tuple[Key, Notification]]:
        """Take the publications that waited for a host."""
        return self._waiting.pop(host, [])

    @staticmethod
    def _hand_back(host: BrokerId, message: Notification, out: list[Effect]) -> None:
        hops, owed = message.hops + 1, message.owed
        out.append(Send(host, Notification(message.publications, hops, owed, (), message.shifts)))

    def from_carrier(
        self,
        publications: tuple[RoutedPublication, ...],
        hops: int,
        owed: int,
        shifts: Mapping[int, int],
        out: list[Effect],
    ) -> int:
        """Return publications that were to be carried to sequencers without a link; the bits left.

        If they entered a cluster elsewhere they would overtake, and the sequencer would wait in
        vain.
        """
        host = publications[0].message_id.broker
        if host not in self._near or not self._is_usable(host):
            return owed
        bits = 0
        for cluster in shifts:
            entry = self._entry_of(cluster) or self._former_of(cluster)
            if entry is None or entry not in self._near or not self._is_usable(entry):
                bits |= owed & 1 << cluster
        if bits:
            its = shifts_of(bits, shifts)
            out.append(Send(host, Notification(publications, hops + 1, bits, (), its)))
        return owed & ~bits
