"""What is for many is handed out in turns: to take them, and what clients got by then."""

from __future__ import annotations

from shoal.mqtt.codec.packets import Publish
from tests.mqtt.broker_api import BrokerApi, Client


def small(broker_api: BrokerApi, most: int) -> BrokerApi:
    """With turns of so few sessions."""
    broker_api.clients.spreading.most = most
    return broker_api


def turn(broker_api: BrokerApi) -> None:
    """One turn of what is handed out."""
    assert broker_api.clients.spreading.is_on
    broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))


def finish(broker_api: BrokerApi, *clients: Client) -> None:
    """All turns, and what these held."""
    while broker_api.clients.spreading.is_on:
        turn(broker_api)
        for client in clients:
            go_on(client)


def go_on(client: Client) -> None:
    """Take what a client said while it had to wait."""
    while client.connection.holds and not client.connection.must_wait:
        client.broker_api.carry_out(client.connection.take_held(client.broker_api.now_us))


def payloads(client: Client) -> list[bytes]:
    return [each.payload for each in client.take() if isinstance(each, Publish)]
