"""DYNATOPS on a Chord ring, and its baselines: Bayeux on Tapestry, GeoPS on a quad grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shoal.broker.strategy import BrokerContext, Strategy
from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import MESSAGES
from shoal.overlays.dynatops.oracle import problems
from shoal.overlays.dynatops.parameters import Parameters
from shoal.overlays.dynatops.protocol import Dynatops
from shoal.overlays.dynatops.records import PlacementRecord, ReconfigurationRecord
from shoal.overlays.dynatops.structures.systems import STRUCTURES
from shoal.overlays.shapes import SELF_LINKED
from shoal.overlays.system import Brokers, Layout, System


class Ring(Brokers, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., at positions by the hash of their names."""

    def layout(self) -> Layout:
        doors, _, _ = super().layout()
        return Layout(doors, (), Parameters().for_brokers(doors))


def _named(parameters: Parameters) -> Mapping[str, Iterable[BrokerId]]:
    in_regions = [broker for region in parameters.regions for broker in region]
    return {"brokers": parameters.brokers, "pinned": parameters.pinned, "regions": in_regions}


def _system(name: str) -> System:
    def strategy(context: BrokerContext, parameters: Parameters) -> Strategy:
        return Dynatops(context, parameters, STRUCTURES[name])

    return System(
        name=name,
        strategy=strategy,
        shape=SELF_LINKED,
        parameters=Parameters,
        messages=MESSAGES,
        records={"reconfigurations": ReconfigurationRecord, "placements": PlacementRecord},
        shown=("reconfigurations", "placements"),
        size=Ring,
        complete=Parameters.for_brokers,
        give_up_us=10_000_000,
        oracle=problems,
        moves_subscribers=lambda parameters: (parameters or Parameters()).places_users,
        named=_named,
    )


SYSTEM = _system("dynatops")
BAYEUX = _system("bayeux")
GEOPS = _system("geops")
