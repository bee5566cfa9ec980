"""What is wanted of a neighbour, where subscriptions cover each other and links change."""

from __future__ import annotations

from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise
from shoal.overlays.registry import strategy_factory
from shoal.overlays.tree.system import TreeParameters
from tests.broker.transcript import advertisement
from tests.overlays.tree.told import Told, received


def test_who_is_gone_wants_nothing_any_more_as_an_advertisement_turns() -> None:
    """Its name was kept among those that want subscriptions, where others cover them."""
    broker = Told("B3")
    factory = strategy_factory("tree", TreeParameters(covering=True))
    broker.machine = Broker("B3", ("B1", "B2"), factory)
    broker.hears(*received("B2", Advertise(advertisement("a"))))
    broker.hears(LinkChanged("B4", LinkState.UP))
    broker.hears(*received("B4", Advertise(advertisement("a"))))
    broker.hears(LinkChanged("B2", LinkState.ENDED))
    tables = broker.machine.strategy.tables  # type: ignore[attr-defined]
    assert tables.advertisements["a"].last_hop == "B4"
    assert "B2" not in tables.wanted
