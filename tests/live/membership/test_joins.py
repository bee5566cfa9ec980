"""Brokers that join: they are linked and receive, or fail before another broker knows of them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from shoal.runtime.addresses import read_address
from shoal.runtime.free_ports import free_ports
from tests.live.membership.days import BOUND_S, Day, day, systems
from tests.runtime.forked import Forked

JOINER = "J1"


@pytest.mark.parametrize("system", systems("bluedove"))
def test_a_broker_joins_without_loss_while_plain_clients_publish(
    tmp_path: Path, system: str
) -> None:
    with day(tmp_path, system) as today:
        today.join(JOINER, "B2")
        today.are_linked()
        today.publish_at(JOINER)
        today.publish_on()
        today.all_receive_from_all()


@pytest.mark.parametrize("system", systems("dynatops"))
def test_a_broker_joins_a_network_without_clients(tmp_path: Path, system: str) -> None:
    with day(tmp_path, system, publishers=()) as today:
        today.join(JOINER, "B2")
        today.are_linked()
        today.all_receive_from_all()


@pytest.mark.parametrize("system", systems("octopia"))
def test_a_joiner_whose_client_port_is_taken_leaves_no_trace(tmp_path: Path, system: str) -> None:
    """It binds its listeners before it joins."""
    with day(tmp_path, system) as today, socket.create_server(("127.0.0.1", 0)) as taken:
        peers, admin = free_ports("127.0.0.1", 2)
        listeners = {"peers": peers, "mqtt": taken.getsockname()[1], "admin": admin}
        joiner = _run_joiner(today, "B2", today.network.network.broker("B2").peers, listeners)
        assert joiner.wait(BOUND_S) != 0
        assert "mqtt: cannot listen at" in today.network.log(JOINER)
        today.are_linked()
        for broker in today.brokers:
            assert JOINER not in today.describe(broker), today.describe(broker)
        today.all_receive_from_all()
        today.leave("B2")
        today.are_linked()
        today.all_receive_from_all()


@pytest.mark.parametrize("system", systems("tree"))
def test_a_joiner_whose_given_broker_is_down_joins_through_another(
    tmp_path: Path, system: str
) -> None:
    """The network file lists other brokers, which run."""
    with day(tmp_path, system, publishers=["B1"]) as today:
        today.network.kill("B3")
        today.join(JOINER, "B3")
        today.wait(
            "the joiner is ready and linked to another broker",
            lambda: today.is_linked(JOINER),
        )


def _run_joiner(today: Day, over: str, address: str, listeners: dict[str, int]) -> Forked:
    """Start a broker that may end before it listens."""
    words = ["serve", str(today.network.path), "--broker", JOINER]
    words += ["--join", f"{over}={read_address(address)}"]
    for key, port in listeners.items():
        words += ["--listen", f"{key}=127.0.0.1:{port}"]
    return Forked(words, today.network.folder / f"{JOINER}.log")
