"""Sessions last owned by a broker with a clock that is ahead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionOwner
from shoal.mqtt.federation.session_transfer.fetching import WAIT_US, Fetching
from shoal.mqtt.timers import MqttTimers

HOUR_US = 3_600_000_000


def test_a_brokers_silence_is_measured_by_the_local_clock() -> None:
    timers: Any = MqttTimers()
    limits = SimpleNamespace(connect_timeout_s=60, silent_broker_s=60)
    sessions: Any = SimpleNamespace(limits=limits)
    never: Any = None
    fetching = Fetching("B1", sessions, timers, lambda *word: None, never, never)
    journal: Any = SimpleNamespace(is_failing=False)
    fetching.journal = journal
    connection: Any = SimpleNamespace(is_closed=False)
    admission: Any = SimpleNamespace(user="ann")
    # Its clock is an hour ahead: the client's entry here is later than all its entries there.
    transfer = ("c", HOUR_US + 1)
    fetching.begin(transfer, SessionOwner("B2", HOUR_US, "ann"), connection, admission, 1_000)
    fetching.on_fetching_timer(transfer, 1_000 + WAIT_US)
    assert fetching._silent == {"B2": 1_000 + WAIT_US}
