"""A client's session: refusals, retransmissions, and acknowledgements."""

from __future__ import annotations

import pytest

from shoal.client.events import Connected, Done, RefusedError, SessionError
from shoal.client.session import ClientSession, ClientState
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Connack, Connect, Puback, Publish, Pubrec, Pubrel
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode


def answered(session: ClientSession, code: ReasonCode) -> None:
    session.opened()
    session.receive(encode(Connack(code), 5))


@pytest.mark.parametrize("code", [ReasonCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_BUSY])
def test_a_formerly_admitted_client_retries_while_its_session_is_missing(
    code: ReasonCode,
) -> None:
    session = ClientSession(Connect("c"))
    with pytest.raises(RefusedError):
        answered(session, code)
    answered(session, ReasonCode.SUCCESS)
    session.lost()
    with pytest.raises(SessionError) as caught:
        answered(session, code)
    assert not isinstance(caught.value, RefusedError)
    answered(session, ReasonCode.SUCCESS)
    assert session.state is ClientState.UP
    with pytest.raises(RefusedError):
        answered(session, ReasonCode.NOT_AUTHORIZED)


def takes(session: ClientSession, size: int, *, session_present: bool) -> list[object]:
    """A broker that accepts so many bytes; the events after the client's admission."""
    session.opened()
    session.to_write()
    properties = Properties(maximum_packet_size=size)
    connack = Connack(session_present=session_present, properties=properties)
    return list(session.receive(encode(connack, 5)))


@pytest.mark.parametrize("session_present", [False, True])
def test_messages_above_the_next_brokers_limit_are_not_retransmitted(session_present: bool) -> None:
    """Nor were queued messages beyond its limit; all others are."""
    session = ClientSession(Connect("c"))
    waited = session.publish(Publish("a", b"x" * 2_000, 1))
    small = session.publish(Publish("a", b"1", 1))
    [done, _] = takes(session, 1_000, session_present=False)
    assert isinstance(done, Done)
    assert (done.number, done.reason_code) == (waited, ReasonCode.PACKET_TOO_LARGE)
    assert done.reason == "2,009 bytes; the broker takes 1,000 at most"
    under_way = session.publish(Publish("a", b"y" * 900, 2))
    session.lost()
    [done, _] = takes(session, 500, session_present=session_present)
    assert isinstance(done, Done)
    assert done.number == under_way
    sent = Decoder(5).feed(session.to_write())
    assert [(each.payload, each.duplicate) for each in sent] == [  # type: ignore[union-attr]
        (b"1", session_present)
    ]
    assert small is not None


def connected(
    session: ClientSession, *, session_present: bool = False, **terms: int
) -> list[object]:
    """A connection on these terms; the packets after the client's admission."""
    session.opened()
    session.to_write()
    session.receive(
        encode(Connack(session_present=session_present, properties=Properties(**terms)), 5)
    )
    return packets_of(session)


def packets_of(session: ClientSession) -> list[object]:
    return list(Decoder(5).feed(session.to_write()))


def test_mqtt_3_3_4_7_and_4_9_0_1_retransmissions_respect_a_smaller_receive_maximum() -> None:
    """[MQTT-4.6.0-1]: in order, and before new ones."""
    session = ClientSession(Connect("c"))
    connected(session)
    for number in range(4):
        session.publish(Publish("a", b"%d" % number, 1))
    session.lost()
    session.publish(Publish("a", b"new", 1))
    for number in range(4):
        found = (
            connected(session, session_present=True, receive_maximum=1)
            if number == 0
            else packets_of(session)
        )
        assert found == [Publish("a", b"%d" % number, 1, duplicate=True, packet_id=number + 1)]
        # A message that was not retransmitted is not acknowledged either.
        session.receive(encode(Puback(4 if number < 3 else 1), 5))
        assert packets_of(session) == []
        session.receive(encode(Puback(number + 1), 5))
    assert packets_of(session) == [Publish("a", b"new", 1, packet_id=5)]


def test_mqtt_4_6_0_2_to_4_acknowledgements_keep_the_order_of_messages() -> None:
    """[MQTT-4.5.0-2]: whatever the application does with it."""
    session = ClientSession(Connect("c"))
    connected(session)
    came = [
        Publish("a", b"", qos, packet_id=number) for number, qos in ((7, 1), (3, 2), (9, 1), (1, 2))
    ]
    session.receive(b"".join(encode(each, 5) for each in came))
    assert packets_of(session) == [Puback(7), Pubrec(3), Puback(9), Pubrec(1)]
    for _ in range(3):
        session.publish(Publish("b", b"", 2))
    packets_of(session)
    session.receive(b"".join(encode(Pubrec(number), 5) for number in (2, 1, 3)))
    assert packets_of(session) == [Pubrel(2), Pubrel(1), Pubrel(3)]


def held(*, session_present: bool = False) -> ClientSession:
    """A lasting session, connected."""
    session = ClientSession(Connect("c", clean_start=False), is_held=True)
    connected(session, session_present=session_present)
    return session


def arrive(session: ClientSession, *packets: Publish) -> list[object]:
    return list(session.receive(b"".join(encode(each, 5) for each in packets)))


def test_an_explicit_acknowledgement_is_answered_by_qos_and_once() -> None:
    """At QoS 2 a PUBACK would make brokers close the connection."""
    session = held()
    assert len(arrive(session, *(Publish("a", b"", q, packet_id=q) for q in (1, 2)))) == 2
    assert packets_of(session) == []
    for packet_id in (2, 1, 1, 2, 7):
        session.acknowledge(packet_id)
    assert packets_of(session) == [Pubrec(2), Puback(1)]
    assert arrive(session, Publish("a", b"", 2, packet_id=2, duplicate=True)) == []
    assert packets_of(session) == [Pubrec(2)]


def test_mqtt_4_3_3_a_qos_2_retransmission_is_handed_out_once() -> None:
    session, packet = held(), Publish("a", b"", 2, packet_id=5)
    again = Publish("a", b"", 2, packet_id=5, duplicate=True)
    assert len(arrive(session, packet)) == 1
    session.lost()
    connected(session, session_present=True)
    assert arrive(session, again) == []
    session.lost()
    session.acknowledge(5)  # while there is no connection
    connected(session, session_present=True)
    assert arrive(session, again) == []
    assert packets_of(session) == [Pubrec(5)]
    session.receive(encode(Pubrel(5), 5))
    assert len(arrive(session, packet)) == 1
    session.lost()
    connected(session)  # the broker knows nothing of it: the identifier means another message
    assert len(arrive(session, again)) == 1


def test_mqtt_3_2_2_21_the_brokers_keep_alive_holds() -> None:
    session = ClientSession(Connect("c", keep_alive_s=30))
    session.opened()
    [event] = session.receive(encode(Connack(properties=Properties(server_keep_alive_s=7)), 5))
    assert isinstance(event, Connected)
    assert event.keep_alive_s == 7
    session.lost()
    session.opened()
    [event] = session.receive(encode(Connack(), 5))
    assert isinstance(event, Connected)
    assert event.keep_alive_s == 30
