"""The simulated network: calculated times, order on links, and runs that repeat byte for byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import astuple

from shoal.broker.effects import MeasuredDelays, MoveClient, ResetLink
from shoal.broker.messages import Publish
from shoal.language.conflation_rules import read_conflation
from shoal.overlays.registry import strategy_factory
from shoal.overlays.trace_rows import ConflatedSubscription, LoadRow
from shoal.simulation.links.overlay_link import SimulatedLink
from shoal.simulation.links.underlay import ConstantUnderlay
from shoal.simulation.nodes import BrokerNode
from shoal.simulation.service import ServiceCosts
from shoal.simulation.world import MONITOR_INTERVAL_US, World
from tests.broker.transcript import advertisement, publication, publish, subscription
from tests.seeds.networks.random_network import RandomNetwork

COSTS = ServiceCosts(processing_us=10, matching_us=20, transmission_us=5, client_transmission_us=3)
SETTLED_US = 50_000


def world(  # type: ignore[no-untyped-def]
    costs: ServiceCosts = COSTS,
    links: object = (("B1", "B2"),),
    system: str = "tree",
    **options,
) -> World:
    """P at B1 and C at B2, any two places 1,000 us apart."""
    made = World(links, strategy_factory(system), ConstantUnderlay(1_000), costs=costs, **options)  # type: ignore[arg-type]
    made.add_publisher("P", "B1", "home of P")
    made.add_subscriber("C", "home of C")
    made.advertise(0, advertisement("a"))
    made.subscribe(0, "B2", subscription("s"))
    return made


def delivered(made: World) -> list[tuple[int, int]]:
    return [(row.publication.sequence, row.delivered_us) for row in made.trace.deliveries]


def test_two_publications_have_the_calculated_times() -> None:
    """Each waits where it must: in B1's queue, and in B2's.

    first   arrives 51,000, done 51,030, left 51,035; arrives 52,035, done 52,065,
            handed over 52,068, there 53,068
    second  arrives 51,000, starts 51,030, done 51,060, left 51,065; arrives 52,065,
            done 52,095, handed over 52,098, there 53,098
    """
    made = world()
    made.request(SETTLED_US, "P", publish(1))
    made.request(SETTLED_US, "P", publish(2))
    made.run()
    assert delivered(made) == [(1, 53_068), (2, 53_098)]
    assert [row.hops for row in made.trace.deliveries] == [1, 1]


def test_a_held_publication_follows_a_client_that_moves() -> None:
    """Its interval ends at the new broker, and it is neither held again nor taken for unchanged."""
    made = world()
    made.conflation.add("s", "C", read_conflation("10s", "x"))  # type: ignore[arg-type]
    made.request(SETTLED_US, "P", publish(1))
    made.request(SETTLED_US, "P", publish(2))
    made.move(1_000_000, "C", "B1")
    made.run()
    assert [(number, at_us // 1_000_000) for number, at_us in delivered(made)] == [(1, 0), (2, 10)]
    assert made.conflation.rows() == [ConflatedSubscription("s", 2, 0, 0)]


def test_a_slow_link_is_a_queue_of_its_own() -> None:
    """Transmission takes longer than service: the second waits at the output, 220 us."""
    made = world(ServiceCosts(processing_us=10, matching_us=20, transmission_us=250))
    made.request(SETTLED_US, "P", publish(1))
    made.request(SETTLED_US, "P", publish(2))
    made.run()
    # 51,030 + 250 + 1,000 + 30 + 1,000, and 51,060 + 220 + 250 + 1,000 + 30 + 1,000
    assert delivered(made) == [(1, 53_310), (2, 53_560)]


def test_a_batch_is_matched_and_sent_one_by_one_and_processed_once() -> None:
    made = world()
    made.request(SETTLED_US, "P", publish(1, 2, 3))
    made.run()
    # 51,000 + 10 + 3 * 20, + 3 * 5 + 1,000, + 10 + 3 * 20, + 3 for each of the three
    assert delivered(made) == [(1, 53_158), (2, 53_161), (3, 53_164)]


def test_matching_costs_grow_with_the_table() -> None:
    made = world(ServiceCosts(matching_us=20, matching_per_subscription_ns=1_500))
    made.subscribe(0, "B2", subscription("t", "x < 0"))
    made.request(SETTLED_US, "P", publish(1))
    made.run()
    # One subscription at B1 (t overlaps nothing): 20 + 1; two at B2: 20 + 3.
    assert delivered(made) == [(1, 51_000 + 21 + 1_000 + 23 + 1_000)]


def test_a_run_in_two_parts_equals_one_run() -> None:
    def make() -> World:
        made = world(window_us=10_000)
        for sequence in range(40):
            made.request(SETTLED_US + 777 * sequence, "P", publish(sequence))
        return made

    whole, parts = make(), make()
    whole.run()
    for until_us in (0, 49_999, 51_000, 51_000, 52_035, 60_000):
        parts.run(until_us)
        assert parts.queue.next_us is None or parts.queue.next_us > until_us
    parts.run()
    assert delivered(parts) == delivered(whole)
    assert list(parts.load_rows()) == list(whole.load_rows())


def test_progress_is_reported_in_order() -> None:
    made = world()
    for second in range(1, 6):
        made.request(second * 1_000_000 + 5, "P", publish(second))
    seen: list[int] = []
    made.run(progress=seen.append)
    assert seen == [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]


def test_requests_in_the_past_are_errors() -> None:
    made = world()
    made.run()
    with pytest.raises(ValueError, match="us already"):
        made.request(1, "P", publish(1))


def test_refusals_are_in_the_trace() -> None:
    made = world()
    made.request(SETTLED_US, "P", publish(-4))
    made.run()
    (row,) = made.trace.refused
    assert (row.client, row.at_us) == ("P", 51_030 + 1_000)
    assert row.reason == "publication -4 matches no advertisement of P"


def test_an_observer_is_told_the_waits_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[tuple[str, MeasuredDelays]] = []
    bring = BrokerNode.bring

    def listen(self: BrokerNode, now_us: int, input: object) -> None:
        if isinstance(input, MeasuredDelays):
            reports.append((self.id, input))
        bring(self, now_us, input)  # type: ignore[arg-type]

    monkeypatch.setattr(BrokerNode, "bring", listen)
    made = world(system="grape")
    made.request(SETTLED_US, "P", publish(1))
    made.request(SETTLED_US, "P", publish(2))
    made.request(MONITOR_INTERVAL_US, "P", publish(3))
    made.run()
    assert reports[:2] == [
        (
            "B1",
            MeasuredDelays(15, 30, {"B2": 1_005}, None, 8e-05, 30),
        ),  # 0 and 30 waited; control waits uncounted
        ("B2", MeasuredDelays(0, 30, {"B1": 1_005}, 1_003, 8e-05, 30)),
    ]


def test_without_an_observer_waits_are_not_reported() -> None:
    made = world()
    made.request(MONITOR_INTERVAL_US, "P", publish(1))
    made.run()
    assert [node._monitor for node in made.brokers.values()] == [None, None]


# --- laws -------------------------------------------------------------------------------------


def heard(receive: Callable[..., None], arrivals: list[tuple[int, str, object]]) -> object:
    """The same front end, with a record of its inputs."""

    def listen(self: BrokerNode, now_us: int, input: object) -> None:
        arrivals.append((now_us, self.id, input))
        receive(self, now_us, input)

    return listen


def observed_network(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[RandomNetwork, list]:
    """A random network, with all inputs of brokers: (time, broker, input)."""
    arrivals: list[tuple[int, str, object]] = []
    for front_end in ("receive", "receive_one"):
        monkeypatch.setattr(BrokerNode, front_end, heard(getattr(BrokerNode, front_end), arrivals))
    return RandomNetwork(seed, system="grape"), arrivals


@pytest.mark.parametrize("seed", [3, 8])
def test_links_keep_order_and_time_never_goes_back(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[tuple[str, int], list] = {}

    def said(send: Callable[..., None]) -> object:
        def listen(self: SimulatedLink, input, *when: int) -> None:  # type: ignore[no-untyped-def]
            sent.setdefault((input.neighbour, id(self)), []).append(input.message)
            send(self, input, *when)

        return listen

    monkeypatch.setattr(SimulatedLink, "send", said(SimulatedLink.send))
    monkeypatch.setattr(SimulatedLink, "send_one", said(SimulatedLink.send_one))
    network, arrivals = observed_network(seed, monkeypatch)
    assert network.run() == []
    times = [now_us for now_us, _, _ in arrivals]
    assert times == sorted(times)
    came: dict[tuple[str, str], list] = {}
    for _, broker, input in arrivals:
        if hasattr(input, "neighbour"):
            came.setdefault((input.neighbour, broker), []).append(input.message)
    assert sorted(map(id_list, came.values())) == sorted(map(id_list, sent.values()))


def id_list(messages: list) -> list[int]:
    return [id(message) for message in messages]


@pytest.mark.parametrize("seed", [3, 8])
def test_every_sent_message_is_received_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network, arrivals = observed_network(seed, monkeypatch)
    notified = count_calls(monkeypatch, "_notify")
    assert network.run() == []
    rows = list(network.world.load_rows())
    requests = [input.request for _, _, input in arrivals if hasattr(input, "client")]
    asked = sum(len(row.publications) if isinstance(row, Publish) else 1 for row in requests)
    words = sum(not isinstance(row, Publish) for row in requests)
    deliveries = len(network.world.trace.deliveries)
    total = {
        name: sum(getattr(row, name) for row in rows) for name in LoadRow.__struct_fields__[2:]
    }
    assert total["messages_out"] - deliveries - notified["_notify"] == total["messages_in"] - asked
    assert total["control_out"] - notified["_notify"] == total["control_in"] - words
    keys = [(row.broker, row.window_start_us) for row in rows]
    assert len(set(keys)) == len(keys)


def count_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> Counter[str]:
    calls: Counter[str] = Counter()
    method = getattr(BrokerNode, name)

    def count(self, *arguments):  # type: ignore[no-untyped-def]
        calls[name] += 1
        method(self, *arguments)

    monkeypatch.setattr(BrokerNode, name, count)
    return calls


def test_busy_time_equals_the_cost_of_the_work() -> None:
    made = world()
    made.request(SETTLED_US, "P", publish(1, 2))
    made.run()
    rows = {row.broker: row for row in made.load_rows()}
    # B1: advertisement and subscription 10 each, the batch 50; sends one control and two.
    assert astuple(rows["B1"])[2:] == (4, 3, 2, 1, 70, 15, 20, 0)
    # B2: subscription, advertisement, the batch; sends one control, delivers two.
    assert astuple(rows["B2"])[2:] == (4, 3, 2, 1, 70, 5 + 2 * 3, 20, 2)


# --- repetition -------------------------------------------------------------------------------

REPLAY = """
from tests.simulation.test_world import fingerprint
print(fingerprint())
"""


def fingerprint() -> str:
    """A hash of all events in one lossless and one lossy run."""
    seen = hashlib.sha256()
    for seed, lossy in ((1, False), (2, True)):
        network = RandomNetwork(seed, system="grape", lossy=lossy)
        network.run()
        trace = network.world.trace
        rows = [trace.deliveries, trace.published, trace.records, list(network.world.load_rows())]
        seen.update(repr(rows).encode())
    return seen.hexdigest()


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    found = set()
    for hash_seed in ("1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", REPLAY],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert found == {fingerprint() + "\n"}


# --- closing links ----------------------------------------------------------------------------


def test_a_link_that_a_broker_closes_starts_anew() -> None:
    made = world()
    made.run()
    node = made.brokers["B1"]
    made.queue.push(100_000, lambda now_us, link: node._carry_out([link], now_us), ResetLink("B2"))
    made.request(3_000_000, "P", publish(1))
    made.run()
    assert [sequence for sequence, _ in delivered(made)] == [1]


def test_closing_a_link_that_is_down_changes_nothing() -> None:
    made = world()
    made.cut(100_000, "B1", "B2")
    made.run(100_000)
    made.brokers["B1"]._carry_out([ResetLink("B2")], 100_000)
    made.run()
    assert made.brokers["B1"].links == {}


def test_a_publication_names_its_publisher() -> None:
    made = world()
    made.request(SETTLED_US, "P", Publish((publication(1),)))
    made.run()
    assert [(row.publication.sequence, row.broker) for row in made.trace.published] == [(1, "B1")]


def test_a_broker_moves_clients_and_nothing_is_lost() -> None:
    made = world()
    made.run()
    made.brokers["B1"]._carry_out([MoveClient("C", "B1"), MoveClient("nobody", "B1")], SETTLED_US)
    for number in range(1, 30):
        made.request(SETTLED_US + number * 1_000_000, "P", publish(number))
    made.run()
    assert [sequence for sequence, _ in delivered(made)] == list(range(1, 30))
    assert [(row.id, broker) for row, broker in made.subscriptions] == [("s@1", "B1")]
