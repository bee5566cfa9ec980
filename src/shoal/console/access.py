"""Which requests the console answers: those with its token, under a host of its own.

The console acts with its operator's rights, and other users and web pages of the machine can reach
its port. So a request needs a token, random for each start unless it is set. The address that
`shoal console` prints has it; the page keeps it in a cookie that no other site can use. An order
needs a header besides, which no form of another site can send.

>>> access = ConsoleAccess("secret", port=8080, hosts=frozenset())
>>> access.refuses("127.0.0.1:8080", "secret"), access.refuses("127.0.0.1:8080", "guess")
('', 'open the address that shoal console has printed, with its token')
>>> access.refuses("evil.example:8080", "secret")
"no host of this console: 'evil.example:8080'"
"""

from __future__ import annotations

import hmac
from collections.abc import Collection

from shoal.runtime.hosts import is_own_host

ASK = "open the address that shoal console has printed, with its token"


class ConsoleAccess:
    """Of one console; `hosts` are names beside addresses and localhost, in small letters."""

    def __init__(self, token: str, port: int, hosts: Collection[str]) -> None:
        self.token = token
        # Cookies are shared by all ports of a host.
        self.cookie = f"shoal-console-{port}"
        self._hosts = hosts

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def refuses(self, host: str, token: str) -> str:
        """Why a request with this `Host` header and this token is refused; empty if it is not."""
        if not is_own_host(host, self._hosts):
            return f"no host of this console: {host[:256]!r}"
        return "" if self.is_token(token) else ASK
