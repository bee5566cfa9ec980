"""Topics under `$SYS/` that are the broker's own."""

from __future__ import annotations

import pytest

from shoal.mqtt.broker_topics import is_bridge_state, is_brokers_own


@pytest.mark.parametrize(
    ("topic", "is_state"),
    [
        ("$SYS/broker/connection/site/state", True),
        ("$SYS/broker/connection/host.a b/state", True),
        ("$SYS/broker/connection//state", False),
        ("$SYS/broker/connection/state", False),
        ("$SYS/broker/connection/a/b/state", False),
        ("$SYS/broker/connection/a/stat", False),
        ("$SYS/broker/uptime", False),
    ],
)
def test_only_the_states_of_bridges_are_not_the_brokers_own(topic: str, is_state: bool) -> None:
    assert (is_bridge_state(topic), is_brokers_own(topic)) == (is_state, not is_state)


@pytest.mark.parametrize("topic", ["a", "SYS/a", "$SYS", "$share/a", "a/$SYS/b"])
def test_other_topics_are_no_bridge_states(topic: str) -> None:
    assert not is_bridge_state(topic)
    assert not is_brokers_own(topic)
