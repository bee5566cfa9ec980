"""MQTT sides with a journal, and MQTT sides restored from it."""

from __future__ import annotations

from typing import Any

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.front_end.network import write_body
from shoal.mqtt.memory.journal_records import read_records
from shoal.mqtt.restoring import Remembered, restore
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.subscribed.rows import row_of
from tests.mqtt.broker_api import BrokerApi
from tests.mqtt.network_broker_api import Network

# The expiry of sessions.
KEPT = Properties(session_expiry_interval_s=600)


class RememberingBrokerApi(BrokerApi):
    """A broker by itself that writes a journal: `batches`, one for each write."""

    def __init__(self, batches: list[bytes], now_us: int | None = None, **limits: Any) -> None:
        super().__init__(**limits)
        if now_us is not None:
            self.now_us = now_us
        self.batches = list(batches)
        self.clients = BrokerClients("B1", self.now_us, limits=self.clients.limits)
        assert restore(self.clients, remembered(batches), self.now_us) == []
        self.write()

    def carry_out(self, effects: Any) -> None:
        self.write()
        super().carry_out(effects)

    def write(self) -> None:
        assert self.clients.journal is not None
        if batch := self.clients.journal.take():
            self.batches.append(batch)

    def killed(self, after_s: float = 0, **limits: Any) -> RememberingBrokerApi:
        """The MQTT side restored from this one's journal, some time later."""
        return RememberingBrokerApi(self.batches, self.now_us + round(after_s * 1e6), **limits)


class Memory:
    """The journals of a network's brokers."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.written: dict[str, Remembered] = {}
        for name, site in network.sites.items():
            self.written[name] = Remembered()
            assert restore(site.clients, Remembered(), site.now_us) == []

    def restart(self, *names: str) -> None:
        """Kill their MQTT sides at once, and restore them."""
        for name in names:
            self.forget(name)
        for name in names:
            site = self.network[name]
            assert restore(site.clients, self.written[name], site.now_us) == []
        for name in names:
            site = self.network[name]
            site.carry_out(site.clients.take_effects())

    def forget(self, name: str) -> None:
        site = self.network[name]
        journal = site.clients.journal
        if journal is not None and (batch := journal.take()):
            self.written[name].apply(read_records(batch))
        limits = site.clients.limits
        site.clients = BrokerClients(name, site.now_us, limits=limits, networked=True)


def remembered(batches: list[bytes]) -> Remembered:
    found = Remembered()
    for batch in batches:
        found.apply(read_records(batch))
    return found


def all_that_lasts(clients: BrokerClients, now_us: int) -> dict[str, Any]:
    """The state that must be restored if the broker is killed at this moment."""
    sessions = {
        session.client_id: _session(session, now_us)
        for session in clients.sessions
        if session.expiry_interval_s or session.will is not None
    }
    retained = {
        each.topic: (write_body(each), each.published_us, each.expires_us)
        for each in clients.retained.history()
        if not each.has_expired(now_us)
    }
    return {"sessions": sessions, "retained": retained}


def _session(session: Session, now_us: int) -> dict[str, Any]:
    kept = bool(session.expiry_interval_s)
    left_us = now_us if session.left_us is None else session.left_us
    return {
        "expiry": session.expiry_interval_s,
        "entered": session.entered_us,
        "left": left_us if kept else None,
        "will": session.will,
        "subscriptions": {
            text: row_of(each) for text, each in session.subscriptions.items() if kept
        },
        "conflated": _keys(session, now_us) if kept else {},
        "received": sorted(session.received) if kept else [],
        "items": [
            (
                write_body(each.message),
                each.message.published_us,
                each.message.expires_us,
                each.message.key,
                (each.qos, each.retain, each.identifiers, each.packet_id, each.released),
            )
            for each in session.on_its_way()
            if each.qos and kept
        ],
    }


def _keys(session: Session, now_us: int) -> dict[Any, Any]:
    """The keys of conflated subscriptions, as a restart must find them."""
    keys = {}
    for text, subscription in session.subscriptions.items():
        conflator = subscription.conflator
        for key in conflator or ():
            state = conflator.get(key) if conflator is not None else None
            assert state is not None
            held = state.held if state.held is not None and state.held.qos else None
            is_running = state.ends_us is not None and (state.ends_us > now_us or held is not None)
            found = (
                state.ends_us if is_running else None,
                state.last,
                None if held is None else (write_body(held.message), state.held_values),
            )
            if found != (None, None, None):
                keys[text, key] = found
    return keys
