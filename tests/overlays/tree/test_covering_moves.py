"""Wanted subscriptions of a neighbour, where subscriptions cover each other and links change."""

from __future__ import annotations

from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import advertisement
from tests.overlays.tree.recorded_broker import RecordedBroker, received


def test_a_dead_neighbour_wants_no_subscriptions_when_an_advertisement_turns() -> None:
    """Its name must not stay among those that want subscriptions, with covering."""
    broker = RecordedBroker("B3")
    factory = strategy_factory("tree", TreeParameters(covering=True))
    broker.machine = Broker("B3", ("B1", "B2"), factory)
    broker.handles(*received("B2", Advertise(advertisement("a"))))
    broker.handles(LinkChanged("B4", LinkState.UP))
    broker.handles(*received("B4", Advertise(advertisement("a"))))
    broker.handles(LinkChanged("B2", LinkState.ENDED))
    tables = broker.machine.strategy.tables  # type: ignore[attr-defined]
    assert tables.advertisements["a"].last_hop == "B4"
    assert "B2" not in tables.wanted
