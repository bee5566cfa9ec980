"""Access to a log: for the network's clients, by the rules for subscribing.

A right password is remembered for a while, as a keyed hash in memory, since a reader asks for one
page after another and a check costs tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from shoal.http_calls import read_basic
from shoal.mqtt.access import ALL_PERMISSIONS, ClientAdmission, ClientCredentials, Permissions
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.runtime.front_ends.entry.access import NetworkAccess
from shoal.runtime.hosts import is_own_host

_REMEMBERED_S = 60.0
_MOST_REMEMBERED = 256


class LogReaderVerdict(NamedTuple):
    """HTTP's status code for a request, with its reason; and the user, with its permissions."""

    code: int = 200
    why: str = ""
    user: str = ""
    permissions: Permissions = ALL_PERMISSIONS


class LogAccess:
    """One broker's. `access` returns the present rules; `hosts` are the names of the broker.

    `is_guarded`: web pages cannot use the port under a name of their own: it speaks TLS, or clients
    need a password.
    """

    def __init__(
        self, access: Callable[[], NetworkAccess], hosts: Collection[str], *, is_guarded: bool
    ) -> None:
        self._access = access
        self._hosts = hosts
        self._is_guarded = is_guarded
        self._secret = secrets.token_bytes(32)
        self._known: dict[bytes, tuple[NetworkAccess, float, ClientAdmission]] = {}

    async def judge(
        self,
        authorization: str,
        certified: str,
        address: str | None,
        host: str,
        topics: Sequence[str] = (),
    ) -> LogReaderVerdict:
        """Decide whether a request may read these topics, given its headers and certificate."""
        if not self._is_guarded and host and not is_own_host(host, self._hosts):
            return LogReaderVerdict(403, f"no address or name of this broker: {host[:256]!r}")
        given = read_basic(authorization)
        if authorization and given is None:
            return LogReaderVerdict(401, "only HTTP's Basic authentication is known here")
        admission = await self._admit(given, certified, address)
        if admission.reason_code is not ReasonCode.SUCCESS:
            return LogReaderVerdict(401, admission.reason or "the name or the password is wrong")
        for each in topics:
            if not admission.permissions.may_subscribe(each):
                why = f"the rules do not allow this user to subscribe to {each}"
                return LogReaderVerdict(403, why, admission.user)
        return LogReaderVerdict(user=admission.user, permissions=admission.permissions)

    async def _admit(
        self, given: tuple[str, bytes] | None, certified: str, address: str | None
    ) -> ClientAdmission:
        access = self._access()
        name, password = given or (None, None)
        credentials = ClientCredentials(
            client_id="",
            username=name,
            password=password,
            certificate=certified or None,
            address=address,
            listener="log",
        )
        text = b"\0".join([certified.encode(), (name or "").encode(), password or b""])
        tag = hmac.digest(self._secret, text, hashlib.sha256)
        known, now_s = self._known.get(tag), time.monotonic()
        if known is not None and known[0] is access and known[1] > now_s:
            return known[2]
        found = access.admit(credentials)
        if found is None:
            owed = access.take_owed()
            assert owed is not None
            found = await access.answer(owed, lambda: False)
        if found.reason_code is ReasonCode.SUCCESS:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[tag] = access, now_s + _REMEMBERED_S, found
        return found
