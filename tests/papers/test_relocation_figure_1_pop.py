"""Relocation paper, figure 1 and sections 3.1 and 3.2: how POP finds B6 for publisher P at B1.

The network is that of `test_relocation_figure_1`: one subscriber at B1, six behind B2, three behind
B4, fifteen behind B5. The paper's own rule decides: a neighbour with more subscribers than all
others and the broker together. The text lets B5 compare B6's number with the request's alone, and
names as B6's reason to stop fifteen subscribers on the link to B5, where the request says ten; both
lead to the same brokers as the rule.
"""

from __future__ import annotations

from shoal.broker.messages import Advertise, Subscribe
from shoal.clients.messages import MigrationAdvertisement, Paused
from shoal.overlays.publisher_relocation.pop.messages import TraceResult
from shoal.overlays.publisher_relocation.pop.parameters import PopParameters
from shoal.overlays.publisher_relocation.pop.protocol import Pop
from shoal.overlays.publisher_relocation.relocation import Relocation
from tests.broker.transcript import Stage, publish, subscription
from tests.papers.test_relocation_figure_1 import LEFT, LINKS, PATH, RIGHT, P, clients


def traced() -> Stage:
    stage = Stage(LINKS, "pop", PopParameters(threshold=1))
    stage.ask("B1", "P", Advertise(P))
    for client in clients(LEFT | RIGHT):
        stage.ask(client[:2], client, Subscribe(subscription(client, client=client)))
    stage.settle()
    stage.take_transcript()
    stage.ask("B1", "P", publish(1))
    stage.settle()
    return stage


def profile(stage: Stage, broker: str) -> tuple[float, dict[str, float]]:
    strategy = stage.brokers[broker]._strategy
    assert isinstance(strategy, Relocation)
    assert isinstance(strategy.tracer, Pop)
    found = strategy.tracer.traces.profile("P")
    assert found is not None
    return found.local, found.behind


def test_the_profile_tables_after_one_publication() -> None:
    stage = traced()
    assert profile(stage, "B1") == (1, {"B2": 6, "B4": 3, "B5": 15})
    assert profile(stage, "B2") == (2, {"B3": 4})
    assert profile(stage, "B5") == (0, {"B6": 15})
    assert profile(stage, "B6") == (5, {"B7": 4, "B8": 6})
    counts = {(source, up): m.subscribers for source, up, m in stage.sent(TraceResult)}
    assert counts == {
        ("B3", "B2"): 4,
        ("B2", "B1"): 6,
        ("B4", "B1"): 3,
        ("B7", "B6"): 4,
        ("B8", "B6"): 6,
        ("B6", "B5"): 15,
        ("B5", "B1"): 15,
    }


def test_the_request_walks_to_b6_and_the_answer_back() -> None:
    said = traced().take_transcript()
    assert [line for line in said if "Relocat" in line] == [
        "B1 -> B5: RelocationRequest P: 10 behind (B1)",
        "B5 -> B6: RelocationRequest P: 10 behind (B5 B1)",
        "B6 -> B5: RelocationAnswer P (B6 B5 B1)",
        "B5 -> B1: RelocationAnswer P (B6 B5 B1)",
        "B1 => P: Relocate B1 B5 B6",
    ]


def test_the_publisher_stays_at_b6() -> None:
    stage = traced()
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.ask("B6", "P", MigrationAdvertisement(PATH, (P,), 1))
    stage.settle()
    stage.take_transcript()
    stage.ask("B6", "P", publish(2))
    stage.settle()
    assert profile(stage, "B6") == (5, {"B5": 10, "B7": 4, "B8": 6})
    assert not any("Relocat" in line for line in stage.take_transcript())
