"""What one broker takes: clients, by what names, those of other brokers, and publications."""

from __future__ import annotations

from shoal.model import BrokerId
from shoal.mqtt.access import Access, Admission, Credentials, Permissions
from shoal.mqtt.codec.packets import Will
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.crowding import Crowding
from shoal.mqtt.federation.moving import Moving
from shoal.mqtt.federation.roaming.whereabouts.homes import Homes
from shoal.mqtt.limits import Limits
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.notices import Party
from shoal.mqtt.sessions.session import CANNOT_WRITE, Session
from shoal.mqtt.sessions.sessions import TOO_MANY_SESSIONS, Sessions
from shoal.mqtt.statistics import Statistics

# Why publications above QoS 0 are refused while they would have to wait.
QUEUES_ARE_FULL = "what waits for clients has no room for more"
# Why no more clients are taken in.
TOO_MANY = "too many connections"


class Reception:
    """One broker's; in a network `moving` says whether it is drained, `crowding` who has no
    room, `homes` where sessions are.

    `refusal`: why the disk has publications above QoS 0 refused; empty while it does not.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        limits: Limits,
        access: Access,
        statistics: Statistics,
        sessions: Sessions,
        now_us: int,
    ) -> None:
        self.limits = limits
        self.access = access
        self.refusal = ""
        self.moving: Moving | None = None
        self.crowding: Crowding | None = None
        self.homes: Homes | None = None
        self.journal: Journal | None = None
        self._broker_id = broker_id
        self._statistics = statistics
        self._sessions = sessions
        self._started_us = now_us
        self._assigned = 0

    def new_client_id(self) -> str:
        """A client identifier for one that has none, unique in the network [MQTT-3.1.3-6]."""
        while True:
            self._assigned += 1
            client_id = f"{self._broker_id}-{self._started_us}-{self._assigned}"
            if client_id not in self._sessions:
                return client_id

    def admit(self, credentials: Credentials) -> Admission | None:
        """Whether a client may connect; None if that is known later."""
        if self._statistics.connected >= self.limits.maximum_connections:
            return Admission(ReasonCode.QUOTA_EXCEEDED, reason=TOO_MANY)
        if self.moving is not None and self.moving.is_draining:
            return self.moving.refusal(credentials.listener)
        return self.access.admit(credentials)

    def no_room_for(self, client_id: str, user: str, will: Will | None) -> str:
        """Why there can be no session for a client, or no will of it; empty if there can, or is,
        here or elsewhere.

        What was granted stays: who has a session at another broker comes with it.
        """
        if will is not None:
            reason = self._sessions.full_of_wills(client_id, user, will)
            if reason:
                return reason
        is_elsewhere = self.homes is not None and self.homes.get(client_id) is not None
        return "" if client_id in self._sessions or is_elsewhere else self._sessions.full(user)

    def full(self, now_us: int) -> str:
        """Why no client of another broker may be sent here; empty if it may."""
        promised = self.moving.promised(now_us) if self.moving is not None else 0
        if self._statistics.connected + promised >= self.limits.maximum_connections:
            return TOO_MANY
        if len(self._sessions) + promised >= self.limits.maximum_sessions:
            return TOO_MANY_SESSIONS
        if self.journal is not None and self.journal.is_failing:
            return CANNOT_WRITE
        return QUEUES_ARE_FULL if self._sessions.backlog.is_full else ""

    def reason_to_refuse(self, now_us: int) -> str:
        """Why publications above QoS 0 are refused; empty while they are not."""
        if self.journal is not None:
            if self.journal.is_failing:
                return CANNOT_WRITE
            if self.refusal:
                return self.refusal
        if self._sessions.backlog.is_full:
            return QUEUES_ARE_FULL
        if self.crowding is not None:
            broker = self.crowding.full(now_us)
            if broker is not None:
                return f"{QUEUES_ARE_FULL} at {broker}"
        return ""

    def permissions(self, user: str, client_id: str) -> Permissions:
        """What a user may do, by today's rules."""
        return self.access.permissions(user, client_id)

    def may_leave(self, session: Session, will: Will) -> bool:
        """Whether a will may be published: the rules were others when its client connected."""
        if self.permissions(session.user, session.client_id).may_publish(will.topic):
            return True
        who, code = Party(session.client_id, session.user or None, None), ReasonCode.NOT_AUTHORIZED
        why = "the rules do not allow this will any more"
        self._statistics.notices.refuse("publish refused", code, who, will.topic, why)
        return False
