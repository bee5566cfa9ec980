"""Calls of a log whose broker does not answer."""

from __future__ import annotations

import pytest

from shoal.log import remote
from shoal.log.remote import LogAnswerError, LogLogin, RemoteLog, patiently

# Port 1 is a privileged one without a server.
URL = "https://127.0.0.1:1"


@pytest.mark.parametrize(
    ("log", "pauses"),
    [
        (RemoteLog(URL), 3),
        (RemoteLog(URL, LogLogin(authority="there-is-no-such.pem")), 0),
        (RemoteLog("127.0.0.1"), 0),
    ],
)
def test_a_call_is_repeated_if_the_broker_may_come_back(
    log: RemoteLog, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = iter(range(100))
    slept: list[float] = []
    monkeypatch.setattr(remote.time, "monotonic", lambda: next(now_s))
    monkeypatch.setattr(remote.time, "sleep", slept.append)
    with pytest.raises(LogAnswerError):
        patiently(log.bounds, 3)
    assert len(slept) == pauses
