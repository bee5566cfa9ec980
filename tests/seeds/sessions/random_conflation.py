"""Random kills and moves under clients with `$every` and `$changed` (see `random_sessions`).

Each publisher is a key. Of what it publishes a subscriber gets a part, in order, at QoS 2 once; two
deliveries are an interval apart, whatever moved or was killed between them; the newest value is
always among what the subscriber got in the end; and two messages in a row differ where the
subscriber asked for changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.sessions.conflating import Conflation
from tests.mqtt.backlogs import counted_again
from tests.seeds.sessions.random_sessions import MOVES, Publisher, RandomSessions, Subscriber

SECOND = 1_000_000
# Topic filters, with the interval in µs.
FILTERS = {"a?$every=2s BY p": 2 * SECOND, "a?$every=500ms BY p&$changed=group": SECOND // 2}

# By client and key: the messages, with the time of each.
Deliveries = dict[tuple[str, Any], dict[Any, int]]


def group_of(number: int) -> int:
    """The value that may have changed: three messages in a row have the same."""
    return number // 3 % 2


class NamedPublisher(Publisher):
    """Says its name and its group in user properties; every other one publishes at QoS 2 only."""

    def publish(self, qos: int) -> None:
        super().publish(2 if self.name in ("p0", "p2") else qos)

    @property
    def properties(self) -> Properties:  # type: ignore[override]
        pairs = (("p", self.name), ("group", str(group_of(self.count))))
        return Properties(user_properties=pairs)


class RandomConflation(RandomSessions):
    """Subscribers with conflation move, and brokers are killed."""

    publisher = NamedPublisher

    def __init__(self, seed: int, moves: Any = MOVES, more: int = 0) -> None:
        # The times at which brokers were killed: what they delivered then may not have gone out.
        self.kills_us: set[int] = set()
        super().__init__(seed, moves, more)

    def kill(self) -> None:
        self.kills_us.add(self.network.now_us)
        super().kill()

    def subscribers_of(self) -> list[Subscriber]:
        return [
            Subscriber(self.network, f"s{number}", topic_filter)
            for number, topic_filter in enumerate(FILTERS)
        ]

    def check(self) -> None:
        for site in self.network.sites.values():
            assert site.clients.backlog.bytes == counted_again(site.clients)
        for person in self.people:
            assert person.is_in, f"{person.name} was not admitted"
        for subscriber in self.subscribers:
            for publisher in self.publishers:
                self._check_key(subscriber, publisher)

    def _check_key(self, subscriber: Subscriber, publisher: Publisher) -> None:
        who = f"{subscriber.name} of {publisher.name}"
        numbers = {payload: number for number, (payload, _) in publisher.sent.items()}
        taken = [each for each in subscriber.taken if each[0] in numbers]
        twice = [each for each, count in Counter(taken).items() if each[1] == 2 and count > 1]
        assert not twice, f"{who} twice {twice}"
        got = [numbers[payload] for payload, _ in dict.fromkeys(taken)]
        if publisher.count:
            assert got, f"{who}: nothing"
        if {qos for _, qos in publisher.sent.values()} != {2}:
            return  # a client may publish again at QoS 1 what is older than its newest
        is_changed = "$changed" in subscriber.topic_filter
        if got and not is_changed:
            assert max(got) == publisher.count, f"{who}: the newest is missing"
        if got and is_changed:
            last = group_of(max(got)), group_of(publisher.count)
            assert last[0] == last[1], f"{who}: the newest value is missing"
        if self.is_in_order:
            assert got == sorted(got), f"{who} out of order"
            groups = [group_of(number) for number in got]
            if is_changed:
                same = [pair for pair in pairwise(groups) if len({*pair}) < 2]
                assert not same, f"{who}: unchanged {got}"


@contextmanager
def noted_deliveries() -> Iterator[Deliveries]:
    """The deliveries of each key of each client, at whichever broker.

    A message that is delivered again did not go out before: its broker was killed before it wrote.
    """
    found: Deliveries = defaultdict(dict)
    noted = Conflation._note_delivered

    def note(self: Any, conflator: Any, key: Any, *rest: Any) -> None:
        found[conflator.subscription.session.client_id, key][rest[3]] = rest[2]
        noted(self, conflator, key, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Conflation, "_note_delivered", note)
        yield found


def play(seed: int, moves: Any = MOVES, more: int = 0) -> RandomConflation:
    """Play a random network of brokers; AssertionError if a promise is broken."""
    with noted_deliveries() as deliveries:
        life = RandomConflation(seed, moves, more)
        life.play()
        life.end()
    life.check()
    for (client, key), noted in deliveries.items():
        every_us = list(FILTERS.values())[int(client[1:])]
        times = sorted(set(noted.values()) - life.kills_us)
        near = [pair for pair in pairwise(times) if pair[1] - pair[0] < every_us]
        assert not near, f"{client} {key}: {near}"
    return life
