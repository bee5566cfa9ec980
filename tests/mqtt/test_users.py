"""A session belongs to a user: nobody else gets it, whatever the client is called."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.mqtt.access import Admission, Credentials, Permissions
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.restoring import restore
from tests.mqtt.house import KEPT, Client, House
from tests.mqtt.network_house import Network
from tests.mqtt.remembering import RememberingHouse, remembered


class Granted:
    """May publish anything, and subscribe to what begins so."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def may_publish(self, topic: str) -> bool:
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return topic_filter.startswith(self._prefixes)


class Users:
    """Everyone is who they say; `secret/` is for those who are named."""

    def __init__(self, *trusted: str) -> None:
        self.trusted = trusted

    def admit(self, credentials: Credentials) -> Admission | None:
        user = credentials.username or ""
        permissions = self.permissions(user, credentials.client_id)
        return Admission(user=user, permissions=permissions)

    def permissions(self, user: str, client_id: str) -> Permissions:
        return Granted(("secret/", "open/") if user in self.trusted else ("open/",))


@pytest.fixture
def network() -> Network:
    network = Network("B1", "B2", "B3")
    for site in network.sites.values():
        site.clients._reception.access = Users("alice")
    return network


def alice_is_away(house: House) -> None:
    alice = house.connect("c", username="alice", **KEPT)
    assert alice.subscribe("secret/#", qos=1).reason_codes == (ReasonCode.GRANTED_QOS_1,)
    alice.lose()


def try_as(house: House, user: str | None, version: int = 5, **fields: Any) -> Client:
    client = house.open(version)
    client.send(Connect("c", version=version, username=user, **fields))
    return client


@pytest.mark.parametrize("broker", ["B1", "B2", "B3"])
@pytest.mark.parametrize("user", ["bob", None])
@pytest.mark.parametrize("clean_start", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_another_user_does_not_get_it(
    network: Network, broker: str, user: str | None, clean_start: bool, version: int
) -> None:
    alice_is_away(network["B1"])
    network["B3"].connect("p").publish("secret/x", b"1", qos=1)
    bob = try_as(network[broker], user, version, clean_start=clean_start)
    assert bob.closed
    (refusal,) = bob.take()
    assert refusal.reason_code is ReasonCode.NOT_AUTHORIZED
    network["B3"].connect("p").publish("secret/x", b"2", qos=1)
    alice = network["B2"].connect("c", username="alice", **KEPT)
    assert alice.connack.session_present
    assert alice.take_payloads() == [b"1", b"2"]
    network.after(10)
    assert not alice.closed


@pytest.mark.parametrize("broker", ["B1", "B3"])
@pytest.mark.parametrize("fields", [{}, KEPT])
def test_nor_the_connection_of_who_is_there(
    network: Network, broker: str, fields: dict[str, Any]
) -> None:
    alice = network["B1"].connect("c", username="alice", **fields)
    alice.subscribe("secret/#", qos=1)
    bob = try_as(network[broker], "bob")
    network.after(1)
    assert bob.closed
    network["B2"].connect("p").publish("secret/x", b"1", qos=1)
    assert alice.take_payloads() == [b"1"]
    alice.disconnect()


def test_of_two_users_at_brokers_that_do_not_know_of_each_other_the_first_stays(
    network: Network,
) -> None:
    alice = network["B1"].connect("c", username="alice", **KEPT)
    network.is_slow = True
    network["B3"].clients.federation.roaming.homes.pop("c")
    bob = network["B3"].connect("c", username="bob", **KEPT)
    network.settle()
    assert bob.closed
    assert not alice.closed
    assert "c" not in network["B3"].clients.sessions
    network.is_slow = False
    alice = network["B3"].connect("c", username="alice", **KEPT)
    assert alice.connack.session_present


def test_a_name_is_free_when_its_session_has_ended(network: Network) -> None:
    alice_is_away(network["B1"])
    network.after(1_001)
    bob = network["B2"].connect("c", username="bob", **KEPT)
    assert not bob.connack.session_present


def test_it_is_whose_it_was_after_a_restart() -> None:
    house = RememberingHouse([])
    house.clients._reception.access = Users("alice")
    alice_is_away(house)
    clients = BrokerClients("B1", house.now_us, access=Users("alice"))
    assert restore(clients, remembered(house.batches), house.now_us) == []
    house.clients = clients
    bob = try_as(house, "bob", clean_start=False)
    assert bob.take()[0].reason_code is ReasonCode.NOT_AUTHORIZED
    alice = house.connect("c", username="alice", **KEPT)
    assert alice.connack.session_present


def test_what_the_rules_do_not_allow_any_more_is_not_restored() -> None:
    house = RememberingHouse([])
    house.clients._reception.access = Users("alice")
    alice_is_away(house)
    clients = BrokerClients("B1", house.now_us, access=Users())
    (problem,) = restore(clients, remembered(house.batches), house.now_us)
    assert "'secret/#'" in problem
    assert clients.subscriptions.count == 0


def test_nor_does_it_come_with_a_session_from_elsewhere(network: Network) -> None:
    alice_is_away(network["B1"])
    network["B3"].clients._reception.access = Users()
    alice = network["B3"].connect("c", username="alice", **KEPT)
    assert alice.connack.session_present
    network.after(10)
    network["B2"].connect("p").publish("secret/x", b"1", qos=1)
    assert alice.take() == []
    assert network["B3"].clients.subscriptions.count == 0
