"""Clients that wait for sessions at a broker that does not answer, many at once."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Control, Entered
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionOwner
from shoal.mqtt.federation.session_transfer.fetching import WAIT_US, WAITING_TIMER, Fetching
from shoal.mqtt.federation.session_transfer.questions import ASK_AGAIN_US, MOST_AT_ONCE, MOST_TO_ALL
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.timer_dispatch import TIMERS_WORK, WAITING_WORK
from shoal.mqtt.timers import MqttTimers
from tests.mqtt.broker_api import KEPT, Client
from tests.mqtt.network_broker_api import Network

START_US = 1_000_000_000


class WaitingClients:
    """Clients of B2, which is down, wait at B1; `said`: the questions with their times."""

    def __init__(self, clients: int) -> None:
        self.timers = MqttTimers()
        self.now_us = START_US
        self.said: list[tuple[int, str, str]] = []
        limits = SimpleNamespace(connect_timeout_s=10, silent_broker_s=600)
        sessions: Any = SimpleNamespace(limits=limits)
        never: Any = None
        self.fetching = Fetching("B1", sessions, self.timers, self._say, never, never)
        journal: Any = SimpleNamespace(is_failing=False)
        self.fetching.journal = journal
        for number in range(clients):
            self.connection: Any = SimpleNamespace(
                is_closed=False, disconnect=lambda *about: self.refused.append(about[0])
            )
            admission: Any = SimpleNamespace(user="")
            transfer = (f"c{number}", self.now_us)
            home = SessionOwner("B2", 1, "")
            self.fetching.begin(transfer, home, self.connection, admission, self.now_us)
            self.now_us += 1_000
        self.refused: list[ReasonCode] = []

    def _say(self, to: str, control: Control, now_us: int) -> None:
        assert isinstance(control, Entered)
        assert control.must_send_session == "B2"
        self.said.append((now_us, to, control.client_id))

    def until(self, at_us: int) -> None:
        """Let time pass."""
        while (next_us := self.timers.next_us) is not None and next_us <= at_us:
            self.now_us = next_us
            for kind, about in self.timers.take_due(next_us):
                before = len(self.said)
                if kind == WAITING_TIMER:
                    self.fetching.on_fetching_timer(about, next_us)
                else:
                    self.fetching.questions.ask_some(about[0], next_us)
                assert len(self.said) - before <= MOST_AT_ONCE
        self.now_us = at_us


def test_of_many_waiting_clients_a_few_at_a_time_ask_all_brokers() -> None:
    """If each of 5,000 asked all brokers twice a second, that would be 90,000 messages in 10 s."""
    waiting = WaitingClients(50)
    waiting.until(START_US + 5_000_000)
    assert {to for _, to, _ in waiting.said} == {"*"}
    assert len(waiting.said) <= 10 * MOST_TO_ALL
    counts = Counter(client_id for _, _, client_id in waiting.said)
    assert counts.keys() == {f"c{number}" for number in range(50)}
    assert max(counts.values()) - min(counts.values()) <= 1


def test_few_waiting_clients_each_ask_all_brokers_twice_a_second() -> None:
    waiting = WaitingClients(3)
    waiting.until(START_US + 5_000_000)
    counts = Counter(client_id for _, _, client_id in waiting.said)
    assert min(counts.values()) >= 9


def test_all_waiting_clients_ask_a_returned_broker_once() -> None:
    waiting = WaitingClients(500)
    waiting.until(START_US + 2 * WAIT_US)
    waiting.said.clear()
    waiting.fetching.on_alive("B2", waiting.now_us)
    waiting.until(waiting.now_us + ASK_AGAIN_US)
    asked = [client_id for _, to, client_id in waiting.said if to == "B2"]
    assert set(asked) == {f"c{number}" for number in range(500)}
    assert len(asked) <= 500 + MOST_AT_ONCE  # the questions of the microsecond of the answer
    waiting.said.clear()
    waiting.until(waiting.now_us + 2 * ASK_AGAIN_US)
    assert len(waiting.said) <= MOST_AT_ONCE


def test_an_answering_broker_is_asked_by_more_and_more() -> None:
    """The first questions were lost with a broker that forwarded them, and no answer comes."""
    waiting = WaitingClients(5_000)
    waiting.until(START_US + 6_000_000)
    answers = 1
    for _ in range(6):
        waiting.said.clear()
        for _ in range(answers):
            waiting.fetching.questions.answered("B2", waiting.now_us)
        waiting.until(waiting.now_us + 1)
        assert len(waiting.said) >= 2 * answers
        answers = len(waiting.said)


def test_nothing_is_kept_of_a_broker_without_waiting_clients() -> None:
    waiting = WaitingClients(3)
    waiting.until(START_US + 20_000_000)
    assert waiting.refused == [ReasonCode.SERVER_UNAVAILABLE] * 3
    assert not waiting.fetching.waiting
    assert not waiting.fetching.questions._homes
    assert waiting.timers.next_us is None


def connect_missing(network: Network, count: int) -> list[Client]:
    """Clients connect at B1 whose sessions are at B9, which is down."""
    site = network["B1"]
    site.clients.begin_journal(SessionJournal())
    assert site.clients.federation is not None
    ends = []
    for number in range(count):
        site.clients.federation.session_transfer.homes.put(f"c{number}", SessionOwner("B9", 5, ""))
        end = site.open()
        end.send(Connect(f"c{number}", **KEPT))
        ends.append(end)
    return ends


def test_waiting_clients_are_handled_in_slices() -> None:
    """5,000 that connect at once must not take 0.1 s in each half second and at their refusal."""
    network = Network("B1", "B2")
    network.after(20)
    most = TIMERS_WORK // WAITING_WORK[WAITING_TIMER]
    ends = connect_missing(network, 3 * most)
    site, refused = network["B1"], 0
    end_us = site.now_us + 12_000_000
    while (deadline_us := site.clients.deadline_us) is not None and deadline_us <= end_us:
        site.now_us = max(site.now_us, deadline_us)
        site.carry_out(site.clients.advance(site.now_us))
        now_refused = sum(end.closed for end in ends)
        assert now_refused - refused <= most
        refused = now_refused
    assert refused == len(ends)


def test_a_session_that_moved_on_is_found_after_a_lost_question() -> None:
    """The session's former broker is down, and the present one knows nothing of the client."""
    network = Network("B1", "B2")
    network.after(20)
    olds = [network["B2"].connect(f"c{number}", **KEPT) for number in range(3)]
    for old in olds:
        old.subscribe("a", qos=1)
        old.lose()
    network.is_slow = True
    ends = connect_missing(network, 3)
    assert network.links["B1", "B2"]
    network.links["B1", "B2"].clear()
    network.is_slow = False
    network.after(1)
    for end in ends:
        assert end.take()[0].session_present
