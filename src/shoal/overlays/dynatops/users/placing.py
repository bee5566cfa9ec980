"""Placement of each user, decided by its present broker whenever its topics change.

Brokers of a cluster send each other their users' topics and their loads. Topics that a user alone
wants do not count at its broker: otherwise it would be similar to no other. A user that was sent
away is neither considered nor counted until it has gone, or is reported to stay. A user that does
not follow counts, and stays.

Users are the broker's clients; for a client that is a front end, the users are those that it
reports.

A user that comes before the others of the cluster are known waits for that. Then the users of one
broker after the other are considered: at the same time, two with the same topics would change
places.

Users placed by hash go to the broker of their name's hash, whatever their topics; brokers then need
no summaries of each other, and consider all users again when brokers join or leave.

Source: DYNATOPS, section 4, Algorithm 1; consistent hashing of users is ours.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from shoal.broker.effects import Effect, MoveClient, Notify, Record, SetTimer
from shoal.broker.messages import Message
from shoal.broker.strategy import unexpected
from shoal.clients.front_ends import StandsFor, Stayed, Wants, WhoWants, Wish
from shoal.model import BrokerId, ClientId, Subscription, SubscriptionId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import TopicSummary
from shoal.overlays.dynatops.parameters import DynatopsParameters, PlacementParameters
from shoal.overlays.dynatops.planning.placement import HashRing, Served, best_broker
from shoal.overlays.dynatops.records import PlacementRecord
from shoal.overlays.dynatops.topics.keys import keys_of

PLACE = ("users", "place")
SAY = ("users", "say")
# A user's subscriptions within this time, as it connects, are considered together.
PLACE_US = 1_000_000
# Users that are looked at in that time: neither the broker nor those they go to stall.
MOST_PLACED = 100
# Topics of one summary; of more, those that come first.
MOST_TOPICS = 10_000


# A user's front end, empty if it is a client itself; and the user.
_Name = tuple[ClientId, ClientId]


class _User:
    """One user here; `topics` are those it wants, by how many of its subscriptions name each."""

    __slots__ = ("follows", "is_sent_away", "since_us", "subscriptions", "topics")

    def __init__(self, since_us: int = 0) -> None:
        self.topics: Counter[str] = Counter()
        self.subscriptions = 0
        self.since_us = since_us
        self.follows = True
        self.is_sent_away = False


class Placing:
    """Placement at one broker; `send` sends a message to another member."""

    def __init__(
        self,
        membership: ViewMembership,
        parameters: DynatopsParameters,
        send: Callable[[BrokerId, TopicSummary, list[Effect]], None],
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._parameters = parameters
        self._is_hashed = parameters.placement is PlacementParameters.HASH
        # Of the brokers that are there, if users are placed by hash.
        self._ring: HashRing[BrokerId] | None = None
        self._send = send
        self._here: dict[_Name, _User] = {}
        self._front_ends: set[ClientId] = set()
        # Front ends' subscriptions, by which they report their users' topics.
        self._asked: dict[SubscriptionId, frozenset[str]] = {}
        # By topic, number of its users here that have not been sent away.
        self._users: Counter[str] = Counter()
        self._load = 0
        # The last summaries of the cluster's others, and their incarnations.
        self._others: dict[BrokerId, Served] = {}
        self._lives: dict[BrokerId, int | None] = {}
        self._changed: OrderedDict[_Name, None] = OrderedDict()
        self._is_timed = False
        self._is_said = True

    # --- users' topics ------------------------------------------------------------------------

    def add(self, subscription: Subscription, now_us: int, out: list[Effect]) -> None:
        """A client of the broker has subscribed."""
        # A user of any topic is similar to no broker.
        parameters, client = self._parameters, subscription.client
        topics = keys_of(subscription.filter, parameters.topic, parameters.keys) or frozenset()
        self._asked[subscription.id] = topics
        if client not in self._front_ends:
            user = self._here.setdefault(("", client), _User())
            user.subscriptions += 1
            self._change(user, user.topics + Counter(topics))
            self._look_later(("", client), now_us, out)

    def remove(self, subscription: Subscription, now_us: int, out: list[Effect]) -> None:
        """A subscription was removed."""
        topics, client = self._asked.pop(subscription.id), subscription.client
        if client not in self._front_ends:
            user = self._here["", client]
            user.subscriptions -= 1
            self._change(user, user.topics - Counter(topics))
            if not user.subscriptions:
                del self._here["", client]
            self._look_later(("", client), now_us, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        """A front end reports users."""
        match request:
            case StandsFor():
                self._front_ends.add(client)
                itself = self._here.pop(("", client), None)
                if itself is not None:
                    self._change(itself, Counter())
                out.append(Notify(client, WhoWants()))
            case Wants(wishes) if client in self._front_ends:
                for wish in wishes:
                    self._wishes(client, wish, now_us, out)
            case Stayed(name) if client in self._front_ends:
                user = self._here.get((client, name))
                if user is not None:
                    self._count_again(user)
            case _:
                raise unexpected(request, f"client {client}")

    def _wishes(self, front_end: ClientId, wish: Wish, now_us: int, out: list[Effect]) -> None:
        """The topics of a user behind a front end."""
        name = (front_end, wish.client)
        user = self._here.setdefault(name, _User(wish.since_us))
        if user.since_us != wish.since_us:  # it was disconnected, and has come again
            user.since_us = wish.since_us
            self._count_again(user)
        user.follows = wish.follows
        topics = Counter(topic for id in wish.subscriptions for topic in self._asked.get(id, ()))
        self._change(user, topics)
        user.subscriptions = len(wish.subscriptions)
        if not user.subscriptions:
            del self._here[name]
        self._look_later(name, now_us, out)

    def _change(self, user: _User, topics: Counter[str]) -> None:
        """From now on a user wants these."""
        if not user.is_sent_away:
            self._count(user.topics.keys() - topics.keys(), -1)
            self._count(topics.keys() - user.topics.keys(), 1)
        user.topics = topics

    def _send_away(self, user: _User) -> None:
        self._count(user.topics, -1)
        user.is_sent_away = True

    def _count_again(self, user: _User) -> None:
        """A user that was sent away is here, after all."""
        if user.is_sent_away:
            user.is_sent_away = False
            self._count(user.topics, 1)

    def _count(self, topics: Collection[str], users: int) -> None:
        self._load += users * len(topics)
        for topic in topics:
            self._users[topic] += users
            if not self._users[topic]:
                del self._users[topic]

    def _look_later(self, name: _Name, now_us: int, out: list[Effect]) -> None:
        self._changed[name] = None
        self._place_at(now_us + PLACE_US, out)
        self._send_later(now_us, out)

    def _place_at(self, at_us: int, out: list[Effect]) -> None:
        if not self._is_timed:
            self._is_timed = True
            out.append(SetTimer(PLACE, at_us))

    # --- the cluster --------------------------------------------------------------------------

    @property
    def _cluster(self) -> list[BrokerId]:
        """This broker's: so many by name, one after the other."""
        view, size = self._membership.view, self._parameters.cluster
        if view is None or self._broker not in view.members:
            return []
        names = sorted(view.members)
        first = names.index(self._broker) // size * size
        return names[first : first + size]

    def _others_of(self, cluster: Iterable[BrokerId]) -> list[BrokerId]:
        return [each for each in cluster if each != self._broker]

    def began(self, now_us: int, out: list[Effect]) -> None:
        """A view has begun: new members know no summary yet, and messages in transit are lost."""
        view = self._membership.view
        lives = {} if view is None else view.lives
        if self._is_hashed:
            self._hash_again(now_us, out)
            return
        before, self._lives = self._lives, {each: lives.get(each) for each in self._cluster}
        self._others = {
            each: served
            for each, served in self._others.items()
            if each in self._lives and before.get(each) == self._lives[each]
        }
        self._send_later(now_us, out)

    def _hash_again(self, now_us: int, out: list[Effect]) -> None:
        view = self._membership.view
        self._ring = HashRing(view.members) if view and view.members else None
        self._changed.update(dict.fromkeys(self._here))
        if self._changed:
            self._place_at(now_us + PLACE_US, out)

    def timer(self, name: str, now_us: int, out: list[Effect]) -> None:
        if name == "place":
            self._is_timed = False
            if self._is_hashed:
                self._place_hashed(now_us, out)
                return
            cluster = self._cluster
            if cluster and self._others.keys() >= set(self._others_of(cluster)):
                self._place_some(cluster, now_us, out)
        else:
            self._is_said = True
            self._announce(self._others_of(self._cluster), out)

    def _send_later(self, now_us: int, out: list[Effect]) -> None:
        if self._is_said and not self._is_hashed:
            self._is_said = False
            out.append(SetTimer(SAY, now_us + self._parameters.update_us))

    def _announce(self, to: Iterable[BrokerId], out: list[Effect]) -> None:
        view = self._membership.view
        if view is None:
            return
        topics = tuple(sorted(islice(self._users, MOST_TOPICS)))
        for other in to:
            self._send(other, TopicSummary(view.age, self._broker, other, topics, self._load), out)

    def on_summary(self, message: TopicSummary, now_us: int, out: list[Effect]) -> None:
        """The topics of another broker's users."""
        self._others[message.broker] = Served(frozenset(message.topics), message.subscriptions)
        cluster = self._cluster
        if self._changed and self._others.keys() >= set(self._others_of(cluster)):
            turn = 1 + cluster.index(self._broker) if cluster else 1
            self._place_at(now_us + turn * PLACE_US, out)

    # --- where users should be ----------------------------------------------------------------

    def _place_some(self, cluster: list[BrokerId], now_us: int, out: list[Effect]) -> None:
        told: dict[BrokerId, None] = {}
        for name, user in self._next_users():
            if not user.topics:
                continue
            best = self._best(user.topics, cluster)
            if best == self._broker:
                continue
            told[best] = None
            # Until its own summary comes: the next users shall not all go there, too.
            known, topics = self._others[best], user.topics.keys()
            load = known.subscriptions + len(topics)
            self._others[best] = Served(known.topics | topics, load)
            self._move_user(name, user, best, now_us, out)
        self._announce(told, out)  # so that no user is sent back to a broker where it was alone
        if self._changed:
            self._place_at(now_us + PLACE_US, out)

    def _place_hashed(self, now_us: int, out: list[Effect]) -> None:
        """To where their names' hashes are; while this broker stands nowhere they wait."""
        if self._ring is None:
            return
        for name, user in self._next_users():
            best = self._ring.broker_of(name[1])
            if best != self._broker:
                self._move_user(name, user, best, now_us, out)
        if self._changed:
            self._place_at(now_us + PLACE_US, out)

    def _next_users(self) -> Iterator[tuple[_Name, _User]]:
        """Some of those that are to be looked at, and may go."""
        for name in list(islice(self._changed, MOST_PLACED)):
            del self._changed[name]
            user = self._here.get(name)
            if user is not None and user.follows and not user.is_sent_away:
                yield name, user

    def _move_user(
        self, name: _Name, user: _User, target: BrokerId, now_us: int, out: list[Effect]
    ) -> None:
        self._send_away(user)
        client = name[1]
        row = PlacementRecord(broker=self._broker, at_us=now_us, client=client, target=target)
        out += [Record(row), MoveClient(client, target)]

    def _best(self, topics: Mapping[str, int], cluster: Iterable[BrokerId]) -> BrokerId:
        # This broker without the topics that the user alone wants here.
        others = frozenset(topic for topic in topics if self._users[topic] > 1)
        visible = {self._broker: Served(others, self._load - len(topics))}
        visible.update((each, self._others[each]) for each in self._others_of(cluster))
        least = self._parameters.least_gain_percent / 100
        weight = self._parameters.load_weight
        return best_broker(topics.keys(), visible, weight, self._broker, least)
