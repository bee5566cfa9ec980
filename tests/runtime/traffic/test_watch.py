"""Heavy topics and clients at a live broker, and the times of deliveries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shoal.broker.links.controls import BrokerLocation
from shoal.client import Client, Keep
from shoal.runtime.operations.metrics import render
from shoal.runtime.supervisor import get_json
from tests.cli.live.test_sessions import shoal, written
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import network, running


def names(found: dict[str, Any], kind: str, by: str) -> list[str]:
    return [row["name"] for row in found[kind][by]]


@on_loop
async def test_heavy_keys_are_named_and_deliveries_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    async with running(network(2), "B1", "B2") as services:
        one, two = (str(each.listening["mqtt"]) for each in services)
        async with (
            Client(one, "noisy") as noisy,
            Client(one, "calm") as calm,
            Client(two, "s") as there,
            Client(one, "t") as here,
            there.subscribe("loud/#", qos=1) as all_of_it,
            here.subscribe("loud/#", "level > 30", qos=1) as some_of_it,
        ):
            await all_of_it.granted()
            await some_of_it.granted()
            async with Client(two, "night", keep=Keep(seconds=60)) as night:
                await night.subscribe("quiet", qos=1).granted()
            for number in range(200):
                await noisy.publish("loud/1", b'{"level": %d}' % number, qos=1)
                if not number % 40:
                    await calm.publish("quiet", b"1", qos=1)
            for _ in range(200):
                await all_of_it.get()
            found = await get_json(services[0].listening["admin"], "/top")
            assert names(found, "clients", "messages")[0] == "noisy"
            assert names(found, "topics", "bytes")[0] == "loud/1"
            (filter_row, *_rest) = found["filters"]["time"]
            assert filter_row["name"] == "loud/#?level > 30"
            assert filter_row["per_s"] > 0
            elsewhere = await get_json(services[1].listening["admin"], "/top")
            assert "loud/#" in names(elsewhere, "filters", "messages")
            await until(lambda: services[1].status()["latency"]["elsewhere"]["count"] > 0)
            status = services[0].status()["latency"]
            assert status["here"]["count"] > 0
            assert status["elsewhere"]["count"] == 0
            assert 0 < status["here"]["p50_s"] <= status["here"]["p99_s"]
            text = render(services[0].figures).decode()
            assert re.search(
                r'shoal_delivery_seconds_bucket\{le="0.01",published="here"\} \d', text
            )
            file = written(tmp_path, services[0].network, services)
            code, said = await shoal(capsys, "top", file, "--by", "time")
            assert code == 0
            assert re.search(r"noisy\W+\d", said)
            assert re.search(r"loud/#\?level > 30\W+.* %", said)
            assert re.search(r"night\W+B2\W+5\W+[\d.]+ kB\W+0\W+0\W", said)
            _, said = await shoal(capsys, "status", file)
            assert "delivery to clients of the same broker: p50 " in said


@on_loop
async def test_prometheus_gets_brokers_as_they_appear() -> None:
    async with running(network(2), "B1") as (one,):
        found = await get_json(one.listening["admin"], "/prometheus/targets")
        (row,) = found
        assert row["targets"] == [str(one.listening["admin"])]
        assert row["labels"] == {"broker": "B1", "network": "n", "__scheme__": "http"}
        admin = "10.0.0.7:8081"
        one.directory.merge([BrokerLocation("B9", 1, peers="10.0.0.7:7001", admin=admin)])
        found = await get_json(one.listening["admin"], "/prometheus/targets")
        assert [row["labels"]["broker"] for row in found] == ["B1", "B9"]
