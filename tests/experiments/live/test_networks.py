"""A scenario as a network file, and a network that cannot start."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from shoal.broker.strategy import BrokerContext
from shoal.experiments.live import networks
from shoal.experiments.live.networks import running, scenario_network
from shoal.experiments.live.replay import ReplayError, front_ends
from shoal.experiments.run_files import read_workload
from shoal.experiments.scenarios.scenario import parse_scenario
from shoal.overlays.publisher_relocation.grape.parameters import GrapeParameters
from shoal.runtime.network_file import NetworkFile, dump_network, load_network, problems
from shoal.runtime.supervisor import StartError
from tests.experiments.test_run_files import write_workload


def scenario_of(folder: Path, **changed: object) -> dict[str, object]:
    return {"name": "s", "workload": {"path": str(folder)}, "topology": {"kind": "line"}} | changed


def test_a_network_has_a_scenarios_brokers_links_and_parameters(tmp_path: Path) -> None:
    path = write_workload(tmp_path / "workload")
    scenario = parse_scenario(scenario_of(path, grape={"trace_session_length": 7}, seed=5))
    network = scenario_network(scenario)
    assert [each.name for each in network.brokers] == ["ATL", "EWR"]
    assert network.links == (("ATL", "EWR"),)
    assert network.system_parameters == GrapeParameters(trace_session_length=7)
    assert network.seed == 5
    assert problems(network) == []
    file = tmp_path / "network.toml"
    file.write_text(dump_network(network))
    loaded = load_network(file)
    assert (loaded.brokers, loaded.parameters) == (network.brokers, network.parameters)
    assert loaded.trace.folder == str(tmp_path / "trace")


def test_a_cluster_has_no_links(tmp_path: Path) -> None:
    path = write_workload(tmp_path)
    dimensions = [{"attribute": "dep_delay", "low": 0, "high": 100}]
    data = scenario_of(path, system="bluedove", bluedove={"dimensions": dimensions})
    network = scenario_network(parse_scenario(data))
    assert network.links == ()
    for name in ("ATL", "EWR"):
        broker: Any = network.factory(BrokerContext(name, (), Random(1)))
        assert None not in (broker.dispatcher, broker.matcher)
    assert problems(network) == []


def test_a_network_whose_ports_are_taken_is_tried_again_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_workload(tmp_path / "workload")
    scenario, workload = parse_scenario(scenario_of(path)), read_workload(path)
    attempts = []

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        def ports(host: str, count: int) -> list[int]:
            attempts.append(count)
            return [port] * count

        monkeypatch.setattr("shoal.runtime.supervisor.free_ports", ports)
        monkeypatch.setattr(networks, "ATTEMPTS", 2)

        async def start() -> None:
            async with running(scenario, workload, tmp_path / "live"):
                pass

        with pytest.raises(StartError, match="did not start"):
            asyncio.run(start())
    assert len(attempts) == 2
    log = next((tmp_path / "live").glob("*.log"))
    assert log.stat().st_size


def test_clients_of_a_replay_use_the_requested_listeners(tmp_path: Path) -> None:
    path = write_workload(tmp_path / "workload")
    network = scenario_network(parse_scenario(scenario_of(path)))
    workload = read_workload(path)

    def listening(**keys: str) -> NetworkFile:
        closed = dict.fromkeys(("mqtt", "mqtts", "websocket", "wss"), "")
        brokers = [msgspec.structs.replace(each, **closed | keys) for each in network.brokers]
        return msgspec.structs.replace(network, brokers=tuple(brokers))

    a, b = "127.0.0.1:1", "127.0.0.1:2"
    assert set(front_ends(workload, listening(mqtt=a, websocket=b)).values()) == {a}
    assert set(front_ends(workload, listening(websocket=b)).values()) == {f"ws://{b}"}
    secure = listening(mqtt=a, wss=b)
    assert set(front_ends(workload, secure, is_over_tls=True).values()) == {f"wss://{b}"}
    with pytest.raises(ReplayError, match=r"has no mqtts or wss; replay without --tls"):
        front_ends(workload, listening(mqtt=a), is_over_tls=True)
    with pytest.raises(ReplayError, match=r"has no mqtt or websocket; replay with --tls"):
        front_ends(workload, listening(mqtts=a))
    with pytest.raises(ReplayError, match=r"with an MQTT address \(mqtt or websocket\)"):
        front_ends(workload, listening())
