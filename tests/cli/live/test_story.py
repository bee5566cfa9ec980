"""`shoal trace`, `shoal story` and `shoal console`, of a network that runs."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli.main import build_app, main
from shoal.client import Client
from shoal.client.terms import Keep
from shoal.console.serving import is_built
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import dump_network
from tests.runtime.live import PATIENCE_S, on_asyncio
from tests.runtime.one_service import network, running


class Commands:
    """Commands about a network of running brokers."""

    def __init__(self, folder: Path, services: list[BrokerService]) -> None:
        self.services = services
        text = dump_network(services[0].network)
        for service in sorted(services, key=lambda each: each.node.id):
            admin = f'admin = "{service.listening["admin"]}"'
            text = text.replace('admin = "127.0.0.1:0"', admin, 1)
        self.path = folder / "network.toml"
        self.path.write_text(text)

    async def run(self, name: str, *words: str) -> tuple[int, str]:
        """Exit code and output."""
        arguments = [name, str(self.path), *words]
        found = await asyncio.to_thread(CliRunner().invoke, build_app(name), arguments)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            return 2, str(found.exception)
        return found.exit_code, found.output


@asynccontextmanager
async def live(folder: Path) -> AsyncIterator[Commands]:
    async with running(network(2), "B2", "B1") as services:
        yield Commands(folder, services)


@on_asyncio
async def test_a_story_names_who_has_a_message_and_who_lacks_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with live(tmp_path_factory.mktemp("story")) as commands:
        there, here = commands.services
        code, text = await commands.run("story")
        assert (code, "no message is traced" in text) == (0, True)
        async with Client(str(there.listening["mqtt"]), "archive", keep=Keep(seconds=60)) as away:
            await away.subscribe("flights/#", qos=1).granted()
        async with (
            Client(str(there.listening["mqtt"]), "board") as board,
            Client(str(here.listening["mqtt"]), "plane") as plane,
            board.subscribe("flights/#", where="delay > 30", qos=1) as subscription,
        ):
            payload = json.dumps({"delay": 42}).encode()
            await plane.publish("flights/UA", payload, qos=1, trace="mine")
            await subscription.get()
            async with asyncio.timeout(PATIENCE_S):
                while "board delivered" not in (text := (await commands.run("story", "mine"))[1]):
                    await asyncio.sleep(0.1)
        assert "1 of 2 subscribers have it" in text
        assert "archive at B2: waiting, it is disconnected" in text
        assert re.search(r"B1 sends it to B2", text)
        code, text = await commands.run("story")
        assert re.search(r"mine +│ flights/UA", text)
        code, text = await commands.run("story", "mine", "--json")
        assert json.loads(text)[0]["publisher"] == "plane"
        code, text = await commands.run("story", "nothing")
        assert (code, "no broker has a traced message nothing" in text) == (2, True)


@on_asyncio
async def test_a_sample_is_begun_and_ended_at_all_brokers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with live(tmp_path_factory.mktemp("trace")) as commands:
        code, text = await commands.run("trace", "-t", "a/#", "--rate", "1/5", "--for", "30s")
        assert (code, "one of 5 messages on a/# is traced for 30s" in text) == (0, True)
        samples = [service.tracer.sample for service in commands.services]
        assert [(each.topic, each.each) for each in samples if each is not None] == [("a/#", 5)] * 2
        code, text = await commands.run("trace", "--where", "delay >")
        assert code == 1
        assert "B1: " in text
        code, text = await commands.run("trace", "--for", "0s")
        assert (code, "no more messages are traced" in text) == (0, True)
        assert [service.tracer.sample for service in commands.services] == [None, None]
        for option, value in (("--rate", "5"), ("--rate", "2/5"), ("--for", "soon")):
            code, text = await commands.run("trace", option, value)
            assert (code, option in text) == (2, True)


@pytest.mark.skipif(not is_built(), reason="the console's pages are not built: make console")
@on_asyncio
async def test_the_console_is_reached_at_the_printed_address_and_stops_in_order(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with live(tmp_path_factory.mktemp("console")) as commands:
        words = ["console", str(commands.path), "--listen", "127.0.0.1:0"]
        command = [sys.executable, "-m", "shoal.cli.main", *words]
        console = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert console.stdout is not None
            line = await asyncio.to_thread(console.stdout.readline)
            (url,) = re.findall(r"http://\S+", line)
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            page = await asyncio.to_thread(opener.open, url, None, PATIENCE_S)
            assert b"shoal console" in page.read()
            console.terminate()
            assert await asyncio.to_thread(console.wait, PATIENCE_S) == 0
            assert console.stdout.read().endswith("stopped\n")
        finally:
            console.kill()
            console.wait()


def test_a_network_without_admin_ports_has_no_console(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "network.toml"
    path.write_text('name = "n"\n[[brokers]]\nname = "B1"\npeers = "127.0.0.1:7001"\n')
    with pytest.raises(SystemExit) as ended:
        main(["console", str(path)])
    assert ended.value.code == 2
    assert "no broker has an admin address" in capsys.readouterr().err
