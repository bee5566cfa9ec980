"""Links that live brokers open and end on purpose, over restarts, cuts and crossing connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.broker.effects import EndLink, Input, Leave, LinkChanged, LinkState, OpenLink
from shoal.broker.links.controls import BrokerLocation, Hello
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.machine import Broker
from shoal.overlays.coordination.coordinator import Coordinator
from shoal.overlays.dynatops.parameters import DynatopsParameters
from shoal.overlays.registry import SYSTEMS
from shoal.overlays.self_organising.link_reconfiguration.ring_messages import LinkStanding
from shoal.overlays.self_organising.protocol import SelfOrganising
from shoal.runtime.links import peer_links
from shoal.runtime.links.directory import Directory
from shoal.runtime.storage.journal_files import JournalError
from shoal.runtime.storage.overlay_file import OverlayFile
from tests.examples import at_length
from tests.runtime.live import LiveNetwork, live, on_asyncio, on_loop, received, until

TRIPLE = (("B1", "B2"), ("B2", "B3"))


def link_events(network: LiveNetwork, name: str) -> list[tuple[str, LinkState]]:
    """The link events of a broker's machine from here on."""
    found: list[tuple[str, LinkState]] = []
    machine = network.nodes[name].machine
    handle = machine.handle

    def listen(input: Input, now_us: int) -> list:  # type: ignore[type-arg]
        if isinstance(input, LinkChanged):
            found.append((input.neighbour, input.state))
        return handle(input, now_us)

    machine.handle = listen  # type: ignore[method-assign]
    return found


def changes_of(network: LiveNetwork, name: str) -> Coordinator:
    """A broker's part in changes of links."""
    strategy = network.nodes[name].machine.strategy
    return getattr(strategy, "tree", strategy).changes  # type: ignore[no-any-return]


def do(network: LiveNetwork, name: str, effect: OpenLink | EndLink) -> None:
    """Act as if the broker's machine had asked for it."""
    network.nodes[name]._carry_out([effect], 0, None)


@on_loop
async def test_a_link_ends_under_load_after_everything_arrived() -> None:
    async with live(TRIPLE) as network:
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await until(lambda: len(network.nodes["B1"].machine.strategy.tables.subscriptions) == 1)
        told = link_events(network, "B2"), link_events(network, "B3")
        for number in range(300):
            await publisher.publish({"x": number, "text": "y" * 500})
            if number % 100 == 50:
                await until(lambda: not network.links["B2"].away)
                for link in network.links["B2"]._links.values():
                    assert link.connection is not None
                    link.connection.abort()
        await until(lambda: network.nodes["B2"].counts["publications_in"] == 300)
        do(network, "B3", EndLink("B2"))
        assert await received(subscriber, 300) == list(range(300))
        await until(lambda: all(told))
        assert told == ([("B3", LinkState.ENDED)], [("B2", LinkState.ENDED)])
        assert network.links["B2"].neighbours == ["B1"]
        assert network.links["B3"].neighbours == []
        assert not network.links["B2"].away


@on_loop
async def test_a_link_that_was_cut_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end that lost the connection reconnects to settle it, whatever its name is."""
    monkeypatch.setattr(peer_links, "TICK_S", 0.05)
    limits = LinkLimits(give_up_us=2_000_000)
    async with live((("B1", "B2"),), limits=limits) as network:
        told = link_events(network, "B1"), link_events(network, "B2")
        connection = network.links["B2"]._links["B1"].connection
        assert connection is not None
        connection.abort()
        network.links["B2"]._links["B1"].session.lost(network.nodes["B2"].clock.now_us())
        do(network, "B2", EndLink("B1"))
        await until(lambda: all(told))
        assert told == ([("B2", LinkState.ENDED)], [("B1", LinkState.ENDED)])
        await until(lambda: not (network.links["B1"]._links or network.links["B2"]._links))


@on_loop
async def test_a_lasting_link_comes_back_after_restarts_of_its_ends() -> None:
    async with live((("B1", "B2"),), brokers=("B3",)) as network:
        do(network, "B3", OpenLink("B1", is_lasting=True))
        await until(lambda: network.links["B1"].neighbours == ["B2", "B3"])
        await network.connected()
        for names in (["B3"], ["B1"], ["B1", "B3"]):
            for name in names:
                await network.kill(name)
            for name in names:
                await network.start(name)
            await until(lambda: network.links["B3"].neighbours == ["B1"])
            await until(lambda: network.links["B1"].neighbours == ["B2", "B3"])
            await network.connected()
        publisher, subscriber = network.client("P", "B2"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await until(lambda: len(network.nodes["B2"].machine.strategy.tables.subscriptions) == 1)
        await publisher.publish({"x": 1})
        assert await received(subscriber, 1) == [0]


@on_loop
async def test_a_temporary_link_ends_with_its_openers_death(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No end reconnects, so a broker that waits for it would never be ready."""
    monkeypatch.setattr(peer_links, "TICK_S", 0.05)
    async with live((), limits=LinkLimits(give_up_us=100_000), brokers=("B1", "B2")) as network:
        told = link_events(network, "B1")
        do(network, "B2", OpenLink("B1"))
        await until(lambda: told == [("B2", LinkState.UP)])
        await network.kill("B2")
        await until(lambda: told[1:] == [("B2", LinkState.FAILED)])
        await until(lambda: not network.links["B1"].status())
        await network.start("B2")
        do(network, "B2", OpenLink("B1"))
        await until(lambda: told[2:] == [("B2", LinkState.UP)])


@on_loop
async def test_a_lasting_link_is_restored_by_the_end_that_knows() -> None:
    """B2 had opened it, and dies before it knows that the link lasts."""
    async with live((), brokers=("B1", "B2")) as network:
        do(network, "B2", OpenLink("B1"))
        await until(lambda: network.links["B1"].neighbours == ["B2"])
        await network.kill("B2")
        await until(lambda: network.links["B1"]._links["B2"].connection is None)
        do(network, "B1", OpenLink("B2", is_lasting=True))
        await network.start("B2")
        await until(lambda: network.links["B2"].neighbours == ["B1"])
        await network.connected()


@on_loop
async def test_ended_links_stay_ended_also_configured_ones() -> None:
    async with live(TRIPLE) as network:
        told = link_events(network, "B1")
        do(network, "B1", EndLink("B2"))
        await until(lambda: told == [("B2", LinkState.ENDED)])
        await until(lambda: network.links["B2"].neighbours == ["B3"])
        for name in ("B1", "B2"):
            await network.kill(name)
        for name in ("B2", "B1"):
            await network.start(name)
        await until(lambda: not network.links["B2"].away)
        assert network.links["B1"].neighbours == []
        assert network.links["B2"].neighbours == ["B3"]
        do(network, "B2", OpenLink("B1", is_lasting=True))
        await until(lambda: network.links["B1"].neighbours == ["B2"])
        await network.connected()


@on_loop
async def test_an_end_that_missed_a_links_end_is_told() -> None:
    """B1 has kept only the end; B2 still dials, and is told that the link has failed for good."""
    async with live((("B1", "B2"),)) as network:
        await network.kill("B1")
        network.overlays["B1"].has_ended("B2", 0)
        told = link_events(network, "B2")
        await network.start("B1")
        connection = network.links["B2"]._links["B1"]
        network.links["B2"]._dialling.dial(connection)
        await until(lambda: told == [("B1", LinkState.FAILED)])
        assert network.links["B2"].neighbours == []
        assert network.overlays["B2"].is_over("B1", 0)


@on_loop
@pytest.mark.parametrize("system", ["tree", "self_organising"])
async def test_a_departed_broker_is_not_dialled_after_a_missed_end(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1 was down then, and learns it from others; otherwise it would dial for ever."""
    monkeypatch.setattr(peer_links, "TICK_S", 0.05)
    limits = LinkLimits(give_up_us=500_000)
    async with live((("B1", "B2"), ("B1", "B3")), system=system, limits=limits) as network:
        links, overlay = network.links["B1"], network.overlays["B1"]
        links.directory = Directory("B1", (), overlay)
        await network.kill("B2")
        links.directory.merge([BrokerLocation("B2", 5, has_left=True, is_gone=True)])
        assert links.neighbours == ["B2", "B3"], "it may still have something to hand over"
        await until(lambda: links.neighbours == ["B3"])
        await until(lambda: network.nodes["B1"].machine.is_ready)
        assert overlay.is_over("B2", 0)
        # Nor does the machine bring it back.
        assert not any(row.is_in for row in remembered(network, "B1", "B2"))


@on_loop
async def test_the_link_of_a_leaving_broker_that_has_ended_ends_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was killed before its machine had remembered the end."""
    async with live((("B1", "B2"),)) as network:
        told = link_events(network, "B1")
        network.links["B1"].end("B3")
        monkeypatch.setattr(Broker, "is_leaving", True)
        network.links["B1"].end("B3")
        assert told == [("B3", LinkState.ENDED)]


@on_loop
@pytest.mark.parametrize("has_left", [False, True])
async def test_a_disconnected_broker_is_dialled_until_it_counts_as_departed(
    has_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker killed during its leave returns with its links, which others may need."""
    monkeypatch.setattr(peer_links, "TICK_S", 0.05)
    async with live((("B1", "B2"),), limits=LinkLimits(give_up_us=100_000)) as network:
        links = network.links["B1"]
        links.directory = Directory("B1", (), network.overlays["B1"])
        links.directory.merge([BrokerLocation("B2", 5, peers="B2:1", has_left=has_left)])
        told = link_events(network, "B1")
        await network.kill("B2")
        await until(lambda: told == [("B2", LinkState.FAILED)])
        lost_us = links._links["B2"].lost_us
        assert lost_us is not None
        await until(lambda: network.nodes["B1"].clock.now_us() > lost_us + 300_000)
        assert links.neighbours == ["B2"]
        await network.start("B2")
        await until(lambda: told[1:] == [("B2", LinkState.UP)])


@on_asyncio
@pytest.mark.parametrize("system", ["tree", *at_length(["self_organising"])])
async def test_a_leave_waits_for_a_neighbour_that_is_down_and_links_it_to_the_successor(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_links, "TICK_S", 0.05)
    limits = LinkLimits(give_up_us=200_000)
    async with live(TRIPLE, system=system, limits=limits) as network:
        told = link_events(network, "B2")
        await network.kill("B3")
        await until(lambda: told == [("B3", LinkState.FAILED)])
        network.nodes["B2"].bring(Leave())
        await until(lambda: changes_of(network, "B2").problem == "B3 is not connected")
        assert network.links["B2"].neighbours == ["B1", "B3"]
        await network.start("B3")
        await until(lambda: network.links["B1"].neighbours == ["B3"])
        publisher, subscriber = network.client("P", "B1"), network.client("C", "B3")
        publisher.advertise("a", "x >= 0")
        subscriber.subscribe("s", "x >= 0")
        await until(lambda: len(network.nodes["B1"].machine.strategy.tables.subscriptions) == 1)
        await publisher.publish({"x": 1})
        assert await received(subscriber, 1) == [0]
        assert network.overlays["B3"].links.keys() == {"B1"}


@on_loop
async def test_a_leaving_broker_announces_its_leave_over_its_last_link() -> None:
    async with live((("B1", "B2"), ("B2", "B3"))) as network:
        directories = {
            name: Directory(name, [BrokerLocation(name, 1)], overlay)
            for name, overlay in network.overlays.items()
        }
        for name, links in network.links.items():
            links.directory = directories[name]
        network.links["B2"].tell([directories["B2"].leave(2)])
        do(network, "B2", EndLink("B3"))
        await until(lambda: network.links["B2"].neighbours == ["B1"])
        assert not directories["B1"].is_gone("B2")
        do(network, "B2", EndLink("B1"))
        await until(lambda: not network.links["B2"].neighbours)
        assert directories["B1"].is_gone("B2")
        assert not directories["B3"].is_gone("B2")


def remembered(network: LiveNetwork, name: str, neighbour: str) -> list[LinkStanding]:
    """A broker's record of a link, if it records links."""
    strategy = network.nodes[name].machine.strategy
    if not isinstance(strategy, SelfOrganising):
        return []
    return [strategy.overlay.memory.standing(neighbour)]


@on_loop
async def test_both_ends_may_open_a_link_at_once() -> None:
    async with live((("B1", "B2"),), brokers=("B3", "B4")) as network:
        do(network, "B3", OpenLink("B4", is_lasting=True))
        do(network, "B4", OpenLink("B3", is_lasting=True))
        await until(lambda: network.links["B3"].neighbours == ["B4"])
        await network.connected()
        rows = [network.overlays[name].links for name in ("B3", "B4")]
        await until(lambda: rows[0]["B4"].opened_us == rows[1]["B3"].opened_us)
        do(network, "B3", EndLink("B4"))
        do(network, "B4", EndLink("B3"))
        await until(lambda: not (network.links["B3"].neighbours or network.links["B4"].neighbours))


@on_loop
async def test_a_link_to_an_unknown_address_is_an_error() -> None:
    async with live((("B1", "B2"),)) as network:
        told = link_events(network, "B1")
        do(network, "B1", OpenLink("B9", "nowhere", is_lasting=True))
        await until(lambda: told == [("B9", LinkState.FAILED)])
        assert network.links["B1"].neighbours == ["B2"]


def test_the_present_overlay_is_on_disk(tmp_path: Path) -> None:
    overlay = OverlayFile(tmp_path)
    assert overlay.neighbours(("B2", "B3")) == ("B2", "B3")
    overlay.opened("B4", 7, "host:1")
    overlay.has_ended("B2", 0)
    overlay.ends("B3")
    overlay.met(BrokerLocation("B4", 5, peers="host:1"))
    again = OverlayFile(tmp_path)
    assert again.neighbours(("B2", "B3")) == ("B3", "B4")
    assert again.expected(("B2", "B3")) == ("B4",), "a link that only ends is not waited for"
    assert (again.links, again.ended, again.brokers) == (
        overlay.links,
        overlay.ended,
        overlay.brokers,
    )
    assert again.is_over("B2", 0)
    assert not again.is_over("B2", 1)
    again.opened("B2", 9)
    assert again.neighbours(("B2",)) == ("B2", "B3", "B4")
    again.met(BrokerLocation("B5", 6, has_left=True))
    again.has_ended("B3", 0)
    assert again.awaited(["B2", "B3", "B4", "B5"]) == ("B2", "B4")
    (tmp_path / "overlay.json").write_text("{")
    with pytest.raises(JournalError, match=r"overlay\.json: cannot be read"):
        OverlayFile(tmp_path)


def test_a_temporary_link_is_reported_as_such() -> None:
    assert Hello(PROTOCOL, "n", "B1", (1, 1), None, 0).opened_us is None


@on_loop
async def test_a_link_that_a_machine_opens_as_it_starts_comes_up_once() -> None:
    """It lasts, so it is among the links that the driver starts with."""
    network = LiveNetwork((), "dynatops", brokers=("B1", "B2"))
    network.parameters = SYSTEMS["dynatops"].complete(DynatopsParameters(), network.names)
    try:
        for name in ("B2", "B1"):
            await network.start(name)
        await until(lambda: all(node.is_ready for node in network.nodes.values()))
        counts = [node.counts for node in network.nodes.values()]
        assert [(each["links_up"], each["links_down"]) for each in counts] == [(1, 0), (1, 0)]
    finally:
        for name in list(network.nodes):
            await network.kill(name)
