"""A session belongs to a user: no other user gets it, whatever the client's name."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.restoring import restore
from tests.mqtt.broker_api import KEPT, SECOND, BrokerApi, Client, will
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import RememberingBrokerApi, remembered


class Granted:
    """May publish and subscribe to topics with this beginning."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def may_publish(self, topic: str) -> bool:
        return topic.startswith(self._prefixes)

    def may_subscribe(self, topic_filter: str) -> bool:
        return topic_filter.startswith(self._prefixes)


class Users:
    """Admits clients under the names they give; `secret/` is for these users, and publishers."""

    def __init__(self, *trusted: str) -> None:
        self.trusted = trusted

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        user = credentials.username or ""
        permissions = self.permissions(user, credentials.client_id)
        return ClientAdmission(user=user, permissions=permissions)

    def permissions(self, user: str, client_id: str) -> Permissions:
        return Granted(("secret/", "open/", "#") if user in (*self.trusted, "p") else ("open/",))


@pytest.fixture
def network() -> Network:
    network = Network("B1", "B2", "B3")
    for site in network.sites.values():
        site.clients._reception.access = Users("alice")
    return network


def alice_is_away(broker_api: BrokerApi) -> None:
    alice = broker_api.connect("c", username="alice", **KEPT)
    assert alice.subscribe("secret/#", qos=1).reason_codes == (ReasonCode.GRANTED_QOS_1,)
    alice.lose()


def try_as(broker_api: BrokerApi, user: str | None, version: int = 5, **fields: Any) -> Client:
    client = broker_api.open(version)
    client.send(Connect("c", version=version, username=user, **fields))
    return client


@pytest.mark.parametrize("broker", ["B1", "B2", "B3"])
@pytest.mark.parametrize("user", ["bob", None])
@pytest.mark.parametrize("clean_start", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_another_user_does_not_get_the_session(
    network: Network, broker: str, user: str | None, clean_start: bool, version: int
) -> None:
    alice_is_away(network["B1"])
    network["B3"].connect("p", username="p").publish("secret/x", b"1", qos=1)
    bob = try_as(network[broker], user, version, clean_start=clean_start)
    assert bob.closed
    (refusal,) = bob.take()
    assert refusal.reason_code is ReasonCode.NOT_AUTHORIZED
    network["B3"].connect("p", username="p").publish("secret/x", b"2", qos=1)
    alice = network["B2"].connect("c", username="alice", **KEPT)
    assert alice.connack.session_present
    assert alice.take_payloads() == [b"1", b"2"]
    network.after(10)
    assert not alice.closed


@pytest.mark.parametrize("broker", ["B1", "B3"])
@pytest.mark.parametrize("fields", [{}, KEPT])
def test_another_user_does_not_take_over_the_connection(
    network: Network, broker: str, fields: dict[str, Any]
) -> None:
    alice = network["B1"].connect("c", username="alice", **fields)
    alice.subscribe("secret/#", qos=1)
    bob = try_as(network[broker], "bob")
    network.after(1)
    assert bob.closed
    network["B2"].connect("p", username="p").publish("secret/x", b"1", qos=1)
    assert alice.take_payloads() == [b"1"]
    alice.disconnect()


def test_of_two_users_at_disconnected_brokers_the_first_keeps_the_name(
    network: Network,
) -> None:
    alice = network["B1"].connect("c", username="alice", **KEPT)
    network.is_slow = True
    network["B3"].clients.federation.session_transfer.homes.pop("c")
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


def test_a_session_keeps_its_user_after_a_restart() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.clients._reception.access = Users("alice")
    alice_is_away(broker_api)
    clients = BrokerClients("B1", broker_api.now_us, access=Users("alice"))
    assert restore(clients, remembered(broker_api.batches), broker_api.now_us) == []
    broker_api.clients = clients
    bob = try_as(broker_api, "bob", clean_start=False)
    assert bob.take()[0].reason_code is ReasonCode.NOT_AUTHORIZED
    alice = broker_api.connect("c", username="alice", **KEPT)
    assert alice.connack.session_present


def test_forbidden_subscriptions_are_not_restored() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.clients._reception.access = Users("alice")
    alice_is_away(broker_api)
    clients = BrokerClients("B1", broker_api.now_us, access=Users())
    (problem,) = restore(clients, remembered(broker_api.batches), broker_api.now_us)
    assert "'secret/#'" in problem
    assert clients.subscriptions.count == 0


def test_forbidden_subscriptions_do_not_arrive_with_a_session(network: Network) -> None:
    alice_is_away(network["B1"])
    network["B3"].clients._reception.access = Users()
    alice = network["B3"].connect("c", username="alice", **KEPT)
    assert alice.connack.session_present
    network.after(10)
    network["B2"].connect("p", username="p").publish("secret/x", b"1", qos=1)
    assert alice.take() == []
    assert network["B3"].clients.subscriptions.count == 0


def renewed(broker_api: BrokerApi, stays: Callable[[ClientCredentials], bool]) -> None:
    """The rules change while the broker runs: they trust no user, and some are closed."""
    clients = broker_api.clients

    def permissions(credentials: ClientCredentials) -> Permissions | None:
        user = credentials.username or ""
        return Users().permissions(user, credentials.client_id) if stays(credentials) else None

    broker_api.carry_out(clients.renew(clients.limits, Users(), permissions, broker_api.now_us))
    broker_api.after(1)


@pytest.mark.parametrize("is_away", [True, False])
def test_forbidden_subscriptions_end_when_rules_change(network: Network, is_away: bool) -> None:
    broker_api = network["B1"]
    alice = broker_api.connect("c", username="alice", **KEPT)
    for topic_filter in ("secret/#", "$share/g/secret/#", "open/#"):
        alice.subscribe(topic_filter, qos=1)
    if is_away:
        alice.lose()
    renewed(broker_api, stays=lambda _: False)
    assert alice.closed
    publisher = network["B2"].connect("p", username="p")
    publisher.publish("secret/x", b"1", qos=1)
    alice = broker_api.connect("c", username="alice", **KEPT)
    assert alice.connack.session_present
    publisher.publish("secret/x", b"2", qos=1)
    publisher.publish("open/x", b"3", qos=1)
    assert alice.take_payloads() == [b"3"]
    assert network["B2"].clients.subscriptions.count == 0
    assert broker_api.clients.subscriptions.count == 1


def test_many_forbidden_subscriptions_end_in_slices() -> None:
    broker_api = BrokerApi(Users("alice"))
    alice = broker_api.connect("c", username="alice", **KEPT)
    count = 1_000
    for number in range(count):
        alice.subscribe(f"secret/{number}")
    alice.lose()
    broker_api.clients.renew(
        broker_api.clients.limits, Users(), lambda _: ALL_PERMISSIONS, broker_api.now_us
    )
    left = [count]
    while left[-1] and len(left) < count:
        broker_api.now_us += 1
        broker_api.carry_out(broker_api.clients.advance(broker_api.now_us))
        left.append(broker_api.clients.subscriptions.count)
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 200


def test_a_forbidden_will_is_not_published() -> None:
    broker_api = BrokerApi(Users("alice"))
    watch = broker_api.connect("w", username="p")
    watch.subscribe("#")
    for name, options in {"c": {}, "d": KEPT}.items():
        broker_api.connect(name, username="alice", will=will("secret/x"), **options)
        broker_api.connect(f"open {name}", username="alice", will=will("open/x"), **options)
    renewed(broker_api, stays=lambda credentials: credentials.username == "p")
    assert [packet.topic for packet in watch.take_publications()] == ["open/x", "open/x"]
    kinds = broker_api.clients.statistics.notices.refusals
    assert kinds["publish refused", "not authorized"] == 2


def test_a_restored_forbidden_will_is_not_published() -> None:
    broker_api = RememberingBrokerApi([])
    broker_api.clients._reception.access = Users("alice")
    later = Properties(will_delay_interval_s=60)
    broker_api.connect(
        "c", username="alice", will=will("secret/x", properties=later), **KEPT
    ).lose()
    broker_api.clients = BrokerClients("B1", broker_api.now_us, access=Users())
    assert restore(broker_api.clients, remembered(broker_api.batches), broker_api.now_us) == []
    watch = broker_api.connect("w", username="p")
    watch.subscribe("secret/#")
    broker_api.clients.advance(broker_api.now_us + 70 * SECOND)
    assert watch.take_publications() == []
    assert broker_api.clients.sessions["c"].will is None


def test_a_connected_client_has_its_new_rights_at_once() -> None:
    broker_api = BrokerApi(Users())
    watch = broker_api.connect("w", username="p")
    watch.subscribe("#")
    alice = broker_api.connect("c", username="alice")
    (refused,) = alice.publish("secret/x", b"1", qos=1)
    assert refused.reason_code is ReasonCode.NOT_AUTHORIZED
    assert alice.subscribe("secret/#").reason_codes == (ReasonCode.NOT_AUTHORIZED,)
    clients, trusting = broker_api.clients, Users("alice")

    def permissions(credentials: ClientCredentials) -> Permissions | None:
        return trusting.permissions(credentials.username or "", credentials.client_id)

    broker_api.carry_out(clients.renew(clients.limits, trusting, permissions, broker_api.now_us))
    broker_api.after(1)
    assert not alice.closed
    alice.publish("secret/x", b"2", qos=1)
    assert watch.take_payloads() == [b"2"]
    assert alice.subscribe("secret/#").reason_codes == (ReasonCode.SUCCESS,)
