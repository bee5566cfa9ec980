"""Random kills and moves while late subscribers get the past: the judge of what they get.

Brokers keep logs. Subscribers come late, ask for the past, move between brokers in the middle of
it, hang up and read slowly. Each publication that was acknowledged, and published after the time
that a subscriber asked for, reaches it; at QoS 2 once; each publisher's in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from shoal.log.instants import instant_text
from shoal.mqtt.codec.packets import Subscribe, SubscriptionRequest
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.sessions import live_gate
from tests.mqtt.broker_api import SECOND, Client
from tests.seeds.sessions.random_sessions import MOVES, RESTLESS, RandomSessions, Subscriber
from tests.seeds.sessions.session_network import Network, Site

# Weights of `random_sessions.WHAT` that let replays come to their end between moves and kills.
STEADY = (25, 70, 30, 0.7, 0.2, 30, 0.3, 6, 50)


class LateSubscriber(Subscriber):
    """Asks for the past, once; its window is `receive_maximum`."""

    def __init__(
        self,
        network: Network,
        name: str,
        topic_filter: str = "a",
        since: str = "earliest",
        receive_maximum: int = 20,
    ) -> None:
        super().__init__(network, name, topic_filter)
        self.since = since
        self.terms = Properties(session_expiry_interval_s=100_000, receive_maximum=receive_maximum)
        # Whether it has come to subscribe.
        self.asks = True
        self.reasons: tuple[Any, ...] = ()
        self.reason: str | None = None
        self.gaps: list[str] = []

    def entered(self, client: Client) -> None:
        if self.asks and not self.is_subscribed:
            # The past only if the subscription is new: SUBACK may have been lost.
            request = SubscriptionRequest(self.topic_filter, 2, retain_handling=1)
            asked = Properties(user_properties=(("$from", self.since),))
            client.send(Subscribe(1, (request,), asked))

    def take(self, client: Client, packet: Any) -> None:
        properties = getattr(packet, "properties", None)
        if hasattr(packet, "reason_codes"):
            self.reasons = packet.reason_codes
            self.reason = packet.properties.reason_string
        elif properties is not None:
            self.gaps += [text for name, text in properties.user_properties if name == "$gap"]
        super().take(client, packet)


class RandomPasts(RandomSessions):
    """First a history, then subscribers that ask for it while brokers are killed."""

    def __init__(self, seed: int) -> None:
        self.lates: list[LateSubscriber] = []
        self.begins_us: dict[str, int] = {}
        random = Random(seed)
        super().__init__(seed, random.choice((MOVES, RESTLESS)), more=random.randrange(2))
        self.network.slices = 50
        for number in range(random.randint(1, 3)):
            window = random.choice((1, 5, 50))
            late = LateSubscriber(self.network, f"late{number}", receive_maximum=window)
            late.asks = False
            late.go_to(random.choice(self.network.names))
            self.lates.append(late)
        self._come_in(3)
        assert all(each.is_in for each in self.lates)

    @property
    def roamers(self) -> list[Subscriber]:
        return [*super().roamers, *self.lates]

    def play(self) -> None:
        random, network = self.random, self.network
        super().play()
        middle_us = network.now_us
        super().play()
        for late in self.lates:
            begin_us = self.begins_us[late.name] = random.choice((0, middle_us))
            late.since, late.asks = instant_text(begin_us) if begin_us else "earliest", True
            late.go_to(random.choice(list(network.sites)))
            self._play(random.choice((self.moves, STEADY)))
        for _ in range(3):
            self._play(STEADY)

    def _play(self, moves: Sequence[float]) -> None:
        former, self.moves = self.moves, moves
        super().play()
        self.moves = former

    def _stay_busy(self) -> None:
        """All brokers run over slow links, and publishers go on, while replays end."""
        random, network = self.random, self.network
        for name in list(self.down):
            self.start(name)
        slow = random.choice((0.1, 0.4, 0.8))
        for step in range(random.randint(300, 900)):
            network.connect()
            for site in list(network.sites.values()):
                if random.random() < 0.7:
                    site.flush()
            for pair in list(network.buffers):
                if random.random() > slow:
                    network.move(*pair, random.choice((200, 5_000, 100_000)))
            network.pass_time(random.choice((0.001, 0.01, 0.03)))
            if random.random() < 0.5:
                random.choice(self.publishers).publish(random.choice((1, 2)))
            if random.random() < 0.01:
                random.choice(self.lates).go_to(random.choice(network.names))
            if step % 100 == 0:
                for publisher in self.publishers:
                    if not publisher.is_here:
                        publisher.go_to(publisher.home)
                for late in self.lates:
                    if not late.is_here:
                        late.go_to(random.choice(network.names))
            for person in self.people:
                person.look()

    def end(self) -> None:
        self._stay_busy()
        super().end()
        for _ in range(3_000):
            if not any(map(self._owes_more, self.network.sites.values())):
                break
            self.network.settle(0.1)
            for late in self.lates:
                late.look()
        self._come_in(3)

    def _owes_more(self, site: Site) -> bool:
        """Whether a broker has more for a late subscriber."""
        sessions = [site.clients.sessions.get(late.name) for late in self.lates]
        is_sending = any(each is not None and each.queued + each.inflight for each in sessions)
        return is_sending or bool(site.clients.replays.status)

    def check(self) -> None:
        """Judge the late subscribers alone: others are judged without logs."""
        for late in self.lates:
            assert late.is_in, f"{late.name} was not admitted"
            self._check_late(late)

    def _check_late(self, late: LateSubscriber) -> None:
        for site in self.network.sites.values():
            assert not site.clients.replays.status, (late.name, site.clients.replays.status)
        assert late.gaps == [], (late.name, late.gaps)
        begin_us, taken = self.begins_us[late.name], Counter(late.taken)
        for publisher in self.publishers:
            owed = [
                each
                for each in publisher.acknowledged
                # A broker's clock here is as old as its last flush.
                if not begin_us or publisher.sent_us[each[0]] > begin_us + SECOND
            ]
            lost = [each for each in owed if each not in taken]
            assert not lost, f"{late.name} lost {sorted(lost)}"
            if self.is_in_order:
                order = [each for each in publisher.sent.values() if each in taken]
                order = [each for each in order if each[1] == 2]
                found = [each for each in dict.fromkeys(late.taken) if each in order]
                assert found == order, f"{late.name} out of order: {found}"
        twice = [each for each, count in taken.items() if each[1] == 2 and count > 1]
        assert not twice, f"{late.name} got twice {twice}"


def play(seed: int) -> RandomPasts:
    """Play a random network; AssertionError if a promise is broken.

    In every third one few live publications are held, so that fences are sought again.
    """
    former = live_gate.MOST_HELD
    live_gate.MOST_HELD = 1_000 if seed % 3 else 2
    try:
        life = RandomPasts(seed)
        life.play()
        life.end()
        life.check()
    finally:
        live_gate.MOST_HELD = former
    return life
