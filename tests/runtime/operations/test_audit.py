"""The audit of clients and links: one line each, bounded in number, and counts."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from shoal.client import Client, ClientError
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.notices import MOST_WAITING, Notices, Party
from shoal.runtime.front_ends.entry import audit
from shoal.runtime.front_ends.entry.audit import ALL_BURST, BURST, MOST_BUCKETS, Audit
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_file import NetworkFile
from shoal.runtime.operations.metrics import render
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network, running

RULES = [{"user": "*", "publish": ["home/#"], "subscribe": ["home/#"]}]


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.getMessage() == event]


def guarded(folder: Path, brokers: int = 1) -> NetworkFile:
    (folder / "users").write_text(password_line("ann", "right"))
    access = {"anonymous": True, "passwords": str(folder / "users"), "rules": RULES}
    return network(brokers, access=access)


async def refused(address: str, **options: Any) -> None:
    with pytest.raises(ClientError):
        async with Client(address, "burglar", **options):
            pass


def test_refusals_of_one_packet_are_one_line_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notices = Notices()
    party = Party("c", None, None)
    for times in (1, 100):
        code = ReasonCode.QUOTA_EXCEEDED
        notices.refuse("subscribe refused", code, party, "a/b", "no room", times=times)
    Audit(lambda: 0).write(notices)
    first, second = lines(caplog, "subscribe refused")
    assert "times" not in first
    assert (second["client"], second["where"], second["times"]) == ("c", "a/b", 100)
    assert notices.refusals["subscribe refused", "quota exceeded"] == 101


@on_asyncio
async def test_each_refusal_is_a_line_and_a_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with asyncio.timeout(PATIENCE_S), running(guarded(tmp_path), "B1") as (service,):
        address = str(service.listening["mqtt"])
        await refused(address, username="ann", password="wrong")
        (row,) = lines(caplog, "connect refused")
        assert (row["client"], row["user"]) == ("burglar", "ann")
        assert row["address"].startswith("127.0.0.1:")
        assert row["why"] == "the user name or password is wrong"
        async with Client(address, "c", username="ann", password="right") as client:
            with pytest.raises(ClientError):
                await client.publish("secret/a")
            with pytest.raises(ClientError):
                await client.subscribe("secret/#").granted()
        (row,) = lines(caplog, "publish refused")
        assert (row["client"], row["user"], row["where"]) == ("c", "ann", "secret/a")
        (row,) = lines(caplog, "subscribe refused")
        assert (row["where"], row["why"]) == (
            "secret/#",
            "no permission to subscribe to 'secret/#'",
        )
        text = render(service.status).decode()
        for what, reason in (
            ("connect refused", "bad user name or password"),
            ("publish refused", "not authorized"),
            ("subscribe refused", "not authorized"),
        ):
            assert f'shoal_refusals_total{{reason="{reason}",what="{what}"}} 1.0' in text


@on_asyncio
async def test_takeovers_moves_and_links_are_in_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with (
        asyncio.timeout(PATIENCE_S),
        running(network(2), "B2", "B1") as (there, here),
    ):
        await until(lambda: not (here.links.away or there.links.away))
        assert sorted(row["neighbour"] for row in lines(caplog, "link up")) == ["B1", "B2"]
        addresses = [str(each.listening["mqtt"]) for each in (here, there)]
        async with (
            Client(addresses[0], "twin") as first,
            Client(addresses[0], "twin"),
        ):
            await until(lambda: bool(lines(caplog, "taken over")))
            first._running.cancel()  # type: ignore[union-attr]  # it would come back
        row = lines(caplog, "taken over")[0]
        assert (row["client"], row["why"]) == ("twin", "the client connected again elsewhere")
        async with Client(addresses[0], "mover") as mover:
            connection = here.front_end.clients.connection("mover")
            assert connection is not None
            here.front_end.carry_out(connection.redirect(addresses[1], here.node.clock.now_us()))
            await until(lambda: mover.address == addresses[1])
            (row,) = lines(caplog, "sent on")
            assert (row["client"], row["where"]) == ("mover", addresses[1])
    down = {row["neighbour"]: row["why"] for row in lines(caplog, "link down")}
    assert down == {"B2": "the other end closed it", "B1": "this end closed it"}


class Time:
    now_us = 0

    def __call__(self) -> int:
        return self.now_us


def test_lines_are_bounded_and_omissions_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time, notices = Time(), Notices()
    log = Audit(time)
    flood, other = Party("f", None, "10.0.0.1:1"), Party("o", None, "10.0.0.2:1")
    for _ in range(10):
        for _ in range(1_000):
            notices.refuse("publish refused", ReasonCode.NOT_AUTHORIZED, flood, "a", "")
        log.write(notices)
    assert notices.refusals.total() == 10_000
    assert len(lines(caplog, "publish refused")) == BURST
    notices.refuse("publish refused", ReasonCode.NOT_AUTHORIZED, other, "a" * 70_000, "")
    log.write(notices)
    row = lines(caplog, "publish refused")[-1]
    assert row["client"] == "o"
    assert len(row["where"]) < 300
    assert row["left_out"] == 9 * (1_000 - MOST_WAITING)
    time.now_us = 1_000_000
    notices.refuse("publish refused", ReasonCode.NOT_AUTHORIZED, flood, "a", "")
    log.write(notices)
    row = lines(caplog, "publish refused")[-1]
    assert (row["client"], row["left_out"]) == ("f", 10 * MOST_WAITING - BURST)


def test_clients_of_no_known_address_have_a_bound_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    notices, log = Notices(), Audit(Time())
    for client in ("a",) * (2 * int(BURST)) + ("b",):
        notices.note("payload not read", Party(client, None, None), "t", "it is no JSON")
        log.write(notices)
    told = [row["client"] for row in lines(caplog, "payload not read")]
    assert told == ["a"] * int(BURST) + ["b"]


def test_refused_clients_share_one_bound(caplog: pytest.LogCaptureFixture) -> None:
    log = Audit(Time())
    for number in range(2 * MOST_BUCKETS):
        notices = Notices()
        who = Party("c", f"user {number}", None)
        notices.refuse("connect refused", ReasonCode.NOT_AUTHORIZED, who, "", "")
        log.write(notices)
    assert len(lines(caplog, "connect refused")) == ALL_BURST
    assert len(log._buckets) == MOST_BUCKETS
    assert audit.PER_SECOND <= audit.ALL_PER_SECOND


def test_each_order_has_its_line_however_many_there_are(caplog: pytest.LogCaptureFixture) -> None:
    """A script that moves a thousand clients leaves a thousand lines, beside many others."""
    notices, writer = Notices(), Audit(lambda: 0)
    number = 10 * MOST_WAITING
    with caplog.at_level(logging.INFO, "shoal.audit"):
        for client in range(number):
            who = Party(f"c{client}", "ann", "10.0.0.1:1")
            notices.refuse("connect refused", ReasonCode.NOT_AUTHORIZED, who, "", "")
            notices.note("ordered", who, "/move", f"client=c{client}", is_order=True)
        writer.write(notices)
    assert [line["client"] for line in lines(caplog, "ordered")] == [f"c{n}" for n in range(number)]
    assert len(lines(caplog, "connect refused")) == BURST
