"""What went round for a host, and must not enter a cluster before what did not, goes back to it.

A gate that has lost the link to a host gives back what came by others; a carrier to whose gate no
link leads any more, what it was to carry.  The host sends all of it where the cluster is entered
now.  A host that is lost has it back by itself or, if it has died, its publishers send again all
that is not acknowledged: then what was carried is dropped, and so is what comes back to a host that
was killed meanwhile.  One that is linked again and has yet to speak is waited for: only it knows
what it has published in this life.
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
from shoal.overlays.octopia.order.lines import Entry
from shoal.overlays.octopia.order.ordering import shifts_of
from shoal.overlays.octopia.ways.keeping import again

# Of so many publishers that have left it is known which of their publications are of this life.
MOST_LEFT = 50_000
# The hops of what was carried by one broker when its gate gives it back to that one.
THERE_AND_BACK = 3


class GivingBack:
    """At `broker` of a cluster; `near` are the other brokers of its region.

    `entry_of`, `former_of` and `is_usable` are as `Routing` has them; `is_silent` says of a broker
    that its link is up and that it has yet to say what must be known, `is_linked` only the first.
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
        # What goes back to hosts that have yet to speak.
        self._waiting: dict[BrokerId, list[tuple[Key, Notification]]] = {}
        self._keys = 0

    def __len__(self) -> int:
        """How much waits for hosts."""
        return sum(map(len, self._waiting.values()))

    def published(self, publications: Sequence[RoutedPublication]) -> None:
        """A client of this broker has published these, in this order."""
        if publications:
            _, client, number = publications[-1].message_id
            self._unused_numbers[client] = number + 1

    def left(self, client: ClientId) -> None:
        """A client of this broker has left; what it has published may come back yet.

        What is forgotten is sent again rather than lost: who comes has numbers above all who left.
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
        """Without what comes back that was published here before this broker was killed.

        A link joins what goes the same way, whatever hosts it is of.
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

    def from_gate(self, entry: Entry, out: list[Effect]) -> bool:
        """Give what came by others back to its host, by one of them, if the link to it is lost.

        That it owes this cluster says to whom it is given that it is on its way back.
        """
        host, _, number = entry.routed.message_id
        others = [each for each in self._near if each != host and self._is_usable(each)]
        if host not in self._near or self._is_usable(host) or not others:
            return False
        shifts = {} if entry.number is None else {self._cluster: entry.number - number}
        routed, owed = again(entry.routed), 1 << self._cluster
        # Nobody but who carried it may take it for what it carried.
        by, hops = (entry.source, 1) if entry.source in others else (min(others), 2)
        out.append(Send(by, Notification((routed,), entry.hops + hops, owed, (), shifts)))
        return True

    def pass_back(self, message: Notification, out: list[Effect]) -> tuple[RoutedPublication, ...]:
        """A gate has lost the links to hosts: each gets back what it sent, once it has spoken.

        What is left to enter at the gate, which need not wait for the rest.
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
        """What is left to enter at the gate where the link to the host is lost."""
        if message.hops == THERE_AND_BACK:
            return tuple(each for each in message.publications if not each.publication.assured)
        return message.publications

    def spoken(self, host: BrokerId, out: list[Effect]) -> None:
        """A host has said what must be known of it."""
        for key, message in self.waiting_for(host):
            out.append(Continue(key))
            self._hand_back(host, message, out)
            out += [Settled(key), Continue(None)]

    def waits_for(self, host: BrokerId) -> bool:
        """Whether anything waits for a host."""
        return bool(self._waiting.get(host))

    def waiting_for(self, host: BrokerId) -> list[tuple[Key, Notification]]:
        """What waited for a host; it waits no more."""
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
        """Give back what was to be carried to gates to which no link leads any more.

        Entering a cluster elsewhere it would overtake, and the gate wait in vain.  The bits left.
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
