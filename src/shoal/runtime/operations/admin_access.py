"""Authentication and authorization of requests to a broker's admin port.

Operators authenticate by a certificate or by HTTP's Basic authentication. A right password is
remembered, as a keyed hash in memory, so that Prometheus costs no core every few seconds; the
answer to a wrong one is delayed, as clients' are (`password_checks.py`).

A port without authentication is on the loopback address, where the pages of its machine's browsers
can reach it, too. Requests under a host name of such a page are refused (`hosts.py`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from shoal.http_calls import read_basic
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.notices import Notices, Party
from shoal.runtime.front_ends.entry.access import read_users
from shoal.runtime.front_ends.entry.password_checks import PasswordChecks
from shoal.runtime.front_ends.entry.passwords import check_password
from shoal.runtime.hosts import is_own_host
from shoal.runtime.network_sections import AdminSection

# Operators are few; more right passwords than this at a time are checked again.
_MOST_REMEMBERED = 64


class AccessVerdict(NamedTuple):
    """HTTP's status code of a verdict, and its reason; `operator` is the authenticated name."""

    code: int = 200
    why: str = ""
    operator: str = ""


class AdminAccess:
    """One broker's; AccessError when the password file cannot be read.

    `hosts` are the names that it has.  Refusals and orders are told to `notices`; `wake` has them
    written.
    """

    def __init__(
        self,
        section: AdminSection,
        hosts: Collection[str],
        notices: Notices,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._hosts, self._notices, self._wake = hosts, notices, wake
        self.renew(section)

    def renew(self, section: AdminSection) -> None:
        """As the section is now; AccessError changes nothing."""
        self.operators = read_users(section.passwords, "admin.passwords")
        self._is_open = not section.knows_operators
        self._is_guarded = section.is_guarded
        self._orders = section.orders
        self._checks = PasswordChecks(partial(check_password, self.operators))
        self._secret = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    async def judge(
        self,
        authorization: str,
        address: str | None,
        path: str,
        host: str,
        *,
        is_order: bool,
        certified: str = "",
    ) -> AccessVerdict:
        """Decide whether the sender of this `Authorization` header may have `path`.

        `host` is the request's header, empty without one: every browser sends it. `certified` is
        the name in a certificate that was checked; it authenticates the operator.
        """
        if self._is_guarded or not host or is_own_host(host, self._hosts):
            verdict = await self._judge(authorization, address, certified, is_order=is_order)
        else:
            verdict = AccessVerdict(403, f"no address or name of this broker: {host[:256]!r}")
        who = Party("", verdict.operator, address)
        if verdict.code != 200:
            code = ReasonCode.NOT_AUTHORIZED
            self._notices.refuse("operator refused", code, who, path, verdict.why)
            self._wake()
        return verdict

    def note_order(self, what: str, who: Party, path: str, why: str) -> None:
        """An operator has given an order, or it was carried out, or not."""
        self._notices.note(what, who, path, why, is_order=True)
        self._wake()

    def garbled(self, address: str | None, why: str = "no HTTP came to the admin port") -> None:
        """Log input that is neither TLS nor HTTP: from an MQTT client, or a scanner."""
        who = Party("", None, address)
        self._notices.refuse("operator refused", ReasonCode.MALFORMED_PACKET, who, "", why)
        self._wake()

    async def _judge(
        self, authorization: str, address: str | None, certified: str, *, is_order: bool
    ) -> AccessVerdict:
        if self._is_open:
            return AccessVerdict()
        name = certified
        if not certified:
            given = read_basic(authorization)
            if given is None:
                return AccessVerdict(401, "this broker needs an operator's name and password")
            name, password = given
            if not await self._is_right(name, password, address):
                return AccessVerdict(401, "the operator's name or password is wrong", name)
        if is_order and self._orders and name not in self._orders:
            return AccessVerdict(403, f"{name} may not order brokers (admin.orders)", name)
        return AccessVerdict(operator=name)

    async def _is_right(self, name: str, password: bytes, address: str | None) -> bool:
        known, right = self._secret, self._right
        tag = hmac.digest(known, name.encode() + b"\0" + password, hashlib.sha256)
        if tag in right:
            return True
        if not await self._checks.check(name, password, address, lambda: False):
            return False
        if len(right) >= _MOST_REMEMBERED:
            right.clear()
        right.add(tag)
        return True
