"""Relocation paper, figure 1 and section 3.3: publisher P moves from B1 over B5 to B6.

The figure's network as its text describes it: at B1 one subscriber, behind B2 six, behind B4
three, so ten to the left of B5; fifteen to its right.  Each wants something of its own, so that
no two subscriptions are alike (the paper's footnote 1).

    B3 - B2 - B1 - B5 - B6 - B7
              |          |
              B4         B8
"""

from __future__ import annotations

import pytest

from shoal.broker.messages import Advertise, Subscribe
from shoal.clients.messages import MigrationAdvertisement, Paused
from shoal.overlays.publisher_relocation.messages import MigrationComplete, MigrationUpdate
from tests.broker.transcript import Stage, advertisement, publish, subscription
from tests.overlays.publisher_relocation.one_publisher import send_away

LINKS = (
    ("B1", "B2"),
    ("B2", "B3"),
    ("B1", "B4"),
    ("B1", "B5"),
    ("B5", "B6"),
    ("B6", "B7"),
    ("B6", "B8"),
)
LEFT = {"B1": 1, "B2": 2, "B3": 4, "B4": 3}
RIGHT = {"B6": 5, "B7": 4, "B8": 6}
PATH = ("B1", "B5", "B6")
P = advertisement("p")


def clients(brokers: dict[str, int]) -> list[str]:
    return [f"{broker}.{number}" for broker, count in brokers.items() for number in range(count)]


@pytest.fixture
def stage() -> Stage:
    stage = Stage(LINKS, "grape")
    stage.ask("B1", "P", Advertise(P))
    for client in clients(LEFT | RIGHT):
        stage.ask(client[:2], client, Subscribe(subscription(client, client=client)))
    stage.settle()
    return stage


def migrate(stage: Stage) -> None:
    send_away(stage, "P", PATH)
    stage.ask("B1", "P", Paused(PATH, 1))
    stage.ask("B6", "P", MigrationAdvertisement(PATH, (P,), 1))
    stage.settle()


def test_operation_1_the_last_hops_of_the_advertisement(stage: Stage) -> None:
    before = {name: row.advertisements["p"] for name, row in stage.rows().items()}
    assert (before["B1"], before["B5"], before["B6"]) == (None, "B1", "B5")
    migrate(stage)
    after = {name: row.advertisements["p"] for name, row in stage.rows().items()}
    assert (after["B1"], after["B5"], after["B6"]) == ("B5", "B6", None)


def test_operation_2_subscriptions_from_the_right_leave_b1_and_b5(stage: Stage) -> None:
    right = clients(RIGHT)
    before = stage.rows()
    assert all(name in before[broker].subscriptions for name in right for broker in ("B1", "B5"))
    migrate(stage)
    after = stage.rows()
    assert not any(name in after[broker].subscriptions for name in right for broker in ("B1", "B5"))
    assert set(after["B6"].subscriptions) == {*right, *clients(LEFT)}


def test_operation_3_subscriptions_from_the_left_reach_b6(stage: Stage) -> None:
    left = clients(LEFT)
    before = stage.rows()
    assert not any(name in before[broker].subscriptions for name in left for broker in ("B5", "B6"))
    migrate(stage)
    after = stage.rows()
    assert all(after["B1"].subscriptions[name][1] == {"B5"} for name in left)
    assert all(after["B5"].subscriptions[name] == ("B1", {"B6"}) for name in left)
    assert all(after["B6"].subscriptions[name] == ("B5", set()) for name in left)


def test_brokers_beside_the_path_do_not_take_part(stage: Stage) -> None:
    """Their tables do not change, and no messages reach them."""
    beside = ("B2", "B3", "B4", "B7", "B8")
    before = {name: stage.rows()[name] for name in beside}
    sent = len(stage.everything_sent)
    migrate(stage)
    assert {name: stage.rows()[name] for name in beside} == before
    assert {row[0] for row in stage.everything_sent[sent:]} == set(PATH)
    assert {row[1] for row in stage.everything_sent[sent:]} == set(PATH)


def test_the_update_goes_from_target_to_source_and_the_complete_message_back(stage: Stage) -> None:
    migrate(stage)
    assert [row[:2] for row in stage.sent(MigrationUpdate)] == [("B6", "B5"), ("B5", "B1")]
    assert [row[:2] for row in stage.sent(MigrationComplete)] == [("B1", "B5"), ("B5", "B6")]
    # Every subscription is at the target before the complete message.
    to_target = [type(row[2]) for row in stage.everything_sent if row[:2] == ("B5", "B6")]
    assert to_target[-11:] == [Subscribe] * 10 + [MigrationComplete]


def test_all_twenty_five_subscribers_receive_from_p_at_its_target(stage: Stage) -> None:
    migrate(stage)
    stage.ask("B6", "P", publish(1))
    stage.settle()
    assert sorted(client for _, client in stage.delivered()) == sorted(clients(LEFT | RIGHT))
    assert not stage.problems(
        [(P, "B6")],
        [(subscription(name, client=name), name[:2]) for name in clients(LEFT | RIGHT)],
    )
