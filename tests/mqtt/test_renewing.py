"""Rules that change while many clients are connected."""

from __future__ import annotations

import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.packets import Disconnect
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.mqtt.broker_api import KEPT, SECOND, BrokerApi, will


def test_clients_without_permission_are_closed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 in one slice would take 0.24 s."""
    monkeypatch.setattr("shoal.mqtt.renewing.MOST_AT_ONCE", 10)
    broker_api = BrokerApi()
    clients = [broker_api.connect(f"c{number}") for number in range(40)]
    asked: list[str] = []

    def permissions(credentials: ClientCredentials) -> Permissions | None:
        asked.append(credentials.client_id)
        return ALL_PERMISSIONS if int(credentials.client_id[1:]) % 4 else None

    broker_api.clients._renewing.begin(broker_api.clients.limits, permissions, broker_api.now_us)
    assert len(asked) == 5
    broker_api.after(0.1)
    assert asked == [f"c{number}" for number in range(40)]
    closed = [number for number, client in enumerate(clients) if client.closed]
    assert closed == list(range(0, 40, 4))


class ChangingAccess:
    """Admits every client, to subscribe only to topics that begin with `allowed`."""

    def __init__(self) -> None:
        self.allowed = ""
        self.lasts_us: int | None = None

    def admit(self, credentials: ClientCredentials) -> ClientAdmission:
        permissions: Permissions = _BeginningWith(self.allowed)
        return ClientAdmission(permissions=permissions, lasts_us=self.lasts_us, checks_session=True)

    def permissions(self, user: str, client_id: str) -> Permissions:
        return ALL_PERMISSIONS


class _BeginningWith:
    def __init__(self, allowed: str) -> None:
        self._allowed = allowed

    def may_publish(self, topic: str) -> bool:
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return topic_filter.startswith(self._allowed)


def test_a_client_returning_with_fewer_rights_loses_subscriptions_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shoal.mqtt.renewing.MOST_AT_ONCE", 10)
    access = ChangingAccess()
    broker_api = BrokerApi(access=access)
    names = [f"c{number}" for number in range(30)]
    for name in names:
        client = broker_api.connect(name, **KEPT)
        for topic in (f"{kind}/{number}" for kind in "ab" for number in range(5)):
            client.subscribe(topic)
        client.disconnect()
    access.allowed = "b"
    for name in names:
        broker_api.connect(name, **KEPT)
    count = broker_api.clients.subscriptions
    broker_api.clients.advance(broker_api.now_us)
    assert 150 < count.count < 300
    broker_api.after(1)
    assert count.count == 150
    for name in names:
        session = broker_api.clients.sessions[name]
        assert list(session.subscriptions) == [f"b/{number}" for number in range(5)]
    assert len(broker_api.clients.problems) == 30


@pytest.mark.parametrize("version", [4, 5])
def test_a_connection_ends_with_its_credentials(version: int) -> None:
    access = ChangingAccess()
    broker_api = BrokerApi(access=access)
    listener = broker_api.connect("l")
    listener.subscribe("#", qos=0)
    access.lasts_us = 5 * SECOND
    client = broker_api.connect("c", version=version, will=will("w"))
    assert client.connection.client_id == "c"
    broker_api.after(4.9)
    assert not client.closed
    broker_api.after(0.2)
    assert client.closed
    said = [each for each in client.take() if isinstance(each, Disconnect)]
    if version == 5:
        why = Properties(reason_string="the credentials have expired")
        assert said == [Disconnect(ReasonCode.NOT_AUTHORIZED, why)]
    assert [each.topic for each in listener.take()] == ["w"]
    # A connection that is gone by then is not ended.
    gone = broker_api.connect("d", version=version)
    gone.disconnect()
    broker_api.after(10)
    assert broker_api.clients.statistics.notices.refusals["closed", "not authorized"] == 1
