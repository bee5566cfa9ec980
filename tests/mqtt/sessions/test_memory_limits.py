"""Memory of subscriptions and sessions: bounds of a client, a user, and all."""

from __future__ import annotations

import msgspec
import pytest

from shoal.attributes import Json
from shoal.mqtt.access import ALL_PERMISSIONS, Everyone
from shoal.mqtt.codec.packets import (
    Connack,
    Connect,
    Publish,
    Subscribe,
    SubscriptionRequest,
)
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.content import SUBSCRIPTION_BYTES, TEST_BYTES
from shoal.mqtt.messages import PublishedMessage
from tests.mqtt.broker_api import BrokerApi, Client
from tests.mqtt.network_broker_api import Network
from tests.mqtt.sessions.test_user_queues import Named

KEPT = Properties(session_expiry_interval_s=1_000)
LARGE = " AND ".join(f"a{number} > 1" for number in range(10))
EACH = SUBSCRIPTION_BYTES + 10 * TEST_BYTES + 100


def asks(client: Client, name: str) -> ReasonCode:
    asked = Properties(user_properties=(("$where", LARGE),))
    client.send(Subscribe(1, (SubscriptionRequest(name),), asked))
    return client.take()[-1].reason_codes[0]


def renew(broker_api: BrokerApi, **limits: int) -> None:
    """As after SIGHUP."""
    now = msgspec.structs.replace(broker_api.clients.limits, **limits)
    broker_api.carry_out(
        broker_api.clients.renew(now, Everyone(), lambda _: ALL_PERMISSIONS, broker_api.now_us)
    )


def test_a_clients_subscriptions_are_bounded() -> None:
    broker_api = BrokerApi(maximum_subscription_bytes=3 * EACH)
    client, other = broker_api.connect("c"), broker_api.connect("o")
    codes = [asks(client, name) for name in "abcd"]
    assert codes == [0, 0, 0, ReasonCode.QUOTA_EXCEEDED]
    assert asks(other, "a") == 0
    # A replacement takes no more.
    assert asks(client, "a") == 0
    client.unsubscribe("a")
    assert asks(client, "d") == 0
    refused = broker_api.clients.statistics.notices.refusals
    assert refused["subscribe refused", "quota exceeded"] == 1
    client.lose()
    other.lose()
    assert broker_api.clients.subscriptions.bytes == 0


def test_a_users_subscriptions_are_bounded_together() -> None:
    broker_api = BrokerApi(Named(), maximum_user_subscription_bytes=3 * EACH)
    first, second = (broker_api.connect(name, username="ann") for name in "ab")
    other = broker_api.connect("o", username="bob")
    assert [asks(first, "a"), asks(first, "b"), asks(second, "a")] == [0, 0, 0]
    assert asks(second, "b") == asks(first, "c") == ReasonCode.QUOTA_EXCEEDED
    assert [asks(other, name) for name in "abc"] == [0, 0, 0]
    first.lose()
    assert [asks(second, name) for name in "bc"] == [0, 0]
    assert asks(second, "d") == ReasonCode.QUOTA_EXCEEDED


def test_all_clients_subscriptions_are_bounded_together() -> None:
    broker_api = BrokerApi(maximum_all_subscription_bytes=2 * EACH)
    clients = [broker_api.connect(name) for name in "abc"]
    assert [asks(each, "a") for each in clients] == [0, 0, ReasonCode.QUOTA_EXCEEDED]
    renew(broker_api, maximum_all_subscription_bytes=3 * EACH)
    assert [asks(each, "b") for each in clients] == [0] + 2 * [ReasonCode.QUOTA_EXCEEDED]
    # A lower limit removes nothing.
    renew(broker_api, maximum_all_subscription_bytes=1)
    assert broker_api.clients.subscriptions.count == 3


def test_a_client_with_a_session_is_admitted_beyond_the_limit() -> None:
    broker_api = BrokerApi(maximum_sessions=2)
    for name in "ab":
        broker_api.connect(name, properties=KEPT).lose()
    refused = broker_api.open()
    refused.send(Connect("c"))
    [answer] = refused.take()
    assert isinstance(answer, Connack)
    assert answer.reason_code is ReasonCode.QUOTA_EXCEEDED
    assert answer.properties.reason_string == "too many sessions"
    assert broker_api.clients.statistics.notices.refusals["connect refused", "quota exceeded"] == 1
    broker_api.connect("a", clean_start=False, properties=KEPT).lose()
    broker_api.connect("b")  # begins anew
    broker_api.connect("b", clean_start=True).lose()
    broker_api.connect("c")


def test_a_users_sessions_are_bounded() -> None:
    broker_api = BrokerApi(Named(), maximum_user_sessions=2)
    for name in "ab":
        broker_api.connect(name, username="ann", properties=KEPT).lose()
    refused = broker_api.open()
    refused.send(Connect("c", username="ann"))
    assert refused.take()[0].reason_code is ReasonCode.QUOTA_EXCEEDED
    broker_api.connect("d", username="bob").lose()
    broker_api.connect("a", username="ann").lose()  # whose session ends with it
    broker_api.connect("c", username="ann")


def test_a_transferred_session_keeps_everything_beyond_limits() -> None:
    network = Network("B1", "B2")
    network.after(1)
    here, there = network["B1"], network["B2"]
    client = here.connect("c", properties=KEPT)
    assert [asks(client, name) for name in "ab"] == [0, 0]
    client.lose()
    network.settle()
    renew(there, maximum_sessions=1, maximum_subscription_bytes=1)
    there.connect("o")
    moved = there.open()
    moved.send(Connect("c", clean_start=False, properties=KEPT))
    network.settle()
    [answer] = moved.take()
    assert answer.reason_code is ReasonCode.SUCCESS
    assert answer.session_present
    assert set(there.clients.sessions["c"].subscriptions) == {"a", "b"}
    assert there.clients.subscriptions.bytes > EACH
    network.after(60)
    assert here.clients.subscriptions.bytes == 0


@pytest.mark.parametrize("networked", [True, False])
@pytest.mark.parametrize("asked", ["a?x=1", "a"])
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("count", [1, 3])
def test_attributes_are_not_kept_with_queued_messages(
    monkeypatch: pytest.MonkeyPatch, networked: bool, asked: str, qos: int, count: int
) -> None:
    network = Network("B1", "B2")
    broker_api = network["B2"] if networked else BrokerApi()
    waiting: list[PublishedMessage] = []
    enter = broker_api.clients.backlog.enter

    def watch(message: PublishedMessage) -> None:
        waiting.append(message)
        enter(message)

    monkeypatch.setattr(broker_api.clients.backlog, "enter", watch)
    client = broker_api.connect("c")
    client.connection.pause()
    client.subscribe(asked, qos=qos)
    client.is_listening = False
    publisher = (network["B1"] if networked else broker_api).connect("p")
    publisher.send(*(Publish("a", b'{"x": 1}', qos, packet_id=qos * at) for at in range(1, count)))
    publisher.publish("a", b'{"x": 1}', qos=qos)
    assert len(waiting) == count
    assert [message.attributes for message in waiting] == [None] * count


@pytest.mark.parametrize("networked", [True, False])
def test_attributes_are_not_kept_with_retained_messages(networked: bool) -> None:
    network = Network("B1", "B2")
    broker_api = network["B1"] if networked else BrokerApi()
    client = broker_api.connect("c")
    client.subscribe("a?x=1")
    broker_api.connect("p").publish("a", b'{"x": 1}', retain=True)
    client.subscribe("$where/x<2/+")
    assert client.take_payloads() == [b'{"x": 1}'] * 2
    (kept,) = broker_api.clients.retained.matching("a", broker_api.now_us)
    assert kept.attributes is None


@pytest.mark.parametrize("json", ["auto", "never"])
def test_groups_see_the_same_attributes_as_subscriptions(json: Json) -> None:
    network = Network("B1", "B2")
    for site in network.sites.values():
        assert site.clients.front_end is not None
        site.clients.front_end.reader.json = json
    member, client = network["B2"].connect("m"), network["B1"].connect("c")
    member.subscribe("$share/g/a?x=1")
    client.subscribe("a?x=1")
    network["B1"].connect("p").publish("a", b'{"x": 1}')
    assert len(member.take()) == len(client.take()) == (json == "auto")
