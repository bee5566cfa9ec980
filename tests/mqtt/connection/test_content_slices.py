"""Publications of one time slice, when content filters are evaluated."""

from __future__ import annotations

import pytest

from shoal.matching import MatchIndex
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packet_types import MQTT_5
from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.connection.incoming import MANY_FILTERS
from shoal.mqtt.messages import PublishedMessage
from tests.mqtt.broker_api import BrokerApi

# As in a live broker, which does not wait for compiled parts.
pytestmark = pytest.mark.usefixtures("is_live")

FILTERS = 1_000
COUNT = 200


def of(**attributes: str) -> Properties:
    return Properties(user_properties=tuple(attributes.items()))


@pytest.fixture
def is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatchIndex, "may_wait", False)


def turns_of(text: str, qos: int, price: int) -> list[int]:
    """The number of publications in each slice of a read, with such filters of ten clients."""
    broker_api = BrokerApi()
    for name in range(10):
        reader = broker_api.connect(f"r{name}")
        for number in range(name, FILTERS, 10):
            reader.subscribe(text.format(n=number))
    client = broker_api.connect("c")
    sent = [
        Publish(
            "quotes",
            b"",
            qos,
            packet_id=number + 1 if qos else 0,
            properties=of(symbol=f"S{number}", price=str(price), open="5"),
        )
        for number in range(COUNT)
    ]
    statistics, taken = broker_api.clients.statistics, []
    data = b"".join(encode(each, MQTT_5) for each in sent)
    broker_api.carry_out(client.connection.receive(data, broker_api.now_us))
    while True:
        taken.append(statistics.publications_received - sum(taken))
        if not client.connection.holds:
            assert sum(taken) == COUNT
            return taken
        broker_api.carry_out(client.connection.take_held(broker_api.now_us))


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(
    ("text", "price"),
    [
        # Of which a publication matches one, at most.
        ("quotes?symbol='S{n}'", 5),
        ("quotes?symbol='S{n}'&price>1", 5),
        # And which it does not pass.
        ("quotes?price>{n}", 0),
    ],
)
def test_many_filters_cost_only_if_a_publication_matches_many(
    qos: int, text: str, price: int
) -> None:
    """With 10,000 filters by symbol a slice must not shrink to 20 publications."""
    assert turns_of(text, qos, price) == [COUNT]


@pytest.mark.parametrize(
    ("text", "most"),
    [
        # Each publication is for all: 10 units of work.
        ("quotes?price>-{n}", 190),
        # Or all are tested: 40 units.
        ("quotes?price!=-{n}", 50),
    ],
)
def test_a_slice_takes_few_publications_that_match_many(text: str, most: int) -> None:
    taken = turns_of(text, 0, 5)
    assert max(taken) <= most
    assert len(taken) > 1


@pytest.mark.parametrize(("text", "most"), [("open>{n}", COUNT), ("open<{n}", 190)])
def test_ranges_are_tested_one_by_one_until_they_are_compiled(text: str, most: int) -> None:
    first, *others = turns_of(f"quotes?price>1&price<9&{text}", 0, 5)
    assert first <= 50
    assert 50 < max(others) <= most


LONG_TEXT = "x" * 10_000


@pytest.mark.parametrize(
    ("publications", "is_long"),
    [
        ([Publish("quotes", b"x")], False),
        ([Publish("quotes", b"{%s}" % LONG_TEXT.encode())], True),
        # For payloads of this size the bytes of the wire are not kept.
        ([Publish("quotes", b"x", properties=of(text=LONG_TEXT))], True),
        ([Publish("quotes", b"x", properties=of(text=LONG_TEXT[:1_000]))], True),
        ([Publish("quotes", b"x", properties=of(text="x"))], False),
        (
            [
                Publish("quotes/" + LONG_TEXT, b"x", properties=Properties(topic_alias=1)),
                Publish("", b"x", properties=Properties(topic_alias=1)),
            ],
            True,
        ),
    ],
    ids=["nothing", "a payload", "a property", "a shorter one", "a short one", "an alias"],
)
def test_a_long_texts_search_counts_wherever_it_stands(
    publications: list[Publish], is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker_api, looked = BrokerApi(), []
    reader = broker_api.connect("r")
    for number in range(MANY_FILTERS):
        reader.subscribe(f"quotes/#?text!=a{number}")
    prepare = broker_api.clients.subscribing.prepare

    def watched(message: PublishedMessage, work_us: float) -> bool:
        looked.append(message.topic)
        return prepare(message, work_us)

    monkeypatch.setattr(broker_api.clients.subscribing, "prepare", watched)
    client = broker_api.connect("c")
    for publication in publications:
        looked.clear()
        client.send(publication)
        assert bool(looked) is is_long
