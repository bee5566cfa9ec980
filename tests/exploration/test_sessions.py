"""A client that goes back and forth between two brokers keeps its session, in every order."""

from __future__ import annotations

import pytest

from shoal.mqtt.access import ClientAdmission
from shoal.mqtt.connection.connection import Connection
from tests.examples import at_length
from tests.exploration.sessions import OWNER, STARTING, SessionMoves
from tests.mqtt.broker_api import SECOND

# The sequence of the brokers to which the client connects; None leaves it open.
THERE_AND_BACK = (STARTING, OWNER)
# Longer than a broker waits for the lists of others.
LONG_S = (10.0,)


@pytest.mark.parametrize(
    ("ahead_s", "hears"), [(0, False), *at_length([(0, True), (3_600, True), (-3, True)])]
)
def test_a_client_that_goes_back_keeps_its_session(ahead_s: int, hears: bool) -> None:
    """The starting broker may not notice for long that the client has hung up."""
    ahead_us = ahead_s * SECOND
    found = SessionMoves(THERE_AND_BACK, LONG_S, ahead_us=ahead_us, hears=hears).explore()
    assert found.problems == []
    print(found)


def test_an_admission_later_than_the_return_would_lose_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The judge notices if a client counts as connected when it is admitted."""
    finish_entry = Connection.finish_entry

    def stamped_late(self: Connection, admission: ClientAdmission, now_us: int) -> None:
        self.connect_us = now_us
        finish_entry(self, admission, now_us)

    monkeypatch.setattr(Connection, "finish_entry", stamped_late)
    problems = SessionMoves(THERE_AND_BACK, LONG_S).explore().problems
    assert problems[-1] == "B1 says present, with (), not ('a0',)"


def test_a_hang_up_that_is_not_noticed_loses_the_session_where_clocks_differ() -> None:
    """So a broker reads clients that wait."""
    problems = SessionMoves(THERE_AND_BACK, LONG_S, ahead_us=3_600 * SECOND).explore().problems
    assert problems[-1] == "B1 says present, with (), not ('a0',)"


@pytest.mark.soak
@pytest.mark.parametrize("ahead_s", [0, -3, 3_600])
@pytest.mark.parametrize("passes", [LONG_S, (0.5, 10.0)])
def test_a_client_that_connects_anywhere_keeps_its_session(
    passes: tuple[float, ...], ahead_s: int
) -> None:
    moves = SessionMoves((None, None), passes, ahead_us=ahead_s * SECOND, hears=bool(ahead_s))
    assert moves.explore().problems == []
