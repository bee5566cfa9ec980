"""Rows of the trace that brokers on a structured overlay write by `Record` effects."""

from __future__ import annotations

import msgspec

from shoal.broker.happenings import Happening
from shoal.model import BrokerId, ClientId


class ReconfigurationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The manager's decision about places.

    outcome   done, brokers changed places; kept, it does not pay; dropped, brokers joined or left
              meanwhile
    moved     number of brokers at other positions
    benefit   expected saving in a period, by Eq. 6
    price     cost of the change in messages, Eq. 7
    """

    broker: BrokerId
    at_us: int
    outcome: str
    version: int
    moved: int = 0
    benefit: float = 0.0
    price: float = 0.0

    def happening(self) -> Happening:
        text = {
            "done": f"{self.moved:,} brokers change places",
            "kept": "brokers keep their places",
            "dropped": "a change of places was dropped: brokers joined or left",
        }.get(self.outcome, f"places of brokers: {self.outcome}")
        return Happening(
            at_us=self.at_us,
            kind="links" if self.outcome == "done" else "stay",
            text=text,
            why=f"saves {self.benefit:,.4g} messages in a period, costs {self.price:,.4g}",
            source=self.broker,
        )


class PlacementRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user was sent to the broker where it should be."""

    broker: BrokerId
    at_us: int
    client: ClientId
    target: BrokerId

    def happening(self) -> Happening:
        return Happening(
            at_us=self.at_us,
            kind="move",
            text=f"client {self.client} is sent to {self.target}",
            client=self.client,
            source=self.broker,
            target=self.target,
        )
