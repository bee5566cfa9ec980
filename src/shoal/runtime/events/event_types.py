"""The contents of the events of a stream, by their kind; a reader checks what it gets by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shoal.broker.happenings import Happening
from shoal.model import BrokerId, ClientId
from shoal.runtime.events.alerts import Alert
from shoal.runtime.events.rates import BrokerFigures
from shoal.runtime.events.worst_clients import WorstClient

# No event is longer.
MOST_BYTES = 4 * 2**20


class KnownBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that another knows, and its addresses, empty if it has none."""

    broker: BrokerId
    mqtt: str
    admin: str


class BrokerAbout(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a broker that rarely change; `place` is its latitude and longitude."""

    broker: BrokerId
    place: tuple[float, float] | None
    network: str
    system: str
    version: str
    protocol: int
    listening: dict[str, str]
    brokers: list[KnownBroker]


class BrokerAlerts(msgspec.Struct, frozen=True, kw_only=True):
    """All current alerts, the worst and oldest first."""

    alerts: list[Alert]


class TopClients(msgspec.Struct, frozen=True, kw_only=True):
    """The clients that lose or wait most."""

    clients: list[WorstClient]


class ReportedHappening(Happening, frozen=True, kw_only=True):
    """A happening; `left_out` before it were too many to be reported."""

    left_out: int = 0


class DroppedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a client will not get; `key` is the publication's, None without a network."""

    at_us: int
    client: ClientId
    why: str
    topic: str
    publisher: ClientId
    key: str | None
    left_out: int = 0


class MissedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """A reader was too slow, and so many events are gone."""

    events: int


EVENT_TYPES: Mapping[str, type[msgspec.Struct]] = {
    "broker": BrokerAbout,
    "figures": BrokerFigures,
    "alerts": BrokerAlerts,
    "happened": ReportedHappening,
    "dropped": DroppedMessage,
    "top": TopClients,
    "missed": MissedEvents,
}


def read_event(kind: str, text: str) -> dict[str, Any] | None:
    """The content of an event, checked; None for a kind of a later version.

    msgspec.ValidationError for a content that its kind does not have.
    """
    expected = EVENT_TYPES.get(kind)
    if expected is None:
        return None
    if len(text) > MOST_BYTES:
        raise msgspec.ValidationError(f"an event of {len(text):,} bytes")
    found: dict[str, Any] = msgspec.to_builtins(msgspec.json.decode(text, type=expected))
    return found
