"""`shoal why` names the filter, hop, rule or queue at which a message's way ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec
import pytest
from typer.testing import CliRunner

from shoal.cli.main import build_app
from shoal.client import Client
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.shapes import TREE
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.network_file import dump_network
from shoal.runtime.questions import AdminQuestions
from tests.runtime.live import PATIENCE_S, on_asyncio, until
from tests.runtime.one_service import network, running
from tests.systems import eager, with_cycles

RULES = [
    {"user": "*", "publish": ["flights/#"], "subscribe": ["#"]},
]


class Asked:
    """A network file of running brokers, and the commands about it."""

    def __init__(self, folder: Path, services: list[BrokerService]) -> None:
        self.services = services
        text = dump_network(services[0].network)
        for service in services:
            text = text.replace(
                'admin = "127.0.0.1:0"', f'admin = "{service.listening["admin"]}"', 1
            )
        self.path = folder / "network.toml"
        self.path.write_text(text)

    async def why(self, *words: str) -> tuple[int, str]:
        """Exit code and output."""
        runner = CliRunner()
        app = build_app("why")
        found = await asyncio.to_thread(runner.invoke, app, ["why", str(self.path), *words])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            return 2, str(found.exception)
        return found.exit_code, found.output

    def front_end(self, number: int) -> str:
        return str(self.services[number - 1].listening["mqtt"])


@asynccontextmanager
async def asked(folder: Path, system: str = "tree") -> AsyncIterator[Asked]:
    """Three brokers, in a line where the system does not say which links they have."""
    names = ("B1", "B2", "B3")
    parameters = eager(system, 65_536, names)
    ways = with_cycles(system, names, (("B1", "B2"), ("B2", "B3")))
    live = network(
        3,
        access={"anonymous": True, "rules": RULES},
        system=system,
        links=() if SYSTEMS[system].shape.opens_links else ways,
        **({} if parameters is None else {system: msgspec.to_builtins(parameters)}),
    )
    async with asyncio.timeout(PATIENCE_S), running(live, "B3", "B2", "B1") as services:
        await until(lambda: all(service.node.is_ready for service in services))
        yield Asked(folder, services[::-1])


def last(output: str) -> str:
    return output.strip().rpartition("\n")[2]


@on_asyncio
async def test_which_filter_hop_rule_or_queue(tmp_path: Path) -> None:
    async with (
        asked(tmp_path) as live,
        Client(live.front_end(3), "dashboard") as dashboard,
        Client(live.front_end(1), "radar", advertise=["dep_delay >= 0"]),
        dashboard.subscribe("flights/UA", where="dep_delay > 30"),
        dashboard.subscribe("weather"),
    ):
        late = ("dashboard", "flights/UA", "-a", "dep_delay=41")
        code, output = await live.why(*late)
        assert code == 0, output
        assert "dashboard is connected to B3: 0 messages are in flight to it, 0 wait" in output
        assert "yes  flights/UA, at QoS 1" in output
        assert "no   weather: another topic" in output
        assert "from B1: B1 -> B2 -> B3" in output
        assert last(output) == "it reaches dashboard"

        code, output = await live.why("dashboard", "flights/UA", '{"dep_delay": 20}')
        assert code == 1
        assert "FALSE    dep_delay > 30: dep_delay is 20" in output
        wanted = "it does not reach dashboard: none of its 2 subscriptions lets it through"
        assert last(output) == wanted

        code, output = await live.why(*late, "--publisher", "radar")
        assert (code, last(output)) == (0, "it reaches dashboard")
        assert "from B3" not in output
        early = ("dashboard", "flights/UA", "-a", "dep_delay=-1", "--publisher", "radar")
        code, output = await live.why(*early)
        assert (code, "radar has not advertised it" in last(output)) == (1, True)
        code, output = await live.why("dashboard", "weather", "--publisher", "radar")
        assert (code, "no rule allows radar (who gives no name)" in last(output)) == (1, True)

        code, output = await live.why("nobody", "weather")
        assert (code, "no broker knows a client of that name" in last(output)) == (1, True)
        code, output = await live.why("dashboard", "weather/#")
        assert (code, "nothing can be published to it" in output) == (2, True)
        code, output = await live.why("dashboard", "weather", "--at", "B9")
        assert (code, "--at B9: no such broker answers" in output) == (2, True)

        # A broker that has lost what it was told is where the way ends.
        table = live.services[1].node.machine.strategy.tables  # type: ignore[attr-defined]
        for row in [row for row in table.subscriptions.values() if row.last_hop == "B3"]:
            table.remove_subscription(row)
        code, output = await live.why(*late, "--at", "B1")
        assert code == 1
        assert last(output) == (
            "it does not reach dashboard from B1 (B2's table leads nowhere, not to B3)"
        )


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name != "tree"])
@on_asyncio
async def test_every_system_says_the_way_and_why(tmp_path: Path, system: str) -> None:
    async with (
        asked(tmp_path, system) as live,
        Client(live.front_end(3), "dashboard") as dashboard,
        Client(live.front_end(1), "radar"),
        dashboard.subscribe("flights/UA", where="dep_delay > 30") as subscription,
    ):
        await subscription.granted()
        late = ("dashboard", "flights/UA", "-a", "dep_delay=41")
        for words in ((*late, "--publisher", "radar"), late):
            code, output = await live.why(*words)
            assert (code, last(output)) == (0, "it reaches dashboard"), output
            (way,) = (line for line in output.split("\n") if line.startswith("from B1: "))
            assert way.startswith("from B1: B1")
            assert way.rpartition(" -> ")[2].startswith("B3")
            assert "does not say" not in way
            # Where a table of subscriptions is not the reason, that is said.
            assert (SYSTEMS[system].shape is TREE or system == "flooding") is not ("(" in way)


@on_asyncio
async def test_a_broker_on_the_way_that_is_dead(tmp_path: Path) -> None:
    """What is for those behind it is not lost, and the answer says where it waits."""
    async with asked(tmp_path) as live, Client(live.front_end(3), "dashboard") as dashboard:
        await dashboard.subscribe("flights/#").granted()
        await live.services[1].stop()
        await until(lambda: live.services[0].links.away)
        code, output = await live.why("dashboard", "flights/UA", "--at", "B1")
        assert code == 1
        assert "B2 does not answer" in output
        assert last(output) == (
            "it does not reach dashboard from B1 (B2 does not answer; at QoS 1 and 2 it waits for"
            " the link B1 - B2)"
        )


@on_asyncio
async def test_who_is_away_and_what_waits(tmp_path: Path) -> None:
    async with (
        asked(tmp_path) as live,
        Client(live.front_end(3), "dashboard") as dashboard,
        Client(live.front_end(1)) as writer,
    ):
        subscription = dashboard.subscribe("flights/#")
        await subscription.granted()
        assert dashboard._socket is not None
        dashboard._running.cancel()  # type: ignore[union-attr]
        dashboard._socket._transport.abort()
        sessions = live.services[2].front_end.clients.sessions
        await until(lambda: sessions["dashboard"].session_writer is None)
        await writer.publish("flights/UA")
        await until(lambda: sessions["dashboard"].queued == 1)
        code, output = await live.why("dashboard", "flights/UA", "--at", "B3")
        assert code == 1
        assert "dashboard is away; its session is at B3" in output
        assert "0 messages are in flight to it, 1 waits" in output
        assert last(output) == ("it waits: dashboard is away, and at QoS 1 and 2 it is kept for it")


@on_asyncio
async def test_a_page_of_subscriptions_takes_no_long_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.runtime.questions.TURN_S", 0.0)
    monkeypatch.setattr("shoal.runtime.questions.CLIENTS", 2)
    async with asked(tmp_path) as live:
        clients = [Client(live.front_end(1), f"c{number}") for number in range(5)]
        for client in clients:
            await client.__aenter__()
            for number in range(3):
                await client.subscribe(f"flights/{number}", where="x > 1").granted()
        ask = AdminQuestions(live.services[0].front_end, "auto").by_name["subscriptions"]
        rows: list[tuple[str, str]] = []
        query: str | None = ""
        pages = 0
        while query is not None:
            answer = await ask(dict(parse_qsl(query)))
            rows += [(row["client"], row["topic_filter"]) for row in answer["subscriptions"]]
            query = answer["next"]
            pages += 1
        assert sorted(rows) == [(f"c{c}", f"flights/{n}") for c in range(5) for n in range(3)]
        assert pages > 5
        code, output = await live.why("c3", "flights/2", "-a", "x=2", "--at", "B1")
        assert (code, last(output)) == (0, "it reaches c3")
        for client in clients:
            await client.__aexit__(None, None, None)
