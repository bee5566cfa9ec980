"""Random overlays with cycles in virtual time: settled publications have arrived.

A live network (nodes, links, sessions: all but sockets and the clock) on a `VirtualLoop`. Clients
publish, subscribe and leave, outputs are slow, connections break, cables are cut, brokers hang or
die and return, the whole process stalls. When a publication is settled, every reachable subscriber
must have it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from unittest.mock import patch

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.messages import Advertise, Publish, Subscribe, Unsubscribe
from shoal.language import parse
from shoal.model import EVERYTHING, Advertisement, Attributes, Publication, Subscription
from shoal.mqtt.front_end.deduplication import OrderedDeduplication, taker
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.system import Picture
from shoal.runtime.links import dialling, forwarding_channels
from tests.runtime import live as live_network
from tests.runtime.live import LiveNetwork
from tests.runtime.virtual_loop import Cable, VirtualLoop
from tests.seeds.ack_tracker.ack_tracker_networks import SECOND_US, draw
from tests.seeds.ack_tracker.subscriber import Subscriber

# From a request, or a start, to its effect.
SETTLE_US = 25 * SECOND_US
# A shorter disconnection loses nothing: the link is given up later than that.
LONGEST_CUT_S = 11.0
PATIENCE_S = 240.0
# So slow networks do not work on a backlog for minutes.
MOST_UNSETTLED = 200
TOPICS = ("a", "b", "c")
# All publications take as many bytes on links, as real ones do.
FIRST_INCARNATION = 1_000


class RandomAckTracker:
    """One seed's network; `run` gives the violations."""

    has_journals = False

    def __init__(
        self,
        seed: int,
        system: str,
        *,
        faults: int = 6,
        spreads: bool = False,
        sharp_bits: int = 0,
    ) -> None:
        self.random = random = Random(f"custody/{system}/{seed}")
        self.system = system
        # The wait of a client then; with OctopiA all answers are there by the end of it.
        self.spread_us = 0 if system == "octopia" else 2 * SECOND_US
        self.faults = faults
        self.loop = VirtualLoop(self._cable)
        self.rate = random.choice([20_000.0, 200_000.0, 1e9])
        self.cables: dict[frozenset[str], Cable] = {}
        drawn = draw(system, random, spreads=spreads, sharp_bits=sharp_bits)
        names, self.links, self.parameters, self.most_away, give_up_us = drawn
        self.looks_at_topics = drawn.looks_at_topics
        self.names = names
        self.limits = LinkLimits(
            window_bytes=random.choice([2_000, 4 * 2**20]), give_up_us=give_up_us
        )
        self.subscribers: list[Subscriber] = []
        self.publishers: dict[str, str] = {}
        # The times from which their brokers have handled their advertisements.
        self.advertised_us: dict[str, int] = {}
        # The intervals in which a broker was dead.
        self.deaths: list[tuple[int, int | None]] = []
        self.away: set[frozenset[str]] = set()
        self.problems: list[str] = []
        # The log of events, for diagnosis.
        self.happened: list[str] = []
        self.unsettled: dict[tuple[str, int], Publication] = {}
        self.settled = 0
        self.count = 0

    def _cable(self, left: str, right: str) -> Cable:
        ends = frozenset((left, right))
        if ends not in self.cables:
            random = Random(f"{self.random.random()}")
            self.cables[ends] = Cable(random, (0.001, 0.02), self.rate)
        return self.cables[ends]

    # --- running ------------------------------------------------------------------------------

    def run(self) -> list[str]:
        random = Random(self.random.random())
        with (
            patch.object(live_network, "Clock", lambda: self.loop),
            patch.object(dialling, "Random", lambda: random),
            patch.object(forwarding_channels, "Random", lambda: random),
            asyncio.Runner(loop_factory=lambda: self.loop) as runner,
        ):
            runner.run(self._play())
        for subscriber in self.subscribers:
            self.problems += subscriber.problems
            self.problems += self._overtaken(subscriber)
        return self.problems

    async def _play(self) -> None:
        network = self.network = LiveNetwork(
            self.links,
            self.system,
            self.parameters,
            self.limits,
            brokers=self.names,
            has_journals=self.has_journals,
            first_incarnation=FIRST_INCARNATION,
        )
        for name in self.names:
            await network.start(name)
        await self._until(self._is_whole, "start")
        for number in range(self.random.randint(1, 3)):
            self._advertise(f"P{number}", self.random.choice(self.names))
        for number in range(self.random.randint(2, 8)):
            self._subscribe(f"S{number}", self.random.choice(self.names))
        await self._until(lambda: not self._table_problems(), "tables")
        await asyncio.sleep(SETTLE_US / 1e6)
        writing = asyncio.create_task(self._publish())
        going = [asyncio.create_task(self._break(at)) for at in range(self.faults)]
        churn = asyncio.create_task(self._come_and_go())
        await asyncio.gather(*going)
        churn.cancel()
        await asyncio.sleep(2)
        writing.cancel()
        await asyncio.gather(churn, writing, return_exceptions=True)
        if await self._until(self._is_whole, "links at the end"):
            await self._until(lambda: not self.unsettled, "all is settled")
            await self._until(lambda: not self._table_problems(), "tables at the end")
            self.problems += self._table_problems()
        for name in list(network.nodes):
            await network.kill(name)

    async def _until(self, condition: Callable[[], bool], what: str) -> bool:
        end = self.loop.time() + PATIENCE_S
        while not condition():
            if self.loop.time() > end:
                self.problems.append(f"never: {what}")
                return False
            await asyncio.sleep(0.1)
        return True

    def _is_whole(self) -> bool:
        links = self.network.links.values()
        return len(links) == len(self.names) and all(
            node.is_ready and not each.away
            for each, node in zip(links, self.network.nodes.values(), strict=True)
        )

    def _is_ready(self, name: str) -> bool:
        node = self.network.nodes.get(name)
        return node is not None and node.is_ready

    # --- clients ------------------------------------------------------------------------------

    def _advertise(self, client: str, home: str) -> None:
        self.publishers[client] = home
        promise = Advertisement(id=client, publisher=client, filter=EVERYTHING)
        ack_tracker = AckTracker(partial(self._is_advertised, client))
        self.network.nodes[home].request(client, Advertise(promise), ack_tracker=ack_tracker)

    def _is_advertised(self, client: str) -> None:
        self.advertised_us[client] = self.loop.now_us()

    def _subscribe(self, id: str, home: str) -> None:
        node, random = self.network.nodes[home], self.random
        ordered_by = node.machine.ordered_by
        # All of these networks have cycles.
        keeps_order = node.machine.keeps_order
        repeats = taker({}, ordered_by, keeps_order=keeps_order, has_detours=True)
        least = random.randrange(8)
        subscriber = Subscriber(id, home, least, self.loop.now_us(), repeats)
        subscriber.ordered_by = ordered_by
        if keeps_order or ordered_by is not None:
            subscriber.in_order = OrderedDeduplication({}, ordered_by)
        if self.looks_at_topics:
            subscriber.topic = random.choice(["", *TOPICS])
        self.subscribers.append(subscriber)
        node.attach(id, subscriber)
        node.request(id, Subscribe(self._subscription(subscriber)))

    def _subscription(self, subscriber: Subscriber) -> Subscription:
        where = f"x >= {subscriber.least}"
        if subscriber.topic:
            where += f" AND topic = '{subscriber.topic}'"
        return Subscription(id=subscriber.id, client=subscriber.id, filter=parse(where))

    @property
    def _present(self) -> list[Subscriber]:
        return [each for each in self.subscribers if each.until_us is None]

    @property
    def _homes(self) -> list[str]:
        """Brokers with clients."""
        return sorted(self.network.nodes)

    async def _come_and_go(self) -> None:
        for number in range(100):
            await asyncio.sleep(self.random.uniform(0.5, 8))
            if self.random.random() < 0.5:
                self._subscribe(f"T{number}", self.random.choice(self._homes))
            elif self._present:
                subscriber = self.random.choice(self._present)
                subscriber.until_us = self.loop.now_us()
                node = self.network.nodes[subscriber.home]
                node.request(subscriber.id, Unsubscribe(subscriber.id))

    async def _publish(self) -> None:
        pause_s = self.random.choice([0.05, 0.2, 0.5])
        while True:
            await asyncio.sleep(self.random.uniform(0, 2 * pause_s))
            for _ in range(self.random.choice([1, 1, 1, 1, 10])):
                for client, home in list(self.publishers.items()):
                    node = self.network.nodes.get(home)
                    if len(self.unsettled) > MOST_UNSETTLED or node is None:
                        continue
                    since_us = self.advertised_us.get(client)
                    if since_us is None or self.loop.now_us() < since_us + self.spread_us:
                        continue
                    if node.is_ready and not node.is_holding:
                        self._publish_one(client)

    def _publish_one(self, client: str) -> None:
        node = self.network.nodes[self.publishers[client]]
        self.count += 1
        publication = Publication(
            publisher=client,
            sequence=self.count,
            published_us=self.loop.now_us(),
            attributes=self._attributes(),
            assured=True,
        )
        self.unsettled[publication.key] = publication
        ack_tracker = AckTracker(partial(self._settled, publication))
        node.request(client, Publish((publication,)), ack_tracker=ack_tracker)

    def _attributes(self) -> Attributes:
        """Some have a topic, for systems that route by it."""
        found: Attributes = {"x": self.random.randrange(10), "text": "x" * 200}
        if self.looks_at_topics and self.random.random() < 0.8:
            return {**found, "topic": self.random.choice(TOPICS)}
        return found

    # --- faults -------------------------------------------------------------------------------

    async def _break(self, number: int) -> None:
        random = self.random
        await asyncio.sleep(6 * number + random.uniform(0, 6))
        does, weights = zip(*self._kinds(), strict=True)
        coroutine = random.choices(does, weights)[0]()
        if asyncio.iscoroutine(coroutine):
            await coroutine

    def _kinds(self) -> list[tuple[Callable[[], object], float]]:
        """The kinds of events, with their weights."""
        return [
            (self._reset, 3),
            (self._cut, 3),
            (self._hang, 1),
            (self._die, 3),
            (self._stall, 1),
        ]

    def _note(self, what: str) -> None:
        self.happened.append(f"{self.loop.time():.2f}: {what}")

    def _reset(self) -> None:
        ends = self.random.choice(sorted(map(sorted, self.cables)))
        self._note(f"reset {ends}")
        self.cables[frozenset(ends)].reset()

    def _stall(self) -> None:
        seconds = self.random.uniform(0.3, 6)
        self._note(f"stall of {seconds:.2f} s")
        self.loop.stall(seconds)

    async def _cut(self) -> None:
        links = self.links or sorted(map(sorted, self.cables))
        await self._away([frozenset(self.random.choice(links))])

    async def _hang(self) -> None:
        name = self.random.choice(sorted(self.network.nodes))
        await self._away([ends for ends in self.cables if name in ends])

    async def _away(self, cables: list[frozenset[str]]) -> None:
        """Disconnect all of these at once, unless too many are already."""
        what = frozenset().union(*cables)
        if not self._may_go(what):
            return
        self.away.add(what)
        self._note(f"cut {sorted(map(sorted, cables))}")
        mine = [self._cable(*ends) for ends in cables if not self._cable(*ends).is_cut]
        for cable in mine:
            cable.is_cut = True
        await asyncio.sleep(self.random.uniform(0, LONGEST_CUT_S))
        self._note(f"mended {sorted(map(sorted, cables))}")
        for cable in mine:
            cable.mend()
        await asyncio.sleep(SETTLE_US / 1e6)
        self.away.discard(what)

    def _may_go(self, what: frozenset[str]) -> bool:
        """Whether the others stay connected without this broker."""
        return len(self.away) < self.most_away and not any(what & each for each in self.away)

    async def _die(self) -> None:
        name = self.random.choice(sorted(self.network.nodes))
        what = frozenset((name,))
        if not self._may_go(what) or (self.system == "tid" and not self._stays_connected(name)):
            return
        self.away.add(what)
        since_us = self.loop.now_us()
        if self.random.random() < 0.5:
            for ends, cable in list(self.cables.items()):
                if name in ends:
                    cable.reset()
        for subscriber in self._present:
            if subscriber.home == name:
                subscriber.until_us = since_us
        gone = [client for client, home in self.publishers.items() if home == name]
        for client in gone:
            del self.publishers[client]
        self.unsettled = {key: one for key, one in self.unsettled.items() if key[0] not in gone}
        death = len(self.deaths)
        self.deaths.append((since_us, None))
        self._note(f"killed {name}")
        await self.network.kill(name)
        await asyncio.sleep(self.random.choice([0.1, 2, 8, 30]))
        await self.network.start(name)
        self._note(f"started {name}")
        await self._until(lambda: self._is_ready(name), f"{name} is back")
        self.deaths[death] = (since_us, self.loop.now_us())
        self._note(f"{name} is ready")
        if name in self._homes:
            self._settle_in(name)
        await asyncio.sleep(SETTLE_US / 1e6)
        self.away.discard(what)

    def _settle_in(self, name: str) -> None:
        """Clients connect to a restarted broker."""
        now_us = self.loop.now_us()
        for number in range(self.random.randint(0, 2)):
            self._subscribe(f"{name}/{now_us}/{number}", name)
        if len(self.publishers) < 2:
            self._advertise(f"{name}/{now_us}", name)

    def _stays_connected(self, but: str) -> bool:
        """Whether the rest is connected without this broker, and without those that are or recently
        were down.
        """
        away = {name for each in self.away for name in each}
        return self._is_connected({but}) and self._is_connected({but, *away})

    def _is_connected(self, gone: set[str]) -> bool:
        left = [link for link in self.links if not gone & {*link}]
        living = [name for name in self.names if name not in gone]
        found, grows = {living[0]} if living else set(), True
        while grows:
            more = {name for link in left if found & {*link} for name in link}
            grows = not more <= found
            found |= more
        return bool(living) and found == set(living)

    # --- judging ------------------------------------------------------------------------------

    def _settled(self, publication: Publication) -> None:
        """The publisher's broker settles a publication."""
        if self.unsettled.pop(publication.key, None) is None:
            return  # the settlement of a dead broker
        self.settled += 1
        if self._may_lose(publication):
            return
        for each in self._present:
            is_early = publication.published_us < each.since_us + SETTLE_US
            if is_early or not each.wants(publication):
                continue
            if publication.key not in each.got:
                now = self.loop.time()
                self.problems.append(f"{now:.2f}: {each.id} at {each.home} lacks {publication.key}")

    def _may_lose(self, publication: Publication) -> bool:
        """TID may lose the content of a link that fails, to a broker that died meanwhile."""
        return self.system == "tid" and any(
            until_us is None or publication.published_us < until_us for _, until_us in self.deaths
        )

    def _overtaken(self, subscriber: Subscriber) -> list[str]:
        found = []
        numbers: dict[str, int] = {}
        for publication in subscriber.timely:
            stream, number = subscriber.got[publication.key], publication.sequence
            if number >= numbers.get(stream, -1):
                numbers[stream] = number
            elif not self._may_come_late(publication):
                found.append(f"{subscriber.id} got {stream!r} out of order")
        return found

    def _may_come_late(self, publication: Publication) -> bool:
        return False

    def _table_problems(self) -> list[str]:
        promises = [
            (Advertisement(id=client, publisher=client, filter=EVERYTHING), home)
            for client, home in self.publishers.items()
        ]
        interests = [(self._subscription(each), each.home) for each in self._present]
        picture = Picture(self.links, promises, interests)
        oracle = SYSTEMS[self.system].oracle
        if oracle is None:
            return []
        strategies = {name: node.machine.strategy for name, node in self.network.nodes.items()}
        return oracle(picture, strategies)
