"""Who may connect, publish and subscribe: what the MQTT side asks of whoever decides.

Checking a password takes longer than a broker can stand still, so that the answer may come later:
`admit` returns None then, and whoever it is calls `Connection.admitted` when it is known.

>>> Everyone().admit(Credentials(client_id="a")).reason_code
<ReasonCode.SUCCESS: 0>
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from shoal.mqtt.codec.reason_codes import ReasonCode


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says about itself, and what its transport knows.

    `certificate` names it; `listener` is which of the broker's it came by, as network files say.
    `known` is what the `Access` that let it in keeps of it.
    """

    client_id: str
    username: str | None = None
    password: bytes | None = None
    certificate: str | None = None
    address: str | None = None
    listener: str = "mqtt"
    known: object = None

    def __repr__(self) -> str:
        # Never with the password: this ends up in logs.
        return f"Credentials({self.client_id!r}, {self.username!r}, {self.certificate!r})"


class Permissions(Protocol):
    """What one client may do; asked once per topic of a connection, the answer is remembered."""

    def may_publish(self, topic: str) -> bool:
        """Whether publications to this topic are accepted."""

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether this topic filter, without `$share/group/` and query, is granted."""


class AllPermissions:
    """May do everything."""

    def may_publish(self, topic: str) -> bool:
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return True


ALL_PERMISSIONS = AllPermissions()
# Why a client identifier is refused.
ANOTHER_USERS = "this client identifier is another user's"


class Admission(msgspec.Struct, frozen=True):
    """The answer to a CONNECT: success with permissions, or a reason code of CONNACK, and why.

    `user` is who the client is, by whatever name; empty for whoever is let in without one.
    `server` is where to go instead, with the reason codes that say so.  The client may stay
    connected for `lasts_us`.  If `checks_session`, the subscriptions that a session has already are
    checked: the permissions are not those of rules that `Access.permissions` knows.  `known` is
    kept in the client's `Credentials`.
    """

    reason_code: ReasonCode = ReasonCode.SUCCESS
    permissions: Permissions = ALL_PERMISSIONS
    reason: str | None = None
    user: str = ""
    server: str | None = None
    lasts_us: int | None = None
    checks_session: bool = False
    known: object = None


class Access(Protocol):
    """Decides who may connect."""

    def admit(self, credentials: Credentials) -> Admission | None:
        """The answer, or None if it comes later, by `Connection.admitted`."""

    def permissions(self, user: str, client_id: str) -> Permissions:
        """What a user may do whose client is not here: its session is."""


class Everyone:
    """Lets everyone connect and do everything."""

    def admit(self, credentials: Credentials) -> Admission | None:
        return Admission()

    def permissions(self, user: str, client_id: str) -> Permissions:
        return ALL_PERMISSIONS
