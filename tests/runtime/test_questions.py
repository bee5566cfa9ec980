"""The places of clients, a page at a time."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from shoal.client import Client
from shoal.client.terms import Keep
from shoal.runtime import questions
from shoal.runtime.supervisor import get_json
from tests.runtime.live import on_loop
from tests.runtime.one_service import network, running


@on_loop
async def test_clients_are_listed_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "CLIENTS", 2)
    async with running(network(), "B1") as (service,):
        address, admin = str(service.listening["mqtt"]), service.listening["admin"]
        for name in ("b", "d"):
            async with Client(address, name, keep=Keep(seconds=60)) as away:
                await away.subscribe("a", qos=1).granted()
        async with Client(address, "a"), Client(address, "c"), Client(address, "e") as last:
            await last.publish("a", b"12345")
            pages: list[dict[str, Any]] = []
            query: str | None = ""
            while query is not None:
                pages.append(await get_json(admin, f"/clients?{query}"))
                query = pages[-1]["next"]
            named = [[row["client"] for row in page["clients"]] for page in pages]
            assert named == [["a", "b"], ["c", "d"], ["e"]]
            assert dict(parse_qsl(pages[0]["next"])) == {"from": "c"}
            connected, away_row = pages[0]["clients"]
            assert connected["listener"] == "mqtt"
            published = {
                row["client"]: row["published"] for page in pages for row in page["clients"]
            }
            assert published == {"a": 0, "b": 0, "c": 0, "d": 0, "e": 1}
            assert connected["address"].startswith("127.0.0.1:")
            assert (away_row["address"], away_row["subscriptions"]) == (None, 1)
            assert (away_row["waiting"], away_row["dropped"]) == (1, 0)
            assert away_row["waiting_bytes"] >= 5
            assert away_row["away_s"] >= 0
            assert connected["going"] is away_row["going"] is None
            (only,) = (await get_json(admin, "/clients?client=d"))["clients"]
            assert only == pages[1]["clients"][1] | {"away_s": only["away_s"]}
            assert (await get_json(admin, "/clients?client=nobody"))["clients"] == []
