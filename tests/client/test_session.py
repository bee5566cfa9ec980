"""A client's session: what it makes of a refusal."""

from __future__ import annotations

import pytest

from shoal.client.session import ClientSession, Done, RefusedError, SessionError, State
from shoal.mqtt.codec.decoder import Decoder
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Connack, Connect, Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.codec.reason_codes import ReasonCode


def answered(session: ClientSession, code: ReasonCode) -> None:
    session.opened()
    session.receive(encode(Connack(code), 5))


@pytest.mark.parametrize("code", [ReasonCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_BUSY])
def test_who_was_let_in_before_tries_again_where_its_session_is_not_there_yet(
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
    assert session.state is State.UP
    with pytest.raises(RefusedError):
        answered(session, ReasonCode.NOT_AUTHORIZED)


def takes(session: ClientSession, size: int, *, session_present: bool) -> list[object]:
    """A broker that takes so many bytes; the events when it lets the client in."""
    session.opened()
    session.to_write()
    properties = Properties(maximum_packet_size=size)
    connack = Connack(session_present=session_present, properties=properties)
    return list(session.receive(encode(connack, 5)))


@pytest.mark.parametrize("session_present", [False, True])
def test_what_the_next_broker_does_not_take_is_not_sent_to_it_again(session_present: bool) -> None:
    """Nor what waited while there was none; all else is."""
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
