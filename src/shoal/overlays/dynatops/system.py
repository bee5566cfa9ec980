"""DYNATOPS on a Chord ring, all its brokers or gateways only, and its baselines.

These are Bayeux on Tapestry, and GeoPS on a quad grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import MESSAGES
from shoal.overlays.dynatops.parameters import (
    PER_GATEWAY,
    DynatopsParameters,
    EarthParameters,
    HybridParameters,
)
from shoal.overlays.dynatops.records import PlacementRecord, ReconfigurationRecord
from shoal.overlays.dynatops.structures.geography import Coordinates
from shoal.overlays.shapes import SELF_LINKED
from shoal.overlays.system import MAX_BROKERS, BrokerMachines, Picture, System, SystemLayout

if TYPE_CHECKING:
    from shoal.broker.strategy import BrokerContext, Strategy


class RingLayout(BrokerMachines, frozen=True, kw_only=True):
    """Brokers B1, B2, ..., at positions by the hash of their names."""

    def layout(self) -> SystemLayout:
        front_ends, _, _ = super().layout()
        return SystemLayout(front_ends, (), DynatopsParameters().for_brokers(front_ends))


class EarthLayout(RingLayout, frozen=True, kw_only=True):
    """The same until the network file has their places."""

    def layout(self) -> SystemLayout:
        front_ends, _, _ = super().layout()
        return SystemLayout(front_ends, (), EarthParameters().for_brokers(front_ends))


class HybridRing(RingLayout, frozen=True, kw_only=True):
    """The same in clusters."""

    per_gateway: Annotated[
        int, msgspec.Meta(ge=1, le=MAX_BROKERS, description="So many brokers have one gateway.")
    ] = PER_GATEWAY

    def layout(self) -> SystemLayout:
        front_ends, _, parameters = super().layout()
        assert isinstance(parameters, DynatopsParameters)
        clusters = HybridParameters(brokers=parameters.brokers, per_gateway=self.per_gateway)
        return SystemLayout(front_ends, (), clusters)


def _named(parameters: DynatopsParameters) -> Mapping[str, Iterable[BrokerId]]:
    in_regions = [broker for region in parameters.regions for broker in region]
    return {
        "brokers": parameters.brokers,
        "pinned": parameters.pinned,
        "regions": in_regions,
        "coordinates": list(parameters.places_on_earth),
    }


def _on_earth(
    parameters: EarthParameters | None, coordinates: Mapping[BrokerId, Coordinates]
) -> EarthParameters:
    """The parameters with brokers' coordinates, in front of which the table's own go."""
    found = EarthParameters() if parameters is None else parameters
    return msgspec.structs.replace(found, coordinates={**coordinates, **found.coordinates})


def _problems(picture: Picture, brokers: Mapping[BrokerId, Any]) -> list[str]:
    from shoal.overlays.dynatops.oracle import problems

    return problems(picture, brokers)


def _system(
    name: str,
    kind: type[DynatopsParameters] = DynatopsParameters,
    size: type[BrokerMachines] = RingLayout,
) -> System:
    def strategy(context: BrokerContext, parameters: DynatopsParameters) -> Strategy:
        from shoal.overlays.dynatops.protocol import Dynatops
        from shoal.overlays.dynatops.structures.systems import STRUCTURES, STRUCTURES_ON_EARTH

        return Dynatops(context, parameters, STRUCTURES[name], STRUCTURES_ON_EARTH.get(name))

    return System(
        name=name,
        strategy=strategy,
        shape=SELF_LINKED,
        parameters=kind,
        messages=MESSAGES,
        records={"reconfigurations": ReconfigurationRecord, "placements": PlacementRecord},
        shown=("reconfigurations", "placements"),
        size=size,
        complete=kind.for_brokers,
        give_up_us=10_000_000,
        oracle=_problems,
        moves_subscribers=lambda parameters: (parameters or kind()).places_users,
        named=_named,
        on_earth=_on_earth if kind is EarthParameters else None,
    )


SYSTEM = _system("dynatops")
BAYEUX = _system("bayeux", EarthParameters, EarthLayout)
GEOPS = _system("geops", EarthParameters, EarthLayout)
HYBRID = _system("hybrid", HybridParameters, HybridRing)
