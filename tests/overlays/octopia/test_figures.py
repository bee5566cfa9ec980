"""The paper's examples in numbers: figures 5 to 8."""

from __future__ import annotations

import pytest

from shoal.broker.messages import Advertise, Subscribe, Unadvertise, Unsubscribe
from shoal.overlays.octopia.messages import BitCleared, BitSet, HomeChange
from shoal.overlays.octopia.parameters import Dynamic
from tests.broker.transcript import advertisement, publish, subscription
from tests.overlays.octopia.stages import SIX, ProductStage, brokers_in


def six() -> ProductStage:
    return ProductStage(*SIX)


def test_figure_5_an_advertisement_takes_two_messages() -> None:
    here = six()
    for number, host in enumerate(("a0", "d0", "f1", "c2")):
        here.ask(host, f"P{number}", Advertise(advertisement(f"p{number}", publisher=f"P{number}")))
        here.settle()
    sent = [(source, target) for source, target, _ in here.sent(Advertise)]
    assert sent == [
        ("a0", "a1"), ("a0", "a2"), ("d0", "d1"), ("d0", "d2"),
        ("f1", "f0"), ("f1", "f2"), ("c2", "c0"), ("c2", "c1"),
    ]  # fmt: skip
    assert len(here.everything_sent) == len(sent)


def test_figure_6_a_subscription_takes_five_messages() -> None:
    here = six()
    for number, home in enumerate(("a0", "f0", "e1", "b2")):
        here.ask(home, f"S{number}", Subscribe(subscription(f"s{number}", client=f"S{number}")))
        here.settle()
        assert len(here.everything_sent) == 5 * (number + 1)
        assert len(list(here.sent(HomeChange))) == 5 * (number + 1)
    assert {target[1] for _, target, _ in here.everything_sent[:10]} == {"0"}


def test_a_bit_is_set_once_and_cleared_when_nothing_overlaps() -> None:
    here = six()
    here.ask("a0", "P", Advertise(advertisement("p", "x < 9")))
    here.ask("e2", "S", Subscribe(subscription("s", "x > 5", "S")))
    here.ask("f2", "T", Subscribe(subscription("t", "x > 7", "T")))
    here.ask("f2", "T", Subscribe(subscription("other", "x > 9", "T")))
    here.settle()
    assert [row[:2] for row in here.sent(BitSet)] == [("a2", "a0")]
    here.ask("e2", "S", Unsubscribe("s"))
    here.settle()
    assert not list(here.sent(BitCleared))
    here.ask("f2", "T", Unsubscribe("t"))
    here.settle()
    assert [row[:2] for row in here.sent(BitCleared)] == [("a2", "a0")]
    here.ask("a0", "P", Unadvertise("p"))
    here.settle()
    assert not any(broker.strategy.tables.secondary for broker in here.brokers.values())


def test_figure_8_static_routing() -> None:
    """P1's publications take aLinks only, P2's two iLinks, P3's two iLinks and an aLink."""
    here = ProductStage(*SIX, dynamic=Dynamic.STATIC)
    interests = {"S1": ("a0", "x <= 1"), "S2": ("e0", "x = 1"), "S3": ("a1", "x = 1")}
    interests["S4"] = ("e2", "x >= 0")
    for client, (home, where) in interests.items():
        here.ask(home, client, Subscribe(subscription(client, where, client)))
    for client, host, number in (("P1", "a2", 2), ("P2", "a1", 0), ("P3", "e1", 1)):
        promise = advertisement(client, f"x = {number}", client)
        here.ask(host, client, Advertise(promise))
    here.settle()
    found = {}
    for client, host, number in (("P1", "a2", 2), ("P2", "a1", 0), ("P3", "e1", 1)):
        before = len(here.copies())
        here.ask(host, client, publish(number, publisher=client))
        first = here.copies()[before:]
        here.settle()
        kinds = ["i" if target[0] == host[0] else "a" for _, target, _ in first]
        found[client] = (here.bits(host, client), "".join(sorted(kinds)))
        assert not any(owed for _, _, owed in here.copies()[before:])
    # Bits of other clusters; the host's own is 100, 010 and 010.
    assert found == {"P1": (0b000, "a"), "P2": (0b101, "ii"), "P3": (0b101, "aii")}
    assert sorted(here.delivered()) == [
        (0, "S1"), (0, "S4"), (1, "S1"), (1, "S2"), (1, "S3"), (1, "S4"), (2, "S4"),
    ]  # fmt: skip


# Of the aLinks the one to c2 costs less.
BOTH = (("b2", "b0", 40), ("b2", "b1", 30), ("b2", "a2", 1))


@pytest.mark.parametrize(
    ("congested", "copies", "brokers", "hops"),
    [
        ((), 6, 7, 2),
        ((("b2", "b0", 40),), 6, 7, 3),
        (BOTH, 4, 5, 2),
        ((("b2", "b0", 40), ("b1", "b0", 40), ("c1", "c0", 40)), 5, 6, 3),
        ((*BOTH[:2], ("b2", "a2", 20), ("b2", "c2", 20)), 6, 7, 3),
    ],
    ids=["static", "a", "b", "c", "d"],
)
def test_figure_7_routing_around_congestion_takes_the_papers_copies(
    congested: tuple[tuple[str, str, int], ...], copies: int, brokers: int, hops: int
) -> None:
    """The number of copies, of brokers they pass, and of hops to S1."""
    here = ProductStage()
    homes = {"S1": "c0", "S2": "c1", "S3": "a2", "S4": "c2"}
    for client, home in homes.items():
        here.ask(home, client, Subscribe(subscription(client, client=client)))
    here.ask("b2", "P", Advertise(advertisement("p")))
    here.settle()
    here.congest(*congested)
    here.ask("b2", "P", publish(1))
    here.settle()
    assert sorted(here.delivered()) == [(1, client) for client in homes]
    found = here.copies()
    assert (len(found), len(brokers_in(found)), here.hops("S1")) == (copies, brokers, hops)
    if congested == BOTH:
        assert ("b2", "c2", 0b011) in found
    elif congested:
        assert ("b2", "b1", 0b001) in found
