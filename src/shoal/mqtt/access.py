"""Access control of the MQTT side: authentication and permissions of clients.

Checking a password takes longer than a broker may block. `admit` may therefore return None;
the caller of `Access` then calls `Connection.admitted` with the answer.

>>> Everyone().admit(ClientCredentials(client_id="a")).reason_code
<ReasonCode.SUCCESS: 0>
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from shoal.mqtt.codec.reason_codes import ReasonCode


class ClientCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a client: the CONNECT's, and those of its transport.

    `certificate` is the subject of the client's certificate; `listener` is the name of the listener
    that accepted the connection, as in network files. `known` is data that `Access` keeps with
    the client.
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
    """The permissions of one client; a connection asks once per topic and caches the answer."""

    def may_publish(self, topic: str) -> bool:
        """Whether publications to this topic are accepted."""

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether this topic filter, without `$share/group/` and query, is granted."""


class AllPermissions:
    """Permit everything."""

    def may_publish(self, topic: str) -> bool:
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return True


ALL_PERMISSIONS = AllPermissions()
# The reason to refuse a client identifier.
ANOTHER_USERS = "this client identifier is another user's"


class ClientAdmission(msgspec.Struct, frozen=True):
    """The answer to a CONNECT: success with permissions, or a reason code of CONNACK with a text.

    `user` is the client's user; empty for an anonymous client. `server` is the server reference of
    the reason codes that redirect a client. The client may stay connected for `lasts_us`. With
    `checks_session` the broker checks the subscriptions that the session already has: these
    permissions are not those that `Access.permissions` returns. `known` is kept in the client's
    `ClientCredentials`.
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
    """Authenticates clients."""

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        """The answer, or None if it comes later, by `Connection.admitted`."""

    def permissions(self, user: str, client_id: str) -> Permissions:
        """The permissions of a user for a session whose client is not connected here."""


class Everyone:
    """Admits every client, with all permissions."""

    def admit(self, credentials: ClientCredentials) -> ClientAdmission | None:
        return ClientAdmission()

    def permissions(self, user: str, client_id: str) -> Permissions:
        return ALL_PERMISSIONS
