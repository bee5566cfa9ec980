"""A client's session: what it makes of a refusal."""

from __future__ import annotations

import pytest

from shoal.client.session import ClientSession, RefusedError, SessionError, State
from shoal.mqtt.codec.encoder import encode
from shoal.mqtt.codec.packets import Connack, Connect
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
