"""Retained messages are listed a page at a time, and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.client import Client
from shoal.runtime import retained
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.supervisor import get_json, order
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import network, running


async def listed(service: BrokerService, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    more: str | None = query
    while more is not None:
        page = await get_json(service.listening["admin"], f"/retained?{more}")
        rows += page["retained"]
        more = page["next"]
    return rows


def topics(service: BrokerService) -> set[str]:
    found = service.front_end.clients.retained.matching("#", service.front_end.node.clock.now_us())
    return {message.topic for message in found}


@on_loop
async def test_retained_messages_are_listed_in_pages_and_deleted_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retained, "MOST_ON_A_PAGE", 3)
    async with running(network(2), "B1", "B2") as (one, two):
        async with Client(str(one.listening["mqtt"]), "p") as publisher:
            for number in range(7):
                await publisher.publish(f"a/{number}", b"12345", qos=1, retain=True)
            await publisher.publish("b", b"1", qos=1, retain=True)
        await until(lambda: len(topics(two)) == 8)
        rows = await listed(two, "filter=a/%2B")
        assert sorted(row["topic"] for row in rows) == [f"a/{number}" for number in range(7)]
        assert {(row["bytes"], row["qos"], row["publisher"]) for row in rows} == {(5, 1, "p")}
        assert not any("payload" in row for row in rows)
        async with (
            Client(str(two.listening["mqtt"]), "s") as subscriber,
            subscriber.subscribe("a/0") as subscription,
        ):
            assert (await subscription.get()).payload == b"12345"
            assert await order(two.listening["admin"], "delete-retained", filter="a/#") == ""
            # New subscribers do not receive them, as after any message that deletes.
            assert (await subscription.get()).payload == b""
        await until(lambda: topics(one) == topics(two) == {"b"})
        why = await order(two.listening["admin"], "delete-retained", filter="a/#")
        assert why == "nothing is retained on a/#"


@on_loop
async def test_a_single_broker_lists_and_invalid_requests_are_errors() -> None:
    async with running(network(), "B1") as (service,):
        admin = service.listening["admin"]
        async with Client(str(service.listening["mqtt"]), "p") as publisher:
            await publisher.publish("a", b"1", qos=1, retain=True)
        assert await order(admin, "delete-retained", filter="a") == ""
        assert topics(service) == set()
        assert "begin with $" in await order(admin, "delete-retained", filter="$SYS/#")
        assert "level 1" in await order(admin, "delete-retained", filter="#/a")
        assert "filter: " in (await get_json(admin, "/retained?filter=%23/a"))["problem"]
        assert "left for too long" in (await get_json(admin, "/retained?cursor=77"))["problem"]


@on_loop
async def test_abandoned_searches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "MOST_ON_A_PAGE", 1)
    async with running(network(), "B1") as (service,):
        async with Client(str(service.listening["mqtt"]), "p") as publisher:
            for topic in "abc":
                await publisher.publish(topic, b"1", qos=1, retain=True)
        asked = retained.Retained(service.front_end)
        pages = [await asked.page({"filter": "#"}) for _ in range(retained.MOST_CURSORS + 5)]
        assert len(asked._cursors) == retained.MOST_CURSORS
        first, last = (dict([each["next"].split("=")]) for each in (pages[0], pages[-1]))
        with pytest.raises(ValueError, match="cursor"):
            await asked.page(first)
        assert len((await asked.page(last))["retained"]) == 1
        monkeypatch.setattr(retained, "CURSOR_S", -1.0)
        with pytest.raises(ValueError, match="cursor"):
            await asked.page({"cursor": "21"})
