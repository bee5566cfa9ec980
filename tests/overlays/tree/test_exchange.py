"""The exchange of tables between neighbours: waiting brokers, and stale rows."""

from __future__ import annotations

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    Input,
    LinkChanged,
    LinkReady,
    LinkState,
    Received,
    Requested,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Subscribe, Unsubscribe
from shoal.language import parse
from shoal.model import Advertisement, Subscription
from shoal.overlays.tree.exchange import TIMER, WAIT_US
from shoal.overlays.tree.messages import AdvertisementsSaid, SubscriptionsSaid
from shoal.overlays.tree.routing import TreeRouting

PROMISE = Advertise(Advertisement(id="a", publisher="P", filter=parse("x > 0")))
OTHER_PROMISE = Advertise(Advertisement(id="b", publisher="Q", filter=parse("x > 0")))
INTEREST = Subscribe(Subscription(id="s", client="C", filter=parse("x > 5")))
FAR_INTEREST = Subscribe(Subscription(id="t", client="D", filter=parse("x > 7")))
UP = LinkState.UP
GIVE_UP_US = 60_000_000


class RecordingBroker:
    """A broker, and its messages since the last question."""

    def __init__(self, *expected: str, former: tuple[str, ...] = ()) -> None:
        self.machine = Broker("B1", (), TreeRouting, expected=expected)
        self.effects: list[Effect] = []
        self.at(Started(former, GIVE_UP_US))

    def at(self, *inputs: Input, now_us: int = 1) -> RecordingBroker:
        for input in inputs:
            self.effects += self.machine.handle(input, now_us)
        return self

    def receives(self, neighbour: str, *messages: Message, now_us: int = 1) -> RecordingBroker:
        return self.at(*(Received(neighbour, message) for message in messages), now_us=now_us)

    def sent_to(self, neighbour: str) -> list[Message]:
        found = [
            effect.message
            for effect in self.effects
            if isinstance(effect, Send) and effect.neighbour == neighbour
        ]
        self.effects = [
            effect
            for effect in self.effects
            if not (isinstance(effect, Send) and effect.neighbour == neighbour)
        ]
        return found


def test_a_broker_that_knows_no_neighbours_is_ready() -> None:
    assert RecordingBroker().machine.is_ready


def test_a_broker_that_starts_waits_for_both_its_neighbours() -> None:
    broker = RecordingBroker("B2", "B3")
    assert broker.effects == [SetTimer(TIMER, 1 + WAIT_US)]
    broker.at(Requested("P", PROMISE), Requested("C", INTEREST), LinkChanged("B2", UP))
    assert broker.sent_to("B2") == [PROMISE]  # not all: B3's tables are missing
    broker.receives("B2", OTHER_PROMISE, AdvertisementsSaid())
    assert broker.sent_to("B2") == [INTEREST]
    broker.at(LinkChanged("B3", UP))
    assert broker.sent_to("B3") == [PROMISE, OTHER_PROMISE, AdvertisementsSaid()]
    broker.receives("B3", AdvertisementsSaid())
    assert broker.sent_to("B2") == [AdvertisementsSaid()]
    assert broker.sent_to("B3") == []  # B2 may have subscriptions for it
    broker.receives("B2", FAR_INTEREST, SubscriptionsSaid())
    assert broker.sent_to("B3") == [SubscriptionsSaid()]
    assert LinkReady("B2") in broker.effects
    assert LinkReady("B3") not in broker.effects
    assert not broker.machine.is_ready
    broker.receives("B3", SubscriptionsSaid())
    assert broker.sent_to("B2") == [SubscriptionsSaid()]
    assert broker.effects[-2:] == [LinkReady("B3"), CancelTimer(TIMER)]
    assert broker.machine.is_ready


def test_a_neighbour_that_never_comes_is_waited_for_a_bounded_time() -> None:
    broker = RecordingBroker("B2", "B3").at(Requested("P", PROMISE), LinkChanged("B2", UP))
    broker.receives("B2", AdvertisementsSaid(), SubscriptionsSaid())
    assert broker.sent_to("B2") == [PROMISE]
    assert not broker.machine.is_ready
    broker.at(TimerFired(TIMER), now_us=1 + WAIT_US)
    assert broker.sent_to("B2") == [AdvertisementsSaid(), SubscriptionsSaid()]
    assert broker.machine.is_ready


def test_a_former_neighbour_is_waited_for_like_a_disconnected_one() -> None:
    broker = RecordingBroker("B2", "B3", former=("B2", "B9"))
    broker.effects.clear()
    broker.at(TimerFired(TIMER), now_us=1 + WAIT_US)
    assert broker.effects == [SetTimer(TIMER, 1 + GIVE_UP_US)]  # B3 was never seen
    broker.at(LinkChanged("B2", UP), now_us=2 + WAIT_US)
    assert broker.sent_to("B2") == [AdvertisementsSaid()]
    broker.receives(
        "B2", FAR_INTEREST, AdvertisementsSaid(), SubscriptionsSaid(), now_us=3 + WAIT_US
    )
    assert broker.machine.is_ready
    alone = RecordingBroker("B2", former=("B2",)).at(TimerFired(TIMER), now_us=1 + WAIT_US)
    assert not alone.machine.is_ready
    assert alone.at(TimerFired(TIMER), now_us=1 + GIVE_UP_US).machine.is_ready


def test_a_connected_neighbour_is_waited_for_while_its_link_lasts() -> None:
    broker = RecordingBroker("B2").at(LinkChanged("B2", UP))
    broker.at(TimerFired(TIMER), now_us=1 + WAIT_US)
    assert not broker.machine.is_ready  # it may be waiting for its own neighbours
    broker.at(LinkChanged("B2", LinkState.FAILED), now_us=2 + WAIT_US)
    assert broker.machine.is_ready


def test_a_dead_neighbour_is_not_waited_for_on_behalf_of_others() -> None:
    broker = RecordingBroker("B2", "B3").at(LinkChanged("B2", UP), LinkChanged("B3", UP))
    assert broker.sent_to("B2") == []
    broker.at(LinkChanged("B3", LinkState.FAILED))
    assert broker.sent_to("B2") == [AdvertisementsSaid()]


def test_no_neighbour_is_waited_for_longer_than_a_disconnected_one() -> None:
    machine = Broker("B1", (), TreeRouting, expected=("B2",))
    assert machine.handle(Started(give_up_us=3), 1) == [SetTimer(TIMER, 4)]


def stable() -> RecordingBroker:
    """A broker between B2, which has a publisher and a subscriber, and B3."""
    broker = RecordingBroker().at(
        LinkChanged("B2", UP), LinkChanged("B3", UP), Requested("C", INTEREST)
    )
    broker.receives("B3", PROMISE, AdvertisementsSaid(), SubscriptionsSaid())
    broker.receives("B2", OTHER_PROMISE, FAR_INTEREST, AdvertisementsSaid(), SubscriptionsSaid())
    broker.effects.clear()
    return broker


def test_rows_stay_when_a_returning_neighbour_repeats_them() -> None:
    broker = stable().at(LinkChanged("B2", UP))
    assert broker.sent_to("B3") == []  # other neighbours are not told
    assert broker.sent_to("B2") == [PROMISE, AdvertisementsSaid()]
    broker.receives("B2", OTHER_PROMISE)
    assert broker.sent_to("B2") == [INTEREST]
    broker.receives("B2", AdvertisementsSaid(), FAR_INTEREST, SubscriptionsSaid())
    assert broker.sent_to("B2") == [SubscriptionsSaid()]
    assert broker.effects == [LinkReady("B2")]
    tables = broker.machine.strategy.tables
    assert (sorted(tables.advertisements), sorted(tables.subscriptions)) == (["a", "b"], ["s", "t"])


def test_stale_rows_go_when_the_neighbour_has_sent_its_tables() -> None:
    broker = stable().at(LinkChanged("B2", UP))
    broker.receives("B2", AdvertisementsSaid())
    assert sorted(broker.machine.strategy.tables.advertisements) == ["a"]
    assert [type(each).__name__ for each in broker.sent_to("B3")] == ["Unadvertise"]
    assert sorted(broker.machine.strategy.tables.subscriptions) == ["s", "t"]
    broker.receives("B2", SubscriptionsSaid())
    assert sorted(broker.machine.strategy.tables.subscriptions) == ["s"]
    assert broker.sent_to("B3") == [Unsubscribe("t")]


def test_a_dead_neighbours_rows_are_dropped() -> None:
    broker = stable().at(LinkChanged("B2", UP), LinkChanged("B2", LinkState.FAILED))
    assert sorted(broker.machine.strategy.tables.advertisements) == ["a"]
    assert sorted(broker.machine.strategy.tables.subscriptions) == ["s"]
    broker.effects.clear()
    broker.at(LinkChanged("B2", UP)).receives("B2", AdvertisementsSaid(), SubscriptionsSaid())
    assert broker.sent_to("B2") == [PROMISE, AdvertisementsSaid(), SubscriptionsSaid()]
    assert broker.sent_to("B3") == []


def test_a_stale_row_that_changed_meanwhile_is_replaced() -> None:
    broker = stable().at(LinkChanged("B2", UP))
    changed = Advertise(Advertisement(id="b", publisher="Q", filter=parse("x > 6")))
    broker.receives("B2", changed, AdvertisementsSaid())
    (row,) = (
        row
        for row in broker.machine.strategy.tables.advertisements.values()
        if row.last_hop == "B2"
    )
    assert row.advertisement == changed.advertisement
    assert INTEREST in broker.sent_to("B2")
