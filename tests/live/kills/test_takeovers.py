"""Clients connect elsewhere while registrars are killed; old connections are closed."""

from __future__ import annotations

from pathlib import Path

from shoal.mqtt.codec.packets import Disconnect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.session_transfer.directory.registering import registrars
from tests.live.kills.test_moves_at_kills import Raw, connect_until_admitted
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import not_started

NAMES = ("B1", "B2", "B3", "B4")


def is_taken_over(client: Raw) -> bool:
    """Whether its broker ends the connection, with session taken over as the only reason code."""
    client.socket.settimeout(2 * PATIENCE_S)
    try:
        packet = client.take(Disconnect)
    except ConnectionError:
        return True
    return packet is None or packet.reason_code is ReasonCode.SESSION_TAKEN_OVER


def test_old_connections_are_closed_while_registrars_are_killed(tmp_path: Path) -> None:
    """Brokers start in any order, and each is down in turn while a client connects elsewhere."""
    with not_started(tmp_path, len(NAMES)) as network:
        for name in reversed(NAMES):
            network.start(name)
        for number in range(3):
            client = f"c{number}"
            killed = registrars(client, NAMES)[number % 2]
            there = [name for name in NAMES if name != killed]
            with connect_until_admitted(network, there[number % 3], client, 0) as first:
                network.kill(killed)
                with connect_until_admitted(network, there[(number + 1) % 3], client, 0) as second:
                    network.start(killed)
                    assert is_taken_over(first), number
                    # A broker that is back has learnt of the client, or learns now.
                    with connect_until_admitted(network, killed, client, 0):
                        assert is_taken_over(second), number
