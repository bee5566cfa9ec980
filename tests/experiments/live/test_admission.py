"""Clients connect many at a time; dropped ones retry; those never admitted are left out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from shoal.client import Client, ClientError, Subscription
from shoal.experiments.live import admission
from shoal.experiments.live.admission import CONNECTING, LiveAdmission

CLIENT = cast(Client, object())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(admission, "RETRY_S", 0)
    monkeypatch.setattr(admission, "STALLED_S", 0.2)
    return


class FrontEnd:
    """A broker's front end that drops the first so many clients."""

    def __init__(self, refusals: int, reason: str = "server unavailable: too long") -> None:
        self.inside = self.most = self.tries = 0
        self._refusals = refusals
        self._reason = reason

    async def enter(self) -> Client:
        self.tries += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0)
        self.inside -= 1
        if self._refusals:
            self._refusals -= 1
            raise ClientError(self._reason)
        return CLIENT


async def admit_all(front_end: FrontEnd, size: int) -> LiveAdmission:
    told: list[int] = []
    waiting = LiveAdmission(told.append)

    async def one(name: str) -> None:
        if await waiting.connect(name, front_end.enter):
            waiting.done()

    async with asyncio.TaskGroup() as group:
        for number in range(size):
            group.create_task(one(f"c{number}"))
    assert told == list(range(1, size + 1 - len(waiting.left_out)))
    return waiting


def test_clients_connect_a_bounded_number_at_a_time() -> None:
    front_end = FrontEnd(0)
    assert asyncio.run(admit_all(front_end, 10 * CONNECTING)).left_out == {}
    assert front_end.most == CONNECTING


def test_a_client_dropped_by_a_busy_broker_retries() -> None:
    front_end = FrontEnd(50)
    assert asyncio.run(admit_all(front_end, 20)).left_out == {}
    assert front_end.tries == 70


def test_clients_are_left_out_when_admission_stops() -> None:
    front_end = FrontEnd(1_000_000)
    left_out = asyncio.run(admit_all(front_end, 40)).left_out
    assert len(left_out) == 40
    assert left_out["c0"] == "server unavailable: too long"


def test_a_permanent_error_ends_the_attempts() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(admit_all(FrontEnd(1, "not authorized"), 1))
    assert str(caught.value.exceptions[0]) == "not authorized"


class AskedSubscription:
    """A subscription that is granted, or not, when the test says so."""

    def __init__(self, answer: asyncio.Event) -> None:
        self._answer = answer

    async def granted(self) -> None:
        await self._answer.wait()


def test_subscriptions_wait_for_their_answers_together() -> None:
    async def run() -> None:
        waiting, answer = LiveAdmission(lambda _: None), asyncio.Event()
        asked: list[Any] = []

        def ask() -> Subscription:
            asked.append(AskedSubscription(answer))
            return cast(Subscription, asked[-1])

        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(waiting.subscribe(f"s{number}", ask))
            while len(asked) < 100:
                await asyncio.sleep(0)
            answer.set()
        assert waiting.left_out == {}
        answer.clear()
        assert await waiting.subscribe("late", ask) is None
        assert waiting.left_out == {"late": "its broker did not answer the subscription"}

    asyncio.run(run())
