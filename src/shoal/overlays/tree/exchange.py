"""How brokers of a tree tell each other their tables over a link that has come up.

Each end says its advertisements from elsewhere, and that these are all.  Subscriptions follow the
advertisements of the other end, and then that these are all.  Then publications may come: a
broker that has started again and knows nothing yet would forward them to nobody.

A broker that has just started waits for its neighbours: it has said all its advertisements to one
when all others have said theirs, and all its subscriptions likewise.  Words go round a tree and
come back from its leaves, so nobody waits in a circle.  Who does not come is not waited for any
longer: after `WAIT_US`, or if it was a neighbour before, when it would be given up had it gone
away just now.  Who has come is waited for while its link lasts: it may be waiting itself.

What a neighbour said before it came back, knowing nothing, is *stale*: it stays as it is until the
neighbour has said all, and goes then, unless it was said again.

| input | does |
| --- | --- |
| link up | advertisements; owes "all said" |
| the neighbour's advertisements are all said | stale ones go; owes "all said" for subscriptions |
| its subscriptions are all said | stale ones go; publications may come to it |
| all that is waited for is said, or it was waited for long enough | says what it owes; is ready |

The idea, stale routes and a marker behind all that is said, is that of BGP's graceful restart.
Source: RFC 4724.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shoal.broker.effects import CancelTimer, Effect, LinkReady, Send, SetTimer, Started, TimerKey
from shoal.model import AdvertisementId, BrokerId, SubscriptionId
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid

# For those that nobody has seen yet: all brokers of a network start within a few seconds.
WAIT_US = 10_000_000
TIMER: TimerKey = ("exchange",)


class Exchange:
    """What one broker has said and heard; `expected` are the neighbours that it waits for."""

    def __init__(self, expected: Iterable[BrokerId]) -> None:
        self._unheard_advertisements = dict.fromkeys(expected)
        self._unheard_subscriptions = dict.fromkeys(self._unheard_advertisements)
        # Who has come, and who was there before, until they are given up.
        self._linked: set[BrokerId] = set()
        # Whose links have come up, and nobody knows yet whether they stay neighbours.
        self._unmet: set[BrokerId] = set()
        self._former: tuple[BrokerId, ...] = ()
        self._give_up_at_us = 0
        self._owes_advertisements: dict[BrokerId, None] = {}
        self._owes_subscriptions: dict[BrokerId, None] = {}
        self._stale_advertisements: dict[BrokerId, dict[AdvertisementId, None]] = {}
        self._stale_subscriptions: dict[BrokerId, dict[SubscriptionId, None]] = {}

    @property
    def is_ready(self) -> bool:
        """Whether all who were waited for have said their tables."""
        return not self._unheard_subscriptions

    @property
    def awaited(self) -> Collection[BrokerId]:
        """Who of them has not."""
        return list(self._unheard_subscriptions)

    def is_settled(self, neighbour: BrokerId) -> bool:
        """Whether this broker and the neighbour have said each other all."""
        return not any(
            neighbour in unsaid
            for unsaid in (
                self._unheard_subscriptions,
                self._owes_advertisements,
                self._owes_subscriptions,
                self._stale_advertisements,
                self._stale_subscriptions,
            )
        )

    def start(self, started: Started, now_us: int, out: list[Effect]) -> None:
        """The broker starts."""
        self._former = started.former
        self._give_up_at_us = now_us + started.give_up_us
        if not self.is_ready:
            out.append(SetTimer(TIMER, now_us + min(WAIT_US, started.give_up_us)))

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """Who has not come is not waited for any longer, unless it was there before."""
        is_over = now_us >= self._give_up_at_us
        for neighbour in self._unheard_subscriptions.keys() - self._linked:
            if is_over or neighbour not in self._former:
                self._pass_over(neighbour)
        if not is_over and not self._unheard_subscriptions.keys() <= self._linked:
            out.append(SetTimer(TIMER, self._give_up_at_us))
        self.say(out)

    def expect(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        """This is a neighbour, too: wait for it as for one that was there before."""
        if neighbour in self._linked:
            return
        self._unheard_advertisements[neighbour] = None
        self._unheard_subscriptions[neighbour] = None
        self._former = (*self._former, neighbour)
        out.append(SetTimer(TIMER, min(now_us + WAIT_US, self._give_up_at_us)))

    def _pass_over(self, neighbour: BrokerId) -> None:
        self._unheard_advertisements.pop(neighbour, None)
        self._unheard_subscriptions.pop(neighbour, None)

    def began_anew(self, neighbour: BrokerId) -> None:
        """The neighbour has forgotten all: nothing is owed to it before it is linked again."""
        self._unmet.add(neighbour)
        self._owes_advertisements.pop(neighbour, None)
        self._owes_subscriptions.pop(neighbour, None)

    def meets(self, neighbour: BrokerId) -> bool:
        """It is known now; whether what it was told since its link came up was not for good."""
        is_unmet = neighbour in self._unmet
        self._unmet.discard(neighbour)
        return is_unmet

    def dismiss(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """A broker that was expected is no neighbour any more."""
        self._pass_over(neighbour)
        self.say(out)

    def linked(
        self,
        neighbour: BrokerId,
        advertisements: Iterable[AdvertisementId],
        subscriptions: Iterable[SubscriptionId],
        out: list[Effect],
    ) -> None:
        """The neighbour was told the advertisements; these of its rows are stale."""
        self._linked.add(neighbour)
        self._stale_advertisements[neighbour] = dict.fromkeys(advertisements)
        self._stale_subscriptions[neighbour] = dict.fromkeys(subscriptions)
        self._owes_advertisements[neighbour] = None
        self._owes_subscriptions.pop(neighbour, None)
        self.say(out)

    def unlinked(self, neighbour: BrokerId) -> None:
        """The neighbour is gone, or new, and none of its rows are left."""
        self._unmet.discard(neighbour)
        if neighbour in self._linked:
            self._linked.discard(neighbour)
            self._pass_over(neighbour)
        self._stale_advertisements.pop(neighbour, None)
        self._stale_subscriptions.pop(neighbour, None)
        self._owes_advertisements.pop(neighbour, None)
        self._owes_subscriptions.pop(neighbour, None)

    def replaced(self, old: BrokerId | None, new: Iterable[BrokerId]) -> None:
        """These neighbours, which know all, have taken the place of one, if any."""
        if old is not None:
            self.unlinked(old)
        for each in new:
            self._linked.add(each)
            self._unmet.discard(each)

    def is_telling(self, neighbour: BrokerId) -> bool:
        """Whether the neighbour has yet to say that these are all its advertisements."""
        return neighbour in self._stale_advertisements

    def is_telling_subscriptions(self, neighbour: BrokerId) -> bool:
        """Whether the neighbour has yet to say that these are all its subscriptions."""
        return neighbour in self._stale_subscriptions

    def heard_advertisement(self, neighbour: BrokerId, id: AdvertisementId) -> bool:
        """The neighbour said this one; whether it was stale."""
        stale = self._stale_advertisements.get(neighbour, {})
        if id not in stale:
            return False
        del stale[id]
        return True

    def heard_subscription(self, neighbour: BrokerId, id: SubscriptionId) -> None:
        """The neighbour said this one."""
        self._stale_subscriptions.get(neighbour, {}).pop(id, None)

    def all_advertised(self, neighbour: BrokerId) -> Iterable[AdvertisementId]:
        """The neighbour has said all its advertisements; those that are gone."""
        self._unheard_advertisements.pop(neighbour, None)
        self._owes_subscriptions[neighbour] = None
        return self._stale_advertisements.pop(neighbour, ())

    def all_subscribed(self, neighbour: BrokerId, out: list[Effect]) -> Iterable[SubscriptionId]:
        """The neighbour has said all its subscriptions; those that are gone."""
        out.append(LinkReady(neighbour))
        if neighbour in self._unheard_subscriptions:
            del self._unheard_subscriptions[neighbour]
            if self.is_ready:
                out.append(CancelTimer(TIMER))
        return self._stale_subscriptions.pop(neighbour, ())

    def say(self, out: list[Effect]) -> None:
        """Say what is owed and can be said now."""
        for neighbour in list(self._owes_advertisements):
            if self._unheard_advertisements.keys() <= {neighbour}:
                del self._owes_advertisements[neighbour]
                out.append(Send(neighbour, AdvertisementsSaid()))
        for neighbour in list(self._owes_subscriptions):
            if self._unheard_subscriptions.keys() <= {neighbour}:
                del self._owes_subscriptions[neighbour]
                out.append(Send(neighbour, SubscriptionsSaid()))
