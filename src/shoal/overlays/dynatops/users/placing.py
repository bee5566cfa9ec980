"""At which broker each user should be, decided by the one where it is whenever it wants else.

Brokers of a cluster tell each other which topics their users want, and how much they have to do.
What a user alone wants does not hold it at its broker: else it would be similar to none but that.
A user that was sent away is not looked at until it has gone.

Source: DYNATOPS, section 4, Algorithm 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from shoal.broker.effects import Effect, MoveClient, Record, SetTimer
from shoal.model import BrokerId, ClientId, Filter
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.messages import Summary
from shoal.overlays.dynatops.parameters import Parameters
from shoal.overlays.dynatops.planning.placement import Served, best_broker
from shoal.overlays.dynatops.records import PlacementRecord
from shoal.overlays.dynatops.topics.keys import keys_of

PLACE = ("users", "place")
SAY = ("users", "say")
# What a user asks together, as it connects, is looked at together.
PLACE_US = 1_000_000


class Placing:
    """At one broker; `send` says something to another member."""

    def __init__(
        self,
        membership: Membership,
        parameters: Parameters,
        send: Callable[[BrokerId, Summary, list[Effect]], None],
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._parameters = parameters
        self._send = send
        # Of each user here: how many of its subscriptions name a topic; of each topic, how many
        # users want it here and are to stay.
        self._wanted: dict[ClientId, Counter[str]] = {}
        self._subscriptions: Counter[ClientId] = Counter()
        self._users: Counter[str] = Counter()
        self._others: dict[BrokerId, Served] = {}
        self._changed: dict[ClientId, None] = {}
        self._sent_away: set[ClientId] = set()
        self._is_said = True

    # --- what users want ----------------------------------------------------------------------

    def add(self, client: ClientId, filter: Filter, now_us: int, out: list[Effect]) -> None:
        self._subscriptions[client] += 1
        wanted = self._wanted.setdefault(client, Counter())
        for topic in self._topics(filter):
            if not wanted[topic] and client not in self._sent_away:
                self._users[topic] += 1
            wanted[topic] += 1
        self._look_later(client, now_us, out)

    def remove(self, client: ClientId, filter: Filter, now_us: int, out: list[Effect]) -> None:
        wanted = self._wanted[client]
        for topic in self._topics(filter):
            wanted[topic] -= 1
            if not wanted[topic]:
                del wanted[topic]
                self._count_out(client, [topic])
        self._look_later(client, now_us, out)
        self._subscriptions[client] -= 1
        if not self._subscriptions[client]:
            del self._subscriptions[client], self._wanted[client]
            self._sent_away.discard(client)

    def _count_out(self, client: ClientId, topics: Iterable[str]) -> None:
        """A user wants these no more here; of one that was sent away nothing counts."""
        for topic in topics if client not in self._sent_away else ():
            self._users[topic] -= 1
            if not self._users[topic]:
                del self._users[topic]

    def _topics(self, filter: Filter) -> Iterable[str]:
        """Who wants any topic is similar to nobody."""
        return keys_of(filter, self._parameters.topic, self._parameters.keys) or ()

    def _look_later(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        if not self._changed:
            out.append(SetTimer(PLACE, now_us + PLACE_US))
        self._changed[client] = None
        if self._is_said:
            self._is_said = False
            out.append(SetTimer(SAY, now_us + self._parameters.update_us))

    # --- the cluster --------------------------------------------------------------------------

    @property
    def _cluster(self) -> list[BrokerId]:
        """The others of this broker's cluster: so many by name, one after the other."""
        view, size = self._membership.view, self._parameters.cluster
        if view is None or self._broker not in view.members:
            return []
        names = sorted(view.members)
        first = names.index(self._broker) // size * size
        return [each for each in names[first : first + size] if each != self._broker]

    @property
    def _own(self) -> Served:
        return Served(frozenset(self._users), self._users.total())

    def timer(self, name: str, now_us: int, out: list[Effect]) -> None:
        if name == "place":
            changed, self._changed = self._changed, {}
            for client in changed:
                self._place(client, now_us, out)
        else:
            self._is_said = True
            self._say(self._cluster, out)

    def _say(self, to: Iterable[BrokerId], out: list[Effect]) -> None:
        view, own = self._membership.view, self._own
        if view is not None:
            topics = tuple(sorted(self._users))
            for other in to:
                said = Summary(view.age, self._broker, other, topics, own.subscriptions)
                self._send(other, said, out)

    def hear(self, message: Summary) -> None:
        """What another broker's users want."""
        self._others[message.broker] = Served(frozenset(message.topics), message.subscriptions)

    # --- where a user should be ---------------------------------------------------------------

    def _place(self, client: ClientId, now_us: int, out: list[Effect]) -> None:
        topics = self._wanted.get(client)
        if not topics or client in self._sent_away:
            return
        visible = self._visible(topics)
        least = self._parameters.least_gain_percent / 100
        weight = self._parameters.load_weight
        best = best_broker(topics.keys(), visible, weight, self._broker, least)
        if best != self._broker:
            self._count_out(client, topics)
            self._sent_away.add(client)
            self._say([best], out)  # so that it is not sent back to what it was alone
            # Until it says so itself: the next ones shall not all go there, too.
            known = self._others[best]
            self._others[best] = Served(
                known.topics | topics.keys(), known.subscriptions + len(topics)
            )
            row = PlacementRecord(broker=self._broker, at_us=now_us, client=client, target=best)
            out += [Record(row), MoveClient(client, best)]

    def _visible(self, topics: Mapping[str, int]) -> dict[BrokerId, Served]:
        """The brokers of the cluster, this one without what the user alone wants here."""
        own = self._own
        others = frozenset(
            topic for topic, users in self._users.items() if users > (topic in topics)
        )
        found = {self._broker: Served(others, own.subscriptions - len(topics))}
        there = self._others
        found.update((each, there[each]) for each in self._cluster if each in there)
        return found
