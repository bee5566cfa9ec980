"""Bridges agree on the identity of a network: the smallest that any of them knows."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

import pytest

from shoal.client import Client, ClientError, Message
from shoal.client.bridges import identity as module
from shoal.client.bridges.identity import TOPIC, Identity


class Broker:
    """Retains one message, and passes publications to all clients, if allowed."""

    def __init__(self, *, is_allowed: bool = True) -> None:
        self.retained = b""
        self.is_allowed = is_allowed
        self.clients: list[Clients] = []

    def publish(self, payload: bytes) -> None:
        self.retained = payload
        for each in self.clients:
            each.come(payload)


class Clients:
    """One client and its one subscription."""

    def __init__(self, broker: Broker) -> None:
        self.address = "b:1883"
        self._broker = broker
        self._messages: deque[bytes] = deque()
        broker.clients.append(self)
        if broker.retained:
            self.come(broker.retained)

    def subscribe(self, topic: str, *, identifier: int) -> Clients:
        assert topic == TOPIC
        return self

    async def granted(self) -> None:
        if not self._broker.is_allowed:
            raise ClientError("not authorized")

    async def publish(self, topic: str, payload: bytes, *, retain: bool) -> None:
        assert (topic, retain) == (TOPIC, True)
        self._broker.publish(payload)

    def come(self, payload: bytes) -> None:
        self._messages.append(payload)

    async def get(self) -> Message:
        while not self._messages:
            await asyncio.sleep(0)
        return Message(TOPIC, self._messages.popleft(), 0, True, {}, None)


def bridge(broker: Broker) -> Identity:
    return Identity(cast(Client, Clients(broker)))


async def settle(*bridges: Identity) -> None:
    following = [asyncio.create_task(each.follow()) for each in bridges]
    for _ in range(20):
        await asyncio.sleep(0)
    for task in following:
        task.cancel()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.01)


def test_the_first_bridge_sets_the_identity_and_others_accept_it() -> None:
    async def run() -> None:
        broker = Broker()
        first = bridge(broker)
        await first.known()
        second = bridge(broker)
        await second.known()
        assert first.value == second.value == broker.retained.decode() != "b:1883"

    asyncio.run(run())


def test_two_simultaneous_identities_become_one() -> None:
    async def run() -> None:
        broker = Broker()
        both = [bridge(broker) for _ in range(2)]
        await asyncio.gather(*(each.known() for each in both))
        await settle(*both)
        third = bridge(broker)
        await third.known()
        assert len({each.value for each in (*both, third)}) == 1

    asyncio.run(run())


@pytest.mark.parametrize("other", ["0", "zzz"])
def test_a_smaller_identity_is_accepted_and_a_larger_one_replaced(other: str) -> None:
    async def run() -> None:
        broker = Broker()
        one = bridge(broker)
        await one.known()
        before = one.value
        broker.publish(other.encode())
        await settle(one)
        assert one.value == min(before, other) == broker.retained.decode()

    asyncio.run(run())


def test_without_read_permission_the_address_is_the_identity() -> None:
    async def run() -> None:
        broker = Broker(is_allowed=False)
        one = bridge(broker)
        await one.known()
        assert (one.value, broker.retained) == ("b:1883", b"")

    asyncio.run(run())
