"""A user's system; its brokers raise when a publication arrives over a link."""

from __future__ import annotations

from msgspec.structs import replace

from shoal.broker.effects import Effect
from shoal.broker.messages import Message, PublicationBatch
from shoal.model import BrokerId
from tests.flooding import SYSTEM as FLOODING
from tests.flooding import Flooding


class Faulty(Flooding):
    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if isinstance(message, PublicationBatch):
            raise KeyError("a slip")
        super().receive(neighbour, message, now_us, out)


SYSTEM = replace(FLOODING, name="faulty", strategy=Faulty)
