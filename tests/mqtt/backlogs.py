"""The backlog of a broker, computed again from its sessions."""

from __future__ import annotations

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.sessions.delivering.backlog import ENTRY_BYTES, MESSAGE_BYTES


def counted_again(clients: BrokerClients) -> int:
    messages = []
    for session in clients.sessions:
        messages += [each.message for each in session.on_its_way()]
        messages += [each.message for each in session.withheld]
        if session.diversion is not None:
            messages += [each.message for each in session.diversion.held]
    each_once = {id(message): message for message in messages}.values()
    kept = sum(MESSAGE_BYTES + message.size for message in each_once)
    return kept + ENTRY_BYTES * len(messages)
