"""Costs of messages at a live broker: from its network file, or measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.broker.effects import Costs, Input, WatchCosts
from shoal.broker.links.controls import BrokerLocation
from shoal.runtime.links import costs
from shoal.runtime.links.costs import LinkCosts
from shoal.runtime.links.directory import Directory
from shoal.runtime.links.probing import Probes
from shoal.runtime.network_file import (
    dump_network,
    hints,
    load_network,
    parse_network,
    problems,
)
from shoal.runtime.network_sections import CostsSection
from tests.runtime.live import LiveNetwork, live, on_loop, until


def watch(network: LiveNetwork, name: str, section: CostsSection) -> tuple[LinkCosts, list[Costs]]:
    """The reports to a broker's machine after its request."""
    links, node = network.links[name], network.nodes[name]
    places = [
        BrokerLocation(other, 0, str(address)) for other, address in network.addresses.items()
    ]
    directory = Directory(name, places, links.overlay)
    found: list[Costs] = []
    handle = node.machine.handle

    def listen(input: Input, now_us: int) -> list:  # type: ignore[type-arg]
        if isinstance(input, Costs):
            found.append(input)
        return handle(input, now_us)

    node.machine.handle = listen  # type: ignore[method-assign]
    probes = Probes(name, links._settings, node.clock)
    measuring = LinkCosts(node, section, links, directory, probes)
    node._carry_out([WatchCosts()], 0, None)
    return measuring, found


@on_loop
async def test_latencies_to_neighbours_and_others_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(costs, "MEASURE_S", 0.05)
    async with live((("B1", "B2"),), brokers=("B3", "B4")) as network:
        await network.kill("B4")
        measuring, found = watch(network, "B1", CostsSection())
        await until(lambda: bool(found))
        assert found[0].links.keys() == {"B2", "B3"}
        assert all(cost > 0 for cost in found[0].links.values())
        await network.start("B4")  # from here on it may be linked
        await until(lambda: found[-1].links.keys() == {"B2", "B3", "B4"})
        assert network.links["B3"].status() == []
        answer = await measuring.round_trips({})
        assert answer["round_trips_us"].keys() == {"B2", "B3", "B4"}
        assert all(us > 0 for us in answer["round_trips_us"].values())
        await network.kill("B3")
        assert (await measuring.round_trips({}))["round_trips_us"].keys() == {"B2", "B4"}
        await measuring.stop()


@on_loop
async def test_costs_of_the_network_file_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live((("B1", "B2"),), brokers=("B3", "B4")) as network:
        section = CostsSection(here=2.5, links={"B1-B2": 1.0, "B4-B1": 3.0, "B2-B3": 9.0})
        measuring, found = watch(network, "B1", section)
        await until(lambda: bool(found))
        assert found == [Costs(2.5, {"B2": 1.0, "B4": 3.0})]
        await measuring.stop()


def test_a_network_file_may_have_costs() -> None:
    data = {
        "name": "n",
        "brokers": [
            {"name": name, "peers": f"127.0.0.1:{port}"}
            for name, port in (("a-b", 7_001), ("c", 7_002))
        ],
        "links": [["a-b", "c"]],
        "costs": {"here": 3.0, "links": {"a-b-c": 4.0}},
    }
    network = parse_network(data)
    assert network.costs.costs_from("c", ["a-b", "c"]) == {"a-b": 4.0}
    assert problems(network) == []
    data["costs"] = {"links": {"a-b-d": 4.0}}
    assert problems(parse_network(data)) == [
        "costs.links: 'a-b-d' is no two brokers, such as a-b-c"
    ]
    data["costs"] = {"links": {"a-b-c": 4.0, "c-a-b": 3.0}}
    assert problems(parse_network(data)) == ["costs.links: a-b-c and c-a-b are one link"]


def test_a_link_without_a_cost_is_an_error() -> None:
    brokers = [{"name": name, "peers": f"127.0.0.1:700{name[1]}"} for name in ("B1", "B2", "B3")]
    data = {
        "name": "n",
        "brokers": brokers,
        "links": [["B1", "B2"], ["B2", "B3"]],
        "costs": {"links": {"B2-B1": 4.0, "B1-B3": 4.0}},
    }
    assert hints(parse_network(data)) == ["links[1]: B2-B3 has no cost in costs.links"]
    data["costs"] = {}
    assert hints(parse_network(data)) == []


def test_a_network_without_costs_is_written_and_read(tmp_path: Path) -> None:
    network = parse_network({"name": "n", "brokers": [{"name": "a", "peers": "127.0.0.1:7001"}]})
    path = tmp_path / "network.toml"
    path.write_text(dump_network(network))
    assert load_network(path) == network
