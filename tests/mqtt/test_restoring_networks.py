"""The state that clients find in a network with a killed and restarted broker."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from shoal.mqtt.codec.packets import Connect, Pubcomp, Publish, Pubrec, Pubrel
from shoal.mqtt.federation.conversions import item_of
from shoal.mqtt.front_end.deduplication import OrderedDeduplication
from shoal.mqtt.front_end.network import TO_ATTRIBUTE
from shoal.mqtt.memory.journal_records import (
    HeardPut,
    ItemPut,
    Record,
    read_records,
)
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.session import Outgoing
from tests.mqtt.network_broker_api import Network
from tests.mqtt.remembering import KEPT, Memory

NAMES = ("B1", "B2", "B3")
COMING_BACK = Connect(client_id="c", clean_start=False, properties=KEPT)


@pytest.fixture
def memory() -> Memory:
    network = Network(*NAMES)
    memory = Memory(network)
    network.after(20)
    return memory


@pytest.mark.parametrize("restarted", [("B1",), ("B3",), ("B1", "B3"), NAMES])
@pytest.mark.parametrize("later_s", [0, 30])
def test_a_restored_session_is_found_from_elsewhere(
    memory: Memory, restarted: Iterable[str], later_s: int
) -> None:
    network = memory.network
    client = network["B1"].connect("c", properties=KEPT)
    client.subscribe("a", qos=1)
    client.lose()
    network["B2"].connect("p").publish("a", b"x", qos=1)
    memory.restart(*restarted)
    network.after(later_s)
    client = network["B3"].open()
    client.send(COMING_BACK)
    network.after(3)
    connack, *rest = client.take()
    assert connack.session_present
    assert [each.payload for each in rest] == [b"x"]
    network.after(30)
    network["B2"].connect("q").publish("a", b"y", qos=1)
    assert b"y" in client.take_payloads()
    assert not network["B1"].clients.sessions.is_kept("c")


def test_a_broker_that_is_not_there_yet_is_waited_for(memory: Memory) -> None:
    network = memory.network
    network["B1"].connect("c", properties=KEPT).subscribe("a", qos=1)
    network["B2"].connect("p").publish("a", b"x", qos=1)
    memory.forget("B1")
    network.is_slow = True
    client = network["B3"].open()
    client.send(COMING_BACK)
    network.after(6)
    assert client.take() == []
    memory.restart("B1")
    network.is_slow = False
    network.after(3)
    connack, publication = client.take()
    assert connack.session_present
    assert publication.payload == b"x"


def test_a_session_that_moved_before_the_kill_does_not_return(memory: Memory) -> None:
    network = memory.network
    network["B1"].connect("c", properties=KEPT).subscribe("a", qos=1)
    memory.forget("B1")  # and stays away for a while
    network["B1"].clients._timers.cancel(("hello", ()))
    network.after(1)
    client = network["B3"].open()
    client.send(COMING_BACK)
    network.after(20)
    (connack,) = client.take()
    assert not connack.session_present
    memory.restart("B1")
    assert network["B1"].clients.sessions.is_kept("c")
    network.after(20)
    assert not network["B1"].clients.sessions.is_kept("c")
    assert network["B3"].clients.sessions.is_kept("c")


def test_a_moved_session_is_at_its_target(memory: Memory) -> None:
    network = memory.network
    client = network["B1"].connect("c", properties=KEPT)
    client.subscribe("a", qos=1)
    client.lose()
    network["B2"].connect("p").publish("a", b"x", qos=1)
    client = network["B3"].connect("c", clean_start=False, properties=KEPT)
    assert [each.payload for each in client.take()] == [b"x"]
    network.after(10)
    memory.restart(*NAMES)
    assert [name for name in NAMES if network[name].clients.sessions.is_kept("c")] == ["B3"]
    client = network["B3"].connect("c", clean_start=False, properties=KEPT)
    assert client.take_payloads() == [b"x"]


@pytest.mark.parametrize("after_s", [0, 1, 3])
def test_a_target_killed_after_a_transfer_keeps_the_session(memory: Memory, after_s: int) -> None:
    network = memory.network
    client = network["B1"].connect("c", properties=KEPT)
    client.subscribe("a", qos=2)
    publisher = network["B1"].connect("p")
    publisher.publish("a", b"1", qos=2)
    network["B3"].connect("c", clean_start=False, properties=KEPT).lose()
    publisher.publish("a", b"2", qos=2)
    network.is_slow = True
    publisher.publish("a", b"3", qos=2)
    memory.restart("B3")
    network.is_slow = False
    network.settle()
    publisher.publish("a", b"4", qos=2)
    network.after(after_s)
    client = network["B3"].connect("c", clean_start=False, properties=KEPT)
    network.after(6)
    publisher.publish("a", b"5", qos=2)
    assert client.take_payloads() == [b"1", b"2", b"3", b"4", b"5"]
    assert not network["B3"].clients.federation.session_transfer.arriving._moves  # type: ignore[union-attr]
    memory.restart("B3")
    assert not network["B3"].clients.federation.session_transfer.arriving._moves  # type: ignore[union-attr]


def test_a_killed_source_continues_the_transfer_at_once(memory: Memory) -> None:
    """The other broker holds messages back for 5 s, so the first control must come sooner."""
    network = memory.network
    network["B1"].connect("c", properties=KEPT).subscribe("a", qos=2)
    client = network["B3"].connect("c", clean_start=False, properties=KEPT)
    memory.forget("B1")
    network["B3"].after(0.5)
    network["B2"].connect("p").publish("a", b"x", qos=2)
    network["B3"].after(4)
    memory.restart("B1")
    network.after(0.1)
    network["B3"].after(1)
    assert client.take() == []
    network.after(5)
    assert client.take_payloads() == [b"x"]


def test_late_messages_of_the_source_are_accepted(memory: Memory) -> None:
    network = memory.network
    network["B1"].connect("c", properties=KEPT).subscribe("a", qos=2)
    network["B3"].connect("c", clean_start=False, properties=KEPT)
    session_transfer = network["B3"].clients.federation.session_transfer
    (transfer,) = session_transfer.arriving._moves
    memory.restart("B3")
    site = network["B3"]
    message = PublishedMessage("a", b"late", "p", site.now_us, 2)
    item = item_of(Outgoing(message, 2, False, ()), transfer, site.now_us)
    site.clients.federation.session_transfer.on_control(item, site.now_us)
    client = site.connect("c", clean_start=False, properties=KEPT)
    assert client.take_payloads() == [b"late"]


def test_a_quick_return_does_not_end_a_restored_session(memory: Memory) -> None:
    network = memory.network
    client = network["B1"].connect("c", properties=KEPT)
    client.subscribe("a", qos=1)
    for name in ("B3", "B1"):
        client = network[name].connect("c", clean_start=False, properties=KEPT)
        assert client.connack.session_present
    network.after(10)
    memory.restart(*NAMES)
    assert [name for name in NAMES if network[name].clients.sessions.is_kept("c")] == ["B1"]
    client = network["B1"].connect("c", clean_start=False, properties=KEPT)
    network["B2"].connect("p").publish("a", b"x", qos=1)
    assert client.take_payloads() == [b"x"]


def test_unsettled_publications_are_retransmitted_under_their_numbers(memory: Memory) -> None:
    network = memory.network
    network["B3"].connect("s", properties=KEPT).subscribe("a", qos=2)
    network.is_settling = False
    publisher = network["B1"].connect("p", properties=KEPT)
    publisher.send(Publish("a", b"1", 2, packet_id=1), Publish("a", b"2", 2, packet_id=2))
    assert publisher.take() == []
    one, two = (each for each in network["B1"].unsettled if TO_ATTRIBUTE not in each.attributes)
    network["B1"].settle([one])
    assert publisher.take() == [Pubrec(1)]
    network["B1"].unsettled.clear()
    memory.restart("B1")
    (again,) = (each for each in network["B1"].unsettled if TO_ATTRIBUTE not in each.attributes)
    assert again.key == two.key
    assert again.again
    # The session's former broker already drops it, also if that was killed, too.
    memory.restart("B3")
    journal = network["B3"].clients.journal
    assert journal is not None
    repeats = OrderedDeduplication(journal.heard)
    assert not repeats.take(again)
    assert repeats.take(msgspec.structs.replace(again, sequence=again.sequence + 1))
    # The client is answered once, and only when it is settled.
    publisher = network["B1"].connect("p", clean_start=False, properties=KEPT)
    publisher.send(Publish("a", b"1", 2, False, True, 1), Publish("a", b"2", 2, False, True, 2))
    assert publisher.take() == [Pubrec(1)]
    network["B1"].settle([again])
    assert publisher.take() == [Pubrec(2)]
    memory.restart("B1")
    assert not [each for each in network["B1"].unsettled[1:] if each.key == again.key]
    publisher = network["B1"].connect("p", clean_start=False, properties=KEPT)
    publisher.send(Pubrel(1), Pubrel(2))
    assert publisher.take() == [Pubcomp(1), Pubcomp(2)]


def test_a_publication_settled_during_an_absence_is_answered_on_return(memory: Memory) -> None:
    network = memory.network
    network.is_settling = False
    publisher = network["B1"].connect("p", properties=KEPT)
    publisher.send(Publish("a", b"1", 2, packet_id=1))
    network["B1"].unsettled.clear()
    memory.restart("B1")
    network["B1"].settle(network["B1"].unsettled)
    for _ in range(2):
        publisher = network["B1"].connect("p", clean_start=False, properties=KEPT)
        publisher.send(Publish("a", b"1", 2, False, True, 1))
        assert publisher.take() == [Pubrec(1)]
        memory.restart("B1")


def test_received_numbers_are_written_with_their_deliveries(memory: Memory) -> None:
    network = memory.network
    site = network["B3"]
    reader = site.connect("r")
    reader.subscribe("a", qos=1)
    journal = site.clients.journal
    assert journal is not None
    journal.take()
    network["B1"].connect("p").publish("a", b"1", qos=1)
    assert reader.take_payloads() == [b"1"]
    assert not any(isinstance(each, ItemPut) for each in _records(journal.take()))
    site.connect("s", properties=KEPT).subscribe("a", qos=1)
    journal.take()
    network["B1"].connect("q").publish("a", b"2", qos=1)
    records = _records(journal.take())
    assert [type(each) for each in records[-1:]] == [HeardPut]


def _records(batch: bytes) -> list[Record]:
    return read_records(batch) if batch else []
