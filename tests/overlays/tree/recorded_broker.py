"""One broker that receives every input from the test, and a record of its effects."""

from __future__ import annotations

from shoal.broker.effects import Effect, Received, Send
from shoal.broker.machine import Broker
from shoal.broker.messages import Message
from shoal.overlays.registry import strategy_factory


def broker(name: str, *neighbours: str, system: str = "tree") -> Broker:
    return Broker(name, neighbours, strategy_factory(system))


class RecordedBroker:
    """One broker that receives an input each microsecond; `did` has the effects of the last."""

    def __init__(self, name: str, *neighbours: str, system: str = "tree") -> None:
        self.machine = broker(name, *neighbours, system=system)
        self.now_us = 0
        self.did: list[Effect] = []

    def handles(self, *inputs: object) -> RecordedBroker:
        for input in inputs:
            self.now_us += 1
            self.did = self.machine.handle(input, self.now_us)  # type: ignore[arg-type]
        return self

    def sent_to(self, neighbour: str) -> list[Message]:
        return [
            each.message
            for each in self.did
            if isinstance(each, Send) and each.neighbour == neighbour
        ]


def received(neighbour: str, *messages: Message) -> list[Received]:
    return [Received(neighbour, message) for message in messages]
