"""What is for many is handed out in turns: to take them, and what clients got by then."""

from __future__ import annotations

from shoal.mqtt.codec.packets import Publish
from tests.mqtt.house import Client, House


def small(house: House, most: int) -> House:
    """With turns of so few sessions."""
    house.clients.spreading.most = most
    return house


def turn(house: House) -> None:
    """One turn of what is handed out."""
    assert house.clients.spreading.is_on
    house.carry_out(house.clients.advance(house.now_us))


def finish(house: House, *clients: Client) -> None:
    """All turns, and what these held."""
    while house.clients.spreading.is_on:
        turn(house)
        for client in clients:
            go_on(client)


def go_on(client: Client) -> None:
    """Take what a client said while it had to wait."""
    while client.connection.holds and not client.connection.must_wait:
        client.house.carry_out(client.connection.take_held(client.house.now_us))


def payloads(client: Client) -> list[bytes]:
    return [each.payload for each in client.take() if isinstance(each, Publish)]
