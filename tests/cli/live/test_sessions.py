"""`shoal sessions` and `shoal retained`: lists, pages and deletion, on a live network."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.client import Client
from shoal.client.terms import Keep
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import NetworkFile, dump_network, parse_network
from tests.runtime.live import on_loop, until
from tests.runtime.one_service import data_of, network, running


def written(path: Path, network: NetworkFile, services: list[BrokerService]) -> str:
    """The network's file, with the ports that its brokers have."""
    data = data_of(network)
    for section, service in zip(data["brokers"], services, strict=True):
        section |= {key: str(where) for key, where in service.listening.items()}
    file = path / "network.toml"
    file.write_text(dump_network(parse_network(data)), encoding="utf-8")
    return str(file)


async def shoal(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    def call() -> int:
        with pytest.raises(SystemExit) as caught:
            main(list(words))
        return int(caught.value.code or 0)

    code = await asyncio.to_thread(call)
    output = capsys.readouterr()
    return code, (output.out + output.err).strip()


@on_loop
async def test_sessions_are_listed_page_by_page_and_one_is_deleted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "shoal.audit")
    monkeypatch.setenv("COLUMNS", "120")
    async with running(network(2), "B1", "B2") as services:
        file = written(tmp_path, services[0].network, services)
        one, two = (str(each.listening["mqtt"]) for each in services)
        for name, where in (("a", one), ("c", two)):
            async with Client(where, name, keep=Keep(seconds=60)) as client:
                await client.subscribe("t", qos=1).granted()
        async with Client(one, "b") as there, Client(two, "d"):
            await there.publish("t", b"1", qos=1)
            code, text = await shoal(capsys, "sessions", "list", file, "--json", "--most", "3")
            found = json.loads(text)
            assert [row["client"] for row in found["sessions"]] == ["a", "b", "c"]
            assert [row["broker"] for row in found["sessions"]] == ["B1", "B1", "B2"]
            assert (found["sessions"][0]["waiting"], found["sessions"][0]["expiry_s"]) == (1, 60)
            assert found["next"] == "d"
            _, text = await shoal(capsys, "sessions", "list", file, "--most", "1", "--from", "c")
            assert "away for" in text
            assert text.endswith("next page: --from d")
            _, text = await shoal(capsys, "sessions", "list", file, "--away")
            assert "connected" not in text
            # One that is away, at the other broker, and one that is there.
            code, text = await shoal(capsys, "sessions", "delete", file, "c")
            assert (code, text) == (0, "the session of c at B2 is deleted")
            code, text = await shoal(capsys, "sessions", "delete", file, "b")
            assert text.startswith("the session of b at B1 is deleted")
            code, text = await shoal(capsys, "sessions", "delete", file, "c")
            assert (code, "no broker has a session of c" in text) == (2, True)
        # The client b may have connected again, and its session ends with the client.
        left = [each.front_end.clients.sessions for each in services]
        await until(lambda: [each.client_ids() for each in left] == [["a"], []])
    # The audit names the order itself, and what came of it.
    said = [
        (each.message, each.__dict__["where"], each.__dict__["why"])
        for each in caplog.records
        if each.message.startswith("order")
    ]
    assert ("ordered", "/delete-session", "client=c") in said
    assert ("order carried out", "/delete-session", "client=c") in said
    assert ("order refused", "/delete-session", "client=b: b has no session at B2") in said


@on_loop
async def test_retained_messages_are_listed_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    async with running(network(), "B1") as services:
        file = written(tmp_path, services[0].network, services)
        async with Client(str(services[0].listening["mqtt"]), "p") as publisher:
            for number in range(3):
                await publisher.publish(f"a/{number}", b"12345", qos=1, retain=True)
        _, text = await shoal(capsys, "retained", "list", file, "a/+", "--most", "2")
        assert "a/0" in text
        assert "5 bytes" in text
        assert text.endswith("there are more: --most N, or another filter")
        code, text = await shoal(capsys, "retained", "delete", file, "a/#")
        assert (code, "3 retained messages match a/#: say --yes" in text) == (2, True)
        assert await shoal(capsys, "retained", "delete", file, "a/0") == (
            0,
            "deleted the retained messages on a/0",
        )
        assert (await shoal(capsys, "retained", "delete", file, "a/#", "--yes"))[0] == 0
        _, text = await shoal(capsys, "retained", "list", file)
        assert text == "nothing is retained on #"
        code, text = await shoal(capsys, "retained", "list", file, "#/a")
        assert (code, "# stands for all levels" in text) == (2, True)
