"""Admission of one broker: of clients, their identifiers, redirected clients and publications."""

from __future__ import annotations

from shoal.model import BrokerId
from shoal.mqtt.access import Access, ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.packets import WillFields
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.full_queues import FullQueues
from shoal.mqtt.federation.moving import Moving
from shoal.mqtt.federation.session_transfer.directory.session_directory import SessionDirectory
from shoal.mqtt.limits import MqttLimits
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.notices import Party
from shoal.mqtt.sessions.session import CANNOT_WRITE, Session
from shoal.mqtt.sessions.sessions import TOO_MANY_SESSIONS, Sessions
from shoal.mqtt.statistics import Statistics

# The reason to refuse publications above QoS 0 while the queues of clients are full.
QUEUES_ARE_FULL = "the queues of clients are full"
# The reason to refuse a client at the limit of connections.
TOO_MANY = "too many connections"


class AdmissionPolicy:
    """The admission policy of one broker.

    In a network `moving` knows whether the broker is drained, `crowding` which brokers have full
    queues, `homes` which broker owns a session.

    `refusals`: the reasons of disks to refuse publications above QoS 0, by what is kept there.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        limits: MqttLimits,
        access: Access,
        statistics: Statistics,
        sessions: Sessions,
        now_us: int,
    ) -> None:
        self.limits = limits
        self.access = access
        self.refusals: dict[str, str] = {}
        self.moving: Moving | None = None
        self.crowding: FullQueues | None = None
        self.homes: SessionDirectory | None = None
        self.journal: SessionJournal | None = None
        self._broker_id = broker_id
        self._statistics = statistics
        self._sessions = sessions
        self._started_us = now_us
        self._assigned = 0

    def new_client_id(self) -> str:
        """An assigned client identifier, unique in the network [MQTT-3.1.3-6]."""
        while True:
            self._assigned += 1
            client_id = f"{self._broker_id}-{self._started_us}-{self._assigned}"
            if client_id not in self._sessions:
                return client_id

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        """Whether a client may connect; None if the answer comes later."""
        if self._statistics.connected >= self.limits.maximum_connections:
            return ClientAdmission(ReasonCode.QUOTA_EXCEEDED, reason=TOO_MANY)
        if self.moving is not None and self.moving.is_draining:
            return self.moving.refusal(credentials.listener)
        return self.access.admit(credentials)

    def no_room_for(self, client_id: str, user: str, will: WillFields | None) -> str:
        """The reason to refuse a client a session or a will; empty if there is room.

        A client that has a session already, here or at another broker, is not refused one.
        """
        if will is not None:
            reason = self._sessions.full_of_wills(client_id, user, will)
            if reason:
                return reason
        is_elsewhere = self.homes is not None and self.homes.get(client_id) is not None
        return "" if client_id in self._sessions or is_elsewhere else self._sessions.full(user)

    def full(self, now_us: int) -> str:
        """The reason to refuse redirected clients of other brokers; empty if there is room."""
        promised = self.moving.promised(now_us) if self.moving is not None else 0
        if self._statistics.connected + promised >= self.limits.maximum_connections:
            return TOO_MANY
        if len(self._sessions) + promised >= self.limits.maximum_sessions:
            return TOO_MANY_SESSIONS
        if self.journal is not None and self.journal.is_failing:
            return CANNOT_WRITE
        return QUEUES_ARE_FULL if self._sessions.backlog.is_full else ""

    def reason_to_refuse(self, now_us: int) -> str:
        """The reason to refuse publications above QoS 0; empty while there is none."""
        if self.journal is not None and self.journal.is_failing:
            return CANNOT_WRITE
        if self.refusals:
            return next(iter(self.refusals.values()))
        if self._sessions.backlog.is_full:
            return QUEUES_ARE_FULL
        if self.crowding is not None:
            broker = self.crowding.full(now_us)
            if broker is not None:
                return f"{QUEUES_ARE_FULL} at {broker}"
        return ""

    def permissions(self, user: str, client_id: str) -> Permissions:
        """The present permissions of a user."""
        return self.access.permissions(user, client_id)

    def may_leave(self, session: Session, will: WillFields) -> bool:
        """Whether a will may be published: the rules may have changed since the CONNECT."""
        if self.permissions(session.user, session.client_id).may_publish(will.topic):
            return True
        who, code = Party(session.client_id, session.user or None, None), ReasonCode.NOT_AUTHORIZED
        why = "the rules do not allow this will any more"
        self._statistics.notices.refuse("publish refused", code, who, will.topic, why)
        return False
