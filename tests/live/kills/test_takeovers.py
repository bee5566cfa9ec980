"""Clients connect elsewhere while their registrars are killed: each old connection is closed."""

from __future__ import annotations

from pathlib import Path

from shoal.mqtt.codec.packets import Disconnect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.session_transfer.directory.registering import registrars
from tests.live.kills.test_moves_at_kills import Raw, let_in
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import not_started

NAMES = ("B1", "B2", "B3", "B4")


def is_taken_over(client: Raw) -> bool:
    """Whether its broker ends its connection, with a word or without, and says no other."""
    client.socket.settimeout(2 * PATIENCE_S)
    try:
        packet = client.take(Disconnect)
    except ConnectionError:
        return True
    return packet is None or packet.reason_code is ReasonCode.SESSION_TAKEN_OVER


def test_takeovers_while_registrars_are_killed(tmp_path: Path) -> None:
    """They start in any order, and one after the other is down while a client goes on."""
    with not_started(tmp_path, len(NAMES)) as network:
        for name in reversed(NAMES):
            network.start(name)
        for number in range(3):
            client = f"c{number}"
            killed = registrars(client, NAMES)[number % 2]
            there = [name for name in NAMES if name != killed]
            with let_in(network, there[number % 3], client, 0) as first:
                network.kill(killed)
                with let_in(network, there[(number + 1) % 3], client, 0) as second:
                    network.start(killed)
                    assert is_taken_over(first), number
                    # Who is back has been told, or is.
                    with let_in(network, killed, client, 0):
                        assert is_taken_over(second), number
