"""A broker binds all its ports before it joins a network or sends to another broker."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from shoal.runtime.addresses import Address, read_address
from shoal.runtime.binding import bind, bind_all
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import SHOAL, processes, wait_until


def test_a_joiner_whose_client_port_is_taken_leaves_no_trace(tmp_path: Path) -> None:
    """A link and an announcement before the failure would keep its neighbour from being ready."""
    with processes(tmp_path, 2) as network:
        wait_until(lambda: network.is_ready("B2"))
        options = network.joining("B9", "B2")
        where = network.broker_address("B9", "mqtt")
        words = [*SHOAL, "serve", str(network.path), "--broker", "B9", *options]
        with socket.create_server(where):
            ended = subprocess.run(
                words, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
        assert ended.returncode == 2
        assert f"B9: mqtt: cannot listen at {where}: Address already in use" in ended.stderr
        assert not (tmp_path / "data" / "B9" / "overlay.json").exists()
        found = network.status("B2")
        assert [row["neighbour"] for row in found["links"]] == ["B1"]
        assert [row["broker"] for row in found["brokers"]] == ["B1", "B2"]
        assert found["ready"]
        network.start("B9")
        wait_until(lambda: network.is_ready("B9") and network.is_ready("B2"))


def test_clients_are_refused_until_the_broker_is_ready() -> None:
    bound = bind(Address("127.0.0.1", 0))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(bound.address, PATIENCE_S)
    bound.listen(1)
    socket.create_connection(bound.address, PATIENCE_S).close()
    bound.close()


def test_of_several_addresses_all_are_bound_or_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = Address(*taken.getsockname())
        free = bind(Address("127.0.0.1", 0))
        free.close()
        with pytest.raises(OSError, match=f"mqtt: cannot listen at {where}: Address already in"):
            bind_all({"peers": free.address, "mqtt": where})
        bind(free.address).close()


def test_a_host_name_binds_all_its_addresses() -> None:
    bound = bind(read_address("localhost:0"))
    assert bound.address.host == "localhost"
    assert bound.address.port == bound.sockets[0].getsockname()[1]
    bound.close()
