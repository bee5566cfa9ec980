"""Networks of five brokers in a tree."""

from __future__ import annotations

from shoal.broker.messages import Advertise, Subscribe
from tests.broker.transcript import Stage, advertisement, subscription

#      B1
#     /  \
#   B2    B3
#  /  \
# B4  B5
TREE = (("B1", "B2"), ("B1", "B3"), ("B2", "B4"), ("B2", "B5"))


def stage_with_publisher() -> Stage:
    """P has advertised a (x >= 0) at B4, and all brokers know."""
    stage = Stage(TREE)
    stage.ask("B4", "P", Advertise(advertisement("a")))
    stage.settle()
    stage.take_transcript()
    return stage


def busy_stage() -> tuple[Stage, list, list]:
    """Publishers and subscribers all over the tree, with overlaps and without."""
    stage = Stage(TREE)
    advertised = [
        (advertisement("a", "x > 0"), "B4"),
        (advertisement("q", "x < 20", publisher="Q"), "B3"),
        (advertisement("r", "x = 5 OR x > 90", publisher="R"), "B2"),
    ]
    interests = [
        (subscription(f"s{number}{broker}", text, client=f"C{broker}"), broker)
        for broker in ("B1", "B3", "B4", "B5")
        for number, text in enumerate(["x > 50", "x < 10", "x = 5", "x = 'no'"])
    ]
    for promise, broker in advertised:
        stage.ask(broker, promise.publisher, Advertise(promise))
    for interest, broker in interests:
        stage.ask(broker, interest.client, Subscribe(interest))
    stage.settle()
    assert not stage.problems(advertised, interests)
    return stage, advertised, interests
