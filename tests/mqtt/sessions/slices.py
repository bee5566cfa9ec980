"""Helpers for fan-outs in time slices: run them, and read the clients' messages."""

from __future__ import annotations

from shoal.mqtt.codec.packets import Publish
from tests.mqtt.broker_api import BrokerApi, Client


def small(broker_api: BrokerApi, most: int) -> BrokerApi:
    """With slices of so few sessions."""
    broker_api.clients.spreading.most = most
    return broker_api


def turn(broker_api: BrokerApi) -> None:
    """Run one slice of the fan-out."""
    assert broker_api.clients.spreading.is_on
    broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))


def finish(broker_api: BrokerApi, *clients: Client) -> None:
    """Run all slices, and handle the packets that they held back."""
    while broker_api.clients.spreading.is_on:
        turn(broker_api)
        for client in clients:
            go_on(client)


def go_on(client: Client) -> None:
    """Handle the packets of a client that had to wait."""
    while client.connection.holds and not client.connection.must_wait:
        client.broker_api.carry_out(client.connection.take_held(client.broker_api.now_us))


def payloads(client: Client) -> list[bytes]:
    return [each.payload for each in client.take() if isinstance(each, Publish)]
