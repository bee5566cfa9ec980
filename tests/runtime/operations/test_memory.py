"""The memory ledger of a live broker: every table has a bound, and users are named."""

from __future__ import annotations

from pathlib import Path

from shoal.client import Client
from shoal.client.terms import Keep
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.operations.metrics import render
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import network, running


@on_loop
async def test_tables_have_bounds_and_users_their_queues(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(password_line("ann", "secret") + "\n")
    settings = network(2, access={"passwords": str(path)})
    async with running(settings, "B1", "B2") as (one, _):
        where, ann = str(one.listening["mqtt"]), {"username": "ann", "password": "secret"}
        await until(lambda: one.node.is_ready)
        async with Client(where, "away", keep=Keep(seconds=100), **ann) as client:
            await client.subscribe("a", qos=1).__aenter__()
        async with Client(where, "p", **ann) as client:
            await client.publish("a", b"x" * 5_000, qos=1, retain=True)
            await until(lambda: one.figures()["memory"]["users"][0]["queued_bytes"] > 5_000)
            memory = one.figures()["memory"]
            rows = {row["name"]: row for row in memory["tables"]}
            elsewhere = rows.pop("sessions elsewhere")  # bounded by the brokers that own them
            assert elsewhere["entries"] == 0
            for row in rows.values():
                assert row["most_entries"] or row["most_bytes"], row
                assert row["entries"] <= (row["most_entries"] or 2**62)
                assert row["bytes"] <= (row["most_bytes"] or 2**62)
            assert rows["retained messages"]["entries"] >= 1
            assert rows["retained messages"]["bytes"] > 5_000
            assert rows["queued messages"]["bytes"] > 5_000
            assert rows["sessions"]["entries"] == 2
            assert rows["logins"]["entries"] == 1
            (user,) = memory["users"]
            assert (user["user"], user["sessions"]) == ("ann", 2)
            publisher = memory["publishers"][0]
            assert (publisher["client"], publisher["user"]) == ("p", "ann")
            assert publisher["retained_bytes"] > 5_000
            text = render(one.figures).decode()
            assert 'shoal_memory_entries{table="sessions"} 2.0' in text
            assert 'shoal_user_queued_bytes{user="ann"}' in text
