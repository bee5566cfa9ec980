"""One user with many sessions cannot fill the queues of all."""

from __future__ import annotations

import pytest

from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.packets import Puback
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.sessions.delivering.backlog import ENTRY_BYTES, MESSAGE_BYTES
from tests.mqtt.broker_api import BrokerApi, Client

SIZE = 10_000
EACH = SIZE + MESSAGE_BYTES + ENTRY_BYTES
KEPT = Properties(session_expiry_interval_s=1_000)


class Named:
    """Admits every client with the user name that it gives."""

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        return ClientAdmission(user=credentials.username or "")

    def permissions(self, user: str, client_id: str) -> Permissions:
        return ALL_PERMISSIONS


def broker_api_of(users: int, everybody: int = 100) -> BrokerApi:
    """A broker with room for so many messages, and of one user for so many."""
    return BrokerApi(
        Named(), maximum_all_queued_bytes=everybody * EACH, maximum_user_queued_bytes=users * EACH
    )


def enter(broker_api: BrokerApi, client_id: str, user: str, topic: str) -> Client:
    client = broker_api.connect(client_id, username=user, properties=KEPT)
    client.subscribe(topic, qos=2)
    return client


def publish(client: Client, topic: str, qos: int = 1) -> ReasonCode:
    answer = client.publish(topic, bytes(SIZE), qos=qos)[0]
    assert isinstance(answer, Puback)
    return answer.reason_code


@pytest.mark.parametrize("is_there", [False, True])
def test_a_user_with_many_sessions_fills_only_its_own_share(is_there: bool) -> None:
    """Whether its clients are disconnected, or connected without acknowledging."""
    broker_api = broker_api_of(20)
    for number in range(20):
        greedy = enter(broker_api, f"greedy-{number}", "bob", f"a/{number}")
        if not is_there:
            greedy.lose()
    enter(broker_api, "good", "carol", "b").lose()
    publisher = broker_api.connect("p", username="alice")
    codes = {publish(publisher, f"a/{count % 20}") for count in range(400)}
    codes |= {publish(publisher, "b") for _ in range(15)}
    assert codes == {ReasonCode.SUCCESS}
    assert not broker_api.clients.backlog.is_full
    assert broker_api.clients.backlog.bytes <= 36 * EACH
    assert broker_api.clients.sessions.dropped == 400 - 20
    again = broker_api.connect("good", username="carol", clean_start=False, properties=KEPT)
    assert len(again.take_publications()) == 15


def test_a_message_in_many_sessions_of_a_user_counts_once() -> None:
    broker_api = broker_api_of(20)
    for number in range(20):
        enter(broker_api, f"one-{number}", "bob", "a").lose()
    publisher = broker_api.connect("p", username="alice")
    for _ in range(14):  # 14 messages, and 280 entries
        publish(publisher, "a")
    assert broker_api.clients.sessions.dropped == 0


def test_taken_messages_make_room() -> None:
    broker_api = broker_api_of(5)
    enter(broker_api, "one", "bob", "a").lose()
    enter(broker_api, "two", "bob", "b").lose()
    publisher = broker_api.connect("p", username="alice")
    for _ in range(10):
        publish(publisher, "a")
        publish(publisher, "b")
    assert broker_api.clients.sessions.dropped == 15
    for name in ("one", "two"):
        again = broker_api.connect(name, username="bob", clean_start=False, properties=KEPT)
        assert len(again.take_publications()) == (3 if name == "one" else 2)
        again.lose()
    assert broker_api.clients.backlog.bytes == 0
    for _ in range(5):
        publish(publisher, "a")
    assert broker_api.clients.sessions.dropped == 15


def test_clients_without_a_user_name_share_no_bound() -> None:
    broker_api = broker_api_of(5)
    for number in range(4):
        enter(broker_api, f"any-{number}", "", f"a/{number}").lose()
    publisher = broker_api.connect("p", username="alice")
    for count in range(20):
        publish(publisher, f"a/{count % 4}")
    assert broker_api.clients.sessions.dropped == 0


def test_a_reload_changes_the_share() -> None:
    broker_api = broker_api_of(5)
    enter(broker_api, "one", "bob", "a").lose()
    publisher = broker_api.connect("p", username="alice")
    for _ in range(6):
        publish(publisher, "a")
    assert broker_api.clients.sessions.dropped == 1
    limits = MqttLimits(maximum_user_queued_bytes=10 * EACH)
    broker_api.clients.renew(limits, Named(), lambda _: ALL_PERMISSIONS, broker_api.now_us)
    for _ in range(6):
        publish(publisher, "a")
    assert broker_api.clients.sessions.dropped == 2


def test_dropped_messages_are_counted_incrementally(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over 200,000 sessions would take 17 ms."""
    broker_api = broker_api_of(5)
    enter(broker_api, "one", "bob", "a").lose()
    enter(broker_api, "two", "carol", "a").lose()
    publisher = broker_api.connect("p", username="alice")
    for _ in range(6):
        publish(publisher, "a")
    sessions = broker_api.clients.sessions
    monkeypatch.setattr(type(sessions), "__iter__", lambda self: pytest.fail("all are looked at"))
    assert [sessions[name].dropped for name in ("one", "two")] == [1, 1]
    assert sessions.dropped == 2
    sessions.end(sessions["one"], broker_api.now_us)
    assert sessions.dropped == 2
