"""Topics under `$SYS/`: the broker's own, and the state topics of bridges.

>>> is_brokers_own("$SYS/broker/uptime"), is_brokers_own("$SYS/broker/connection/site/state")
(True, False)
>>> is_bridge_state("$SYS/broker/connection/site/x/state"), is_brokers_own("flights")
(False, False)
"""

from __future__ import annotations

BROKER_TOPICS = "$SYS/"
# mosquitto's bridges publish 1 or 0 to `$SYS/broker/connection/CLIENT/state` at the broker that
# they connect to, retained, and leave it as their will.
_BEFORE, _BEHIND = "$SYS/broker/connection/", "/state"


def is_bridge_state(topic: str) -> bool:
    """Whether a topic is the state topic of a bridge: clients may publish to it."""
    if not topic.startswith(_BEFORE) or not topic.endswith(_BEHIND):
        return False
    name = topic[len(_BEFORE) : -len(_BEHIND)]
    return bool(name) and "/" not in name


def is_brokers_own(topic: str) -> bool:
    """Whether only the broker publishes to a topic, and keeps it local."""
    return topic.startswith(BROKER_TOPICS) and not is_bridge_state(topic)
